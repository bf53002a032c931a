"""JSON lines for sentence-transformers, as `datasets` loads them: pairs, triplets, n-tuples, and n-tuples with a
cross-encoder's scores.

The columns have the order that the losses expect: anchor, positive, negative (or negative_1 ... negative_n), scores.
`scores` holds the score of the positive and of each negative, as `mine_hard_negatives` writes them (for margin and
distillation losses).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from blindspot.backend.text.number_words import quantity
from blindspot.backend.training_sets.exports.base import EXPORTS, ExportFormat, ExportRows, left_out_note, write_lines

PAIRS, TRIPLETS, TUPLES, SCORED = "pairs.jsonl", "triplets.jsonl", "tuples.jsonl", "tuples-scores.jsonl"
DEFAULT_NEGATIVES = 4


def write(folder: Path, rows: ExportRows) -> tuple[dict[str, int], tuple[str, ...]]:
    """Write the files.

    Every positive has a row in each file that takes its question. `ExportOptions.rows` limits the rows of an anchor
    instead, even if several questions have its text; with one row per anchor, no anchor occurs twice in a batch with
    any sampler. All n-tuples have the same number of negatives, so questions with fewer hard negatives than
    `ExportOptions.negatives` are only in the other files.
    """
    width, cap = rows.options.negatives or 0, rows.options.rows
    left_out_anchors: list[str] = []
    counts = {
        PAIRS: write_lines(folder / PAIRS, _cap_records(_pairs(rows), cap, left_out_anchors)),
        TRIPLETS: write_lines(folder / TRIPLETS, _cap_records(_triplets(rows, each_once=cap is None), cap)),
        TUPLES: write_lines(folder / TUPLES, _cap_records(_tuples(rows, width), cap)),
    }
    notes = (
        _anchor_note(cap),
        *left_out_note(len(left_out_anchors), f"pairs of {PAIRS}", f"at most {quantity(cap or 0, 'row')} a question"),
    )
    notes += left_out_note(
        counts[PAIRS] - counts[TUPLES], f"pairs of {TUPLES}", f"their questions have fewer than {width} hard negatives"
    )
    if rows.training_set.manifest["request"]["model"] is not None:
        scored = (
            record for record in _cap_records(_tuples(rows, width, scores=True), cap) if None not in record["scores"]
        )
        counts[SCORED] = write_lines(folder / SCORED, scored)
        notes += left_out_note(
            counts[TUPLES] - counts[SCORED], f"rows of {SCORED}", "not all of their scores are known"
        )
    return counts, notes


def _anchor_note(cap: int | None) -> str:
    if cap == 1:
        return "every anchor is in one row of a file, so no batch holds an anchor twice"
    rows = "a row for each of its positives" if cap is None else f"up to {quantity(cap, 'row')} of a file"
    return (
        f"an anchor has {rows}: train with `batch_sampler=BatchSamplers.NO_DUPLICATES`, so that no batch holds an anchor "
        "twice, where its other positives would be its negatives (one row an anchor: --rows 1)"
    )


def _cap_records(
    records: Iterable[dict[str, Any]], cap: int | None, left_out_anchors: list[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the first `cap` records of each anchor; all without a cap. left_out_anchors: a list to which the anchors of
    the other records are added.
    """
    seen: Counter[str] = Counter()
    for record in records:
        seen[record["anchor"]] += 1
        if cap is None or seen[record["anchor"]] <= cap:
            yield record
        elif left_out_anchors is not None:
            left_out_anchors.append(record["anchor"])


def _pairs(rows: ExportRows) -> Iterator[dict[str, Any]]:
    for row in rows:
        for _, passage in row.positives:
            yield {"anchor": row.question.text, "positive": rows.one_text(passage)}


def _triplets(rows: ExportRows, each_once: bool) -> Iterator[dict[str, Any]]:
    """Yield every positive with every negative of its question. The first rows of a question contain each of its
    positives once; with `each_once`, these are all rows.
    """
    for row in rows:
        for shift in range(min(len(row.hard), 1) if each_once else len(row.hard)):
            for number, (_, positive) in enumerate(row.positives):
                _, negative = row.hard[(number + shift) % len(row.hard)]
                yield {
                    "anchor": row.question.text,
                    "positive": rows.one_text(positive),
                    "negative": rows.one_text(negative),
                }


def _tuples(rows: ExportRows, width: int, scores: bool = False) -> Iterator[dict[str, Any]]:
    for row in rows:
        if len(row.hard) < width:
            continue
        negatives = {f"negative_{number}": rows.one_text(passage) for number, (_, passage) in enumerate(row.hard, 1)}
        for pair, passage in row.positives:
            record: dict[str, Any] = {"anchor": row.question.text, "positive": rows.one_text(passage), **negatives}
            if scores:
                record["scores"] = [pair.probability, *(negative.probability for negative, _ in row.hard)]
            yield record


EXPORTS.register(
    ExportFormat(
        "sentence-transformers",
        "JSON lines for sentence-transformers: pairs, triplets, n-tuples",
        "The losses of sentence-transformers, loaded with `datasets`.",
        write,
        negatives=DEFAULT_NEGATIVES,
        has_rows=True,
        has_easy=False,
    )
)
