"""The result of an experiment on strategies of judging: Success@k, the share of the gain, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.analysis.crossed import crossed_mean
from blindspot.analysis.intervals import compact

if TYPE_CHECKING:
    from blindspot.backend.experiments.label_strategies import StrategiesSpec

RESAMPLES = 2000
LEVEL = 0.95


def summary(
    asked: StrategiesSpec,
    about: Mapping[str, Any],
    outcomes: Mapping[tuple[str, int, int], np.ndarray],
    units: np.ndarray,
) -> dict[str, Any]:
    """Return the content of result.json. outcomes: (q,) bool by strategy, budget and seed. units: (q,) int, the unit of
    observation of each question.
    """

    def found(strategy: str, budget: int = 0) -> np.ndarray:
        return np.array([outcomes[strategy, budget, seed] for seed in asked.seeds], np.float64)

    none, everything = found("none"), found("all")
    rows = []
    for bound in asked.without_strategy[1:-1]:
        rows.append(_row(bound, 0, found(bound), (none, everything, None), units))
    for strategy in asked.strategies:
        for budget in asked.budgets:
            beside = found("random", budget) if "random" in asked.strategies and strategy != "random" else None
            rows.append(_row(strategy, budget, found(strategy, budget), (none, everything, beside), units))
    total = crossed_mean(everything - none, units, signed=True)
    assert total.low is not None
    return {
        "name": asked.name,
        "what": "label strategies",
        "k": asked.k,
        "split": asked.split,
        "seeds": list(asked.seeds),
        "depth": asked.depth,
        "generalise": asked.generalise,
        "answers_known": asked.answers_known,
        "right": asked.right,
        **about,
        "none": asdict(crossed_mean(none, units)),
        "all": asdict(crossed_mean(everything, units)),
        "total": asdict(total),
        "distinguishable": total.low > 0,
        "rows": rows,
    }


def _row(
    strategy: str,
    budget: int,
    found: np.ndarray,
    others: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    units: np.ndarray,
) -> dict[str, Any]:
    """Return the figures of a strategy. others: without labels, with all of them, and in random order."""
    none, everything, random = others
    return {
        "strategy": strategy,
        "pairs": budget,
        "success": asdict(crossed_mean(found, units)),
        "by_seed": found.mean(axis=1).tolist(),
        "gain": asdict(crossed_mean(found - none, units, signed=True)),
        "share": share_of_gain(found, none, everything, units),
        "over_random": None if random is None else asdict(crossed_mean(found - random, units, signed=True)),
    }


def share_of_gain(
    found: np.ndarray, none: np.ndarray, everything: np.ndarray, units: np.ndarray | None = None, seed: int = 0
) -> dict[str, Any]:
    """Return (found - none) / (everything - none) of means with a 95% bootstrap interval over seeds and units of questions.

    The interval is None if the total effect is not above zero in at least 97.5% of the resamples: then the ratio means
    nothing. All arrays: (s, q).
    """
    total = float((everything - none).mean())
    value = None if total <= 0 else float((found - none).mean()) / total
    rng = np.random.default_rng(seed)
    seeds = len(none)
    units = np.arange(none.shape[1]) if units is None else compact(units)
    n_units = int(units.max()) + 1
    ratios, positive = np.empty(RESAMPLES), 0
    for n in range(RESAMPLES):
        s = rng.integers(seeds, size=seeds)
        times = rng.multinomial(n_units, np.full(n_units, 1 / n_units))[units]
        part, whole = ((each - none)[s].mean(axis=0) @ times / times.sum() for each in (found, everything))
        positive += whole > 0
        ratios[n] = part / whole if whole > 0 else np.nan
    tail = (1 - LEVEL) / 2
    if value is None or positive < (1 - tail) * RESAMPLES:
        return {"value": value, "low": None, "high": None}
    low, high = np.nanquantile(ratios, [tail, 1 - tail])
    return {"value": value, "low": float(low), "high": float(high)}


def as_lines(result: Mapping[str, Any]) -> list[str]:
    """Format a result as lines for the terminal."""
    total = result["total"]
    lines = [
        f"Success@{result['k']}, %, {result['questions']:,} questions, seeds {', '.join(map(str, result['seeds']))}; "
        f"{result['pairs']:,} pairs at ranks 1 to {result['depth']}, {result['false_negatives']:,} of them false negatives",
        f"no labels: {_percent(result['none'])}; all {result['pairs']:,} pairs judged: {_percent(result['all'])}",
        f"gain of judging everything: {_points(total)}",
    ]
    if not result["distinguishable"]:
        lines.append("This gain cannot be told from noise, so shares of it mean little.")
    for row in result["rows"]:
        share = row["share"]
        part = "no share" if share["value"] is None else f"{share['value']:.0%} of the gain"
        interval = "" if share["low"] is None else f" ({share['low']:.0%} to {share['high']:.0%})"
        over = "" if row["over_random"] is None else f"; over random {_points(row['over_random'])}"
        lines.append(
            f"{row['strategy']:>8} {row['pairs']:>5,} pairs: {_percent(row['success'])}, {part}{interval}{over}"
        )
    judge = (
        "a judge learned from the labels decides on unjudged pairs"
        if result["generalise"]
        else "unjudged pairs are negatives"
    )
    return [
        *lines,
        f"Simulated annotator, right {result['right']:.0%} of the time; {judge}. 95% intervals over seeds and questions.",
    ]


def _percent(figure: Mapping[str, Any]) -> str:
    return f"{100 * figure['value']:.1f} ({100 * figure['low']:.1f} to {100 * figure['high']:.1f})"


def _points(figure: Mapping[str, Any]) -> str:
    return f"{100 * figure['value']:+.1f} points ({100 * figure['low']:+.1f} to {100 * figure['high']:+.1f})"
