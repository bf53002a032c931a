"""Training a dual encoder: questions/s against sentence-transformers' own trainer, and memory by batch size.

    python -m benchmarks.training [--layers 2] [--batch 16] [--steps 8] [--rounds 5]

MiniLM's first layers, two towers, one hard negative, passages of about 110 tokens, dot products, the softmax loss;
neither trainer validates or saves. Both run in one process, in turns, on one thread. The measure is processor time,
which other work on a shared machine disturbs less than wall-clock time. Memory is the growth of the peak over the
loaded model in one step, each in a separate process (on a GPU: torch's allocation).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import machine, peak_memory

TEMPLATE = "{title} [SEP] {text}"
SCALE = 20.0
BATCHES = (16, 32, 64, 128)
MINI_BATCH = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("speed", "memory"), help="one of the two")
    parser.add_argument("--memory", nargs=2, type=int, metavar=("BATCH", "MINI"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    if arguments.memory:
        print(step_memory(arguments.layers, *arguments.memory))
        return
    print(machine())
    if arguments.only != "memory":
        speed(arguments)
    if arguments.only == "speed":
        return
    memory(arguments.layers)


def data(count: int) -> list[Any]:
    from blindspot.backend.training.examples import Example
    from blindspot.db.records import Passage

    def passage(number: int) -> Passage:
        words = " ".join(
            f"in {1800 + (number * 7 + i) % 200} she sailed from Bergen to Oslo with {number % 9} weavers"
            for i in range(9)
        )
        return Passage(f"p{number}", f"Person {number}", words)

    return [
        Example(
            f"q{i}", f"Where did person {i} sail from in {1800 + i % 200}?", (passage(2 * i),), (passage(2 * i + 1),)
        )
        for i in range(count)
    ]


def model(layers: int) -> Any:
    from blindspot.backend.core.settings import EncoderSettings
    from blindspot.backend.training.initial_model import ModelShape, load_initial_model

    return load_initial_model(
        EncoderSettings(model="minilm"), ModelShape(layers=layers, question_tokens=32, passage_tokens=128)
    )


def library_arguments(folder: Path, batch: int, steps: int) -> Any:
    import torch
    import transformers
    from sentence_transformers import SentenceTransformerTrainingArguments

    transformers.utils.logging.set_verbosity_error()
    return SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=batch,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        log_level="error",
        dataloader_pin_memory=False,
        bf16=torch.cuda.is_available(),
        router_mapping={"question": "query", "positive": "document", "negative": "document"},
    )


def speed(arguments: argparse.Namespace) -> None:
    import torch

    if not torch.cuda.is_available():
        torch.set_num_threads(1)
    batch, steps = arguments.batch, arguments.steps
    with tempfile.TemporaryDirectory() as folder:
        pairs = rounds_of(Path(folder), arguments.layers, batch, steps, arguments.rounds)
    ratios = sorted(b / a for a, b in pairs)
    a, b = (batch * steps / median(seconds) for seconds in zip(*pairs, strict=True))
    print(
        f"Questions/s, {arguments.layers} layers, batch {batch}, {steps} steps, {len(pairs)} rounds: ours {a:.1f}, "
        f"sentence-transformers {b:.1f}, {median(ratios):.2f} times as fast (rounds {ratios[0]:.2f} to "
        f"{ratios[-1]:.2f})"
    )


def rounds_of(
    folder: Path, layers: int, batch: int, steps: int, rounds: int, mini: int | None = None
) -> list[tuple[float, float]]:
    """Return the seconds of ours and of the peer in each round, after one round that does not count.

    mini: texts encoded at a time, by gradient caching on both sides; None encodes the whole batch at once.
    """
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer
    from sentence_transformers.sentence_transformer.losses import (
        CachedMultipleNegativesRankingLoss,
        MultipleNegativesRankingLoss,
    )
    from sentence_transformers.util import dot_score
    from transformers import PrinterCallback

    from blindspot.backend.training.examples import BatchSampler, NegativeSampler
    from blindspot.backend.training.losses import InBatchLoss
    from blindspot.backend.training.trainer import Collator, DualEncoderTrainer

    examples = data(batch * steps)
    columns = {"question": [one.question for one in examples]}
    for name, kept in (("positive", "positives"), ("negative", "negatives")):
        columns[name] = [
            TEMPLATE.format(title=getattr(one, kept)[0].title, text=getattr(one, kept)[0].text) for one in examples
        ]
    ours_model, peer_model = model(layers), model(layers)
    settings = library_arguments(folder, batch, steps)
    options = {"scale": SCALE, "similarity_fct": dot_score}
    ours = DualEncoderTrainer(
        model=ours_model,
        args=settings,
        sampler=BatchSampler(len(examples), batch, steps),
        dataset=NegativeSampler(examples, 1, 0),
        loss=InBatchLoss(ours_model, scale=SCALE, mini_batch=mini),
        data_collator=Collator(ours_model, TEMPLATE, 1, 32, 128, True),
    )
    peer = SentenceTransformerTrainer(
        model=peer_model,
        args=settings,
        train_dataset=Dataset.from_dict(columns),
        loss=MultipleNegativesRankingLoss(peer_model, **options)
        if mini is None
        else CachedMultipleNegativesRankingLoss(peer_model, mini_batch_size=mini, **options),
    )
    for trainer in (ours, peer):
        trainer.remove_callback(PrinterCallback)
    ours.train(), peer.train()
    return [alternately(ours.train, peer.train, number) for number in range(rounds)]


def alternately(ours: Callable[[], object], peer: Callable[[], object], number: int) -> tuple[float, float]:
    """CPU seconds (on a GPU, seconds) of ours and of the peer; in odd rounds the peer goes first."""
    first, second = (ours, peer) if number % 2 == 0 else (peer, ours)
    took = [spent(first), spent(second)]
    return (took[0], took[1]) if number % 2 == 0 else (took[1], took[0])


def spent(work: Callable[[], object]) -> float:
    import torch

    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    began = clock()
    work()
    return clock() - began


def memory(layers: int) -> None:
    for name, mini in (("at once", 0), (f"gradient caching, {MINI_BATCH} texts at a time", MINI_BATCH)):
        peaks = [_measured(layers, batch, mini) for batch in BATCHES]
        told = (f"batch {batch}: {peak:,.0f} MiB" for batch, peak in zip(BATCHES, peaks, strict=True))
        print(f"Memory of a step, {name}: {', '.join(told)}")


def _measured(layers: int, batch: int, mini: int) -> float:
    command = [sys.executable, "-m", "benchmarks.training", "--layers", str(layers), "--memory", str(batch), str(mini)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def step_memory(layers: int, batch: int, mini: int) -> float:
    """Return the MiB by which one forward and backward pass raises the peak."""
    import torch

    from blindspot.backend.training.examples import sample_passages
    from blindspot.backend.training.losses import InBatchLoss
    from blindspot.backend.training.trainer import Collator, features_of

    encoder = model(layers).train()
    drawn = [sample_passages(one, 1, 0, 0) for one in data(batch)]
    columns, labels = features_of(Collator(encoder, TEMPLATE, 1, 32, 128, True)(drawn), encoder.device)
    for weight in encoder.parameters():
        weight.grad = torch.zeros_like(weight)
    before = _peak(encoder.device, reset=True)
    InBatchLoss(encoder, scale=SCALE, mini_batch=mini or None)(columns, labels).backward()
    return _peak(encoder.device) - before


def _peak(device: Any, reset: bool = False) -> float:
    """Return the peak memory so far in MiB; with `reset`, the current memory, from which the peak is measured again."""
    import torch

    if device.type == "cuda":
        if reset:
            torch.cuda.reset_peak_memory_stats()
        return torch.cuda.max_memory_allocated() / 2**20
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


if __name__ == "__main__":
    main()
