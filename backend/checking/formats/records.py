"""Records with lists of positives and of negatives: DPR, Tevatron, FlagEmbedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from blindspot.backend.checking.formats.base import (
    TRAINING_FORMATS,
    Cell,
    Entry,
    RowLayout,
    Slot,
    TrainingFormat,
    Values,
    number_of,
    text_of,
)
from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.fields import FieldError, type_in_words


@dataclass
class RecordLayout(RowLayout):
    """question, positives, negatives (several): names of fields. scores: for each field of passages, the name of the
    field with their scores.

    Passages are texts, or objects with `title`, `text` and perhaps `score`.
    """

    name: str
    question: str
    positives: str
    negatives: tuple[str, ...]
    scores: dict[str, str]

    def entry(self, values: Values, previous: Values | None = None) -> Entry:
        slots: list[Slot] = []
        for name in (self.positives, *self.negatives):
            scores = self._scores(values, name)
            for place, passage in enumerate(_list_of_field(values, name)):
                slots.append(_slot(passage, name == self.positives, name, scores[place] if scores else None))
        answers = fields.texts(values, "answers") if isinstance(values.get("answers"), list) else ()
        return Entry(text_of(values, self.question), slots, answers)

    def corrected_rows(
        self, values: Values, false: Sequence[int], added_positives: Sequence[int], spare_negatives: Sequence[Cell]
    ) -> list[Values]:
        """Move the false negatives in `added_positives`, with their scores, to the end of the positives, and remove the
        other false negatives.
        """
        row, first = dict(values), len(_list_of_field(values, self.positives))
        gained, gained_scores = (
            list(_list_of_field(values, self.positives)),
            list(self._scores(values, self.positives) or ()),
        )
        for name in self.negatives:
            passages, scores = _list_of_field(values, name), self._scores(values, name)
            places = {place - first for place in false if first <= place < first + len(passages)}
            moved = [place - first for place in added_positives if place - first in places]
            gained += [passages[place] for place in moved]
            if name in row and places:
                row[name] = [each for place, each in enumerate(passages) if place not in places]
                if scores:
                    row[self.scores[name]] = [each for place, each in enumerate(scores) if place not in places]
                    gained_scores += [scores[place] for place in moved]
            first += len(passages)
        if added_positives:
            row[self.positives] = gained
            if self._scores(values, self.positives):
                row[self.scores[self.positives]] = gained_scores
        return [row]

    def _scores(self, values: Values, name: str) -> list[Any] | None:
        column = self.scores.get(name)
        found = None if column is None else values.get(column)
        if not found:
            return None
        if not isinstance(found, list) or len(found) != len(_list_of_field(values, name)):
            raise FieldError(f"{column!r} must have a number for each passage of {name!r}")
        return found


def _list_of_field(values: Values, name: str) -> list[Any]:
    found = values.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise FieldError(f"{name!r} is {type_in_words(found)}; it must be a list of passages")
    return found


def _slot(passage: Any, is_positive: bool, name: str, score: Any) -> Slot:
    if isinstance(passage, str):
        return Slot(is_positive, passage, "", None if score is None else number_of(score, name))
    if not isinstance(passage, dict):
        raise FieldError(f"{name!r} contains {type_in_words(passage)}; it must be a list of passages")
    score = passage.get("score") if score is None else score
    if score is not None:
        score = number_of(score, "score")
    return Slot(is_positive, text_of(passage, "text"), text_of(passage, "title"), score)


def _dpr(columns: Sequence[str], rows: Sequence[Values]) -> RowLayout | None:
    if not {"question", "positive_ctxs"} <= set(columns) or not {"hard_negative_ctxs", "negative_ctxs"} & set(columns):
        return None
    return RecordLayout("DPR", "question", "positive_ctxs", ("hard_negative_ctxs", "negative_ctxs"), {})


def _tevatron(columns: Sequence[str], rows: Sequence[Values]) -> RowLayout | None:
    if not {"query", "positive_passages", "negative_passages"} <= set(columns):
        return None
    return RecordLayout("Tevatron", "query", "positive_passages", ("negative_passages",), {})


def _flag_embedding(columns: Sequence[str], rows: Sequence[Values]) -> RowLayout | None:
    if not {"query", "pos", "neg"} <= set(columns) or not all(isinstance(row.get("pos"), list) for row in rows):
        return None
    return RecordLayout("FlagEmbedding", "query", "pos", ("neg",), {"pos": "pos_scores", "neg": "neg_scores"})


for _format in (
    TrainingFormat("dpr", "DPR's training JSON", _dpr),
    TrainingFormat("tevatron", "Tevatron's JSON lines", _tevatron),
    TrainingFormat("flagembedding", "FlagEmbedding's JSON lines: query, pos, neg", _flag_embedding),
):
    TRAINING_FORMATS.register(_format)
