"""Explanations of a passage's score: term weights for sparse retrieval, token matches for late interaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from blindspot.backend.text.spans import Span


class TermMatch(NamedTuple):
    """A term that occurs in question and passage: its two weights, and their product, which it adds to the score."""

    term: str
    question: float
    passage: float
    product: float


@dataclass(frozen=True, slots=True)
class TermWeights:
    """The score of a passage in sparse retrieval, as a sum over terms.

    Attributes:
        question, passage: (term, weight), largest first.
        shared_terms: largest product first; the products add up to the score.
    """

    score: float
    question: list[tuple[str, float]]
    passage: list[tuple[str, float]]
    shared_terms: list[TermMatch]


@dataclass(frozen=True, slots=True)
class TokenMatches:
    """The score of a passage by late interaction.

    Attributes:
        score: MaxSim: for each question token its largest product, summed (or averaged, if the model says so).
        question, passage: the tokens (s and t of them).
        spans: where each passage token is in the passage's text; None for a special token or one of the title.
        products: (s, t) float32.
    """

    score: float
    question: list[str]
    passage: list[str]
    spans: list[Span | None]
    products: np.ndarray

    @property
    def contributions(self) -> np.ndarray:
        """Return how much each passage token adds to the score, (t,): the sum of the products with the question tokens
        that it matches best.
        """
        added = np.zeros(self.products.shape[1])
        if added.size:
            np.add.at(added, self.products.argmax(axis=1), self.products.max(axis=1))
        return added


@runtime_checkable
class Explainer(Protocol):
    """A retriever that can break a passage's score down into parts."""

    def explain(self, question: str, row: int) -> TermWeights | TokenMatches: ...
