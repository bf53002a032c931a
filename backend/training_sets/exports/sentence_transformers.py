"""JSON lines for sentence-transformers, as `datasets` loads them: pairs, triplets, n-tuples, and n-tuples with a
cross-encoder's scores.

The columns have the order in which the losses take them: anchor, positive, negative (or negative_1 ... negative_n),
scores. `scores` holds the score of the positive and of each negative, as `mine_hard_negatives` writes them (for margin
and distillation losses).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backend.training_sets.exports.base import EXPORTS, ExportFormat, ExportRows, left_out_note, write_lines

PAIRS, TRIPLETS, TUPLES, SCORED = "pairs.jsonl", "triplets.jsonl", "tuples.jsonl", "tuples-scores.jsonl"
DEFAULT_NEGATIVES = 4


def write(folder: Path, rows: ExportRows) -> tuple[dict[str, int], tuple[str, ...]]:
    """n-tuples have one width.

    Questions with fewer hard negatives than `ExportOptions.negatives` are only in the other files.
    """
    width = rows.options.negatives or 0
    counts = {
        PAIRS: write_lines(folder / PAIRS, _pairs(rows)),
        TRIPLETS: write_lines(folder / TRIPLETS, _triplets(rows)),
        TUPLES: write_lines(folder / TUPLES, (record for record, _ in _tuples(rows, width))),
    }
    notes = left_out_note(
        counts[PAIRS] - counts[TUPLES], f"pairs of {TUPLES}", f"their questions have fewer than {width} hard negatives"
    )
    if rows.training_set.manifest["request"]["model"] is not None:
        scored = ({**record, "scores": scores} for record, scores in _tuples(rows, width) if None not in scores)
        counts[SCORED] = write_lines(folder / SCORED, scored)
        notes += left_out_note(
            counts[TUPLES] - counts[SCORED], f"rows of {SCORED}", "not all of their scores are known"
        )
    return counts, notes


def _pairs(rows: ExportRows) -> Iterator[dict[str, str]]:
    for row in rows:
        for _, passage in row.positives:
            yield {"anchor": row.question.text, "positive": rows.one_text(passage)}


def _triplets(rows: ExportRows) -> Iterator[dict[str, str]]:
    for row in rows:
        for _, positive in row.positives:
            for _, negative in row.hard:
                yield {
                    "anchor": row.question.text,
                    "positive": rows.one_text(positive),
                    "negative": rows.one_text(negative),
                }


def _tuples(rows: ExportRows, width: int) -> Iterator[tuple[dict[str, Any], list[float | None]]]:
    for row in rows:
        if len(row.hard) < width:
            continue
        negatives = {f"negative_{number}": rows.one_text(passage) for number, (_, passage) in enumerate(row.hard, 1)}
        for pair, passage in row.positives:
            scores = [pair.probability, *(negative.probability for negative, _ in row.hard)]
            yield {"anchor": row.question.text, "positive": rows.one_text(passage), **negatives}, scores


EXPORTS.register(
    ExportFormat(
        "sentence-transformers",
        "JSON lines for sentence-transformers: pairs, triplets, n-tuples",
        "The losses of sentence-transformers, loaded with `datasets`.",
        write,
        negatives=DEFAULT_NEGATIVES,
    )
)
