"""DPR's training JSON: an array of `{dataset, question, answers, positive_ctxs, negative_ctxs, hard_negative_ctxs}`.

Easy negatives (random ones, other questions' gold) are `negative_ctxs`. Mined negatives and people's are
`hard_negative_ctxs`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from blindspot.backend.data.formats.files import open_atomically
from blindspot.backend.training_sets.exports.base import EXPORTS, ExportFormat, ExportRow, ExportRows, PairPassage

FILE = "train.json"


def write(folder: Path, rows: ExportRows) -> tuple[dict[str, int], tuple[str, ...]]:
    count = several = 0
    with open_atomically(folder / FILE) as file:
        file.write("[")
        for row in rows:
            file.write((",\n" if count else "\n") + json.dumps(_record(row), ensure_ascii=False))
            count += 1
            several += len(row.positives) > 1
        file.write("\n]\n")
    notes = (
        f"{several:,} questions have several positives; DPR's own trainer takes the first, which is people's if "
        "there is one",
    )
    return {FILE: count}, notes if several else ()


def _record(row: ExportRow) -> dict[str, Any]:
    question = row.question
    return {
        "dataset": question.dataset,
        "question_id": question.id,
        "question": question.text,
        "answers": list(question.answers),
        "positive_ctxs": _contexts(row.positives),
        "negative_ctxs": _contexts(row.easy),
        "hard_negative_ctxs": _contexts(row.hard),
    }


def _contexts(passages: Sequence[PairPassage]) -> list[dict[str, Any]]:
    return [
        {
            "title": passage.title,
            "text": passage.text,
            "score": 0.0 if pair.score is None else pair.score,
            "passage_id": passage.id,
        }
        for pair, passage in passages
    ]


EXPORTS.register(
    ExportFormat(
        "dpr",
        "DPR's training JSON",
        "DPR's own trainer, and trainers that read its format.",
        write,
    )
)
