"""How many judged pairs give 90% of the gain of judging everything at ranks 1 to 10? On fresh generated encyclopedias.

    python -m benchmarks.label_budget --folder FOLDER [--seeds 9101,9102,9103,9104,9105]
    python -m benchmarks.label_budget --study DIR          # a copy of the study of the real data

Settings and rule stood in git before the first run on these seeds; encyclopedias 0, 1 and 2 served for development.

The rule. The gain is Success@1 of an adapter (a residual MLP over MiniLM's question vectors) trained with all labels,
less Success@1 of one trained with none. A share of the gain is pooled: the mean over encyclopedias and seeds of what a
budget adds, divided by the mean of the whole gain, with a bootstrap over encyclopedias, seeds and questions. The
target is met if the order "gain" with labels generalised reaches a share of 90% with at most 200 pairs. If the interval
of the whole gain contains 0, the ratio means nothing and nothing is met. Success@1, because Success@5 and @20 are above
88% and 98% before any training.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import machine
from blindspot.backend.core.study import Study
from blindspot.backend.experiments.label_strategies import label_strategies
from blindspot.backend.experiments.strategy_results import as_lines

FRESH = (9101, 9102, 9103, 9104, 9105)
PASSAGES, TRAIN_RUN, MINED = 3000, "bm25-train", 20
TARGET_SHARE, TARGET_PAIRS = 0.9, 200
RESAMPLES = 2000
COMMON: dict[str, Any] = {
    "split": "dev,test",
    "seeds": [0, 1, 2],
    "k": 1,
    "depth": 10,
    "right": 0.95,
    "batch": 25,
    "settings": {"kind": "mlp", "steps": 100, "batch": 64},
}
PARTS: dict[str, dict[str, Any]] = {
    "generalised": {"budgets": [50, 100, 200]},
    "labels-only": {"budgets": [200], "strategies": ["random", "gain"], "generalise": False},
    "answers-hidden": {"budgets": [200], "strategies": ["random", "gain"], "answers_known": False},
}
"""generalised: unjudged pairs as a judge of the labels says. labels-only: unjudged pairs are negatives. answers-hidden: as
generalised, for questions whose answers nobody knows."""
REAL: dict[str, Any] = {
    "split": "dev",
    "seeds": [0, 1, 2],
    "k": 20,
    "depth": 10,
    "right": 0.95,
    "batch": 25,
    "budgets": [50, 100, 200, 400],
    "settings": {"kind": "linear", "steps": 200, "batch": 256},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="folder of the encyclopedias; finished ones are used again")
    parser.add_argument("--seeds", default=",".join(map(str, FRESH)), help="seeds of the encyclopedias")
    parser.add_argument("--study", type=Path, help="measure on this study instead, with gold as the truth")
    options = parser.parse_args()
    print(machine())
    if options.study is not None:
        result = label_strategies(Study.open(options.study), "label-budget", TRAIN_RUN, **REAL, progress=_said())
        print("\n".join(as_lines(result)))
        return
    if options.folder is None:
        parser.error("give --folder or --study")
    studies = [prepared(options.folder, int(seed)) for seed in options.seeds.split(",")]
    for part, settings in PARTS.items():
        began = time.monotonic()
        for study in studies:
            truth = str(study.path("encyclopedia", "truth.jsonl"))
            label_strategies(study, part, TRAIN_RUN, truth=truth, **{**COMMON, **settings}, progress=_said())
        print(f"\n{part} ({time.monotonic() - began:,.0f} s)")
        print("\n".join(pooled_lines(studies, part)), flush=True)


def prepared(folder: Path, seed: int) -> Study:
    """Return the study of an encyclopedia with its training run and MiniLM's index."""
    from benchmarks.denoising.planted import prepared as indexed
    from blindspot.backend.retrieval import dense
    from blindspot.backend.retrieval.retrieve import retrieve

    study = indexed(folder / f"enc{seed}", PASSAGES, seed)
    if TRAIN_RUN not in study.runs():
        retrieve(study, "bm25", split="train", k=MINED, name=TRAIN_RUN)
    if "minilm" not in study.parts("indexes"):
        dense.build_index(study, "minilm")
    return study


