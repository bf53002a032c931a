"""The facts about many questions that measures need, as arrays: relation, question set, frequency, bucket, and whether
there are answers and gold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from blindspot.db.records import Question

Name = TypeVar("Name")
UNKNOWN_FREQUENCY = -1
NO_BUCKET = int(np.iinfo(np.int64).min)


@dataclass(frozen=True, slots=True)
class Categories(Generic[Name]):
    """A value for each question, from a small number of distinct values.

    Attributes:
        codes: (q,) int32 indices into `names`.
        names: the distinct values; some of them may belong to no question.
    """

    codes: npt.NDArray[np.int32]
    names: tuple[Name, ...]

    def values_of_rows(self, rows: npt.NDArray[np.int64]) -> Categories[Name]:
        """Return the values of some questions, (m,) rows."""
        return Categories(self.codes[rows], self.names)

    def rows_by_value(self) -> dict[Name, npt.NDArray[np.int64]]:
        """Return for each value the rows of the questions that have it."""
        present = np.flatnonzero(np.bincount(self.codes, minlength=len(self.names))).tolist()
        return {self.names[code]: np.flatnonzero(self.codes == code) for code in present}

    def labels(self, label_of: Callable[[Name], str]) -> npt.NDArray[np.str_]:
        """Return each question's value as a string, (q,) str."""
        return np.array([label_of(name) for name in self.names] or [""], dtype=str)[self.codes]


@dataclass(frozen=True, slots=True)
class QuestionColumns:
    """Facts about q questions, in 29 bytes per question. Row i of every array belongs to question i.

    Attributes:
        relation: "" for a question without a relation.
        dataset_split: pairs of data set and split.
        frequency: (q,) int64, the number of mentions of the subject, -1 if unknown.
        bucket: (q,) int64, the official bucket, NO_BUCKET if there is none.
        has_answers, has_gold: (q,) bool.
    """

    relation: Categories[str]
    dataset_split: Categories[tuple[str, str]]
    frequency: npt.NDArray[np.int64]
    bucket: npt.NDArray[np.int64]
    has_answers: npt.NDArray[np.bool_]
    has_gold: npt.NDArray[np.bool_]

    @classmethod
    def of_questions(cls, questions: Iterable[Question]) -> QuestionColumns:
        """Return the columns of question records."""
        builder = ColumnsBuilder()
        records = list(questions)
        builder.add(
            [question.relation or "" for question in records],
            [f"{question.dataset}/{question.split}" for question in records],
            [UNKNOWN_FREQUENCY if question.frequency is None else question.frequency for question in records],
            [question.bucket for question in records],
            [bool(question.answers) for question in records],
            [bool(question.gold) for question in records],
        )
        return builder.build()

    def columns_of_rows(self, rows: npt.NDArray[np.int64]) -> QuestionColumns:
        """Return the columns of some questions, (m,) rows."""
        return QuestionColumns(
            self.relation.values_of_rows(rows),
            self.dataset_split.values_of_rows(rows),
            self.frequency[rows],
            self.bucket[rows],
            self.has_answers[rows],
            self.has_gold[rows],
        )


@dataclass
class ColumnsBuilder:
    """Collects the columns of questions block by block."""

    _relations: dict[str, int] = field(default_factory=dict)
    _dataset_splits: dict[str, int] = field(default_factory=dict)
    _blocks: list[tuple[npt.NDArray[Any], ...]] = field(default_factory=list)

    def add(
        self,
        relations: Sequence[str],
        dataset_splits: Sequence[str],
        frequencies: Sequence[int],
        buckets: Sequence[int | None],
        has_answers: npt.ArrayLike,
        has_gold: npt.ArrayLike,
    ) -> None:
        """Add a block of questions, with one value for each question in every sequence. dataset_splits: "DATASET/SPLIT"."""
        no_buckets = buckets.count(None) == len(buckets)
        self._blocks.append(
            (
                _codes(self._relations, relations),
                _codes(self._dataset_splits, dataset_splits),
                np.array(frequencies, dtype=np.int64),
                np.full(len(buckets), NO_BUCKET, dtype=np.int64)
                if no_buckets
                else np.array([NO_BUCKET if bucket is None else bucket for bucket in buckets], dtype=np.int64),
                np.asarray(has_answers).astype(np.bool_),
                np.asarray(has_gold).astype(np.bool_),
            )
        )

    def build(self) -> QuestionColumns:
        if not self._blocks:
            self.add([], [], [], [], [], [])
        relation, dataset_split, frequency, bucket, has_answers, has_gold = (
            np.concatenate(arrays) for arrays in zip(*self._blocks, strict=True)
        )
        return QuestionColumns(
            Categories(relation.astype(np.int32, copy=False), tuple(self._relations)),
            Categories(
                dataset_split.astype(np.int32, copy=False), tuple(map(_dataset_and_split, self._dataset_splits))
            ),
            frequency,
            bucket,
            has_answers.astype(np.bool_, copy=False),
            has_gold.astype(np.bool_, copy=False),
        )


def _dataset_and_split(name: str) -> tuple[str, str]:
    dataset, _, split = name.rpartition("/")  # a split holds no slash
    return dataset, split


def _codes(code_of: dict[Name, int], values: Sequence[Name]) -> npt.NDArray[np.int32]:
    """Return the code of each value; each new value gets the next code."""
    for value in dict.fromkeys(values):
        code_of.setdefault(value, len(code_of))
    return np.fromiter(map(code_of.__getitem__, values), np.int32, len(values))
