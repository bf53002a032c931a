"""Run an experiment: make its parts one after the other, compute the cells of its table, judge the paper's claims, and
store the result.

A killed or cancelled experiment is resumed with the same command: finished parts are kept, and an interrupted training
continues. Repeating the command of a finished experiment reads the stored result in `experiments/<experiment>-<hash>/`.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.analysis.accuracy import Estimate, proportion
from blindspot.analysis.crossed import crossed_mean
from blindspot.backend.core.declared import declared_settings
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import (
    atomic_folder,
    read_manifest,
    read_object,
    text_sha256,
    write_json,
    write_manifest,
)
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import units_of
from blindspot.backend.evaluation.comparison import SURE
from blindspot.backend.experiments.parts import Part
from blindspot.backend.experiments.plan import (
    MIN_SEEDS,
    NO_FINDING,
    Cell,
    Experiment,
    ExperimentPlan,
    Measure,
    Setting,
    overall_verdict,
)
from blindspot.backend.experiments.workbench import Workbench
from blindspot.backend.progress import Progress
from blindspot.db.errors import BadInput, Missing

RESULT = "result.json"


@job("experiment")
def run_experiment(
    study: Study,
    experiment: str,
    given: Mapping[str, Any] | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run an experiment (a job), and return the content of result.json.

    Args:
        experiment: a name of `blindspot.backend.experiments.papers.EXPERIMENTS`.
        given: fields of `Setting`, in JSON types.

    Raises:
        Missing: the experiment, or something that it needs, does not exist. BadInput: invalid settings.
        Refused: another experiment of this study is running.
    """
    chosen, bench = experiment_named(experiment), Workbench(study, device)
    setting = chosen.setting(hashable_options(given or {}))
    with study.lock_part("experiments"):
        began, plan = time.monotonic(), chosen.plan(setting, bench)
        parts = list(dict.fromkeys(all_parts(plan)))
        made_of = [chosen.name, asdict(setting), [bench.name(part) for part in parts], repr(plan.cells)]
        key = text_sha256(json.dumps(made_of, sort_keys=True))[:8]
        folder = study.path("experiments", f"{chosen.name}-{key}")
        if read_manifest(folder) is not None:
            return read_result(folder / RESULT)
        left_out = make_parts(parts, bench, progress)
        measured = measure_plan(chosen, setting, plan_without(plan, left_out), bench)
        measured["notes"] += dict.fromkeys(note for part in parts if (note := part.note(bench)))
        result = {"key": key, **measured, "seconds": round(time.monotonic() - began, 1)}
        with atomic_folder(folder) as building:
            write_json(building / RESULT, result)
            write_manifest(
                building,
                {
                    "kind": "experiment",
                    "what": chosen.name,
                    "name": folder.name,
                    "setting": result["setting"],
                    "corpus": study.corpus.digest,
                    "parts": {bench.name(part): part.title() for part in parts if part not in left_out},
                },
            )
    return read_result(folder / RESULT)


def make_parts(parts: Sequence[Part], bench: Workbench, progress: Progress | None) -> set[Part]:
    """Make the parts, each after the parts that it needs. Returns the parts that were left out, and all parts that need
    them.
    """
    waiting = {part: number for number, part in enumerate((p for p in parts if not p.finished(bench)), 1)}
    left_out: set[Part] = set()
    for part in parts:
        if part.left_out(bench) or not left_out.isdisjoint(part.needs()):
            left_out.add(part)
        elif part in waiting:
            which = f"part {waiting[part]} of {len(waiting)}: {part.title()}"
            bench.make(part, _prefixed_progress(progress, which))
    return left_out


