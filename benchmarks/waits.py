"""What a person waits for, on a study of one's own: a Markdown table of seconds and processor seconds.

    python -m benchmarks.waits STUDY [--encoder minilm] [--rounds 3]

STUDY needs the indexes of BM25 and the encoder, and questions; it is copied, and the copy is worked on. Every row is a
process of its own through the command line: medians of `--rounds` for what takes about a second, once for the rest. A
row that the study cannot give (no training questions, say) shows the reason.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.machine import machine
from benchmarks.whole import blindspot, run

HELP = ("--help",)  # of no study

Row = tuple[str, tuple[str, ...], bool]
"""What is waited for, the command, and whether to repeat it."""


def rows(encoder: str, split: str) -> Iterator[Row]:
    name, trained = "waits-dense", "waits-bm25-train"
    yield "start: help", HELP, True
    yield "start: status", ("status",), True
    yield "start: report", ("report",), True
    yield "start: batches", ("batch", "list"), True
    dense = ("retrieve", "--with", "dense", "--encoder", encoder, "--split", split, "--name", name, "--replace")
    yield "retrieve with an encoder, k = 100", (*dense, "--k", "100"), False
    yield "the same again with k = 50", (*dense, "--k", "50"), False
    yield "causes of misses, cold", ("misses", name, "--relevance", "answers"), False
    bm25 = ("retrieve", "--with", "bm25", "--split", "train", "--name", trained, "--k", "100")
    yield "retrieve for training, BM25", bm25, False
    yield "training-set build", ("training-set", "build", "waits", "--run", trained), False
    yield "train adapter", ("train", "adapter", "waits-adapter", "--on", "waits", "--encoder", encoder), False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(f"{machine()}; load before {os.getloadavg()[0]:.1f} processes\n")
    print("| wait | seconds | processor | command |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        study = Path(shutil.copytree(given.study, Path(folder) / "study"))
        for path in study.glob("indexes/*/question_vectors.db*"):
            path.unlink()
        for name, command, repeated in rows(given.encoder, given.split):
            taken = measured(study, command, given.rounds if repeated else 1)
            print(f"| {name} | {taken} | `{' '.join(command)}` |", flush=True)


def measured(study: Path, command: tuple[str, ...], rounds: int) -> str:
    try:
        costs = [
            run([sys.executable, "-m", "blindspot.app.cli", *command])
            if command == HELP
            else blindspot(study, *command)
            for _ in range(rounds)
        ]
    except SystemExit as failed:
        return f"not measured: {str(failed).strip().splitlines()[-1]} | "
    return f"{median(cost.wall for cost in costs):.2f} | {median(cost.processor for cost in costs):.2f}"


if __name__ == "__main__":
    sys.exit(main())
