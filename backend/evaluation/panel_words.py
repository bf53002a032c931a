"""Summarise a comparison by relation, or by frequency, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence

from blindspot.analysis.buckets import FEW
from blindspot.analysis.relations import RELATIONS
from blindspot.backend.core.result_table import stated_interval
from blindspot.backend.evaluation.comparison import SURE
from blindspot.backend.evaluation.comparison_words import where_words
from blindspot.backend.evaluation.findings import RunFinding, findings
from blindspot.backend.evaluation.measures import SUCCESS
from blindspot.backend.evaluation.panel import Curves, Panel, RelationTable
from blindspot.backend.text.number_words import quantity


def named_relation(table: RelationTable) -> str:
    """Return the relation that `relations_sentence` names: the one with the largest difference among those that are
    certain, if any is, and that have enough questions, if any has.
    """
    sure = _certain_relations(table)
    enough = [row.group for row in table.rows if row.units >= FEW and row.group in (sure or table.differences)]
    return max(enough or sure or table.differences, key=lambda name: abs(_gain(table, name)))


def _certain_relations(table: RelationTable) -> list[str]:
    """Return the relations in which a run is ahead: the Holm-adjusted p value is at most 0.05."""
    return [name for name, both in table.differences.items() if both.difference.p_shown <= SURE]


def _gain(table: RelationTable, name: str) -> float:
    return 100 * (table.differences[name].difference.estimate.value or 0.0)


def relations_sentence(table: RelationTable, runs: Sequence[str]) -> str:
    """Return a sentence that states in how many relations each run is ahead, and in which relation the most. For a
    single run, it states the run's measure over all relations.
    """
    total, where = quantity(len(table.differences or table.rows), "relation"), where_words(table.k, table.measure)
    if not table.differences:
        value = 100 * (table.micro[runs[0]][table.k].value or 0.0)
        if table.measure is SUCCESS:
            return f"{runs[0]} answers {value:.1f}% of the questions of {total} {where}."
        return f"{runs[0]} has {value:.1f} {where} over {total}."
    best = named_relation(table)
    gain, estimate = _gain(table, best), table.differences[best].difference.estimate
    ends = sorted(math.copysign(100, gain) * (end or 0.0) for end in (estimate.low, estimate.high))
    named = f"{RELATIONS[best].label} ({best})" if best in RELATIONS else best
    most = f"on {named}, by {abs(gain):.1f} points {stated_interval(*ends)}"
    sure = _certain_relations(table)
    if not sure:
        return (
            f"No relation alone shows which run is better {where}: {runs[gain < 0]} is furthest ahead {most}, but this "
            "may be chance."
        )
    ahead = [sum(_gain(table, name) > 0 for name in sure), sum(_gain(table, name) < 0 for name in sure)]
    leader = 0 if ahead[0] >= ahead[1] else 1
    other = f", {runs[1 - leader]} in {ahead[1 - leader]}" if ahead[1 - leader] else ""
    whose = "" if (gain > 0) == (leader == 0) else f"{runs[gain < 0]} "
    return f"{runs[leader]} is better than {runs[1 - leader]} in {ahead[leader]} of {total} {where}{other}; {whose}most {most}."


def frequency_finding(panel: Panel, curves: Curves) -> RunFinding | None:
    """Return how the first two runs depend on the frequency of the subject; None where no sentence can say what the
    curves show.
    """
    compared = panel.comparison
    if compared is None or len(compared) != len(panel) or curves.measure is not SUCCESS:
        return None
    if curves.relation or curves.cut == "mass":
        return None
    names = (compared.run_a.name, compared.run_b.name)
    return next((each for each in findings(compared, curves.k, names) if each.topic == "frequency"), None)


def frequency_sentence(finding: RunFinding | None, curves: Curves) -> str:
    """Return the finding's sentence; without a finding, what the curves show."""
    if finding is None:
        return f"{curves.title} by the frequency of the subject"
    return finding.sentence if len(curves.series) == 1 else f"Over all subjects {finding.sentence}"
