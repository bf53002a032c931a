"""Arrays of a training file: one entry for each passage in a row (`PassageOccurrences`), and one for each distinct
negative pair (`NegativePairs`).

The study stores the texts of questions and passages, and the arrays hold their row numbers. Questions that differ only
in case, spaces and punctuation are one question, and identical passages are one passage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

PLACES = "places.npz"
FEATURES = ("overlap", "shared", "similar")


@dataclass(frozen=True)
class PassageOccurrences:
    """The n passages of all rows, in the order of the file.

    Attributes:
        row: (n,) int32, from 0. slot: (n,) int16, the place in the row. question, passage: (n,) int32, rows of the
        study's questions and collection. positive: (n,) bool. score: (n,) float32, NaN where the file has none.
        overlap: (n,) float32, share of the question's words in the passage, rare words counting more. shared: (n,)
        float32, share of the passage's words that a positive of the row has. similar: (n,) float32, largest share of
        5-word sequences that the passage has in common with a positive of the row. The last three are 0 for positives.
        empty: (n,) bool, a text without a word.
    """

    row: np.ndarray
    slot: np.ndarray
    question: np.ndarray
    passage: np.ndarray
    positive: np.ndarray
    score: np.ndarray
    overlap: np.ndarray
    shared: np.ndarray
    similar: np.ndarray
    empty: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    def save(self, folder: Path) -> None:
        np.savez(folder / PLACES, **{name: getattr(self, name) for name in self.__dataclass_fields__})

    @classmethod
    def load(cls, folder: Path) -> PassageOccurrences:
        with np.load(folder / PLACES, allow_pickle=False) as stored:
            return cls(**{name: stored[name] for name in cls.__dataclass_fields__})

    @cached_property
    def keys(self) -> np.ndarray:
        """(n,) int64, a number that identifies each pair of question and passage."""
        result: np.ndarray = self.question.astype(np.int64) << 32 | self.passage
        return result

    @cached_property
    def positive_keys(self) -> np.ndarray:
        """The keys of the pairs that are positive in some row, ascending."""
        return np.unique(self.keys[self.positive])

    @cached_property
    def known_false(self) -> np.ndarray:
        """(n,) bool: True for a negative that is a positive in another row of the same question."""
        return ~self.positive & contained_in(self.keys, self.positive_keys)


@dataclass(frozen=True)
class NegativePairs:
    """The m distinct negative pairs of a file, without pairs that are positive in some row.

    Attributes:
        keys: (m,) int64, ascending. places: (m,) int64, the first place of each. question, passage: (m,) int32.
        rank: (m,) int16, the place of the passage among the question's negatives, from 1; the first of several.
        score, positive_score: (m,) float32, of the pair, and the lowest of the question's positives in the row. NaN
        where the file has none. features: (m, 3) float32, `FEATURES`.
    """

    keys: np.ndarray
    places: np.ndarray
    question: np.ndarray
    passage: np.ndarray
    rank: np.ndarray
    score: np.ndarray
    positive_score: np.ndarray
    features: np.ndarray

    def __len__(self) -> int:
        return len(self.keys)


def contained_in(keys: np.ndarray, ascending: np.ndarray) -> np.ndarray:
    """Return for each key whether the sorted array `ascending` contains it."""
    if not len(ascending):
        return np.zeros(len(keys), bool)
    found = np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)
    result: np.ndarray = ascending[found] == keys
    return result


def negative_pairs(occurrences: PassageOccurrences) -> NegativePairs:
    """Return the distinct negative pairs, without those that some row has as a positive."""
    rows = np.flatnonzero(~occurrences.positive & ~occurrences.known_false)
    keys, first = np.unique(occurrences.keys[rows], return_index=True)
    at = rows[first]
    ranks = _ranks(occurrences)
    lowest = _lowest_positive(occurrences)
    features = np.stack([getattr(occurrences, name)[at] for name in FEATURES], axis=1)
    return NegativePairs(
        keys,
        at,
        occurrences.question[at],
        occurrences.passage[at],
        ranks[at],
        occurrences.score[at],
        lowest[at],
        features,
    )


def _ranks(occurrences: PassageOccurrences) -> np.ndarray:
    """Return each negative's rank among the negatives of its question: 1 for the first one in the file."""
    order = np.argsort(occurrences.question, kind="stable")
    negative = ~occurrences.positive[order]
    running = np.cumsum(negative)
    begins = np.flatnonzero(np.r_[True, np.diff(occurrences.question[order]) != 0])
    before = np.repeat(running[begins] - negative[begins], np.diff(np.r_[begins, len(order)]))
    ranks = np.empty(len(order), np.int32)
    ranks[order] = running - before
    return ranks


def _lowest_positive(occurrences: PassageOccurrences) -> np.ndarray:
    """Return for each passage in a row the lowest score among its question's positives, which `mine_hard_negatives`
    compares with too.
    """
    lowest = np.full(int(occurrences.question.max(initial=-1)) + 1, np.inf, np.float32)
    scored = occurrences.positive & np.isfinite(occurrences.score)
    np.minimum.at(lowest, occurrences.question[scored], occurrences.score[scored])
    lowest[np.isinf(lowest)] = np.nan
    result: np.ndarray = lowest[occurrences.question]
    return result
