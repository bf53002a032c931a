"""Count how many misses of one or two runs have each cause, and how many found questions have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.accuracy import Estimate, proportion
from blindspot.analysis.intervals import LEVEL
from blindspot.analysis.significance import Difference, compare, holm_adjusted, independent_difference
from blindspot.backend.core.result_table import signed_number, stated_interval
from blindspot.backend.core.settings import Unit
from blindspot.backend.evaluation.cause_rules import ORDER, RunCauses, Side, run_causes
from blindspot.backend.evaluation.causes import CAUSES, Cause
from blindspot.backend.evaluation.comparison import Comparison

EXAMPLES = 3
NONE = "none"
"""The name of the line that counts misses without a known cause; slices use it too."""
NONE_TITLE = "None measured"
METHOD = (
    "A cause is a circumstance that a rule detected for a miss. It does not prove why the run missed. A miss may have "
    "several causes. Each share is of the misses for which the cause could be determined, with Wilson's 95% interval by unit of observation. 'Found' is the same share among the questions for which the run finds a relevant passage. Difference: misses - found, with Newcombe's 95% "
    "interval. If the interval includes 0, it is not established that the circumstance is more common where the run fails, so it is no evidence of a cause. "
    "The sentence above the table names the cause with the largest difference among those whose interval lies above 0 with Bonferroni's level for all causes."
)
PAIRED_METHOD = "Paired: questions that a run misses and that have the cause, in % of all questions (one whose cause could not be determined counts as without it), and A - B over the same questions with Tango's interval (95%). p: sign-flip test, adjusted by Holm's method for the number of causes."


@dataclass(frozen=True, slots=True)
class CauseLine:
    """One cause among the misses of a run.

    Attributes:
        name: a `Cause`, or `NONE`.
        count: misses with the cause.
        share: of the misses for which it could be measured.
        found: the same share of the questions that the run finds.
        difference: share - found.
        stands_out: whether share is larger than found, tested for all causes together (Bonferroni).
        examples: ids of misses that have the cause and few others.
    """

    name: str
    title: str
    rule: str
    count: int
    share: Estimate
    found: Estimate
    difference: Estimate
    stands_out: bool
    examples: tuple[str, ...]

    @property
    def is_measured(self) -> bool:
        return self.share.n > 0


@dataclass(frozen=True, slots=True)
class RunMisses:
    """The causes of one run's misses. questions: the number of questions considered; units: the number of their units
    of observation; misses: the number of questions that the run misses at k.
    """

    run: str
    side: Side
    k: int
    questions: int
    units: int
    misses: int
    lines: list[CauseLine]

    def cause_line(self, name: str) -> CauseLine:
        return next(line for line in self.lines if line.name == name)

    @property
    def clearest(self) -> CauseLine | None:
        """The cause that stands out among the misses, compared with what the run finds, by the largest difference."""
        lines = [line for line in self.lines if line.stands_out and line.name != NONE]
        return max(lines, key=lambda line: line.difference.value or 0.0, default=None)

    @property
    def sentence(self) -> str:
        """Which cause sets the misses apart most from what the run finds, with its control; "" without a miss."""
        line = self.clearest
        if not self.misses or not any(each.found.n for each in self.lines):
            return ""  # no miss, or nothing found to compare the misses with
        if line is None:
            return f"No cause is reliably more common among the misses of {self.run} than among what it finds."
        share, found = (f"{100 * (each.value or 0.0):.1f}%" for each in (line.share, line.found))
        value, low, high = line.difference.percent
        return (
            f"What sets the misses of {self.run} apart most from what it finds: “{line.title}”, {share} of its misses and {found} of "
            f"what it finds, {signed_number(value)} points {stated_interval(low, high, '+')}."
        )


@dataclass(frozen=True, slots=True)
class PairedMisses:
    """The share of all n questions that each run misses with a given cause, and the paired difference A - B."""

    estimate_a: Estimate
    estimate_b: Estimate
    difference: Difference


@dataclass(frozen=True, slots=True)
class MissTable:
    """The causes of the misses of one run or of two over the same questions.

    paired: by name of the cause, for those that were measured; empty for one run.
    """

    n: int
    k: int
    runs: list[RunMisses]
    paired: dict[str, PairedMisses]
    units: int
    unit: Unit

    @property
    def order(self) -> list[str]:
        """Return the names of the causes, sorted by their largest count in any run, with `NONE` last."""
        counts = {name: max(run.cause_line(name).count for run in self.runs) for name in map(str, ORDER)}
        return [*sorted(counts, key=lambda name: -counts[name]), NONE]

    @property
    def counted(self) -> list[str]:
        """Return the names of the causes that a miss of some run has, in this order."""
        return [name for name in self.order if any(run.cause_line(name).count for run in self.runs)]

    @property
    def sentences(self) -> list[str]:
        """What sets the misses of each run apart, see `RunMisses.sentence`."""
        return [run.sentence for run in self.runs if run.sentence]

    @property
    def method(self) -> str:
        return f"{METHOD} {PAIRED_METHOD}" if self.paired else METHOD


def miss_table(
    comparison: Comparison, k: int, rows: np.ndarray, sides: tuple[Side, ...] = ("a", "b"), tests: bool = True
) -> MissTable:
    """Count the causes among some questions of a comparison.

    Args:
        rows: (n,) int64 rows of the comparison.
        sides: the runs to count; ("a",) for a run on its own.
        tests: whether to pair the runs. False where results of the runs chose the questions: the difference follows
            from that choice.
    """
    causes = {side: run_causes(comparison, side, k).of_rows(rows) for side in sides}
    runs = [_run_misses(comparison, side, each) for side, each in causes.items()]
    paired = (
        _paired_differences(causes["a"], causes["b"], comparison.units.codes[causes["a"].rows])
        if tests and len(sides) == 2 and len(rows)
        else {}
    )
    return MissTable(len(rows), k, runs, paired, comparison.units.units_of_rows(rows).count, comparison.units.name)


def _run_misses(comparison: Comparison, side: Side, causes: RunCauses) -> RunMisses:
    misses, found, units = causes.misses, causes.causes_of_found, comparison.units.codes
    lines = []
    for cause in ORDER:

        def share(part: RunCauses, confidence: float, cause: Cause = cause) -> Estimate:
            known = part.is_measured(cause)
            return proportion(part.has_cause(cause)[known], units[part.rows][known], confidence)

        shares = [share(part, LEVEL) for part in (misses, found)]
        of_all = independent_difference(*(share(part, 1 - (1 - LEVEL) / len(ORDER)) for part in (misses, found)))
        rule = CAUSES[cause]
        has_cause = misses.has_cause(cause)
        stands_out = (of_all.low or 0.0) > 0
        lines.append(_cause_line(comparison, misses, cause, rule.title, rule.rule, shares, has_cause, stands_out))
    # The share is of all misses. A found question without any cause is no counterpart of a miss without one.
    shares = [proportion(part.without_cause, units[part.rows]) for part in (misses, found)]
    none_rule = "No rule applies to the miss, or the facts that the rules need are unknown."
    lines.append(_cause_line(comparison, misses, NONE, NONE_TITLE, none_rule, shares, misses.without_cause, False))
    return RunMisses(causes.run, side, causes.k, len(causes), len(np.unique(units[causes.rows])), len(misses), lines)


def _cause_line(
    comparison: Comparison,
    misses: RunCauses,
    name: str,
    title: str,
    rule: str,
    shares: list[Estimate],
    has_cause: np.ndarray,
    stands_out: bool,
) -> CauseLine:
    share, found = shares
    rows = np.flatnonzero(has_cause)
    # The clearest examples first: those with the fewest other causes, then in the order of the questions.
    clearest = rows[np.argsort(misses.present[rows].sum(axis=1), kind="stable")][:EXAMPLES]
    examples = tuple(comparison.questions[row].id for row in misses.rows[clearest].tolist())
    difference = independent_difference(share, found)
    return CauseLine(str(name), title, rule, int(has_cause.sum()), share, found, difference, stands_out, examples)


def _paired_differences(causes_a: RunCauses, causes_b: RunCauses, units: np.ndarray) -> dict[str, PairedMisses]:
    """Return the paired difference for each cause that could be measured for a miss of at least one run."""
    measured: Mapping[str, tuple[np.ndarray, np.ndarray]] = {
        str(cause): (causes_a.missed & causes_a.has_cause(cause), causes_b.missed & causes_b.has_cause(cause))
        for cause in ORDER
        if (causes_a.missed & causes_a.is_measured(cause)).any()
        or (causes_b.missed & causes_b.is_measured(cause)).any()
    }
    differences = holm_adjusted({name: compare(*pair, units=units) for name, pair in measured.items()})
    return {
        name: PairedMisses(proportion(measured[name][0], units), proportion(measured[name][1], units), difference)
        for name, difference in differences.items()
    }
