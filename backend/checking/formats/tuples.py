"""Rows of a question, a positive and a fixed number of negatives: triplets, n-tuples, pairs; RocketQA's TSV.

`mine_hard_negatives` of sentence-transformers writes the first two (output_format "triplet" and "n-tuple"). Column
names are those of the mined dataset: the first column is the question, the second the positive.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from blindspot.backend.checking.formats.base import (
    QUESTIONS,
    SCORES,
    TRAINING_FORMATS,
    Cell,
    Entry,
    RowLayout,
    Slot,
    TrainingFormat,
    Values,
    in_type_of,
    numbers_of,
    text_of,
)
from blindspot.backend.data.formats.fields import FieldError

NEGATIVE = re.compile(r"(?:hard_)?neg(?:ative)?(?:s?_?\d+)?")
POSITIVES = ("positive", "pos", "answer", "passage", "document", "response", "sentence2")


@dataclass
class TupleLayout(RowLayout):
    """question: name of a column. positive, negatives: (title column or None, text column). scores: name of the column
    with their scores.
    """

    name: str
    question: str
    positive: tuple[str | None, str]
    negatives: list[tuple[str | None, str]]
    scores: str | None = None

    def entry(self, values: Values, previous: Values | None = None) -> Entry:
        scores: list[Any] = [None] * (1 + len(self.negatives))
        if self.scores is not None:
            scores = list(numbers_of(values[self.scores], self.scores))
            if len(scores) != 1 + len(self.negatives):
                raise FieldError(f"{self.scores!r} has {len(scores)} numbers for {1 + len(self.negatives)} passages")
        slots = [
            Slot(place == 0, text_of(values, text), "" if title is None else _title(text_of(values, title)), score)
            for place, ((title, text), score) in enumerate(zip([self.positive, *self.negatives], scores, strict=True))
        ]
        return Entry(text_of(values, self.question), slots)

    def cell(self, values: Values, position: int) -> Cell:
        title, text = [self.positive, *self.negatives][position]
        score = None if self.scores is None else numbers_of(values[self.scores], self.scores)[position]
        return (None if title is None else values[title], values[text], score)

    def corrected_rows(
        self, values: Values, false: Sequence[int], added_positives: Sequence[int], spare_negatives: Sequence[Cell]
    ) -> list[Values]:
        """Replace false negatives by other negatives of the question; if they do not suffice, repeat the row's own true
        negatives.

        A triplet with a false negative is replaced by a triplet with that passage as the positive and another passage
        as the negative.
        """
        width = len(self.negatives)
        kept = [self.cell(values, place) for place in range(1, 1 + width) if place not in false]
        texts = {cell[1] for cell in kept} | {self.cell(values, place)[1] for place in (0, *false)}
        filled = kept + [cell for cell in spare_negatives if cell[1] not in texts]
        if not filled:
            return []
        filled = [filled[place % len(filled)] for place in range(width)]
        own = [self._row(values, self.cell(values, 0), filled)] if width > 1 else []
        return own + [self._row(values, self.cell(values, place), filled) for place in added_positives]

    def _row(self, values: Values, positive: Cell, negatives: Sequence[Cell]) -> Values:
        row = dict(values)
        cells = [positive, *negatives]
        for (title, text), cell in zip([self.positive, *self.negatives], cells, strict=True):
            row[text] = cell[1]
            if title is not None:
                row[title] = cell[0]
        if self.scores is not None:
            row[self.scores] = in_type_of([cell[2] for cell in cells], values[self.scores])
        return row


def _title(text: str) -> str:
    return "" if text == "-" else text


def _recognise_names(columns: Sequence[str], rows: Sequence[Values]) -> RowLayout | None:
    negatives = [name for name in columns if NEGATIVE.fullmatch(name)]
    if not negatives or any(not isinstance(row.get(name), str | None) for row in rows for name in negatives):
        return None
    texts = [name for name in columns if name not in negatives and name not in (*SCORES, "label", "labels")]
    # The names decide; otherwise the first column is the question and the second the positive, as trainers take them.
    question = next((name for name in QUESTIONS if name in texts), texts[0] if texts else None)
    rest = [name for name in texts if name != question]
    positive = next((name for name in POSITIVES if name in rest), rest[0] if rest else None)
    if question is None or positive is None:
        return None
    scores = next((name for name in SCORES if name in columns), None)
    what = "triplets" if len(negatives) == 1 else f"n-tuples with {len(negatives)} negatives"
    return TupleLayout(what, question, (None, positive), [(None, name) for name in negatives], scores)


def _pairs(columns: Sequence[str], rows: Sequence[Values]) -> RowLayout | None:
    if len(columns) != 2 or columns[0] not in QUESTIONS or columns[1] not in POSITIVES:
        return None
    return TupleLayout("pairs without negatives", columns[0], (None, columns[1]), [])


def _rocketqa(columns: Sequence[str], rows: Sequence[Values]) -> RowLayout | None:
    if list(columns) != [str(place) for place in range(6)] or any(row["5"] not in ("0", "1") for row in rows):
        return None
    return TupleLayout("RocketQA's dual-encoder TSV", "0", ("1", "2"), [("3", "4")])


def _text_triples(columns: Sequence[str], rows: Sequence[Values]) -> RowLayout | None:
    if list(columns) != ["0", "1", "2"] or all(value.isdigit() for row in rows for value in row.values()):
        return None
    return TupleLayout("triples without a header", "0", (None, "1"), [(None, "2")])


for _format in (
    TrainingFormat(
        "tuples", "triplets and n-tuples of sentence-transformers: question, positive, negatives", _recognise_names
    ),
    TrainingFormat("pairs", "question and positive", _pairs),
    TrainingFormat("rocketqa", "RocketQA's TSV of the dual encoder", _rocketqa),
    TrainingFormat("text-triples", "TSV without a header: question, positive, negative", _text_triples),
):
    TRAINING_FORMATS.register(_format)
