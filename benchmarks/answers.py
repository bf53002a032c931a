"""Answer matching: ours against the plain token loop, in one run, on real passages.

    python -m benchmarks.answers [--questions 1348] [--k 100] [--plain 20]

The plain loop is the rule as its description reads: tokenise passage and answer, compare at every position. It runs on
the first `--plain` questions, ours on those and on all. Both must give the same matrix. The hits are each question's
gold passages with their neighbours in the collection, filled up with random passages.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import os
import platform
import time
import unicodedata
from pathlib import Path

import numpy as np
import regex

from backend.answers import RULES, match_run
from db.records import Passage, Question

REAL = Path(os.environ.get("BLINDSPOT_REAL_DATA", Path(__file__).parents[2] / "shared/data/entityquestions-wiki"))
TOKEN = regex.compile(r"([\p{L}\p{N}\p{M}]+)|([^\p{Z}\p{C}])")


class InMemory:
    """A collection held in memory, so that reading it is no part of the figure."""

    def __init__(self, passages: list[Passage]):
        self.held = passages

    def passages(self, ordinals):
        return [self.held[ordinal] for ordinal in ordinals]


def load() -> tuple[list[Passage], list[Question]]:
    with lzma.open(REAL / "passages_100k.tsv.xz", "rt", encoding="utf-8", newline="") as lines:
        passages = [Passage(row["id"], row["title"], row["text"]) for row in csv.DictReader(lines, delimiter="\t")]
    with lzma.open(REAL / "questions.jsonl.xz", "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["set"] == "dev"]
    return passages, [Question(r["id"], r["question"], tuple(r["answers"]), gold=tuple(r["gold"])) for r in rows]


def hits(passages: list[Passage], questions: list[Question], k: int, seed: int = 0) -> np.ndarray:
    """(q, k) int32: gold passages and their neighbours first, random passages after."""
    row_of = {passage.id: row for row, passage in enumerate(passages)}
    ordinals = np.random.default_rng(seed).integers(0, len(passages), (len(questions), k)).astype(np.int32)
    for i, question in enumerate(questions):
        near = [row for id in question.gold for row in range(row_of[id] - 3, row_of[id] + 4)]
        near = [row for row in dict.fromkeys(near) if 0 <= row < len(passages)][: k // 2]
        ordinals[i, : len(near)] = near
    return ordinals


def words(text: str) -> list[str]:
    return [match.group().lower() for match in TOKEN.finditer(unicodedata.normalize("NFD", text))]


def plain_loop(passages: list[Passage], questions: list[Question], ordinals: np.ndarray) -> np.ndarray:
    held = np.zeros(ordinals.shape, dtype=bool)
    for (i, j), ordinal in np.ndenumerate(ordinals):
        text = words(passages[ordinal].text)
        for answer in questions[i].answers:
            wanted = words(answer)
            n = len(wanted)
            if wanted and any(text[at : at + n] == wanted for at in range(len(text) - n + 1)):
                held[i, j] = True
                break
    return held


def timed(function, *args, repeat: int = 3) -> tuple[float, np.ndarray]:
    """Best of `repeat`, in seconds, and the result."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        result = function(*args)
        best = min(best, time.perf_counter() - start)
    return best, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=1348)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--plain", type=int, default=20, help="questions given to the plain loop")
    options = parser.parse_args()
    passages, questions = load()
    questions = questions[: options.questions]
    ordinals, corpus, some = hits(passages, questions, options.k), InMemory(passages), slice(options.plain)

    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, one thread")
    distinct = len(np.unique(ordinals))
    print(f"{len(questions):,} questions, k = {options.k}, {distinct:,} distinct passages of {len(passages):,}")
    plain, expected = timed(plain_loop, passages, questions[some], ordinals[some], repeat=1)
    same, found = timed(match_run, corpus, questions[some], ordinals[some])
    if not np.array_equal(found, expected):
        raise SystemExit("the two disagree")
    print(f"\n{'':<34}{'seconds':>9}{'pairs/s':>12}{'ratio':>8}")

    def line(name: str, seconds: float, pairs: int, ratio: str = "") -> None:
        print(f"{name:<34}{seconds:>9.3f}{pairs / seconds:>12,.0f}{ratio:>8}")

    pairs = ordinals[some].size
    line(f"plain loop, dpr, {options.plain} questions", plain, pairs, "1.0")
    line(f"ours, dpr, {options.plain} questions", same, pairs, f"{plain / same:.1f}")
    rate = plain / pairs
    for rule in RULES:
        seconds, _ = timed(match_run, corpus, questions, ordinals, rule)
        ratio = f"{rate * ordinals.size / seconds:.1f}" if rule == "dpr" else ""
        line(f"ours, {rule}, all questions", seconds, ordinals.size, ratio)


if __name__ == "__main__":
    main()
