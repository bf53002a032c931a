"""The output of `blindspot compare`: the figures of `backend.evaluation.comparison` as JSON, CSV, LaTeX and terminal
tables.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from analysis.relations import relation_name
from backend.core.spreadsheets import write_csv
from backend.evaluation.comparison import (
    BYS,
    KS,
    SEED,
    By,
    Comparison,
    PairedFigures,
    by_group,
    check_k,
    conclusion,
    measure_all,
    method,
    overall,
    reservation,
)
from backend.evaluation.latex import ABSENT, Table, latex_table
from backend.evaluation.relevance import Kind
from backend.evaluation.report import NO_RELATIONS
from backend.evaluation.saved_slices import saved
from backend.evaluation.slices import CHOSEN_BY_RESULTS, Facts, by_results
from backend.text.answers import DEFAULT_RULE
from db.errors import BadInput, Missing

if TYPE_CHECKING:
    from rich.console import RenderableType

    from backend.core.study import Study

DEFAULT_K = 5
COLUMNS = (
    "group", "k", "n", "a", "a_low", "a_high", "b", "b_low", "b_high", "difference", "low", "high", "p", "p_holm", "p_mcnemar",
    "both", "only_a", "only_b", "neither",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """Two runs compared.

    at: by k, over all questions. macro: by k, averaged over relations; empty without relations. k: the cut-off of the
    groups and the sentences. groups: by relation, bucket or slice; `names` are their display names.
    """

    a: str
    b: str
    kind: Kind
    slice: str
    k: int
    at: dict[int, PairedFigures]
    macro: dict[int, PairedFigures]
    by: By | None
    groups: dict[str, PairedFigures]
    names: dict[str, str]
    conclusion: str
    reservation: str
    method: str
    notes: list[str]

    def as_dict(self) -> dict:
        return {
            "a": self.a,
            "b": self.b,
            "relevance": self.kind,
            "slice": self.slice,
            "k": self.k,
            "seed": SEED,
            "conclusion": self.conclusion,
            "reservation": self.reservation,
            "method": self.method,
            "notes": self.notes,
            "at": {str(k): _figures(both) for k, both in self.at.items()},
            "macro": {str(k): _figures(both) for k, both in self.macro.items()},
            "by": self.by,
            "groups": {key: {"name": self.names[key], **_figures(both)} for key, both in self.groups.items()},
        }

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), ensure_ascii=False, indent=2, allow_nan=False)

    def as_csv(self) -> str:
        """Return CSV with a line for all questions at each k, for the macro averages, and for each group; the columns
        are COLUMNS.
        """
        text = io.StringIO()
        rows = []
        for name, both in self._lines():
            figures = _figures(both)
            sides = {
                f"{side}_{end}" if end else side: figures[side][end or "success"]
                for side in "ab"
                for end in ("", "low", "high")
            }
            rows.append(
                {"group": name, **sides, **{key: figures[key] for key in COLUMNS if key in figures and key not in "ab"}}
            )
        write_csv(text, COLUMNS, rows)
        return text.getvalue()

    def _lines(self) -> list[tuple[str, PairedFigures]]:
        lines = [("all", both) for both in self.at.values()] + [("macro", both) for both in self.macro.values()]
        return lines + [(key, both) for key, both in self.groups.items()]

    def tables(self) -> list[Table]:
        head = ["", "n", "A", "B", "A - B", "p (Holm)", "both", "only A", "only B", "neither"]
        whole = [_row(f"@{k}", both) for k, both in self.at.items()]
        whole += [_row(f"macro @{k}", both) for k, both in self.macro.items()]
        tables = [
            (f"A: {self.a}, B: {self.b}. Success@k, %" + (f", slice {self.slice}" if self.slice else ""), head, whole)
        ]
        if self.by:
            head = [self.by.capitalize(), *head[1:]]
            tables.append(
                (
                    f"Success@{self.k} by {self.by}, %",
                    head,
                    [_row(self.names[key], both) for key, both in self.groups.items()],
                )
            )
        return tables

    def remarks(self) -> list[str]:
        return [self.conclusion, self.reservation, *self.notes, self.method]

    def as_latex(self) -> str:
        return latex_table(self.tables(), self.remarks())

    def as_rich(self) -> RenderableType:
        from backend.evaluation.report_text import rich_tables

        return rich_tables(self.tables(), self.remarks())


def _figures(both: PairedFigures) -> dict:
    estimate = both.difference.estimate
    return {
        "k": both.k,
        "n": both.n,
        "a": {"success": both.a.value, "low": both.a.low, "high": both.a.high},
        "b": {"success": both.b.value, "low": both.b.low, "high": both.b.high},
        "difference": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "p": both.difference.p,
        "p_holm": both.difference.p_adjusted,
        "p_mcnemar": both.difference.p_mcnemar,
        "both": both.flips.both,
        "only_a": both.flips.only_a,
        "only_b": both.flips.only_b,
        "neither": both.flips.neither,
    }


def _row(name: str, both: PairedFigures) -> list[str]:
    estimate, adjusted = both.difference.estimate, both.difference.p_shown
    shares = [ABSENT if each.value is None else f"{100 * each.value:.1f}" for each in (both.a, both.b)]
    difference = ABSENT
    if estimate.value is not None:
        value, low, high = estimate.percent
        difference = f"{value:+z.1f} [{low:+z.1f},{high:+z.1f}]"
    flips = (both.flips.both, both.flips.only_a, both.flips.only_b, both.flips.neither)
    return [
        name,
        f"{both.n:,}",
        *shares,
        difference,
        "<0.001" if adjusted < 0.001 else f"{adjusted:.3f}",
        *(f"{count:,}" for count in flips),
    ]


def compare_runs(
    study: Study,
    a: str,
    b: str,
    k: int | None = None,
    by: By | None = None,
    relevance: Kind = "answers",
    rule: str = DEFAULT_RULE,
    slice: str = "",
) -> ComparisonReport:
    """Compare two runs of a study.

    Args:
        k: of the groups and the sentences; 5 if the runs are deep enough.
        by: adds groups by relation, bucket or saved slice.
        slice: an expression; only its questions count.

    Raises: Missing for an unknown run, rule or saved slice; BadInput for an invalid `by`, k or slice.
    """
    if by is not None and by not in BYS:
        raise BadInput(f"--by must be one of {', '.join(BYS)}, not {by!r}")
    measured = measure_all(study, (a, b), relevance, rule)
    compared = Comparison.of(measured[a], measured[b])
    if not len(compared):
        raise BadInput(
            f"{a} and {b} share no question measured by {compared.a.kind}; choose --relevance gold, or other runs"
        )
    k = min(DEFAULT_K, compared.depth) if k is None else check_k(k, compared)
    facts = Facts(compared, k)
    rows = np.flatnonzero(facts.mask(slice))
    if not len(rows):
        raise BadInput("no question of these runs is in that slice")
    shown = sorted({each for each in KS if each <= compared.depth} | {k})
    members, names = _members(study, facts, by)
    groups = {name: np.intersect1d(group, rows, assume_unique=True) for name, group in members.items()}
    whole = overall(compared, shown, rows, SEED)
    concluded = CHOSEN_BY_RESULTS if by_results(slice) else conclusion(whole.at[k], a, b, whole.tests)
    return ComparisonReport(
        a,
        b,
        compared.a.kind,
        slice,
        k,
        whole.at,
        whole.macro,
        by,
        by_group(compared, k, groups, SEED),
        names,
        concluded,
        reservation(compared.a.kind, rule),
        method(SEED),
        notes(study, compared, by),
    )


def _members(study: Study, facts: Facts, by: By | None) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    if by is None:
        return {}, {}
    if by == "slice":
        slices = saved(study)
        if not slices:
            raise Missing("this study has no saved slices; save one on the Slices page, or give --slice")
        groups = {name: np.flatnonzero(facts.mask(slice_.expression)) for name, slice_ in slices.items()}
        return groups, {name: f"{name} ({slice_.expression})" for name, slice_ in slices.items()}
    groups = facts.comparison.groups(by)
    return groups, {name: relation_name(name) if by == "relation" else name for name in groups}


def notes(study: Study, compared: Comparison, by: By | None) -> list[str]:
    """Return notes on the questions left out and on the source of frequencies, one line each."""
    a, b = compared.a, compared.b
    sentences = []
    if not len(compared) == len(a.questions) == len(b.questions):
        counts = f"{a.name} {len(a.questions):,}, {b.name} {len(b.questions):,}"
        sentences.append(f"Compared on the {len(compared):,} questions that both runs have ({counts}).")
    sentences += [
        f"{each.name}: {count:,} questions left out: {reason}."
        for each in (a, b)
        for reason, count in each.left_out.items()
    ]
    if by == "relation" and not (compared.relations != "").any():
        sentences.append(f"{NO_RELATIONS[0].upper()}{NO_RELATIONS[1:]}.")
    if by == "bucket":
        source = study.questions.frequency_source or "none, no frequencies are known"
        official = "Official buckets are used for questions that have one (0 most frequent, 7 rarest)"
        sentences.append(f"{official}, otherwise mentions of the subject (source: {source}).")
    return sentences
