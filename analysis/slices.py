"""Which groups of questions explain the difference between two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.significance import benjamini_yekutieli, holm

MIN_QUESTIONS = 30
MOST_CELLS = 10_000
SAME = 0.8  # two slices that share this part of their questions (Jaccard) are one finding
Correction = Literal["holm", "benjamini-yekutieli"]
CORRECTIONS = {"holm": holm, "benjamini-yekutieli": benjamini_yekutieli}


@dataclass(frozen=True, slots=True)
class Finding:
    """A slice in which the difference between two runs is not what it is elsewhere.

    members: one or two positions in the list of predicates.
    n: its questions. inside, outside: mean difference (A less B) among them and among all others.
    explained: how far the slice moves the difference over all questions from what the rest has, in the same unit:
        n / N x (inside - outside).
    p: of the permutation test that any n questions could as well be the slice; p_adjusted after correction for every slice tried.
    """

    members: tuple[int, ...]
    n: int
    inside: float
    outside: float
    explained: float
    p: float
    p_adjusted: float


@dataclass(frozen=True, slots=True)
class Search:
    """What the finder found, strongest first, and out of how many slices that were tried."""

    findings: list[Finding]
    tried: int
    n: int
    mean: float


def find(
    differences: np.ndarray,
    predicates: np.ndarray,
    families: Sequence[str] | None = None,
    most: int = 20,
    level: float = 0.05,
    correction: Correction = "holm",
    least: int = MIN_QUESTIONS,
) -> Search:
    """The slices (single predicates, and pairs of them) that explain most of a difference.

    Every slice with at least `least` questions inside and outside is tested. A pair is reported only where its difference is
    farther from that of all questions than each of its parts'. Of slices that are nearly the same questions the strongest stays.

    Args:
        differences: (q,) -1, 0 or 1: run A's success less run B's.
        predicates: (p, q) bool, which questions each predicate holds for.
        families: (p,) predicates of one family are not paired (two relations share no question).
        most: findings at most.

    Raises: ValueError for a correction that does not exist or shapes that do not fit.
    """
    differences, predicates = np.asarray(differences, np.float64), np.asarray(predicates, bool)
    if predicates.ndim != 2 or predicates.shape[1] != len(differences):
        raise ValueError(f"predicates {predicates.shape} do not fit {len(differences)} questions")
    if correction not in CORRECTIONS:
        raise ValueError(f"a correction is {' or '.join(CORRECTIONS)}, not {correction!r}")
    if not np.isin(differences, (-1, 0, 1)).all():
        raise ValueError("differences of success are -1, 0 or 1")
    total, n_all = float(differences.sum()), len(differences)
    mean = total / n_all if n_all else 0.0
    counts, sums = _moments(differences, predicates)
    tried = (counts >= least) & (n_all - counts >= least)
    tried &= np.triu(np.ones_like(tried))
    if families is not None:
        same = np.asarray(families)[:, None] == np.asarray(families)[None, :]
        tried &= ~same | np.eye(len(predicates), dtype=bool)
    first, second = np.nonzero(tried)
    if not len(first):
        return Search([], 0, n_all, mean)
    n, inside_sum = counts[first, second], sums[first, second]
    inside, outside = inside_sum / n, (total - inside_sum) / (n_all - n)
    p = _permutation(n, inside_sum, int((differences > 0).sum()), int((differences < 0).sum()), n_all, level)
    adjusted = CORRECTIONS[correction](p)
    explained = n / n_all * (inside - outside)
    alone = (
        np.divide(np.diag(sums), np.diag(counts), out=np.full(len(predicates), mean), where=np.diag(counts) > 0) - mean
    )
    single = first == second
    farther = np.abs(inside - mean) > np.maximum(np.abs(alone[first]), np.abs(alone[second])) + 1e-12
    good = np.flatnonzero((adjusted <= level) & (single | farther))
    order = good[np.argsort(-np.abs(explained[good]), kind="stable")]
    findings: list[Finding] = []
    masks: list[np.ndarray] = []
    for i in order.tolist():
        a, b = int(first[i]), int(second[i])
        mask = predicates[a] & predicates[b]
        if any((mask & other).sum() > SAME * (mask | other).sum() for other in masks):
            continue
        masks.append(mask)
        members = (a,) if a == b else (a, b)
        figures = (float(each[i]) for each in (inside, outside, explained, p, adjusted))
        findings.append(Finding(members, int(n[i]), *figures))
        if len(findings) == most:
            break
    return Search(findings, len(first), n_all, mean)


def _moments(differences: np.ndarray, predicates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(p, p) each: questions, and sum of the differences, in every pair of predicates; singles on the diagonal."""
    held = predicates.astype(np.float64)
    return np.rint(held @ held.T).astype(np.int64), np.rint((held * differences) @ held.T)


def _permutation(n: np.ndarray, sums: np.ndarray, plus: int, minus: int, n_all: int, level: float) -> np.ndarray:
    """(m,) two-sided p that n questions drawn at random have a sum of differences as far from what is expected as the slice's.

    First the normal approximation with the exact variance of a draw without replacement; where that is at most `level` the exact
    tail, because few differences in a small slice are skewed. (A test that takes the spread from within the slice, as Welch's, calls
    it certain when a small slice happens to hold no difference at all.)
    """
    from scipy.special import ndtr

    mean = (plus - minus) / n_all
    spread = np.sqrt(n * ((plus + minus) / n_all - mean**2) * (n_all - n) / max(n_all - 1, 1))
    away = np.abs(sums - n * mean)
    p = 2 * ndtr(-np.divide(away, spread, out=np.zeros(len(n)), where=spread > 0))
    for i in np.flatnonzero(p <= level).tolist():
        p[i] = exact_tail(int(n[i]), float(away[i]), plus, minus, n_all, p[i])
    return np.minimum(p, 1.0)


def exact_tail(
    n: int, away: float, plus: int, minus: int, n_all: int, otherwise: float = np.nan, cells: int = MOST_CELLS
) -> float:
    """P(|S - E S| >= away), S the sum of n draws without replacement from `plus` ones, `minus` minus ones and zeros.

    (Ones, minus ones) of the draw follow the multivariate hypergeometric distribution; its cells within 8 standard deviations are
    summed. `otherwise` is given where they are more than `cells`: n is then so large that the normal approximation serves.
    """
    from scipy.special import gammaln

    ones, less = (_window(n, count, n_all) for count in (plus, minus))
    if len(ones) * len(less) > cells:
        return otherwise
    x, y = ones[:, None].astype(np.float64), less[None, :].astype(np.float64)
    zeros = n_all - plus - minus
    rest = n - x - y
    possible = (rest >= 0) & (rest <= zeros)
    safe = np.where(possible, rest, 0)

    def choose(top: float, bottom: np.ndarray) -> np.ndarray:
        return gammaln(top + 1) - gammaln(bottom + 1) - gammaln(top - bottom + 1)

    log = choose(plus, x) + choose(minus, y) + choose(zeros, np.minimum(safe, zeros)) - choose(n_all, np.float64(n))
    far = np.abs(x - y - n * (plus - minus) / n_all) >= away - 1e-9
    return float(np.exp(log[possible & far]).sum())


def _window(n: int, count: int, n_all: int) -> np.ndarray:
    """The numbers of `count` marked questions that a draw of n may hold, within 8 standard deviations."""
    share = count / n_all
    reach = 8 * np.sqrt(n * share * (1 - share) * (n_all - n) / max(n_all - 1, 1)) + 1
    low, high = max(0, n - (n_all - count), int(n * share - reach)), min(n, count, int(n * share + reach) + 1)
    return np.arange(low, high + 1)