def pooled_lines(studies: list[Study], part: str) -> list[str]:
    """Return the pooled figures of a part, and the whole gain of each encyclopedia."""
    folders = [study.path("experiments", part) for study in studies]
    results = [json.loads((folder / "result.json").read_text(encoding="utf-8")) for folder in folders]
    lines = []
    for study, result in zip(studies, results, strict=True):
        lines.append(
            f"{study.folder.parent.name}: {result['pairs']:,} pairs, {result['false_negatives']:,} false negatives, "
            f"{result['questions']:,} questions; none {_percent(result['none'])}, all {_percent(result['all'])}, "
            f"gain {100 * result['total']['value']:+.1f}"
        )
    none, everything = _found(folders, results, "none", 0), _found(folders, results, "all", 0)
    total = [whole - nothing for whole, nothing in zip(everything, none, strict=True)]
    value, low, high, _ = pooled(total, total)
    lines.append(f"whole gain {100 * value:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})")
    for row in results[0]["rows"]:
        part_gain = [
            found - nothing
            for found, nothing in zip(_found(folders, results, row["strategy"], row["pairs"]), none, strict=True)
        ]
        value, low, high, ratio = pooled(part_gain, total)
        line = (
            f"{row['strategy']:>8} {row['pairs']:>4}: {100 * value:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})"
        )
        line += f", {ratio[0]:.0%} of the gain ({ratio[1]:.0%} to {ratio[2]:.0%})"
        if row["over_random"] is not None:
            random = _found(folders, results, "random", row["pairs"])
            found = _found(folders, results, row["strategy"], row["pairs"])
            over = [ours - theirs for ours, theirs in zip(found, random, strict=True)]
            value, low, high, _ = pooled(over, total)
            line += f"; over random {100 * value:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
        lines.append(line)
    return lines


def pooled(gains: list[np.ndarray], totals: list[np.ndarray]) -> tuple[float, float, float, tuple[float, float, float]]:
    """Return the mean over encyclopedias of gains (s, q), its interval, and its ratio to the totals with an interval.

    The bootstrap draws encyclopedias, then seeds, then questions.
    """
    rng = np.random.default_rng(0)
    parts, wholes = np.empty(RESAMPLES), np.empty(RESAMPLES)
    for n in range(RESAMPLES):
        part, whole = [], []
        for place in rng.integers(len(gains), size=len(gains)).tolist():
            gain, total = gains[place], totals[place]
            s, q = rng.integers(gain.shape[0], size=gain.shape[0]), rng.integers(gain.shape[1], size=gain.shape[1])
            part.append(gain[s][:, q].mean())
            whole.append(total[s][:, q].mean())
        parts[n], wholes[n] = np.mean(part), np.mean(whole)
    value, whole_value = (float(np.mean([each.mean() for each in arrays])) for arrays in (gains, totals))
    low, high = np.quantile(parts, [0.025, 0.975])
    ratios = np.divide(parts, wholes, out=np.full(RESAMPLES, np.nan), where=wholes > 0)
    ratio = (value / whole_value, *(float(each) for each in np.nanquantile(ratios, [0.025, 0.975])))
    return value, float(low), float(high), (ratio[0], ratio[1], ratio[2])


def _found(folders: list[Path], results: list[Mapping[str, Any]], strategy: str, pairs: int) -> list[np.ndarray]:
    """Return Success of each encyclopedia, (s, q) float64."""
    return [
        np.array([np.load(folder / f"{strategy}-{pairs}-{seed}.npy") for seed in result["seeds"]], np.float64)
        for folder, result in zip(folders, results, strict=True)
    ]


def _percent(figure: Mapping[str, Any]) -> str:
    return f"{100 * figure['value']:.1f}"


def _said() -> Any:
    last = [""]

    def say(done: int, total: int | None, doing: str, /) -> None:
        if ": " in doing and doing != last[0]:
            last[0] = doing
            print(f"\r{doing}", end="", flush=True)

    return say


if __name__ == "__main__":
    main()
