"""Why a retriever scored a passage as it did: term weights of sparse retrieval, token matches of late interaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable


class TermMatch(NamedTuple):
    """A term that question and passage share: its two weights, and the product that it adds to the score."""

    term: str
    question: float
    passage: float
    product: float


@dataclass(frozen=True, slots=True)
class TermWeights:
    """The score of a passage as a sum over terms.

    question, passage: (term, weight), largest first. shared: largest product first; the products add up to the score.
    """

    score: float
    question: list[tuple[str, float]]
    passage: list[tuple[str, float]]
    shared: list[TermMatch]


@runtime_checkable
class Explainer(Protocol):
    """A retriever that can say what a passage's score is made of."""

    def explain(self, question: str, row: int) -> TermWeights: ...
