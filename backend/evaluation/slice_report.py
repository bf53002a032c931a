"""The output of `blindspot compare --find-slices`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from blindspot.backend.core.result_table import Column, Results, ResultTable, records_table
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import generalisation, n_value
from blindspot.backend.evaluation.comparison import Comparison, check_k, measure_all
from blindspot.backend.evaluation.measures import SUCCESS
from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.evaluation.slice_finder import FoundSlice, FoundSlices, find_slices
from blindspot.backend.evaluation.slices import Facts
from blindspot.backend.text.answers import DEFAULT_RULE
from blindspot.backend.text.number_words import noun_form
from blindspot.db.errors import BadInput

COLUMNS = ("slice", "k", "n", "units", "a", "b", "difference", "low", "high", "outside", "explained", "p", "p_adjusted")
HEAD = (
    "Slice", "n", Column("A", format="percent"), Column("B", format="percent"), Column("A - B", format="difference"), "elsewhere",
    "contribution", Column("p (adjusted)", format="p"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SliceReport(Results):
    run_a: str
    run_b: str
    k: int
    found_slices: FoundSlices

    def as_dict(self) -> dict[str, Any]:
        return {
            "a": self.run_a,
            "b": self.run_b,
            "k": self.k,
            "n": self.found_slices.n,
            "units": self.found_slices.units.count,
            "unit": self.found_slices.units.name,
            "difference": self.found_slices.mean,
            "tried": self.found_slices.tried,
            "correction": "westfall-young",
            "method": method_note(self.found_slices),
            "slices": [_slice_figures(slice_) for slice_ in self.found_slices.slices],
        }

    def figures_table(self) -> ResultTable:
        return records_table(COLUMNS, [_slice_figures(slice_) for slice_ in self.found_slices.slices])

    def tables(self) -> list[ResultTable]:
        rows = [
            [
                each.expression,
                n_value(each.figures.n, each.figures.units, each.figures.unit),
                each.figures.a,
                each.figures.b,
                each.figures.difference.estimate,
                f"{100 * each.outside:+.1f}",
                f"{100 * each.explained:+.1f}",
                each.p_adjusted,
            ]
            for each in self.found_slices.slices
        ]
        return [ResultTable(f"A: {self.run_a}, B: {self.run_b}, Success@{self.k}, %", HEAD, rows)]

    def remarks(self) -> list[str]:
        return [method_note(self.found_slices)]


def _slice_figures(found_slice: FoundSlice) -> dict:
    both = found_slice.figures
    estimate = both.difference.estimate
    values = (found_slice.expression, both.k, both.n, both.units, both.a.value, both.b.value, estimate.value, estimate.low, estimate.high, found_slice.outside,
              found_slice.explained, found_slice.p, found_slice.p_adjusted)  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def method_note(slices: FoundSlices) -> str:
    """Return the note on the method that is shown with the slices."""
    return (
        f"{slices.tried:,} slices of at least {slices.min_questions} {noun_form(2, slices.units.name)} were tested: single conditions and "
        "pairs of them. The null hypothesis of each: the mean difference in the slice equals the mean difference "
        "in the other questions, however often the two runs disagree in each. The test is a studentised score "
        "test. Its p values are adjusted by the step-down maximum of Westfall and Young over sign flips, which controls the "
        "probability of any false finding; slices with an adjusted p of at "
        f"most 0.05 are listed. 'Contribution' is how far the slice moves the difference over all "
        f"{slices.units.count_words()} ({100 * slices.mean:+.1f} points) away from the difference elsewhere. A slice shows where the runs differ, not why. Confirm the finding on other questions. "
        f"{generalisation(slices.units.name)}"
    )


def find_in_runs(
    study: Study,
    runs: tuple[str, str],
    k: int | None = None,
    relevance: Kind = "answers",
    rule: str = DEFAULT_RULE,
    slice: str = "",
) -> SliceReport:
    """Find the slices in which the difference between two runs is not the same as elsewhere.

    Raises Missing for an unknown run, and BadInput for an invalid argument.
    """
    measured = measure_all(study, runs, relevance, rule)
    compared = Comparison.of_runs(measured[runs[0]], measured[runs[1]])
    if not len(compared):
        raise BadInput(f"{' and '.join(runs)} share no question measured by {compared.run_a.kind}")
    k = min(SUCCESS.default_k, compared.depth) if k is None else check_k(k, compared)
    facts = Facts(compared, k)
    return SliceReport(*runs, k, find_slices(facts, np.flatnonzero(facts.mask(slice))))
