"""Checks of encoding and training: 16 bits against float32, passages a second, examples a second, memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from benchmarks import encoding, training
from benchmarks.gpu.results import Row
from benchmarks.zipf import write_passages
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.retrieval.passage_encoder import least_cosine
from blindspot.db.records import Passage

MODELS = (("BERT-base's shape", "22,000", 20_000), ("MiniLM", "60,000", 50_000))
"""The encoders that are timed: name, passages a second to reach, passages."""
TRAINED = {False: (6, 512, 128), True: (1, 8, 4)}
"""Layers, questions a batch, and texts at a time of the training that is timed; small: True."""
LEAST_COSINE = 0.999  # of a vector in 16 bits with the same vector in float32
LEAST_GRADIENT = 0.99  # cosine of a gradient in 16 bits with the same gradient in float32


def passages_of(folder: Path, count: int) -> list[Passage]:
    """Return generated passages of 100 words."""
    write_passages(folder / "passages.tsv", count, seed=0)
    lines = (folder / "passages.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [Passage(id, title, text) for id, text, title in (line.split("\t") for line in lines)]


def sixteen_bits(folder: Path, device: str, small: bool, say: Callable[[str], None]) -> list[Row]:
    """Compare vectors and gradients in bfloat16 with those in float32."""
    passages = passages_of(folder, 12 if small else 20_000)
    encoder = load_encoder(EncoderSettings(model="minilm", max_tokens=128), device)
    say("encoding")
    _, made = encoding.measure(encoder, passages, 1, "bfloat16")
    least = least_cosine(made["ours, bfloat16"], made["ours, float32"])
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


def encoding_speed(folder: Path, device: str, small: bool, say: Callable[[str], None]) -> list[Row]:
    """Measure passages a second beside `SentenceTransformer.encode`."""
    result = []
    for name, aim, count in MODELS[-1:] if small else MODELS:
        say(name)
        passages = passages_of(folder, 12 if small else count)
        model = "minilm" if name == "MiniLM" else encoding.random_bert(folder / "bert")
        settings = EncoderSettings(model=model, pooling="auto" if name == "MiniLM" else "cls", max_tokens=128)
        encoder = load_encoder(settings, device)
        seconds, _ = encoding.measure(encoder, passages, 1 if small else 3, "bfloat16")
        result += _encoding_rows(name, aim, len(passages), seconds)
    return result


def _encoding_rows(name: str, aim: str, count: int, seconds: dict[str, list[float]]) -> list[Row]:
    ours, peers = seconds["ours, bfloat16"], [way for way in seconds if not way.startswith("ours")]
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


def training_speed(folder: Path, device: str, small: bool, say: Callable[[str], None]) -> list[Row]:
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
