"""The result of a label-budget experiment: its figures, the gain of the last labels, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.analysis.accuracy import success_at
from blindspot.analysis.buckets import bucket_group, bucket_order
from blindspot.analysis.crossed import crossed_mean
from blindspot.analysis.judged import corrected
from blindspot.backend.core.manifest import read_manifest
from blindspot.backend.core.runs import Run
from blindspot.backend.core.units import counted_by, units_of
from blindspot.backend.experiments.gain import Gain
from blindspot.backend.judging.corrected import corrected_run

if TYPE_CHECKING:
    from blindspot.backend.experiments.label_budget import Budget, LabelBudgetSpec


def measured(asked: LabelBudgetSpec, budgets: Sequence[Budget], cell: Callable[[Budget, int], Path]) -> dict[str, Any]:
    """Return Success@k of each budget by the present labels of held-out questions, the gain of the last labels, and the
    verdict.

    Args:
        cell: returns the folder of a budget's and a seed's run.
    """
    figures: dict[int, np.ndarray] = {}
    first = None
    for budget in budgets:
        rows = []
        for seed in asked.settings.seeds:
            folder = cell(budget, seed)
            manifest = read_manifest(folder)
            assert manifest is not None, "every run of the experiment is finished"
            del manifest["questions"]  # those that trained; without it, the run counts its own
            first = corrected_run(asked.study, Run(folder, manifest))
            rows.append(success_at(corrected(first.relevant, first.labels), asked.settings.k))
        figures[budget.share] = np.array(rows)
    assert first is not None, "there are at least two budgets and a seed"
    groups = np.array([bucket_group(question.bucket, question.frequency) for question in first.questions])
    names = sorted(set(groups.tolist()), key=bucket_order)
    before, after = budgets[-2:]
    units = units_of(first.questions, asked.study.settings.unit)
    gain = Gain.of(before.labels, after.labels, figures[before.share], figures[after.share], units)
    verdict, sentence = gain.verdict(asked.settings.worth)
    return {
        "name": asked.name,
        "k": asked.settings.k,
        "split": asked.settings.split,
        "policy": asked.settings.policy,
        "seeds": list(asked.settings.seeds),
        "unit": units.name,
        "relevance": first.kind,
        "last_event": first.last_event,
        "convention": convention(first.kind, asked),
        "budgets": [
            {
                **asdict(budget),
                "success": _figure(figures[budget.share], units.codes),
                "by_seed": figures[budget.share].mean(axis=1).tolist(),
                "buckets": {
                    name: _figure(figures[budget.share][:, groups == name], units.codes[groups == name])
                    for name in names
                },
            }
            for budget in budgets
        ],
        "gain": {"labels_before": before.labels, "labels_after": after.labels, **asdict(gain.difference)},
        "worth": asked.settings.worth,
        "verdict": verdict,
        "sentence": sentence,
    }


def convention(kind: str, asked: LabelBudgetSpec) -> str:
    """Return the note on how the figures were computed."""
    relevant = "a passage that contains an answer" if kind == "answers" else "gold"
    return (
        f"Success@{asked.settings.k} over the questions of {asked.settings.split}. A passage is relevant by people's labels; without "
        f"a label, {relevant} is relevant. Labels count in the order in which people gave them, one label of each "
        "person for a pair. 95% intervals by t quantiles, over seeds and questions. The verdict assumes that the "
        "next labels gain as much as the last labels."
    )


def as_lines(result: Mapping[str, Any]) -> list[str]:
    """Format a result as lines for the terminal."""
    lines = [
        f"Success@{result['k']}, %, by labels used ({len(result['seeds'])} seeds: "
        f"{', '.join(map(str, result['seeds']))})"
    ]
    for budget in result["budgets"]:
        by_seed = ", ".join(f"{100 * value:.1f}" for value in budget["by_seed"])
        lines.append(
            f"{budget['share']:>4}% ({budget['labels']:,} labels): {_shown(budget['success'])}; by seed {by_seed}"
        )
        lines += [f"      {name}: {_shown(figure)}" for name, figure in budget["buckets"].items()]
    return [*lines, result["convention"], result["sentence"]]


def _shown(figure: Mapping[str, Any]) -> str:
    n = counted_by(figure["n"], figure.get("units"))
    return f"{100 * figure['value']:.1f} ({100 * figure['low']:.1f} to {100 * figure['high']:.1f}, {n})"


def _figure(found: np.ndarray, units: np.ndarray) -> dict[str, Any]:
    return asdict(crossed_mean(found, units))
