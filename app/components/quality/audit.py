"""False negatives among the unlabelled passages, from the random audit alone, and whether enough was audited."""

from __future__ import annotations

from collections.abc import Callable

from app import url
from app.components.marks import count, percent, relation_label
from app.components.quality.marks import bounds, gauge, heads, rate_figure, row, stopping
from app.components.tables import scrolling
from app.components.training.judges import VIEW
from app.markup import Html, div, join, link, span, tag, term
from backend.judging.audits import Audit, Rates

BYS = ("relation", "bucket", "rank")
FALSE_NEGATIVES = "Unlabelled passages that answer their question, of all that the runs put on top"
ROCKETQA = (
    "RocketQA's authors looked at the top passages of 100 MS MARCO questions that nobody had labelled, and found about 70% of them "
    "positive or highly relevant (section 4.2.2). The second figure is that share for this corpus, these runs and this depth."
)


def audit_panel(found: Audit, batches: tuple[str, ...], chosen: str | None, by: str, here: Callable[..., str]) -> Html:
    """
    Args:
        batches: all that have an audit arm. chosen: the one the figures are of, None for all.
        by: one of BYS.
        here: the page's own address with some parameters changed.
    """
    title = tag("h2", "False negatives among unlabelled passages")
    if not found.drawn:
        return div(
            title,
            tag(
                "p",
                "No batch has an audit arm yet. It is a random tenth of a batch by default; only from it can be said "
                "how many false negatives there are. What is judged first looks like one, and says nothing of the rest.",
                cls="convention",
            ),
            cls="panel",
        )
    counted = found.drawn - found.bad - found.waiting
    said = [
        f"From the random audit alone: {counted:,} of {count(found.drawn, 'audit question')} judged in full",
        f", {found.waiting:,} to go" if found.waiting else "",
        f", {found.bad:,} called bad and left out" if found.bad else "",
        ".",
    ]
    picker = _batch_picker(batches, chosen, here)
    if found.overall is None:
        return div(title, tag("p", *said, " The rates come with the first one.", cls="convention"), picker, cls="panel")
    return div(
        title,
        tag("p", *said, cls="convention"),
        picker,
        _headline(found.overall),
        tag("p", _convention(found.overall), cls="convention"),
        _by(found, by, here),
        tag(
            "p",
            link(
                "People beside the cross-encoder and the answer match, by rank", url.href(url.TRAINING, {"view": VIEW})
            ),
            cls="convention",
        ),
        cls="panel",
    )


def _headline(rates: Rates) -> Html:
    parts = (
        ("answer the question, though nobody labelled them", rates.positive),
        ("answer it or are related to it", rates.with_related),
    )
    return div(
        *(
            div(
                div(
                    f"{percent(rate.value)}%",
                    span(
                        f"95%: {bounds(rate.low, rate.high)}" if rate.low is not None else "no interval", cls="interval"
                    ),
                    cls="big",
                ),
                div(words, cls="what"),
                div(
                    f"{count(rate.passages, 'passage')}, {count(rate.questions, 'question')}; ",
                    stopping(rate),
                    cls="rule",
                ),
            )
            for words, rate in parts
        ),
        cls="headline",
    )


def _convention(rates: Rates) -> Html:
    rate = rates.positive
    unsettled = (
        ""
        if not rate.unsettled
        else (
            f" {count(rate.unsettled, 'passage')} unsure or in dispute left out; were none of them positive it would be "
            f"{percent(rate.lower_bound)}%, were all {percent(rate.upper_bound)}%."
        )
    )
    finished = f" A group is finished when its interval is at most {100 * rate.target:.0f} points wide. "
    return join(
        "Each passage weighs 1 / its chance of being drawn; the unit of the interval is the question.",
        unsettled,
        finished,
        term("RocketQA: about 70%", ROCKETQA),
        ".",
    )


def _by(found: Audit, by: str, here: Callable[..., str]) -> Html:
    choices = span(
        *(
            link(
                f"by {name}",
                here(by=name if name != BYS[0] else None),
                cls="here" if name == by else None,
                aria_current="true" if name == by else None,
                data_focus=f"by-{name}",
            )
            for name in BYS
        ),
        cls="choices",
    )
    groups = found.by.get(by, {})
    if not groups:
        return div(choices, span("No audited question has one.", cls="soft"), cls="choice-line")
    scale = tag(
        "th",
        span("0", cls="zero"),
        span("100", cls="hundred"),
        cls="gauge-cell",
        scope="col",
        title="False negatives in per cent: the dot is the rate, the line its 95% interval",
    )
    head = heads(
        by,
        "questions",
        "passages",
        term("false negatives, %", FALSE_NEGATIVES),
        scale,
        term("enough?", "The stopping rule"),
        term("with related, %", "Positive or related"),
    )
    lines = [
        row(
            f"{rates.positive.questions:,}",
            f"{rates.positive.passages:,}",
            rate_figure(rates.positive),
            tag("td", gauge(rates.positive), cls="gauge-cell"),
            stopping(rates.positive),
            rate_figure(rates.with_related),
            head=_group(by, group),
        )
        for group, rates in groups.items()
    ]
    return join(
        div(choices, cls="choice-line"), scrolling(tag("table", head, tag("tbody", *lines), cls="figures rates"))
    )


def _group(by: str, group: str) -> Html | str:
    if by != "relation":
        return group
    return link(
        relation_label(group),
        url.href(url.COMPARE, {"relation": group}),
        title="The questions of this relation, on Compare",
    )


def _batch_picker(batches: tuple[str, ...], chosen: str | None, here: Callable[..., str]) -> Html:
    if len(batches) < 2:
        return Html("")
    names = (None, *batches)
    links = [
        link(
            name or "all audits",
            here(batch=name),
            cls="here" if name == chosen else None,
            aria_current="true" if name == chosen else None,
            data_focus=f"batch-{name}",
        )
        for name in names
    ]
    return div(span("Audit of", cls="label"), span(*links, cls="choices"), cls="choice-line")
