"""Summarise a comparison by relation, or by frequency, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from blindspot.analysis.buckets import FEW
from blindspot.analysis.relations import RELATIONS
from blindspot.backend.core.result_table import signed_ends, signed_number
from blindspot.backend.evaluation.comparison import SURE
from blindspot.backend.evaluation.findings import findings
from blindspot.backend.evaluation.measures import SUCCESS
from blindspot.backend.evaluation.panel import Curves, Panel, RelationTable
from blindspot.backend.text.number_words import quantity


def relations_sentence(table: RelationTable, runs: Sequence[str]) -> str:
    """Return a sentence that states in how many relations each run is ahead, and in which relation the most. For a
    single run, it states the number of relations.

    A run is ahead in a relation if the Holm-adjusted p value is at most 0.05. The relation that is named is the one with
    the largest difference among those with enough questions, if there are any.
    """
    total = quantity(len(table.differences or table.rows), "relation")
    if not table.differences:
        return f"{runs[0]} in {total}"
    gains = {name: 100 * (both.difference.estimate.value or 0.0) for name, both in table.differences.items()}
    sure = {name for name, both in table.differences.items() if both.difference.p_shown <= SURE}
    enough = [row.group for row in table.rows if row.units >= FEW and row.group in (sure or gains)]
    best = max(enough or sure or gains, key=lambda name: abs(gains[name]))
    most = f"{RELATIONS[best].label} ({best})" if best in RELATIONS else best
    estimate = table.differences[best].difference.estimate
    most += f": {signed_number(gains[best])} points ({signed_ends(100 * (estimate.low or 0.0), 100 * (estimate.high or 0.0))})"
    if not sure:
        return (
            f"No difference in any of {total} is certain at {table.k} (Holm-adjusted); the largest before the adjustment "
            f"is on {most}."
        )
    ahead = [sum(gains[name] > 0 for name in sure), sum(gains[name] < 0 for name in sure)]
    leader = 0 if ahead[0] >= ahead[1] else 1
    other = f", {runs[1 - leader]} in {ahead[1 - leader]}" if ahead[1 - leader] else ""
    return f"{runs[leader]} is ahead in {ahead[leader]} of {total} at {table.k}{other} (Holm-adjusted); most on {most}."


def frequency_sentence(panel: Panel, curves: Curves) -> str:
    """Return how the first two runs depend on the frequency of the subject; what the curves show where no sentence can say it."""
    compared = panel.comparison
    if (
        compared is not None
        and len(compared) == len(panel)
        and curves.measure is SUCCESS
        and not curves.relation
        and curves.cut != "mass"
    ):
        names = (compared.run_a.name, compared.run_b.name)
        said = [each.sentence for each in findings(compared, curves.k, names) if each.topic == "frequency"]
        if said:
            return said[0] if len(curves.series) == 1 else f"Over all subjects {said[0]}"
    return f"{curves.title} by the frequency of the subject"
