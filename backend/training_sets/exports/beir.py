"""A BEIR folder: corpus.jsonl with the passages of the set, queries.jsonl, and qrels/train.tsv with 1 for positives
and 0 for hard negatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from blindspot.backend.data.formats.beir import write_corpus, write_qrels, write_queries
from blindspot.backend.training_sets.exports.base import EXPORTS, ExportFormat, ExportRows
from blindspot.db.records import Passage

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels/train.tsv"


def write(folder: Path, rows: ExportRows) -> tuple[dict[str, int], tuple[str, ...]]:
    (folder / "qrels").mkdir()
    counts = {
        CORPUS: write_corpus(folder / CORPUS, _passages(rows)).rows,
        QUERIES: write_queries(folder / QUERIES, (row.question for row in rows)).rows,
        QRELS: write_qrels(folder / QRELS, _judgements(rows)).rows,
    }
    return counts, (
        f"{CORPUS} holds only the passages of this set; 'blindspot export passages --format beir' writes them all",
    )


def _judgements(rows: ExportRows) -> Iterator[tuple[str, str, int]]:
    for row in rows:
        yield from ((row.question.id, pair.passage, 1) for pair, _ in row.positives)
        yield from ((row.question.id, pair.passage, 0) for pair, _ in row.hard)


def _passages(rows: ExportRows) -> Iterator[Passage]:
    """Yield each passage once, in the collection's order.

    Uses one bit of memory for each passage of the collection.
    """
    corpus = rows.study.corpus
    named = np.zeros(len(corpus), bool)
    for row in rows:
        ids = [pair.passage for passages_of_role in (row.positives, row.hard, row.easy) for pair, _ in passages_of_role]
        named[list(corpus.ordinals(ids).values())] = True
    ordinals = np.flatnonzero(named)
    for start in range(0, len(ordinals), 1000):
        yield from corpus.passages(ordinals[start : start + 1000].tolist())


EXPORTS.register(
    ExportFormat(
        "beir",
        "a BEIR folder: corpus, queries, qrels",
        "Trainers and evaluators that read BEIR folders.",
        write,
        has_easy=False,
    )
)
