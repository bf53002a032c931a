"""The peer of certificates: the simple random sample, of a size fixed in advance, whose hypergeometric bound meets the target."""

from __future__ import annotations

from blindspot.analysis.intervals import LEVEL

_EQUAL = 1e-12  # slack for rounding in the distribution function


def hypergeometric_upper(hits: int, n: int, population: int, level: float = LEVEL) -> int:
    """Return the largest number of hits in the population that the sample does not reject (one-sided).

    That is the largest M with P(at most `hits` hits in a simple random sample of n | M) > 1 - level.

    Raises ValueError for counts that do not fit each other.
    """
    from scipy.stats import hypergeom

    if not 0 <= hits <= n <= population:
        raise ValueError(f"{hits} hits in {n} of {population} pairs cannot be")
    low, high = hits, population - (n - hits)
    while low < high:
        middle = (low + high + 1) // 2
        kept = hypergeom.cdf(hits, population, middle, n) > 1 - level + _EQUAL
        low, high = (middle, high) if kept else (low, middle - 1)
    return low


def sample_size_alone(rate: float, target: float, population: int, power: float = 0.8, level: float = LEVEL) -> int:
    """Return the size of the smallest simple random sample that certifies the target with this power.

    The sample certifies it if the hypergeometric bound is at most the target once the found hits are taken out of the
    set. Returns the population if nothing less is enough.
    """
    from scipy.stats import hypergeom

    total = round(rate * population)

    def enough(n: int) -> bool:
        allowed = _most_hits(n, target, population, level)
        return allowed >= 0 and float(hypergeom.cdf(allowed, population, total, n)) >= power

    low, high = 1, population
    if not enough(high):
        return population
    while low < high:  # the power rises with n, but for small steps
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def _most_hits(n: int, target: float, population: int, level: float) -> int:
    """Return the most hits in a sample of n with which the bound meets the target; -1 if none does."""

    def meets(hits: int) -> bool:
        left = hypergeometric_upper(hits, n, population, level) - hits
        return left <= target * (population - hits)

    if not meets(0):
        return -1
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if meets(middle) else (low, middle - 1)
    return low
