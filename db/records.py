"""The record types that all packages share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

Split = Literal["train", "dev", "test", "unlabelled"]
AnswerRule = Literal["string", "regex"]

SPLITS: tuple[str, ...] = get_args(Split)


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of the collection. Files and pages name a passage by `id`; arrays name it by its row."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question.

    Attributes:
        answers: Strings that count as an answer, or patterns if `answer_rule` is "regex" (CuratedTREC). May be empty.
        frequency: How often the subject is mentioned, by the imported count.
        bucket: Official frequency bucket (EntityQuestions' one-off sets: 0 most frequent, 7 rarest).
        dataset: Name of the data set that the question comes from.
        gold: Ids of the passages that are labelled as answering the question. May be empty.
    """

    id: str
    text: str
    answers: tuple[str, ...] = ()
    relation: str | None = None
    subject: str | None = None
    template: str | None = None
    frequency: int | None = None
    bucket: int | None = None
    dataset: str = ""
    split: Split = "unlabelled"
    gold: tuple[str, ...] = ()
    answer_rule: AnswerRule = "string"


@dataclass(frozen=True, slots=True)
class Hits:
    """The passages that a retriever found: row i belongs to question i, and column j holds rank j + 1.

    Attributes:
        ordinals: (q, k) int32 rows of the collection; -1 pads a short row, always at its end.
        scores: (q, k) float32, falling along a row; -inf for padding. Equal scores are ordered by passage row.
    """

    ordinals: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.ordinals)

    @property
    def k(self) -> int:
        return int(self.ordinals.shape[1])
