"""Summarise a comparison by relation, or by frequency, in one sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile

from blindspot.analysis.buckets import FEW, GROUPS, NEVER
from blindspot.analysis.relations import RELATIONS
from blindspot.backend.core.result_table import p_value, signed_number, stated_interval
from blindspot.backend.evaluation.comparison import SURE, PairedFigures
from blindspot.backend.evaluation.comparison_words import lead_words, where_words
from blindspot.backend.evaluation.findings import bucket_words
from blindspot.backend.evaluation.measures import SUCCESS
from blindspot.backend.evaluation.panel import Curves, RelationTable
from blindspot.backend.text.number_words import noun_form, quantity


def named_relation(table: RelationTable) -> str:
    """Return the relation that `relations_sentence` names: the certain one with the largest difference. If none is
    certain, the one with the least p value, of equal ones that with the largest difference.
    """
    if sure := _certain_relations(table):
        return max(sure, key=lambda name: abs(_gain(table, name)))
    return min(table.differences, key=lambda name: (table.differences[name].difference.p, -abs(_gain(table, name))))


def has_certain_relation(table: RelationTable) -> bool:
    """Return whether a run is ahead in a relation for certain."""
    return bool(_certain_relations(table))


def _certain_relations(table: RelationTable) -> list[str]:
    """Return the relations in which a run is ahead: the Holm-adjusted p value is at most 0.05, and there are enough
    questions, unless all of these have few.
    """
    sure = [name for name, both in table.differences.items() if both.difference.p_shown <= SURE]
    large = set(_large_relations(table))
    return [name for name in sure if name in large] or sure


def _large_relations(table: RelationTable) -> list[str]:
    """Return the relations that are compared and have FEW units or more."""
    return [row.group for row in table.rows if row.units >= FEW and row.group in table.differences]


def _gain(table: RelationTable, name: str) -> float:
    return 100 * (table.differences[name].difference.estimate.value or 0.0)


def relations_sentence(table: RelationTable, runs: Sequence[str]) -> str:
    """Return a sentence that states in how many relations each run is ahead, and in which relation the most; or that
    none of these leads is certain, after the lead over all questions if that one is. For a single run, it states the
    run's measure over all relations.
    """
    total, where = quantity(len(table.differences or table.rows), "relation"), where_words(table.k, table.measure)
    if not table.differences:
        value = 100 * (table.micro[runs[0]][table.k].value or 0.0)
        if table.measure is SUCCESS:
            return f"{runs[0]} answers {value:.1f}% of the questions of {total} {where}."
        return f"{runs[0]} has {value:.1f} {where} over {total}."
    sure = _certain_relations(table)
    if not sure:
        if table.whole is not None and table.whole.difference.p_shown <= SURE:
            return f"{lead_words(table.whole, runs[0], runs[1])}; in none of {total} is a lead established on its own."
        return f"{_uncertain_leads(table, runs, total, where)}; none is established on its own."
    best, large = named_relation(table), _large_relations(table)
    gain = _gain(table, best)
    count = len(table.differences)
    if best in large and len(large) < count:
        count, total = len(large), f"{quantity(len(large), 'relation')} with {FEW} or more {noun_form(2, table.unit)}"
    most = f" on {_relation_words(best)}, by {abs(gain):.1f} points {_stated(table, best)}"
    ahead = [sum(_gain(table, name) > 0 for name in sure), sum(_gain(table, name) < 0 for name in sure)]
    leader = 0 if ahead[0] >= ahead[1] else 1
    other = f", {runs[1 - leader]} in {ahead[1 - leader]}" if ahead[1 - leader] else ""
    whose = "" if (gain > 0) == (leader == 0) else f"{runs[gain < 0]} "
    counted = f"all {total}" if 1 < count == ahead[leader] else f"{ahead[leader]} of {total}"
    return f"{where[0].upper()}{where[1:]}, {runs[leader]} is better than {runs[1 - leader]} in {counted}{other}; {whose}most{most}."


def _uncertain_leads(table: RelationTable, runs: Sequence[str], total: str, where: str) -> str:
    """Return in how many relations the run that is ahead more often is ahead, certain or not."""
    gains = [_gain(table, name) for name in table.differences]
    first, second = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    if first == second:
        return f"{runs[0]} and {runs[1]} are each ahead in {first} of {total} {where}"
    return f"{runs[second > first]} is ahead in {max(first, second)} of {total} {where}"


def clearest_sentence(table: RelationTable, runs: Sequence[str]) -> str:
    """Return the sentence below the heading if no relation is certain: the relation with the least p value, whose interval
    is not corrected for the number of relations. "" if a relation is certain, or for a single run.
    """
    if not table.differences or has_certain_relation(table):
        return ""
    best = named_relation(table)
    gain, counted = _gain(table, best), quantity(len(table.differences), "relation")
    return (
        f"Clearest: {_relation_words(best)}, {runs[gain < 0]} {signed_number(abs(gain))} {_stated(table, best)}, "
        f"uncorrected; not established after correction for {counted}."
    )


def _relation_words(name: str) -> str:
    return f"{RELATIONS[name].label} ({name})" if name in RELATIONS else name


def _stated(table: RelationTable, name: str) -> str:
    """Return the interval of a relation's difference, seen from the run that is ahead."""
    estimate = table.differences[name].difference.estimate
    low, high = sorted(math.copysign(100, _gain(table, name)) * (end or 0.0) for end in (estimate.low, estimate.high))
    return stated_interval(low, high)


