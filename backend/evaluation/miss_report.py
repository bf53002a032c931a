"""The output of `blindspot misses`: the table of causes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from blindspot.backend.core.result_table import Column, Results, ResultTable, records_table
from blindspot.backend.core.settings import Unit
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import count_with_units, n_value
from blindspot.backend.evaluation.cause_rules import RunCauses, run_causes
from blindspot.backend.evaluation.comparison import Comparison, check_k, measure_all
from blindspot.backend.evaluation.comparison_report import notes
from blindspot.backend.evaluation.miss_table import CauseLine, MissTable, RunMisses, miss_table
from blindspot.backend.evaluation.settings import HEADLINE_K, Kind, MissOptions
from blindspot.backend.evaluation.slices import CHOSEN_BY_RESULTS, Facts, by_results
from blindspot.db.errors import BadInput
from blindspot.db.question_table import ids_of, take

COLUMNS = (
    "run", "k", "questions", "misses", "cause", "count", "measured", "share", "low", "high", "found", "found_measured",
    "difference", "difference_low", "difference_high", "examples",
)  # fmt: skip
HEAD = (
    "Cause", "misses", "of", Column("share", format="range"), Column("found", format="percent"),
    Column("misses - found", format="difference"), "examples",
)  # fmt: skip
PAIRED_HEAD = (
    "Missed with cause", Column("A", format="percent"), Column("B", format="percent"), Column("A - B", format="difference"),
    Column("p (Holm)", format="p"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MissReport(Results):
    """A table of causes, with its run, k and options."""

    table: MissTable
    kind: Kind
    slice: str
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        runs = [
            {
                "run": run.run,
                "questions": run.questions,
                "misses": run.misses,
                "causes": [_line_figures(line) | {"title": line.title, "rule": line.rule} for line in run.lines],
            }
            for run in self.table.runs
        ]
        paired = {
            name: {
                "a": each.estimate_a.value,
                "b": each.estimate_b.value,
                "difference": each.difference.estimate.value,
                "low": each.difference.estimate.low,
                "high": each.difference.estimate.high,
                "p": each.difference.p,
                "p_holm": each.difference.p_adjusted,
            }
            for name, each in self.table.paired.items()
        }
        return {
            "k": self.table.k,
            "questions": self.table.n,
            "relevance": self.kind,
            "slice": self.slice,
            "runs": runs,
            "paired": paired,
            "method": self.table.method,
            "notes": self.notes,
        }

    def figures_table(self) -> ResultTable:
        """Return a row for each cause of each run, with the columns COLUMNS. Ids of examples are joined by spaces."""
        rows: list[dict[str, Any]] = [
            {"run": run.run, "k": run.k, "questions": run.questions, "misses": run.misses}
            | _line_figures(line)
            | {"examples": " ".join(line.examples)}
            for run in self.table.runs
            for line in run.lines
        ]
        return records_table(COLUMNS, rows)

    def tables(self) -> list[ResultTable]:
        return cause_tables(self.table, self.slice)

    def remarks(self) -> list[str]:
        return [*self.notes, *self.table.sentences, self.table.method]


def cause_tables(table: MissTable, slice: str = "") -> list[ResultTable]:
    """Return one table for each run that misses a question, and for two runs the table that compares them. Values are
    in percent.
    """
    of_slice = f", slice {slice}" if slice else ""
    tables = []
    for run in table.runs:
        if not run.misses:
            continue
        letter = f"{run.side.upper()}: " if len(table.runs) > 1 else ""
        caption = f"{letter}{run.run} misses {run.misses:,} of {count_with_units(run.questions, run.units, table.unit)} at {run.k}, %"
        tables.append(
            ResultTable(caption + of_slice, HEAD, [_row(run.cause_line(name), table.unit) for name in table.order])
        )
    if table.paired:
        caption = f"Both runs over the same {count_with_units(table.n, table.units, table.unit)}, %"
        tables.append(ResultTable(caption, PAIRED_HEAD, paired_rows(table)))
    return tables


def sentences_without_misses(table: MissTable) -> list[str]:
    """Return a sentence for each run that misses no question."""
    return [
        f"{run.run} finds every one of the {count_with_units(run.questions, run.units, table.unit)} at {run.k}, so it has no miss to explain."
        for run in table.runs
        if not run.misses
    ]


def _row(line: CauseLine, unit: Unit) -> list[object]:
    examples = " ".join(line.examples) or None
    n = n_value(line.share.n, line.share.units, unit)
    return [line.title, line.count, n, line.share, line.found, line.difference, examples]


def paired_rows(table: MissTable) -> list[list[object]]:
    """Return a row for each cause that was measured in either run."""
    first_misses: RunMisses = table.runs[0]
    found = ((first_misses.cause_line(name).title, table.paired[name]) for name in table.order if name in table.paired)
    return [
        [title, each.estimate_a, each.estimate_b, each.difference.estimate, each.difference.p_shown]
        for title, each in found
    ]


def _line_figures(line: CauseLine) -> dict[str, Any]:
    return {
        "cause": line.name,
        "count": line.count,
        "measured": line.share.n,
        "share": line.share.value,
        "low": line.share.low,
        "high": line.share.high,
        "found": line.found.value,
        "found_measured": line.found.n,
        "difference": line.difference.value,
        "difference_low": line.difference.low,
        "difference_high": line.difference.high,
        "examples": list(line.examples),
    }


def misses(study: Study, run_a: str, run_b: str | None = None, options: MissOptions | None = None) -> MissReport:
    """Count the causes of the misses of one run or of two.

    Raises: Missing for an unknown run or rule; BadInput for an invalid k or slice, or if no question
        can be measured.
    """
    options = options or MissOptions()
    compared, k, rows = _chosen_rows(study, run_a, run_b or run_a, options)
    chosen_by_results = by_results(options.slice)
    table = miss_table(
        compared, k, rows, ("a",) if run_b is None or run_b == run_a else ("a", "b"), not chosen_by_results
    )
    said = [CHOSEN_BY_RESULTS] if chosen_by_results and len(table.runs) == 2 else []
    said += sentences_without_misses(table)
    return MissReport(table, compared.run_a.kind, options.slice, [*said, *notes(study, compared, None)])


def causes_of_misses(study: Study, run: str, other_run: str, options: MissOptions) -> tuple[RunCauses, list[str]]:
    """Return the causes of a run's misses, and the ids of the missed questions. Raises as `misses` does."""
    compared, k, rows = _chosen_rows(study, run, other_run, options)
    causes = run_causes(compared, "a", k).of_rows(rows).misses
    return causes, ids_of(take(compared.questions, causes.rows))


def _chosen_rows(study: Study, run_a: str, run_b: str, options: MissOptions) -> tuple[Comparison, int, np.ndarray]:
    """Return the comparison, k, and the rows of the slice."""
    measured = measure_all(study, [run_a, run_b], options.relevance, options.rule)
    compared = Comparison.of_runs(measured[run_a], measured[run_b])
    if not len(compared):
        raise BadInput(
            f"no question of {run_a} and {run_b} can be measured by {compared.run_a.kind}; choose other runs"
        )
    k = min(HEADLINE_K, compared.depth) if options.k is None else check_k(options.k, compared)
    rows = np.flatnonzero(Facts(compared, k).mask(options.slice))
    if not len(rows):
        raise BadInput("no question of these runs is in that slice")
    return compared, k, rows
