"""Items about encoding and training: 16 bits against float32, passages a second, examples a second, memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import encoding, training
from benchmarks.gpu import compiled
from benchmarks.gpu.results import Row, guarded
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.encoder import Encoder, load_encoder
from blindspot.db.records import Passage

MODELS = (("BERT-base's shape", "22,000", 20_000), ("MiniLM", "60,000", 50_000))
"""The encoders that are timed: name, passages a second to reach, passages."""
TRAINED = {False: (6, 512, 128), True: (1, 8, 4)}
"""Layers, questions a batch, and texts at a time of the training that is timed; small: True."""
LEAST_COSINE = 0.999  # of a vector in 16 bits with the same vector in float32
LEAST_GRADIENT = 0.99  # cosine of a gradient in 16 bits with the same gradient in float32


def passages_of(study: Study, count: int) -> list[Passage]:
    step = max(1, len(study.corpus) // count)
    return study.corpus.passages(list(range(0, len(study.corpus), step))[:count])


def sixteen_bits(study: Study, device: str, small: bool, say: Callable[[str], None]) -> list[Row]:
    """Compare vectors and gradients in bfloat16 with those in float32."""
    passages = passages_of(study, 12 if small else 20_000)
    encoder = load_encoder(EncoderSettings(model="minilm", max_tokens=128), device)
    say("encoding")
    _, made = encoding.measure(encoder, passages, 1, "bfloat16", openvino=False)
    least = encoding.least_cosine(made["ours, bfloat16, torch"], made["ours, float32, torch"])
    batch = 4 if small else 128
    say("training")
    cosine, loss = gradients(batch, 1 if small else 6, device)
    return [
        Row(f"least cosine of {len(passages):,} MiniLM vectors, bfloat16 with float32", f"{least:.6f}",
            f"{LEAST_COSINE}", "float32"),
        Row(f"gradient of {batch} questions, cosine of bfloat16 with float32; relative difference of the loss",
            f"{cosine:.5f}; {loss:.1e}", f"{LEAST_GRADIENT}", "float32"),
    ]  # fmt: skip


def gradients(batch: int, layers: int, device: str) -> tuple[float, float]:
    """Return the cosine of the gradients in bfloat16 and in float32, and the relative difference of the losses."""
    import torch

    from blindspot.backend.training.examples import sample_passages
    from blindspot.backend.training.losses import InBatchLoss
    from blindspot.backend.training.trainer import Collator, features_of

    model = training.model(layers).to(device).eval()  # without dropout
    drawn = [sample_passages(one, 1, 0, 0) for one in training.data(batch)]
    found, losses = [], []
    for narrow in (False, True):
        columns, labels = features_of(Collator(model, training.TEMPLATE, 1, 32, 128, True)(drawn), device)
        with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=narrow):
            loss = InBatchLoss(model, scale=training.SCALE)(columns, labels)
        model.zero_grad()
        loss.backward()
        losses.append(loss.item())
        found.append(torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None]).double())
    cosine = torch.nn.functional.cosine_similarity(*found, dim=0).item()
    return cosine, abs(losses[1] - losses[0]) / abs(losses[0])


def first_encoding(study: Study, device: str, small: bool, say: Callable[[str], None]) -> list[Row]:
    """Measure BERT-base's shape alone, one round."""
    say(MODELS[0][0])
    with tempfile.TemporaryDirectory() as folder:
        return _encoded(*MODELS[-1 if small else 0], study, device, small, Path(folder), rounds=1)[1]


def encoding_speed(study: Study, device: str, small: bool, say: Callable[[str], None]) -> list[Row]:
    result = []
    with tempfile.TemporaryDirectory() as folder:
        for name, aim, count in MODELS[-1:] if small else MODELS:
            say(name)
            encoder, rows = _encoded(name, aim, count, study, device, small, Path(folder), rounds=1 if small else 3)
            result += rows
            passages = passages_of(study, 12 if small else count)
            say(f"{name}, compiled")
            result += guarded(f"{name}, compiled", partial(compiled.passages, name, encoder, passages, small))
            say(f"{name}, one question")
            result += guarded(f"{name}, one question in a CUDA graph", partial(compiled.question, name, encoder, small))
    return result


def _encoded(
    name: str, aim: str, count: int, study: Study, device: str, small: bool, folder: Path, rounds: int
) -> tuple[Encoder, list[Row]]:
    passages = passages_of(study, 12 if small else count)
    model = "minilm" if name == "MiniLM" else encoding.random_bert(folder)
    settings = EncoderSettings(model=model, pooling="auto" if name == "MiniLM" else "cls", max_tokens=128)
    encoder = load_encoder(settings, device)
    seconds, _ = encoding.measure(encoder, passages, rounds, "bfloat16", openvino=False)
    return encoder, _encoding_rows(name, aim, len(passages), seconds)


def _encoding_rows(name: str, aim: str, count: int, seconds: dict[str, list[float]]) -> list[Row]:
    ours, peers = seconds["ours, bfloat16, torch"], [way for way in seconds if not way.startswith("ours")]
    rows = []
    for peer in peers:
        ratios = sorted(theirs / own for theirs, own in zip(seconds[peer], ours))
        rows.append(
            Row(
                f"{name}, {count:,} passages cut at 128 tokens, bfloat16",
                f"{count / median(ours):,.0f} passages/s",
                f"{aim} passages/s",
                f"{peer}: {count / median(seconds[peer]):,.0f}",
                f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
            )
        )
    return rows


def first_training(device: str, small: bool, say: Callable[[str], None]) -> list[Row]:
    """Measure a step of training with gradient caching beside the library's, one round."""
    say("a step of training")
    return [_trained(device, small, rounds=1, steps=2)]


def training_speed(device: str, small: bool, say: Callable[[str], None]) -> list[Row]:
    """Measure training with gradient caching beside the library's, and the memory of a step by batch."""
    say("speed")
    speed = _trained(device, small, rounds=1 if small else 5, steps=2 if small else 8)
    say("memory")
    layers, _, mini = TRAINED[small]
    return [speed, _memory(layers, (4, 8) if small else (128, 512, 2048), mini)]


def _trained(device: str, small: bool, rounds: int, steps: int) -> Row:
    layers, batch, mini = TRAINED[small]
    with tempfile.TemporaryDirectory() as folder:
        pairs = training.rounds_of(Path(folder), layers, batch, steps, rounds, mini)
    ratios = sorted(peer / ours for ours, peer in pairs)
    ours, peer = (batch * steps / median(taken) for taken in zip(*pairs, strict=True))
    return Row(
        f"training MiniLM, {layers} layers, two towers, batch {batch}, {mini} texts at a time, {steps} steps",
        f"{ours:,.1f} questions/s",
        "1.5 times the peer",
        f"sentence-transformers' cached loss {peer:,.1f}",
        f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
    )


def _memory(layers: int, batches: Sequence[int], mini: int) -> Row:
    taken = [training.step_memory(layers, batch, mini) for batch in batches]
    told = ", ".join(f"batch {batch:,}: {peak:,.0f} MiB" for batch, peak in zip(batches, taken, strict=True))
    return Row("memory of a training step with gradient caching, over the loaded model", told, "flat with the batch")
