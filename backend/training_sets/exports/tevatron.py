"""Tevatron's JSON lines: `{query_id, query, positive_passages, negative_passages}`; a passage is `{docid, title,
text}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from blindspot.backend.training_sets.exports.base import EXPORTS, ExportFormat, ExportRows, PairPassage, write_lines

FILE = "train.jsonl"


def write(folder: Path, rows: ExportRows) -> tuple[dict[str, int], tuple[str, ...]]:
    count = write_lines(folder / FILE, _records(rows))
    return {FILE: count}, ()


def _records(rows: ExportRows) -> Iterator[dict[str, Any]]:
    for row in rows:
        yield {
            "query_id": row.question.id,
            "query": row.question.text,
            "answers": list(row.question.answers),
            "positive_passages": _passages(row.positives),
            "negative_passages": _passages([*row.hard, *row.easy]),
        }


def _passages(passages: Sequence[PairPassage]) -> list[dict[str, str]]:
    return [{"docid": passage.id, "title": passage.title, "text": passage.text} for _, passage in passages]


EXPORTS.register(ExportFormat("tevatron", "Tevatron's JSON lines", "Tevatron's trainers.", write))
