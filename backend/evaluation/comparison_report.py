"""The output of `blindspot compare`: the figures of `blindspot.backend.evaluation.comparison` as tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blindspot.analysis.relations import relation_name
from blindspot.backend.core.result_table import Column, Results, ResultTable, records_table
from blindspot.backend.core.settings import Unit
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import n_value
from blindspot.backend.evaluation.comparison import (
    KS,
    SEED,
    Comparison,
    PairedFigures,
    by_group,
    check_k,
    measure_all,
    overall,
)
from blindspot.backend.evaluation.comparison_words import conclusion, limits_sentence, method
from blindspot.backend.evaluation.measures import SUCCESS, RankingMeasure, measure_named
from blindspot.backend.evaluation.report import NO_RELATIONS
from blindspot.backend.evaluation.saved_slices import saved_slices
from blindspot.backend.evaluation.settings import By, ComparisonOptions, Kind
from blindspot.backend.evaluation.slices import CHOSEN_BY_RESULTS, Facts, by_results
from blindspot.db.errors import BadInput, Missing

COLUMNS = (
    "group", "k", "n", "units", "a", "a_low", "a_high", "b", "b_low", "b_high", "difference", "low", "high", "p", "p_holm", "p_mcnemar",
    "both", "only_a", "only_b", "neither", "oracle", "oracle_low", "oracle_high",
)  # fmt: skip
FLIP_KEYS = ("both", "only_a", "only_b", "neither")
BETTER_KEYS = ("a_better", "b_better", "equal")
"""The keys of the tables for measures other than Success@k, in place of FLIP_KEYS."""


@dataclass(frozen=True, slots=True)
class ComparisonReport(Results):
    """The comparison of two runs as a report.

    Attributes:
        figures_at: by k, over all questions.
        macro: by k, averaged over relations; empty without relations.
        k: the cut-off of the groups and the sentences.
        groups: by relation, bucket or slice; `names` are their display names.
    """

    run_a: str
    run_b: str
    kind: Kind
    slice: str
    k: int
    figures_at: dict[int, PairedFigures]
    macro: dict[int, PairedFigures]
    grouping: By | None
    groups: dict[str, PairedFigures]
    names: dict[str, str]
    conclusion: str
    reservation: str
    method: str
    notes: list[str]
    measure: RankingMeasure = SUCCESS
    unit: Unit = "question"

    def as_dict(self) -> dict:
        return {
            "a": self.run_a,
            "b": self.run_b,
            "relevance": self.kind,
            "measure": self.measure.name,
            "slice": self.slice,
            "k": self.k,
            "seed": SEED,
            "unit": self.unit,
            "conclusion": self.conclusion,
            "reservation": self.reservation,
            "method": self.method,
            "notes": self.notes,
            "at": {str(k): _figures_dict(both) for k, both in self.figures_at.items()},
            "macro": {str(k): _figures_dict(both) for k, both in self.macro.items()},
            "by": self.grouping,
            "groups": {key: {"name": self.names[key], **_figures_dict(both)} for key, both in self.groups.items()},
        }

    def figures_table(self) -> ResultTable:
        """Return one row for all questions at each k, one for each macro average, and one for each group. The columns
        are COLUMNS; for measures other than Success@k, BETTER_KEYS replace FLIP_KEYS.
        """
        rows = []
        for name, both in self._lines():
            figures = _figures_dict(both)
            sides = {
                f"{side}_{end}" if end else side: figures[side][end or both.measure.name]
                for side in ("a", "b", "oracle")
                for end in ("", "low", "high")
            }
            rows.append({"group": name, **figures, **sides})
        counts = FLIP_KEYS if self.measure is SUCCESS else BETTER_KEYS
        columns = [*(key for key in COLUMNS[: COLUMNS.index("both")]), *counts, "oracle", "oracle_low", "oracle_high"]
        return records_table(columns, rows)

    def _lines(self) -> list[tuple[str, PairedFigures]]:
        lines = [("all", both) for both in self.figures_at.values()] + [("macro", both) for both in self.macro.values()]
        return lines + [(key, both) for key, both in self.groups.items()]

    def tables(self) -> list[ResultTable]:
        counts = (
            ["both", "only A", "only B", "neither"] if self.measure is SUCCESS else ["A better", "B better", "equal"]
        )
        head: list[Column | str] = [
            "n",
            Column("A", format="percent"),
            Column("B", format="percent"),
            Column("A - B", format="difference"),
            Column("p (Holm)", format="p"),
            *counts,
            Column("oracle", format="percent"),
        ]
        cut_off = self.measure.has_cut_off
        whole = [_row(f"@{k}" if cut_off else "all", both) for k, both in self.figures_at.items()]
        whole += [_row(f"macro @{k}" if cut_off else "macro", both) for k, both in self.macro.items()]
        over = "" if self.measure is SUCCESS else f" over {self.kind}"
        of_slice = f", slice {self.slice}" if self.slice else ""
        title = f"A: {self.run_a}, B: {self.run_b}. {self.measure.title_at('k')}{over}, %{of_slice}"
        tables = [ResultTable(title, ["", *head], whole)]
        if self.grouping:
            rows = [_row(self.names[key], both) for key, both in self.groups.items()]
            tables.append(
                ResultTable(
                    f"{self.measure.title_at(self.k)} by {self.grouping}, %", [self.grouping.capitalize(), *head], rows
                )
            )
        return tables

    def remarks(self) -> list[str]:
        return [self.conclusion, self.reservation, *self.notes, self.method]


def _figures_dict(paired_figures: PairedFigures) -> dict:
    estimate = paired_figures.difference.estimate
    if paired_figures.measure is SUCCESS:
        counts = {key: getattr(paired_figures.flips, key) for key in FLIP_KEYS}
    else:
        counts = dict(zip(BETTER_KEYS, _counts_of_better(paired_figures), strict=True))
    return {
        "k": paired_figures.k,
        "n": paired_figures.n,
        "units": paired_figures.units,
        **{
            side: {paired_figures.measure.name: each.value, "low": each.low, "high": each.high}
            for side, each in (("a", paired_figures.a), ("b", paired_figures.b), ("oracle", paired_figures.oracle))
        },
        "difference": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "p": paired_figures.difference.p,
        "p_holm": paired_figures.difference.p_adjusted,
        "p_mcnemar": paired_figures.difference.p_mcnemar,
        **counts,
    }


def _counts_of_better(paired_figures: PairedFigures) -> tuple[int, int, int]:
    """Return the number of questions on which A is better, B is better, and both are equal."""
    a, b = paired_figures.difference.only_a, paired_figures.difference.only_b
    return a, b, paired_figures.n - a - b


def _row(name: str, paired_figures: PairedFigures) -> list[object]:
    counts: tuple[int, ...] = _counts_of_better(paired_figures)
    if paired_figures.measure is SUCCESS:
        counts = (
            paired_figures.flips.both,
            paired_figures.flips.only_a,
            paired_figures.flips.only_b,
            paired_figures.flips.neither,
        )
    n = n_value(paired_figures.n, paired_figures.units, paired_figures.unit)
    return [
        name,
        n,
        paired_figures.a,
        paired_figures.b,
        paired_figures.difference.estimate,
        paired_figures.difference.p_shown,
        *counts,
        paired_figures.oracle,
    ]


def compare_with(study: Study, run_a: str, run_b: str, options: ComparisonOptions) -> ComparisonReport:
    """Compare two runs of a study.

    Raises: Missing for an unknown run, rule or saved slice; BadInput for an invalid k or slice; Refused for an unknown
        measure.
    """
    by, relevance, rule, slice = options.by, options.relevance, options.rule, options.slice
    by_measure = measure_named(options.measure)
    needs_gold = by_measure.needs_all and relevance == "answers"
    measured = measure_all(study, (run_a, run_b), "gold" if needs_gold else relevance, rule)
    compared = Comparison.of_runs(measured[run_a], measured[run_b])
    if not len(compared):
        raise BadInput(
            f"{run_a} and {run_b} share no question measured by {compared.run_a.kind}; choose --relevance gold, or other runs"
        )
    k = min(by_measure.default_k, compared.depth) if options.k is None else check_k(options.k, compared)
    facts = Facts(compared, k)
    rows = np.flatnonzero(facts.mask(slice))
    if not len(rows):
        raise BadInput("no question of these runs is in that slice")
    shown = sorted({each for each in KS if each <= compared.depth} | {k}) if by_measure.has_cut_off else [k]
    members, names = _rows_of_groups(study, facts, by)
    groups = {name: np.intersect1d(group, rows, assume_unique=True) for name, group in members.items()}
    whole = overall(compared, shown, rows, by_measure)
    concluded = CHOSEN_BY_RESULTS if by_results(slice) else conclusion(whole.figures_at[k], run_a, run_b, whole.tests)
    return ComparisonReport(
        run_a,
        run_b,
        compared.run_a.kind,
        slice,
        k,
        whole.figures_at,
        whole.macro,
        by,
        by_group(compared, k, groups, by_measure),
        names,
        concluded,
        limits_sentence(compared.run_a.kind, rule),
        method(compared.units.name, by_measure),
        [*_measure_notes(by_measure, needs_gold), *notes(study, compared, by)],
        by_measure,
        compared.units.name,
    )


def _measure_notes(measure: RankingMeasure, needs_gold: bool) -> list[str]:
    if measure is SUCCESS:
        return []
    said = [f"{measure.title_at('k')}: {measure.help}."]
    if needs_gold:
        said.append(
            "This measure needs to know all relevant passages of a question, so gold passages count as relevant."
        )
    return said


def _rows_of_groups(study: Study, facts: Facts, grouping: By | None) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    if grouping is None:
        return {}, {}
    if grouping == "slice":
        slices = saved_slices(study)
        if not slices:
            raise Missing("this study has no saved slices; save one on the Slices page, or give --slice")
        groups = {name: np.flatnonzero(facts.mask(slice_.expression)) for name, slice_ in slices.items()}
        return groups, {name: f"{name} ({slice_.expression})" for name, slice_ in slices.items()}
    groups = facts.comparison.groups(grouping)
    return groups, {name: relation_name(name) if grouping == "relation" else name for name in groups}


def notes(study: Study, comparison: Comparison, grouping: By | None) -> list[str]:
    """Return notes on the questions left out and on the source of frequencies, one line each."""
    a, b = comparison.run_a, comparison.run_b
    sentences = []
    if not len(comparison) == len(a.questions) == len(b.questions):
        counts = f"{a.name} {len(a.questions):,}, {b.name} {len(b.questions):,}"
        sentences.append(f"Compared on the {len(comparison):,} questions that both runs have ({counts}).")
    sentences += [
        f"{each.name}: {count:,} questions left out: {reason}."
        for each in (a, b)
        for reason, count in each.left_out.items()
    ]
    if grouping == "relation" and not (comparison.relations != "").any():
        sentences.append(f"{NO_RELATIONS[0].upper()}{NO_RELATIONS[1:]}.")
    if grouping == "bucket":
        source = study.questions.frequency_source or "none, no frequencies are known"
        official = "Official buckets are used for questions that have one (0 most frequent, 7 rarest)"
        sentences.append(f"{official}, otherwise mentions of the subject (source: {source}).")
    return sentences