def frequency_sentence(curves: Curves, runs: Sequence[str]) -> str:
    """Return where along the subjects' frequency the first two runs differ; without a comparison, what the curves show.

    A difference counts if its p value, adjusted for all groups of the table (Holm), is at most 0.05.
    """
    groups = {} if len(curves.series) > 1 else next(iter(curves.differences.values()), {})
    if not any(both.units >= FEW for both in groups.values()):
        return f"{curves.title} by the frequency of the subject"
    where, sure = where_words(curves.k, curves.measure), _certain_groups(groups)
    if not sure:
        return (
            f"In no group of subject frequencies is a difference between {runs[0]} and {runs[1]} {where} established."
        )
    leads = []
    for number, run in enumerate(runs[:2]):
        led = [bucket for bucket in sure if (_points(groups[bucket]) < 0) == bool(number)]
        if led:
            most = max(led, key=lambda bucket: abs(_points(groups[bucket])))
            low, high = sorted(math.copysign(100, _points(groups[most])) * (end or 0.0) for end in _ends(groups[most]))
            leads.append(
                (
                    abs(_points(groups[most])),
                    f"{run} leads by {abs(_points(groups[most])):.1f} points {where} "
                    f"{group_words(curves, most)} {stated_interval(low, high)}",
                )
            )
    leads.sort(reverse=True)
    return "; ".join(words for _, words in leads) + f"{_where_none_leads(curves, groups)}."


def small_groups_sentence(curves: Curves, runs: Sequence[str]) -> str:
    """Return the leads in groups that are too small for the heading to name: those of fewer than 30 units whose
    interval excludes 0. "" without such a group.
    """
    groups = {} if len(curves.series) > 1 else next(iter(curves.differences.values()), {})
    leads = []
    for bucket, both in sorted(groups.items()):
        low, high = _ends(both)
        if both.units >= FEW or low is None or high is None or low <= 0 <= high:
            continue
        lead = f"{runs[_points(both) < 0]} {signed_number(abs(_points(both)))}"
        low, high = sorted(math.copysign(100, _points(both)) * end for end in (low, high))
        p = f", p {p_value(both.difference.p_adjusted)} (Holm)" if both.difference.p_adjusted is not None else ""
        leads.append(f"{_group_name(curves, bucket)}: {lead} {stated_interval(low, high)}{p}")
    if not leads:
        return ""
    each = "each of " if len(leads) > 1 else ""
    return f"{'; '.join(leads)}; {each}fewer than {FEW} {noun_form(2, curves.unit)}, so only indicative."


def _group_name(curves: Curves, bucket: int) -> str:
    """Return a group at the start of a phrase, such as "2–3 mentions" or "Group 4"."""
    if curves.cut == "mentions":
        return f"{curves.label(bucket)} mentions"
    return "Never mentioned" if bucket == NEVER else f"Group {bucket}"


def group_words(curves: Curves, bucket: int, is_open: bool = False) -> str:
    """Return a group of frequencies in words, such as "where the subject is mentioned 4 to 9 times".

    Args:
        is_open: with all more frequent groups, such as "from 4 mentions on".
    """
    if curves.cut != "mentions":
        first = "frequency group" if curves.cut == "official" else "group"
        if bucket == NEVER:
            return "where the subject is never mentioned"
        return f"in {first}s 0 to {bucket}" if is_open else f"in {first} {bucket}"
    if not is_open:
        return bucket_words(f"{GROUPS[bucket]} mentions")
    return f"from {re.split('[-+]', GROUPS[bucket])[0]} mentions on"


def _where_none_leads(curves: Curves, groups: Mapping[int, PairedFigures]) -> str:
    """Return that no lead is established in the most frequent groups, from the first one above all with a lead on. A
    group of few questions with a lead counts here, although no sentence names it.
    """
    frequent = sorted(groups, reverse=curves.cut == "mentions")
    above = list(takewhile(lambda bucket: groups[bucket].difference.p_shown > SURE, frequent))
    if not above:
        return ""
    return f"; no lead is established {group_words(curves, above[-1], is_open=len(above) > 1)}"


def _certain_groups(groups: Mapping[int, PairedFigures]) -> list[int]:
    return [bucket for bucket, both in groups.items() if both.units >= FEW and both.difference.p_shown <= SURE]


def _points(both: PairedFigures) -> float:
    return 100 * (both.difference.estimate.value or 0.0)


def _ends(both: PairedFigures) -> tuple[float | None, float | None]:
    return both.difference.estimate.low, both.difference.estimate.high
