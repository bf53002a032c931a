"""Answer matching: ours and the plain token loop, in turns, on real questions and their BM25 hits.

    python -m benchmarks.answers [--study DIR] [--plain 40] [--rounds 5]

The questions are all 22,075 of EntityQuestions' test split, with their 100 best of 100,000 Wikipedia passages. The
plain loop implements the rule literally: tokenise passage and answer, compare at every position. It runs on `--plain`
of the questions, with the passages already in memory. Ours runs on all questions; its time includes reading corpus.db
(dropped from the page cache before). Both must give equal results on the plain loop's
questions. Without --study, a study is made.
"""

from __future__ import annotations

import argparse
import json
import os
import tarfile
import tempfile
import unicodedata
from pathlib import Path
from statistics import median

import numpy as np
import psutil
import regex

from benchmarks.machine import machine, timed
from benchmarks.study import real_study
from blindspot.backend.core.processor import processors
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.bm25 import BM25
from blindspot.backend.text.answers import RULES, match_run
from blindspot.db.corpus import Corpus
from blindspot.db.records import Question
from tests.conftest import REAL_DATA

TOKEN = regex.compile(r"([\p{L}\p{N}\p{M}]+)|([^\p{Z}\p{C}])")
K = 100


def entity_questions(split: str = "test") -> list[Question]:
    """Return every question of a split, relations in order."""
    with tarfile.open(REAL_DATA / "entityquestions_dataset.tar.xz") as tar:
        files = {
            member.name: json.load(tar.extractfile(member))
            for member in tar
            if member.isfile() and member.name.startswith(f"dataset/{split}/")
        }
    return [
        Question(f"{name}.{i}", row["question"], tuple(row["answers"]))
        for name in sorted(files)
        for i, row in enumerate(files[name])
    ]


def words(text: str) -> list[str]:
    return [match.group().lower() for match in TOKEN.finditer(unicodedata.normalize("NFD", text))]


def plain_loop(texts: list[str], questions: list[Question], ordinals: np.ndarray) -> np.ndarray:
    held = np.zeros(ordinals.shape, dtype=bool)
    for (i, j), ordinal in np.ndenumerate(ordinals):
        if ordinal < 0:
            continue
        text = words(texts[ordinal])
        for answer in questions[i].answers:
            wanted = words(answer)
            n = len(wanted)
            if wanted and any(text[at : at + n] == wanted for at in range(len(text) - n + 1)):
                held[i, j] = True
                break
    return held


def cold(path: Path) -> Corpus:
    """Open the collection with an empty page cache."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return Corpus(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", help="a study of the real passages with a BM25 index")
    parser.add_argument("--plain", type=int, default=40, help="number of questions for the plain loop")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = Study.open(options.study) if options.study else real_study(Path(folder) / "study")
        measure(study, options.plain, options.rounds)


def measure(study: Study, plain: int, rounds: int) -> None:
    questions, path = entity_questions(), study.folder / "corpus.db"
    asked = [question.text for question in questions]
    seeded = np.random.default_rng(0)
    runs = [BM25(study, *settings).search(asked, K).ordinals for settings in ((0.9, 0.4), (1.2, 0.75))]
    runs.append(seeded.integers(0, len(study.corpus), runs[0].shape, dtype=np.int32))
    some = np.sort(seeded.choice(len(questions), plain, replace=False))
    few, texts = [questions[row] for row in some], [passage.text for passage in study.corpus.scan()]
    print(f"{machine()}; {processors()} processors; load before {os.getloadavg()[0]:.1f}")
    print(
        f"{len(questions):,} questions, k = {K}: BM25 at two settings, and random passages; "
        f"{len(np.unique(runs[0])):,} distinct passages in the first run"
    )

    seconds: dict[str, list[float]] = {}
    for _ in range(rounds):
        expected, taken = timed(lambda: plain_loop(texts, few, runs[0][some]))
        seconds.setdefault("plain loop, a part", []).append(taken)
        held, taken = timed(lambda: match_run(cold(path), questions, runs[0]))
        seconds.setdefault("ours, dpr", []).append(taken)
        if not np.array_equal(held[some], expected):
            raise SystemExit("the two disagree")
    loop = np.array(seconds["plain loop, a part"]) / expected.size
    print(f"\n{'':<28}{'seconds':>9}{'hits/s':>12}{'times the plain loop (median, range)':>40}")
    for name, taken in seconds.items():
        hits = expected.size if name.startswith("plain") else runs[0].size
        ratios = loop / (np.array(taken) / hits)
        spread = f"{median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
        print(f"{name:<28}{median(taken):>9.2f}{hits / median(taken):>12,.0f}{spread:>40}")
    for rule in sorted(set(RULES) - {"dpr", "regex"}):
        taken = timed(lambda: match_run(cold(path), questions, runs[0], rule))[1]  # noqa: B023
        print(f"{f'ours, {rule}':<28}{taken:>9.2f}{runs[0].size / taken:>12,.0f}")
    taken = sum(timed(lambda: match_run(cold(path), questions, run))[1] for run in runs)  # noqa: B023
    print(f"\n{len(runs)} runs, cold: {taken:.1f} s")
    before = psutil.Process().memory_info().rss
    match_run(Corpus(path), questions, runs[0])
    print(f"memory: {(psutil.Process().memory_info().rss - before) / 2**20:,.0f} MiB more than before")


if __name__ == "__main__":
    main()
