"""Evaluate an oracle that chooses, for each question, the best of several runs. Its measure is an upper bound for any
method that chooses between the runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from blindspot.analysis.accuracy import Estimate, mean
from blindspot.analysis.significance import difference
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.comparison import MeasuredRun, measure_all
from blindspot.backend.evaluation.measures import SUCCESS, RankingMeasure, measure_named
from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.text.answers import DEFAULT_RULE
from blindspot.db.errors import BadInput


@dataclass(frozen=True, slots=True)
class OracleChoice:
    """One of the runs from which the oracle chooses.

    Attributes:
        estimate: its measure over the questions that all runs measure.
        best: questions in which no run is better, and the measure is above 0.
        only_choice: questions in which every other run is worse.
    """

    run: str
    estimate: Estimate
    best: int
    only_choice: int


@dataclass(frozen=True, slots=True)
class Oracle:
    """The measure that would be reached with the best run for each question.

    Attributes:
        measure: with its cut-off, as in "Success@5". relevance: answers or gold.
        n: questions that all runs measure.
        estimate: the oracle's measure.
        gain: the oracle less the best single run, over the same questions.
        none: questions in which every run has 0.
    """

    measure: str
    relevance: str
    n: int
    choices: tuple[OracleChoice, ...]
    estimate: Estimate
    gain: Estimate
    best_run: str
    none: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def oracle(
    study: Study,
    runs: Sequence[str],
    k: int | None = None,
    measure: str = SUCCESS.name,
    relevance: Kind = "answers",
    rule: str = DEFAULT_RULE,
) -> Oracle:
    """Compare some runs with an oracle that takes the best of them for each question.

    Raises BadInput for fewer than two runs, for runs without a common question, or for a k that a run is too shallow
    for; Missing for an unknown run.
    """
    names = list(dict.fromkeys(runs))
    if len(names) < 2:
        raise BadInput(f"an oracle chooses between at least two different runs, not {', '.join(names) or 'none'}")
    by = measure_named(measure)
    k = by.default_k if k is None else k
    measured = measure_all(study, names, "gold" if by.needs_all and relevance == "answers" else relevance, rule)
    for name in names:
        if k > (depth := measured[name].run.hits.k):
            raise BadInput(f"k is {k}, but the run {name} is only {depth} deep")
    if len(kinds := sorted({each.kind for each in measured.values()})) > 1:
        raise BadInput(f"the runs are measured by {' and '.join(kinds)}; choose one with --relevance")
    common = sorted(set.intersection(*({question.id for question in each.questions} for each in measured.values())))
    if not common:
        raise BadInput(f"the runs {', '.join(names)} share no measured question")
    values = np.stack([_values_of(measured[name], common, by, k) for name in names])
    first = measured[names[0]]
    units = first.units.codes[[first.row_of[id] for id in common]]
    best = values.max(axis=0)
    means = values.mean(axis=1)
    leader = int(means.argmax())
    is_best = (values == best) & (best > 0)
    return Oracle(
        by.title_at(k),
        kinds[0],
        len(common),
        tuple(
            OracleChoice(name, mean(row, units), int(won.sum()), int((won & (is_best.sum(axis=0) == 1)).sum()))
            for name, row, won in zip(names, values, is_best, strict=True)
        ),
        mean(best, units),
        difference(best, values[leader], units=units),
        names[leader],
        int((best == 0).sum()),
    )


def _values_of(measured_run: MeasuredRun, common: Sequence[str], measure: RankingMeasure, k: int) -> np.ndarray:
    """Return the value of each common question, (q,) bool or float64."""
    rows = {question.id: row for row, question in enumerate(measured_run.questions)}
    return np.asarray(measured_run.values(measure, k))[[rows[id] for id in common]]
