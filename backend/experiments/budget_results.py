"""What an experiment on label budgets found: figures, the gain of the last labels, the verdict, in numbers and in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.accuracy import success_at
from analysis.buckets import bucket_group, bucket_order
from analysis.judged import corrected
from backend.core.manifest import read_manifest
from backend.core.runs import Run
from backend.experiments.gain import Gain, crossed_mean
from backend.judging.corrected import corrected_run

if TYPE_CHECKING:
    from backend.experiments.label_budget import Budget, LabelBudgetSpec


def measured(asked: LabelBudgetSpec, budgets: Sequence[Budget], cell: Callable[[Budget, int], Path]) -> dict[str, Any]:
    """Success@k of each budget, by the labels that held-out questions have now; the gain of the last labels; the verdict.

    Args:
        cell: the folder of what the retriever of a budget and a seed found.
    """
    found: dict[int, np.ndarray] = {}
    first = None
    for budget in budgets:
        rows = []
        for seed in asked.seeds:
            folder = cell(budget, seed)
            first = corrected_run(asked.study, Run(folder, read_manifest(folder)))
            rows.append(success_at(corrected(first.relevant, first.labels), asked.k))
        found[budget.share] = np.array(rows)
    groups = np.array([bucket_group(question.bucket, question.frequency) for question in first.questions])
    names = sorted(set(groups.tolist()), key=bucket_order)
    before, after = budgets[-2:]
    gain = Gain.of(before.labels, after.labels, found[before.share], found[after.share])
    verdict, sentence = gain.verdict(asked.worth)
    return {
        "name": asked.name, "k": asked.k, "split": asked.split, "policy": asked.policy, "seeds": list(asked.seeds),
        "relevance": first.kind, "last_event": first.last_event, "convention": convention(first.kind, asked),
        "budgets": [{**asdict(budget), "success": _figure(found[budget.share]), "by_seed": found[budget.share].mean(axis=1).tolist(),
                     "buckets": {name: _figure(found[budget.share][:, groups == name]) for name in names}} for budget in budgets],
        "gain": {"labels_before": before.labels, "labels_after": after.labels, **asdict(gain.difference)},
        "worth": asked.worth, "verdict": verdict, "sentence": sentence,
    }  # fmt: skip


def convention(kind: str, asked: LabelBudgetSpec) -> str:
    """How the figures were made, in words that stand beside them."""
    relevant = "a passage that holds an answer" if kind == "answers" else "gold"
    return (
        f"Success@{asked.k} over the questions of {asked.split}. Relevant is what people's labels say, else {relevant}. Labels count "
        "in the order they were given, one of each person for a pair. 95% intervals by t quantiles, over seeds and "
        "questions. That the next labels gain what the last did is assumed."
    )


def as_lines(result: Mapping[str, Any]) -> list[str]:
    """A result for the terminal."""
    lines = [
        f"Success@{result['k']}, %, by labels used ({len(result['seeds'])} seeds: {', '.join(map(str, result['seeds']))})"
    ]
    for budget in result["budgets"]:
        by_seed = ", ".join(f"{100 * value:.1f}" for value in budget["by_seed"])
        lines.append(
            f"{budget['share']:>4}% ({budget['labels']:,} labels): {_shown(budget['success'])}; by seed {by_seed}"
        )
        lines += [f"      {name}: {_shown(figure)}" for name, figure in budget["buckets"].items()]
    return [*lines, result["convention"], result["sentence"]]


def _shown(figure: Mapping[str, Any]) -> str:
    return f"{100 * figure['value']:.1f} ({100 * figure['low']:.1f} to {100 * figure['high']:.1f}, n = {figure['n']:,})"


def _figure(found: np.ndarray) -> dict[str, Any]:
    return asdict(crossed_mean(found))
