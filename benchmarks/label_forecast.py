"""Do forecasts of labels hold? The share of realised changes inside the forecast's 90% interval, by use.

    python -m benchmarks.label_forecast --prior FOLDER [--study DIR]

FOLDER holds the encyclopedias of `benchmarks.reranker_prior`, seeds 1 to 10. DIR is a study as for `benchmarks.reranker`,
and is measured instead: ten subsets of its training questions, seeds 1 to 10; dev is not touched. A pilot of 10 or 40
judged questions makes the forecast, measured on half of the other questions. The truth then gives the next 50, 100 and
300 labels, 8 a question; the other half measures what they changed. FOLDER keeps each outcome, so an interrupted call
resumes.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from blindspot.analysis.forecast_intervals import Forecast, count_forecast, half_width_forecast, step_forecast
from blindspot.analysis.intervals import wilson
from blindspot.backend.judges.feature_model import NEGATIVE, POSITIVE
from blindspot.backend.judges.lists import Lists
from blindspot.backend.training.forecast_steps import (
    CLEANING_PRIOR,
    LABELS,
    LEARNING_PRIOR,
    PAIRS_PER_QUESTION,
    StepLists,
    cleaning_steps,
    learning_steps,
)
from blindspot.db.records import Question

PILOTS = (10, 40)
NOISY = 100  # training questions whose lists cleaning mends
WRONG_GOLD = 0.1  # share of gold that is planted as wrong
SUBSET = 600
Outcome = tuple[str, Forecast, float]


def collections(prior: Path, study: Path | None) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield (name, features (q, k, f), truth (q, k)) of ten collections."""
    if study is None:
        from benchmarks.reranker_prior import SEEDS, encyclopedia_features

        for seed in SEEDS:
            arrays = encyclopedia_features(prior, 1000, seed)
            yield f"encyclopedia {seed}", arrays["features"], arrays["truth"]
        return
    from benchmarks.reranker import Bench

    _, features, gold, _ = Bench(study).usable
    for seed in range(1, 11):
        places = np.random.default_rng(seed).permutation(len(features))[:SUBSET]
        yield f"subset {seed}", features[places], gold[places]


def outcomes(features: np.ndarray, right: np.ndarray, pilot: int, seed: int) -> Iterator[Outcome]:
    """Yield (use and labels, forecast, what was realised)."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.flatnonzero(right.any(axis=1)))
    most = pilot + -(-LABELS[-1] // PAIRS_PER_QUESTION)
    train, rest = order[: max(most, NOISY)], order[max(most, NOISY) :]
    here, there = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    truth = np.where(right, POSITIVE, NEGATIVE).astype(np.int8)
    # Noisy: one positive of each question is gold, and the others count as negatives.
    one = np.zeros(right.shape, bool)
    for i in range(len(right)):
        if right[i].any():
            one[i, rng.choice(np.flatnonzero(right[i]))] = True
    noisy = np.where(one, POSITIVE, NEGATIVE).astype(np.int8)

    def lists(places: np.ndarray, measure: np.ndarray) -> StepLists:
        questions = [Question(str(i), "") for i in places]
        rows = np.where(np.isnan(features[places][:, :, 1]), -1, 0).astype(np.int32)
        empty = Lists(questions, rows, np.zeros(rows.shape, np.float32))
        return StepLists(
            empty,
            features[places],
            np.zeros(rows.shape, bool),
            truth[places],
            noisy[places],
            features[rest],
            features[measure],
            right[measure],
        )

    pilot_lists, after = lists(train[:pilot], here), lists(train, there)
    steps = learning_steps(pilot_lists, seed)
    first = after.first_hit_is_relevant(np.arange(pilot), after.truth)
    for more in LABELS:
        n = -(-more // PAIRS_PER_QUESTION)
        found = after.first_hit_is_relevant(np.arange(pilot + n), after.truth)
        expected = step_forecast(steps, float(np.log2((pilot + n) / pilot)), LEARNING_PRIOR)
        yield f"reranker, {more}", expected, float(found.mean() - first.mean())
    cleaned = np.where(np.arange(len(train))[:, None] < pilot, truth[train], noisy[train])
    mended = replace(lists(train[:NOISY], here), truth=cleaned[:NOISY])
    steps = cleaning_steps(mended, np.arange(pilot), seed)
    places = np.arange(NOISY)
    first = after.first_hit_is_relevant(places, cleaned)
    for more in LABELS:
        n = min(-(-more // PAIRS_PER_QUESTION), NOISY - pilot)
        now = np.where(np.arange(len(train))[:, None] < pilot + n, truth[train], noisy[train])
        found = after.first_hit_is_relevant(places, now)
        yield (
            f"cleaning, reranker, {more}",
            step_forecast(steps, n / pilot, CLEANING_PRIOR),
            float(found.mean() - first.mean()),
        )
    hits = right[rng.permutation(order)[:, None], 0].ravel()
    wrong = rng.random(len(order) * 4) < WRONG_GOLD
    for more in LABELS:
        n = -(-more // PAIRS_PER_QUESTION)
        expected = half_width_forecast(hits[:pilot], n)
        low, high = wilson(int(hits[: pilot + n].sum()), pilot + n)
        yield f"evaluation, {more}", expected, ((high or 0) - (low or 0)) / 2
        judged = min(30, len(wrong) - more)
        yield (
            f"doubtful gold, {more}",
            count_forecast(int(wrong[:judged].sum()), judged, more),
            float(wrong[judged : judged + more].sum()),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prior", type=Path, required=True)
    parser.add_argument("--study", type=Path)
    arguments = parser.parse_args()
    inside: dict[str, list[tuple[Forecast, float]]] = defaultdict(list)
    for number, (name, features, truth) in enumerate(collections(arguments.prior, arguments.study), 1):
        for pilot in PILOTS:
            kept = arguments.prior / f"forecast-{name.replace(' ', '-')}-{pilot}.json"
            if not kept.is_file():
                found = [
                    (use, asdict(f), realised)
                    for use, f, realised in outcomes(features, truth, pilot, 100 * number + pilot)
                ]
                kept.write_text(json.dumps(found), encoding="utf-8")
            for use, forecast, realised in json.loads(kept.read_text(encoding="utf-8")):
                inside[use].append((Forecast(**forecast), realised))
    print(
        "| use, labels | inside the interval | n | forecast, mean | width, mean | realised, mean |\n|---|---|---|---|---|---|"
    )
    totals: dict[str, list[bool]] = defaultdict(list)
    for use, cases in sorted(inside.items()):
        held = [f.low - 1e-9 <= realised <= f.high + 1e-9 for f, realised in cases]
        totals[use.rsplit(",", 1)[0]] += held
        scale = 1 if use.startswith("doubtful") else 100
        means = [
            scale * float(np.mean(each))
            for each in ([f.value for f, _ in cases], [f.high - f.low for f, _ in cases], [r for _, r in cases])
        ]
        print(
            f"| {use} | {100 * np.mean(held):.0f}% | {len(held)} | "
            + " | ".join(f"{each:.1f}" for each in means)
            + " |"
        )
    for use, held in totals.items():
        print(f"| **{use}** | **{100 * np.mean(held):.0f}%** | {len(held)} | | | |")


if __name__ == "__main__":
    main()