def plan_without(plan: ExperimentPlan, left_out: set[Part]) -> ExperimentPlan:
    """Return the plan without the cells, claims and points that need a part that was left out, and add a note about
    them.
    """
    if not left_out:
        return plan
    cells = [
        cell
        for cell in plan.cells
        if all(left_out.isdisjoint(with_needs(part)) for measure in cell.measures for part in measure.needs())
    ]
    places = {(cell.row, cell.column) for cell in cells}
    rows = dict.fromkeys(cell.row for cell in plan.cells if (cell.row, cell.column) not in places)
    claims = [
        claim
        for claim in plan.claims
        if claim.expected_better in places and (claim.expected_worse is None or claim.expected_worse in places)
    ]
    plot = plan.plot and replace(
        plan.plot,
        series={name: [point for point in points if point[1:] in places] for name, points in plan.plot.series.items()},
    )
    notes = [
        *plan.notes,
        *(f"Row {row!r} is not trained, because its unlabelled questions add no positive." for row in rows),
    ]
    return replace(plan, cells=cells, claims=claims, plot=plot, notes=notes)


def experiment_named(experiment: str) -> Experiment:
    """Return the experiment of this name. Raises Missing for an unknown name."""
    from blindspot.backend.experiments.papers import EXPERIMENTS, INSTALLED, experiments

    if (installed := INSTALLED.find(experiment)) is not None:
        return installed
    if experiment not in EXPERIMENTS:
        raise Missing(f"unknown experiment {experiment!r}; known: {', '.join(experiments())}")
    module = importlib.import_module(f"blindspot.backend.experiments.papers.{experiment.replace('-', '_')}")
    return Experiment(
        experiment,
        EXPERIMENTS[experiment],
        module.plan,
        getattr(module, "TAKES", frozenset()),
        getattr(module, "DEFAULTS", {}),
    )


def read_result(path: Path) -> dict[str, Any]:
    """Read a stored result."""
    return read_object(path)


def all_parts(plan: ExperimentPlan) -> Iterator[Part]:
    """Yield every part that the plan's measures need, in an order in which they can be made."""
    for cell in plan.cells:
        for measure in cell.measures:
            for part in measure.needs():
                yield from with_needs(part)


def with_needs(part: Part) -> Iterator[Part]:
    for needed in part.needs():
        yield from with_needs(needed)
    yield part


def measure_plan(experiment: Experiment, setting: Setting, plan: ExperimentPlan, bench: Workbench) -> dict[str, Any]:
    """Return the content of result.json for a plan whose parts exist: its cells, its claims and the verdict."""
    values_by_measure: dict[Measure, np.ndarray] = {}

    def values(cell: Cell) -> np.ndarray:
        """Return the values of a cell, (seeds, items)."""
        for measure in cell.measures:
            if measure not in values_by_measure:
                values_by_measure[measure] = np.asarray(measure.values(bench), np.float64)
        return np.array([values_by_measure[measure] for measure in cell.measures])

    def units(cell: Cell) -> np.ndarray | None:
        """Return the unit of observation of each item, (items,) int; None if each item is its own unit."""
        asked = getattr(cell.measures[0], "questions", None)
        return None if asked is None else units_of(asked(bench), bench.settings.unit).codes

    places = {(cell.row, cell.column): cell for cell in plan.cells}
    level = 1 - SURE / max(1, len(plan.claims))
    claims = []
    for claim in plan.claims:
        ahead, behind = (
            places[claim.expected_better],
            places.get(claim.expected_worse) if claim.expected_worse else None,
        )
        trained = ahead.is_trained or behind is not None and behind.is_trained
        against = getattr(ahead.measures[0], "estimate_against", None)
        if behind is not None and against is not None:
            estimate = against(behind.measures[0], bench, level)
            claims.append(claim.judge_estimate(estimate, MIN_SEEDS, level))
        elif behind is not None:
            claims.append(claim.judge(values(ahead), values(behind), trained, level, units(ahead)))
        else:
            seeds = len(ahead.measures) if trained else MIN_SEEDS
            claims.append(
                claim.judge_estimate(_estimate(ahead, values(ahead), units(ahead), bench, level), seeds, level)
            )
    verdict = NO_FINDING if setting.small else overall_verdict([claim["word"] for claim in claims])
    return {
        "experiment": experiment.name,
        **experiment.about._asdict(),
        "setting": {**asdict(setting), "training": dict(setting.training)},
        "unit": plan.unit,
        "convention": _convention(plan, level, bench.settings.unit),
        "cells": [
            {
                "row": cell.row,
                "column": cell.column,
                "published": cell.published,
                **_cell_figure(cell, values(cell), units(cell), bench),
            }
            for cell in plan.cells
        ],
        "claims": claims,
        "verdict": verdict,
        "sentence": _verdict_sentence(verdict, claims),
        "plot": asdict(plan.plot) if plan.plot else None,
        "notes": list(plan.notes),
    }


