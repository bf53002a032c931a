"""The records every room shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

Split = Literal["train", "dev", "test", "unlabelled"]
AnswerRule = Literal["string", "regex"]

SPLITS: tuple[str, ...] = get_args(Split)


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of the collection. `id` is the outside id; inside, a passage is its ordinal (its row)."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question with what is known about it.

    `gold` holds the ids of the passages labelled as answering it; `answers` the strings that count as an answer,
    or, where `answer_rule` is "regex", patterns (CuratedTREC). Both may be empty. `frequency` is how often the
    subject is mentioned, by whichever count was imported. `bucket` is an official frequency bucket
    (EntityQuestions' one-off sets: 0 most frequent, 7 rarest). `dataset` names the set the question came from.
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
    """What a retriever found: row i belongs to question i, column j is rank j + 1.

    ordinals: (q, k) int32 rows of the collection; -1 pads a short row, always at its end.
    scores: (q, k) float32, falling along a row; -inf where padded. Ties are ordered by ordinal.
    """

    ordinals: np.ndarray
    scores: np.ndarray

    def __len__(self) -> int:
        return len(self.ordinals)

    @property
    def k(self) -> int:
        return self.ordinals.shape[1]
