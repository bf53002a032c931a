"""How often intervals cover the truth: `python -m benchmarks.coverage`.

The grid has n from 10 to 1,000, rates from 2 to 98%, discordance from 2 to 50%, and groups equal and skewed. A cell is the
mean over its rates: a score interval covers less than it says at some single rates and more at others (Brown, Cai and
DasGupta 2001). The aim is at least 93% in every cell. "bootstrap" is the percentile bootstrap of questions, which these
intervals replaced.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.crossed import crossed_mean
from blindspot.analysis.intervals import Interval, mean_interval
from blindspot.analysis.judge_quality import JudgedPairs, auc_interval
from blindspot.analysis.significance import sign_flip
from blindspot.analysis.slices import find_departing_slices

SEED = 20_261
AIM = 0.93
SIZES = (10, 20, 50, 100, 300, 1000)
RATES = (0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98)
RANKS = 1 / np.arange(1, 11)
RESAMPLES = 400

Draw = Callable[[np.random.Generator], tuple[np.ndarray, "np.ndarray | None", "np.ndarray | None"]]
"""Draw (values, units, groups) of one study."""


@dataclass(frozen=True)
class Case:
    """What a cell simulates at one rate: studies with a known truth."""

    draw: Draw
    truth: float
    signed: bool = False


@dataclass(frozen=True)
class CoverageCell:
    """A line of the table. mean, lowest: coverage as a mean over the rates, and at the worst one. width: of the intervals.
    bootstrap: coverage of the interval before: the percentile bootstrap, and for seeds the pooled one.
    """

    name: str
    mean: float
    lowest: float
    width: float
    bootstrap: float | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300, help="studies at each rate")
    options = parser.parse_args()
    print(f"{'cell':<58} {'mean':>6} {'worst':>6} {'width':>6} {'bootstrap':>9}")
    below = []
    for cell in grid(options.rounds):
        peer = "" if cell.bootstrap is None else f"{cell.bootstrap:.3f}"
        print(f"{cell.name:<58} {cell.mean:>6.3f} {cell.lowest:>6.3f} {cell.width:>6.3f} {peer:>9}", flush=True)
        below += [cell.name] * (cell.mean < AIM)
    print(f"below {AIM:.0%}: {', '.join(below) or 'none'}")


def grid(rounds: int) -> Iterator[CoverageCell]:
    """Yield every cell."""
    for n in SIZES:
        yield of_cases(f"share, n {n}", [shares(n, rate) for rate in RATES], rounds)
    for n in SIZES:
        for discordance in (0.02, 0.05, 0.1, 0.2, 0.5):
            cases = [paired(n, discordance, ahead) for ahead in (0.5, 0.6, 0.75, 0.9, 1.0)]
            yield of_cases(f"paired difference, n {n}, discordance {discordance:.0%}", cases, rounds)
    for n in SIZES:
        for even in (True, False):
            cases = [ranks(n, rate, even) for rate in RATES]
            yield of_cases(f"MRR, n {n}, ranks {'even' if even else 'mostly 1'}", cases, rounds)
        yield of_cases(f"nDCG, n {n}", [gains(n, rate) for rate in RATES], rounds)
        yield of_cases(f"MRR difference, n {n}", [rank_differences(n, rate) for rate in (0.02, 0.1, 0.3, 0.6)], rounds)
    for sizes in ((2,) * 20, (5,) * 24, (50,) * 5, (1, 3, 10, 30, 100, 300), (1,) * 10 + (20,) * 10, (1, 300)):
        for kind in ("equal", "different"):
            cases = [macro(sizes, rate, kind == "different") for rate in RATES]
            name = f"macro, {len(sizes)} groups of {min(sizes)} to {max(sizes)}, {kind} rates"
            yield of_cases(name, cases, rounds)
    for size in (2, 5, 10):
        for correlation in (0.5, 1.0):
            for n_units in (30, 100, 300):
                name = f"{n_units} units of {size}, correlation {correlation}"
                yield of_cases(f"share, {name}", [grouped(n_units, size, correlation, rate) for rate in RATES], rounds)
                cases = [
                    grouped_pairs(n_units, size, correlation, rate, ahead)
                    for rate in (0.02, 0.1, 0.5)
                    for ahead in (0.5, 0.75)
                ]
                yield of_cases(f"difference, {name}", cases, rounds)
    for n in SIZES:
        for size in (1, 5):
            yield areas(n, size, rounds)
    for seeds in (2, 3, 5):
        for n in (30, 300):
            for signed in (False, True):
                yield crossed(seeds, n, signed, rounds)


def of_cases(name: str, cases: Iterable[Case], rounds: int) -> CoverageCell:
    rng = np.random.default_rng(SEED)
    covered, widths, boot = [], [], []
    for case in cases:
        made = [case.draw(rng) for _ in range(rounds)]
        found = [mean_interval(*each, is_signed=case.signed) for each in made]
        covered.append(np.mean([each.low <= case.truth <= each.high for each in found]))
        widths.append(np.mean([each.high - each.low for each in found]))
        peers = [bootstrap(values, groups, rng) for values, _, groups in made[: max(rounds // 20, 1)]]
        boot.append(np.mean([low <= case.truth <= high for low, high in peers]))
    return CoverageCell(
        name, *(float(each) for each in (np.mean(covered), min(covered), np.mean(widths), np.mean(boot)))
    )


def bootstrap(values: np.ndarray, groups: np.ndarray | None, rng: np.random.Generator) -> tuple[float, float]:
    """Return the percentile bootstrap interval that resamples questions, within groups if there are any."""
    groups = np.zeros(len(values), np.int64) if groups is None else groups
    names = np.unique(groups)
    means = np.zeros(RESAMPLES)
    for name in names:
        rows = np.flatnonzero(groups == name)
        distinct, counts = np.unique(values[rows], return_counts=True)
        drawn = rng.multinomial(len(rows), counts / len(rows), RESAMPLES)
        means += drawn @ distinct / len(rows) / len(names)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low) - 1e-12, float(high) + 1e-12


def shares(n: int, rate: float) -> Case:
    return Case(lambda rng: (rng.random(n) < rate, None, None), rate)


def paired(n: int, discordance: float, ahead: float) -> Case:
    """Differences of success: `discordance` is the share that is not 0, `ahead` that of 1 among these."""
    chances = [discordance * ahead, 1 - discordance, discordance * (1 - ahead)]

    def draw(rng):
        return (rng.choice([1.0, 0.0, -1.0], n, p=chances), None, None)

    return Case(draw, discordance * (2 * ahead - 1), True)


def ranks(n: int, rate: float, even: bool) -> Case:
    """Reciprocal ranks of questions of which the share `rate` has a hit."""
    chances = np.full(10, 0.1) if even else np.array([0.4, 0.15, 0.1, 0.08, 0.07, 0.06, 0.05, 0.04, 0.03, 0.02])

    def draw(rng):
        return (np.where(rng.random(n) < rate, rng.choice(RANKS, n, p=chances), 0.0), None, None)

    return Case(draw, float(rate * RANKS @ chances))


def gains(n: int, rate: float) -> Case:
    """nDCG: continuous values of questions of which the share `rate` has a hit."""
    return Case(lambda rng: (np.where(rng.random(n) < rate, rng.beta(2, 2, n), 0.0), None, None), rate / 2)


def rank_differences(n: int, rate: float) -> Case:
    def draw(rng: np.random.Generator):
        differences = rng.choice(RANKS, n) - 0.8 * rng.choice(RANKS, n)
        return np.where(rng.random(n) < rate, differences, 0.0), None, None

    return Case(draw, float(0.2 * rate * RANKS.mean()), True)


def macro(sizes: tuple[int, ...], rate: float, different: bool) -> Case:
    """Success of questions of groups; with different rates they lie around `rate`, the larger the group the higher."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    spread = 0.8 * min(rate, 1 - rate) if different else 0.0
    rates = rate + spread * np.linspace(-1, 1, len(sizes))
    return Case(lambda rng: (rng.random(len(groups)) < rates[groups], None, groups), float(rates.mean()))