def _cell_figure(cell: Cell, values: np.ndarray, units: np.ndarray | None, bench: Workbench) -> dict[str, Any]:
    """Return the mean of a cell's values (seeds, items), its interval over seeds and items, and the mean
    for each seed.
    """
    estimate = _estimate(cell, values, units, bench, 0.95)
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "units": estimate.n_units,
        "seeds": len(values),
        "by_seed": values.mean(axis=1).tolist() if values.size else [],
    }


def _estimate(
    cell: Cell, values: np.ndarray, units: np.ndarray | None, bench: Workbench, confidence: float
) -> Estimate:
    """Return the estimate of a cell: the measure's own estimate if it has one, a Wilson interval if the values are
    shares and there is one seed, or else an interval over seeds and questions.
    """
    own = getattr(cell.measures[0], "estimate", None)
    if own:
        return own(bench, confidence)
    if len(values) == 1 and np.isin(values, (0, 1)).all():
        return proportion(values[0], units, confidence)
    estimate = crossed_mean(values, units, confidence)
    if estimate.low is None or estimate.high is None or not getattr(cell.measures[0], "share", False):
        return estimate
    return replace(
        estimate, low=max(0.0, estimate.low), high=min(1.0, estimate.high)
    )  # the linearised interval of a macro average may exceed 0 to 1


def _convention(plan: ExperimentPlan, confidence: float, unit: str) -> str:
    message = (
        f"{plan.convention} Intervals are at 95%: over seeds and questions (t quantiles of both), or Wilson "
        "intervals if a figure is a share of one run's questions. Questions about one "
        f"{unit} count as one observation."
    )
    if not plan.claims:
        return message
    return (
        f"{message} A claim is supported if the whole interval of the paired difference at {100 * confidence:.4g}% (95% for "
        f"{len(plan.claims)} claim{'s' * (len(plan.claims) > 1)} together) agrees with the claim, and not supported "
        "if the whole interval contradicts it."
    )


def _verdict_sentence(verdict: str, claims: Sequence[Mapping[str, Any]]) -> str:
    if verdict == NO_FINDING:
        return (
            "This is no finding: --small only shows that the experiment runs. Its models are too small, and its "
            "questions too few, for a finding."
        )
    if not claims:
        return "There is no testable claim here; compare the figures."
    reasons = sorted({claim["because"] for claim in claims if claim["because"]})
    if verdict == "inconclusive":
        return f"The paper's finding is inconclusive here{': ' + '; '.join(reasons) if reasons else ''}."
    return f"The paper's finding is {verdict} here."


def _prefixed_progress(progress: Progress | None, title: str) -> Progress | None:
    if progress is None:
        return None

    def report(completed: int, total: int | None, activity: str) -> None:
        progress(completed, total, f"{title}: {activity}")

    return report


def hashable_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Make options hashable: lists become tuples, and mappings become sorted pairs. Raises BadInput for an unknown
    setting.
    """
    known = declared_settings(Setting)
    if unknown := [key for key in options if key not in known]:
        raise BadInput(f"an experiment has no setting {unknown[0]!r}; it has: {', '.join(known)}")
    return {
        key: tuple(sorted(value.items()))
        if isinstance(value, Mapping)
        else tuple(value)
        if isinstance(value, list)
        else value
        for key, value in options.items()
    }
