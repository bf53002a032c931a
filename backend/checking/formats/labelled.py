"""Files with labels: one passage and its label per row ("labeled-pair"), or lists of passages and labels
("labeled-list"). RocketQA's cross-encoder TSV and Blindspot's own Parquet files are of this kind.

`mine_hard_negatives(output_scores=True)` writes scores instead of labels. In such files the first passage of a question
is the positive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from blindspot.backend.checking.formats.base import (
    SCORES,
    TRAINING_FORMATS,
    Cell,
    Entry,
    RowLayout,
    Slot,
    TrainingFormat,
    Values,
    number_of,
    numbers_of,
    text_of,
)
from blindspot.backend.data.formats.fields import FieldError, type_in_words

LABELS = ("label", "labels")
_WORDS = {"positive": True, "negative": False, "true": True, "false": False}


@dataclass
class PairLayout(RowLayout):
    """One passage per row. question, title (or None), passage: names of columns. label, score: names of columns; one of
    the two is None.
    """

    name: str
    question: str
    title: str | None
    passage: str
    label: str | None
    score: str | None
    in_batch = False

    def __post_init__(self) -> None:
        self.can_relabel = self.label is not None

    def entry(self, values: Values, previous: Values | None = None) -> Entry:
        question = text_of(values, self.question)
        if self.label is not None:
            is_positive = _is_positive(values.get(self.label), self.label)
        else:
            is_positive = previous is None or previous[self.question] != question
        score = None
        if self.score is not None and values.get(self.score) is not None:
            score = number_of(values[self.score], self.score)
        title = "" if self.title is None else text_of(values, self.title)
        return Entry(question, [Slot(is_positive, text_of(values, self.passage), "" if title == "-" else title, score)])

    def corrected_rows(
        self, values: Values, false: Sequence[int], added_positives: Sequence[int], spare_negatives: Sequence[Cell]
    ) -> list[Values]:
        if not added_positives or self.label is None:
            return []
        return [{**values, self.label: _positive_label_like(values[self.label])}]


@dataclass
class ListLayout(RowLayout):
    """A list of passages per row. question, passages: names of columns. labels, scores: names of columns; one of the
    two is None.
    """

    name: str
    question: str
    passages: str
    labels: str | None
    scores: str | None
    in_batch = False

    def __post_init__(self) -> None:
        self.can_relabel = self.labels is not None

    def entry(self, values: Values, previous: Values | None = None) -> Entry:
        passages = values.get(self.passages)
        if not isinstance(passages, list) or not all(isinstance(each, str) for each in passages):
            raise FieldError(f"{self.passages!r} must be a list of texts")
        if self.labels is not None:
            labels = values.get(self.labels)
            if not isinstance(labels, list):
                raise FieldError(f"{self.labels!r} is {type_in_words(labels)}; it must be a list of labels")
            positive = [_is_positive(label, self.labels) for label in labels]
        else:
            positive = [place == 0 for place in range(len(passages))]
        scores: list[Any] = [None] * len(passages)
        if self.scores is not None:
            scores = list(numbers_of(values.get(self.scores), self.scores))
        if not len(passages) == len(positive) == len(scores):
            raise FieldError(f"{len(passages)} passages with {len(positive)} labels and {len(scores)} scores")
        slots = [Slot(is_one, text, "", score) for is_one, text, score in zip(positive, passages, scores, strict=True)]
        return Entry(text_of(values, self.question), slots)

    def corrected_rows(
        self, values: Values, false: Sequence[int], added_positives: Sequence[int], spare_negatives: Sequence[Cell]
    ) -> list[Values]:
        row = dict(values)
        gone = set(false) - set(added_positives)
        for column in (self.passages, self.labels, self.scores):
            if column is not None:
                row[column] = [each for place, each in enumerate(values[column]) if place not in gone]
        if self.labels is not None:
            labels = [
                _positive_label_like(each) if place in added_positives else each
                for place, each in enumerate(values[self.labels])
            ]
            row[self.labels] = [each for place, each in enumerate(labels) if place not in gone]
        return [row] if row[self.passages] else []


def _is_positive(value: Any, column: str) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _WORDS:
        return _WORDS[value.lower()]
    number = number_of(value, column)
    if not 0 <= number <= 1:
        raise FieldError(f"{column!r} is {value!r}; it must be 0 or 1")
    return number >= 0.5


def _positive_label_like(value: Any) -> Any:
    """Return the label of a positive in the type and spelling of the negative label `value`, such as "1" for "0"."""
    if isinstance(value, str):
        return "positive" if value == "negative" else {"false": "true", "False": "True", "0.0": "1.0"}.get(value, "1")
    return type(value)(1)


def _labelled(columns: Sequence[str], rows: Sequence[Values]) -> RowLayout | None:
    if len(columns) != 3 or not rows:
        return None
    label = next((name for name in LABELS if name in columns), None)
    score = next((name for name in SCORES if name in columns), None)
    if (label is None) == (score is None):
        return None
    question, passage = (name for name in columns if name not in (label, score))
    if all(isinstance(row.get(passage), list) for row in rows):
        return ListLayout("labelled lists", question, passage, label, score)
    if any(not isinstance(row.get(name), str) for row in rows for name in (question, passage)):
        return None
    if all(str(row[passage]).startswith("[") and str(row[passage]).endswith("]") for row in rows):
        raise FieldError(
            "lists of passages are one text in CSV and cannot be told apart; save them as JSON lines or Parquet"
        )
    if label is None and all(str(row[score]) in ("0", "1", "0.0", "1.0") for row in rows if score):
        label, score = score, None
    return PairLayout("labelled pairs", question, None, passage, label, score)


def _rocketqa(columns: Sequence[str], rows: Sequence[Values]) -> RowLayout | None:
    if list(columns) != ["0", "1", "2", "3"] or any(row["3"] not in ("0", "1") for row in rows):
        return None
    return PairLayout("RocketQA's cross-encoder TSV", "0", "1", "2", "3", None)


def _own_parquet(columns: Sequence[str], rows: Sequence[Values]) -> RowLayout | None:
    if not {"question_id", "question", "passage_id", "title", "text", "role"} <= set(columns):
        return None
    score = "score" if "score" in columns else None
    return PairLayout("Blindspot's Parquet", "question", "title", "text", "role", score)


for _format in (
    TrainingFormat("labelled", "labelled pairs and lists of sentence-transformers", _labelled),
    TrainingFormat("rocketqa-cross", "RocketQA's TSV of the cross-encoder", _rocketqa),
    TrainingFormat("blindspot-parquet", "the Parquet export of training sets", _own_parquet),
):
    TRAINING_FORMATS.register(_format)
