"""Disagreements of several judges on the same (question, passage) pairs, counted by rank.

The counts are not estimates: judged pairs are seldom a random sample of the retrieved passages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

YES, NO, SILENT = 1, 0, -1
"""A judge's verdict on a pair: yes, no, or no verdict."""
SPANS = ((1, 1), (2, 5), (6, 20), (21, 100))
"""The first and the last rank of each range."""
Pattern = tuple[int, ...]
"""The verdict of each judge, YES or NO."""


@dataclass(frozen=True, slots=True)
class Disagreements:
    """The number of pairs with each pattern of verdicts, by range of ranks.

    Attributes:
        counts: (spans, patterns) int64, pairs on which every judge gave a verdict.
        silent: (spans,) int64, the other pairs.
    """

    spans: tuple[tuple[int, int], ...]
    patterns: tuple[Pattern, ...]
    counts: np.ndarray
    silent: np.ndarray


def patterns(judges: int) -> tuple[Pattern, ...]:
    """Return all patterns of verdicts: first those in which all judges agree, then those in which only the first judge
    differs, then only the second, and so on. Within each kind, yes comes before no.

    With two judges, each disagreement appears once, under the judge who says yes.
    """
    agreed = [(YES,) * judges, (NO,) * judges]
    alone = [
        tuple(opinion if place == judge else 1 - opinion for place in range(judges))
        for judge in range(judges)
        for opinion in (YES, NO)
    ]
    return tuple(dict.fromkeys([*agreed, *alone, *product((YES, NO), repeat=judges)]))


def tabulate(ranks: np.ndarray, verdicts: np.ndarray, spans: Sequence[tuple[int, int]] = SPANS) -> Disagreements:
    """
    Args:
        ranks: (n,) from 1; pairs outside all spans are left out.
        verdicts: (judges, n) of YES, NO and SILENT.

    Raises:
        ValueError: the shapes do not fit, or a verdict is invalid.
    """
    ranks, verdicts = np.asarray(ranks), np.asarray(verdicts)
    if verdicts.ndim != 2 or ranks.shape != verdicts.shape[1:]:
        raise ValueError(f"ranks {ranks.shape} do not fit the verdicts {verdicts.shape}: (n,) and (judges, n)")
    if not np.isin(verdicts, (YES, NO, SILENT)).all():
        raise ValueError("a verdict must be 1 (yes), 0 (no) or -1 (no verdict)")
    every = patterns(len(verdicts))
    inside = [(ranks >= first) & (ranks <= last) for first, last in spans]
    counts = np.array(
        [[int((within & pairs_with_pattern(verdicts, pattern)).sum()) for pattern in every] for within in inside],
        np.int64,
    )
    silent = np.array([int((within & (verdicts == SILENT).any(0)).sum()) for within in inside], np.int64)
    return Disagreements(tuple(spans), every, counts.reshape(len(inside), len(every)), silent)


def pairs_with_pattern(verdicts: np.ndarray, pattern: Pattern) -> np.ndarray:
    """Return the pairs on which the judges gave exactly this pattern. (n,) bool."""
    matches: np.ndarray = (verdicts == np.array(pattern)[:, None]).all(0)
    return matches


def pairs_in_cell(ranks: np.ndarray, verdicts: np.ndarray, span: tuple[int, int], pattern: Pattern) -> np.ndarray:
    """Return the positions of the pairs of a cell, ordered by rank; equal ranks keep the order of the input. (m,)
    int64.
    """
    first, last = span
    places = np.flatnonzero((ranks >= first) & (ranks <= last) & pairs_with_pattern(verdicts, pattern))
    return places[np.argsort(ranks[places], kind="stable")]


def weights_by_rank(ranks: np.ndarray, retrieved: np.ndarray, spans: Sequence[tuple[int, int]] = SPANS) -> np.ndarray:
    """Return for each judged pair the share of its range of ranks that was judged, (n,) float64: the probability that
    `blindspot.analysis.audit.rate` divides by, so that each range counts as much as the run retrieved in it.

    Within a range the judged pairs stand for the others, which holds if they were drawn at random there.

    Args:
        ranks: (n,) from 1, of the judged pairs. retrieved: (depth,) number of passages that the run has at each rank.
    """
    ranks, shares = np.asarray(ranks), np.ones(len(ranks))
    for first, last in spans:
        inside = (ranks >= first) & (ranks <= last)
        if inside.any():
            shares[inside] = min(1.0, inside.sum() / max(int(np.sum(retrieved[first - 1 : last])), 1))
    return shares