def grouped(n_units: int, size: int, correlation: float, rate: float) -> Case:
    return Case(
        lambda rng: (*_together(rng, lambda shape: rng.random(shape) < rate, n_units, size, correlation), None), rate
    )


def grouped_pairs(n_units: int, size: int, correlation: float, discordance: float, ahead: float) -> Case:
    chances = [discordance * ahead, 1 - discordance, discordance * (1 - ahead)]

    def draw(rng: np.random.Generator):
        def one(shape):
            return rng.choice([1.0, 0.0, -1.0], shape, p=chances)

        return *_together(rng, one, n_units, size, correlation), None

    return Case(draw, discordance * (2 * ahead - 1), True)


def _together(rng: np.random.Generator, one: Callable, n_units: int, size: int, correlation: float):
    """Draw values of units whose questions have this correlation: each takes the unit's value or one of its own."""
    shared = rng.random((n_units, size)) < np.sqrt(correlation)
    values = np.where(shared, one((n_units, 1)), one((n_units, size)))
    return values.ravel().astype(float), np.repeat(np.arange(n_units), size)


def areas(n: int, size: int, rounds: int) -> CoverageCell:
    """AUC of n pairs, in units of `size` pairs whose scores are correlated, from 0.5 to 0.99."""
    from scipy.special import ndtri

    rng, covered, widths = np.random.default_rng(SEED), [], []
    for auc in (0.5, 0.7, 0.9, 0.95, 0.99):
        hits = []
        for _ in range(rounds):
            units = np.repeat(np.arange(max(n // size, 2)), size)
            positive = rng.random(len(units)) < rng.choice([0.1, 0.3, 0.5])
            noise = np.sqrt(0.4) * rng.normal(size=len(units))[units] + np.sqrt(0.6) * rng.normal(size=len(units))
            scores = (noise if size > 1 else rng.normal(size=len(units))) + np.sqrt(2) * ndtri(auc) * positive
            labels = np.where(positive, "positive", "negative")
            low, high = auc_interval(JudgedPairs(scores, labels, units, np.ones(len(units))))
            if low is not None and high is not None:
                hits.append((low <= auc <= high, high - low))
        covered.append(np.mean([inside for inside, _ in hits]))
        widths.append(np.mean([width for _, width in hits]))
    return CoverageCell(
        f"AUC, {n} pairs in units of {size}", float(np.mean(covered)), min(covered), float(np.mean(widths))
    )


def crossed(seeds: int, n: int, signed: bool, rounds: int) -> CoverageCell:
    """Success, or a difference of success, of trainings whose seeds vary by 0, 3 and 6 points."""
    rng, covered, widths, former = np.random.default_rng(SEED), [], [], []
    for rate in (0.5, 0.8, 0.95, 0.98):
        for spread in (0.0, 0.03, 0.06):
            spread = min(spread, (1 - rate) / 2)
            hits = []
            for _ in range(rounds):
                ease = rng.choice([-1, 1], n) * (1 - rate) / 2  # questions differ, with the same mean
                runs = []
                for _ in range(1 + signed):
                    of_seed = rng.choice([-1, 1], (seeds, 1)) * spread
                    runs.append((rng.random((seeds, n)) < rate + ease + of_seed).astype(float))
                values = runs[0] - runs[1] if signed else runs[0]
                found = crossed_mean(values, is_signed=signed)
                truth = 0.0 if signed else rate
                assert found.low is not None and found.high is not None, "bounded"
                hits.append((found.low <= truth <= found.high, found.high - found.low))
                former.append(abs(values.mean() - truth) <= pooled(values) + 1e-12)
            covered.append(np.mean([inside for inside, _ in hits]))
            widths.append(np.mean([width for _, width in hits]))
    name = f"{'difference' if signed else 'share'}, {seeds} seeds x {n} questions"
    return CoverageCell(name, float(np.mean(covered)), min(covered), float(np.mean(widths)), float(np.mean(former)))


def pooled(values: np.ndarray) -> float:
    """Return half the interval of (s, q) values that pools the variances of seeds and questions, with Satterthwaite's
    degrees of freedom.
    """
    from scipy.special import stdtrit

    freedoms = np.array([len(values) - 1, values.shape[1] - 1])
    squares = np.array([values.mean(axis=1).var(ddof=1), values.mean(axis=0).var(ddof=1)]) / values.shape
    total = squares.sum()
    if total <= 0:
        return 0.0
    return float(stdtrit(total**2 / (squares**2 / freedoms).sum(), 0.975) * np.sqrt(total))


def swapped(
    differences: np.ndarray,
    facts: np.ndarray,
    units: np.ndarray,
    slices: tuple[np.ndarray, list[str]],
    studies: int,
) -> tuple[int, int, int]:
    """Return in how many studies the paired test and the finder reject, and the interval of the difference covers 0.

    Args:
        facts: (q,) by which the signs are swapped. units: (q,) by which tests count. slices: predicates and families.
    """
    rng = np.random.default_rng(SEED)
    rejected = listed = covered = 0
    for study in range(studies):
        values = differences * rng.choice([-1.0, 1.0], facts.max() + 1)[facts]
        rejected += sign_flip(values, units, 2000, study) <= 0.05
        listed += bool(find_departing_slices(values, *slices, units=units).findings)
        made: Interval = mean_interval(values, units, is_signed=True)
        covered += made.low <= 0 <= made.high
    return rejected, listed, covered


def upper_bound(count: int, n: int) -> float:
    """Return the upper end of the exact two-sided 95% interval of a share (Clopper and Pearson 1934)."""
    from statsmodels.stats.proportion import proportion_confint

    return float(proportion_confint(count, n, method="beta")[1])


if __name__ == "__main__":
    main()
