"""The rate of false negatives among unlabelled passages, estimated from the random audit, and the stopping rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blindspot.analysis.audit import Rate
from blindspot.analysis.buckets import FEW, UNKNOWN
from blindspot.app import url
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import grouping, methods_note, pale_note, percent, relation_label
from blindspot.app.components.quality.marks import gauge, gauge_head, rate_figure, stopping_state
from blindspot.app.markup import Html, div, join, link, row, span, table_head, tag, term, wide_cell, wide_head
from blindspot.backend.core.result_table import stated_interval
from blindspot.backend.judging.audits import Audit, AuditRates
from blindspot.backend.text.number_words import quantity

BYS = ("rank", "relation", "bucket")
NO_AUDIT = (
    "This panel estimates the rate of false negatives from a batch's random audit (10% of a batch by default), and no "
    "batch has an audit yet. Questions chosen by priority are not a random sample, so they give no estimate."
)
FALSE_NEGATIVES = "Share of the unlabelled top-ranked passages that answer their question"
ROCKETQA = (
    "RocketQA's authors checked the unlabelled top-ranked passages of 100 MS MARCO questions; about 70% were "
    "positive or highly relevant (section 4.2.2). The share with related passages is the same share for this corpus, these runs "
    "and this depth."
)


def audit_panel(
    audit: Audit,
    batches: tuple[str, ...],
    chosen_batch: str | None,
    grouping: str,
    page_address: Callable[..., str],
    depth: int | None = None,
) -> Html:
    """The panel on false negatives.

    Args:
        batches: batches with an audit.
        chosen_batch: the batch that the figures cover; None for all.
        grouping: the grouping, one of BYS.
        page_address: returns the page's address with changed parameters.
        depth: the ranks from which all batches were drawn; None where they differ.
    """
    title = tag("h2", "False negatives among unlabelled passages")
    if not audit.drawn:
        return div(title, tag("p", NO_AUDIT, cls="convention"), cls="panel")
    judged = audit.drawn - audit.bad - audit.waiting
    sentences = [
        f"Random audit: {judged:,} of {quantity(audit.drawn, 'question')} judged completely",
        f", {audit.waiting:,} remaining" if audit.waiting else "",
        f", {audit.bad:,} bad (left out)" if audit.bad else "",
        ".",
    ]
    picker = _batch_picker(batches, chosen_batch, page_address)
    if audit.overall is None:
        return div(
            title,
            tag(
                "p",
                *sentences,
                " The rates appear when the first question has been judged completely.",
                cls="convention",
            ),
            picker,
            cls="panel",
        )
    return div(
        title,
        picker,
        _related_line(audit.overall),
        _group_rates(audit, grouping, page_address, depth),
        tag("p", *sentences, cls="convention") if audit.waiting or audit.bad or not _in_title(audit.overall) else "",
        methods_note(_convention(audit.overall)),
        cls="panel",
    )


def _related_line(rates: AuditRates) -> Html:
    """Say how many passages are positive or related, and how many more questions the title's interval needs. Also how
    many are positive, where the title does not say it.
    """
    alone = rates.positive
    of_them = (
        f" of {quantity(alone.passages, 'passage')} of {quantity(alone.questions, 'question')} answer the question; "
    )
    words = "" if _in_title(rates) else f"{_stated_rate(alone)}{of_them}"
    words += f"{_stated_rate(rates.with_related)} answer the question or are related to it; "
    return tag("p", words, stopping_state(alone, in_words=True), ".")


def _in_title(rates: AuditRates) -> bool:
    """Return whether the page's title is the rate: one with an interval."""
    return None not in (rates.positive.value, rates.positive.low, rates.positive.high)


def _stated_rate(rate: Rate) -> str:
    if rate.low is None or rate.high is None:
        return f"{percent(rate.value)}% (no interval)"
    return f"{percent(rate.value)}% {stated_interval(100 * rate.low, 100 * rate.high)}"


