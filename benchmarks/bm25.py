"""BM25 on very many passages, beside Pyserini's LuceneSearcher.batch_search and bm25s with its numba backend.

    python -m benchmarks.bm25 [--passages 1000000 | --file PSGS_W100.tsv] [--k 100 1000] [--threads 2] [--folder DIR]

The passages are generated (`benchmarks.zipf`), or are those of any psgs_w100 file. A folder keeps them with the study,
both indexes and the questions, so that a second run only measures. Each side is a process of its own with the same
processors and the same analysis: bm25s gets the terms that Lucene's analyzer gives, its own method "lucene", and our k1
and b. It gets the questions' terms too; the other two analyse the questions' texts. The sides search in turns, round by
round, after one warm-up each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.bm25_sides import SIDES, write_bm25s
from benchmarks.machine import machine, peak_memory, timed
from benchmarks.zipf import questions_of, write_passages
from blindspot.backend.core.study import Study
from blindspot.backend.data.importing.importer import import_passages
from blindspot.backend.retrieval import bm25
from tests.pyserini_oracle import as_anserini_prints

SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=1_000_000, help="passages to generate")
    parser.add_argument("--file", type=Path, help="a psgs_w100 file to search instead")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--k", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--folder", type=Path, help="a folder to keep (default: one that is deleted)")
    arguments = parser.parse_args()
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        preparing = get_context("spawn").Process(
            target=prepare, args=(folder, arguments.file, arguments.passages, arguments.questions)
        )
        preparing.start()
        preparing.join()
        if preparing.exitcode:
            raise SystemExit(preparing.exitcode)
        measure(folder, arguments.k, arguments.rounds, arguments.threads)


def prepare(folder: Path, file: Path | None, passages: int, questions: int) -> None:
    """Make what the folder lacks: the passages, the study with its index, the questions, and the index of bm25s."""
    source = file or folder / "passages.tsv"
    if not (folder / "study").exists():
        if file is None:
            print(f"generating {passages:,} passages: {timed(lambda: write_passages(source, passages, SEED))[1]:.0f} s")
        study = Study.create(folder / "study")
        print(f"importing them: {timed(lambda: import_passages(study, source))[1]:.0f} s", flush=True)
    study = Study.open(folder / "study")
    if not bm25.is_indexed(study):
        print(f"indexing them with Lucene: {timed(lambda: bm25.build_index(study))[1]:.0f} s", flush=True)
    texts = questions_of(source, questions, SEED + 1)
    (folder / "questions.json").write_text(json.dumps(texts), encoding="utf-8")
    print(f"the index of bm25s: {timed(lambda: write_bm25s(folder))[1]:.0f} s, {peak_memory():,.0f} MiB", flush=True)
    print(f"{len(study.corpus):,} passages, {len(texts):,} questions")
    sys.stdout.flush()
    os._exit(0)  # Java's end can hang


class Side:
    """A searcher in a process of its own, limited to so many processors."""

    def __init__(self, name: str, folder: Path, threads: int):
        command = [sys.executable, "-m", "benchmarks.bm25_sides", name, str(folder), str(threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def search(self, k: int, save: Path | None = None) -> dict[str, float]:
        """Search all questions once and return {"wall", "processor"} in seconds and {"peak", "own"} in MiB.

        Args:
            save: the file to write the scores (q, k) float32 to.
        """
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([k, str(save) if save else None]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a side ended; its error is above")
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def measure(folder: Path, depths: list[int], rounds: int, threads: int) -> None:
    questions = len(json.loads((folder / "questions.json").read_text(encoding="utf-8")))
    sides = {name: Side(name, folder, threads) for name in SIDES}
    for k in depths:
        files = {name: folder / f"{name}.npy" for name in SIDES}
        for name, side in sides.items():
            side.search(k, files[name])
        taken = [{name: side.search(k) for name, side in sides.items()} for _ in range(rounds)]
        print(f"\nk = {k:,}, {questions:,} questions, threads: {threads}, rounds: {rounds}")
        for name in SIDES:
            show(name, [each[name] for each in taken], [each["ours"] for each in taken], questions)
        compare(*(np.load(files[name]) for name in SIDES))
    for side in sides.values():
        side.close()


def show(name: str, taken: list[dict[str, float]], ours: list[dict[str, float]], questions: int) -> None:
    """Print a side's figures: medians over the rounds, and how many times as much time as ours it took."""
    wall, processor = (median(each[clock] for each in taken) for clock in ("wall", "processor"))
    ratios = []
    for clock in ("wall", "processor"):
        each = [side[clock] / our[clock] for side, our in zip(taken, ours, strict=True)]
        ratios.append(f"{median(each):.1f} ({min(each):.1f} to {max(each):.1f})")
    print(
        f"  {name:<8}{questions / wall:>9,.0f} questions/s, {1000 * processor / questions:.3f} ms of processor time each; "
        f"times ours: {ratios[0]} in wall-clock time, {ratios[1]} in processor time; "
        f"peak memory {taken[-1]['peak']:,.0f} MiB, {taken[-1]['own']:,.0f} MiB without mapped files",
        flush=True,
    )


def compare(ours: np.ndarray, lucene: np.ndarray, other: np.ndarray) -> None:
    """Print how the scores (q, k) agree; -inf is no hit."""
    printed = np.full(ours.shape, -np.inf, np.float32)
    for row, scores in enumerate(ours):
        real = scores[np.isfinite(scores)]
        printed[row, : len(real)] = as_anserini_prints(real)
    print(f"  scores equal to Lucene's, rounded as Anserini does: {(printed == lucene).sum():,} of {lucene.size:,}")
    both = np.isfinite(ours) & (other > 0)
    away = np.abs(other[both] - ours[both]) / ours[both]
    if away.size:
        print(
            f"  scores of bm25s, which does not round lengths: away from ours by {100 * np.median(away):.2f}% (median), "
            f"{100 * np.quantile(away, 0.99):.1f}% (99th percentile), {100 * away.max():.1f}% (most)"
        )


if __name__ == "__main__":
    main()