def _convention(rates: AuditRates) -> Html:
    rate = rates.positive
    unsettled = (
        ""
        if not rate.unsettled
        else (
            f" {quantity(rate.unsettled, 'unsure or disputed passage')} left out: the rate would be "
            f"{percent(rate.lower_bound)}% if none were positive, {percent(rate.upper_bound)}% if all were."
        )
    )
    finished = f" A group is finished when its interval is at most {100 * rate.target:.0f} percentage points wide. "
    return join(
        "Passages are weighted by the inverse of their sampling probability; intervals resample questions.",
        unsettled,
        finished,
        term("RocketQA: about 70%", ROCKETQA),
        ".",
    )


FOLDED = 3  # so many groups without an interval, and no more, stand in the table itself


def _group_rates(audit: Audit, group_kind: str, page_address: Callable[..., str], depth: int | None) -> Html:
    held = [name for name in BYS if audit.by.get(name, {}).keys() - {UNKNOWN}]
    if not held:
        return Html("")
    group_kind = group_kind if group_kind in held else held[0]
    choices = span(
        *(
            link(
                f"by {grouping(name)}",
                page_address(by=name),
                cls="here" if name == group_kind else None,
                aria_current="true" if name == group_kind else None,
                data_focus=f"by-{name}",
            )
            for name in held
        ),
        cls="choices",
    )
    groups = audit.by[group_kind]
    scale = gauge_head("False negatives in percent: the dot is the rate, the line its 95% interval")
    head = table_head(
        grouping(group_kind),
        wide_head("questions"),
        wide_head("passages"),
        term("false negatives, %", FALSE_NEGATIVES),
        scale,
        wide_head(term("stopping rule", "Whether enough audit questions are judged")),
        wide_head(term("with related, %", "Positive or related")),
    )
    lines: dict[bool, list[Html]] = {True: [], False: []}  # whether they are shown at once
    is_long = sum(rates.positive.low is None for rates in groups.values()) > FOLDED
    for group, rates in groups.items():
        line = row(
            wide_cell(f"{rates.positive.questions:,}"),
            wide_cell(f"{rates.positive.passages:,}"),
            rate_figure(rates.positive),
            tag("td", gauge(rates.positive), cls="gauge-cell wide"),
            wide_cell(stopping_state(rates.positive)),
            wide_cell(rate_figure(rates.with_related)),
            head=_group(group_kind, group, depth),
            cls="few" if rates.positive.passages < FEW else None,
        )
        lines[rates.positive.low is not None or not is_long].append(line)
    has_few = any(rates.positive.passages < FEW for rates in groups.values())
    without = tag("summary", f"{quantity(len(lines[False]), 'group')} with too few questions for an interval")
    return join(
        div(choices, cls="choice-line"),
        _rates_table(head, lines[True]) if lines[True] else "",
        tag("details", without, _rates_table(head, lines[False]), cls="fold") if lines[False] else "",
        pale_note(f"fewer than {FEW} passages") if has_few else "",
    )


def _rates_table(head: Html, lines: Sequence[Html]) -> Html:
    return scrolling(tag("table", head, tag("tbody", *lines), cls="figures rates"))


def _group(grouping: str, group: str, depth: int | None) -> Html | str:
    """The name of a group; that of ranks ends at the depth of the audit."""
    first, _, last = group.removeprefix("ranks ").partition("-")
    if grouping == "rank" and depth is not None and last.isdecimal() and int(last) > depth:
        return f"ranks {first}-{depth}" if int(first) < depth else f"rank {depth}"
    if grouping != "relation":
        return group
    return link(
        relation_label(group),
        url.href(url.COMPARE, {"relation": group}),
        title="Show this relation on Compare",
    )


def _batch_picker(batches: tuple[str, ...], chosen_batch: str | None, page_address: Callable[..., str]) -> Html:
    if len(batches) < 2:
        return Html("")
    names = (None, *batches)
    links = [
        link(
            name or "all audits",
            page_address(batch=name),
            cls="here" if name == chosen_batch else None,
            aria_current="true" if name == chosen_batch else None,
            data_focus=f"batch-{name}",
        )
        for name in names
    ]
    return div(span("Audit of", cls="label"), span(*links, cls="choices"), cls="choice-line")
