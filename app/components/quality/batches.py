"""The panel about batches: their progress, and the precision of each stratum."""

from __future__ import annotations

from collections.abc import Sequence

from blindspot.app import url
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.quality.marks import rate_figure
from blindspot.app.markup import Html, div, join, link, row, span, table_head, tag, term, wide_cell, wide_head
from blindspot.backend.judging.audits import BatchProgress

ARMS = {"priority": "by priority", "audit": "random audit", "second": "second labels", "repeat": "repeats"}


def batches_panel(batches: Sequence[BatchProgress]) -> Html:
    title = tag("summary", "Batches and their strata")
    if not batches:
        return tag(
            "details",
            title,
            tag("p", "No batches yet. A lead creates one on ", link("Team", url.TEAM), ".", cls="convention"),
            cls="panel fold",
        )
    head = table_head(
        "batch",
        tag("th", "questions", scope="col", cls="left wide"),
        "done",
        wide_head(""),
        tag("th", "state", scope="col", cls="left"),
    )
    table = tag(
        "table",
        head,
        tag("tbody", *(line for batch in reversed(batches) for line in _lines(batch))),
        cls="figures batches",
    )
    strata = _strata(batches)
    return tag("details", title, scrolling(table), strata, cls="panel fold", open=bool(strata))


def _lines(progress: BatchProgress) -> list[Html]:
    batch = progress.batch
    share = batch.done / batch.questions
    arms = (
        "practice"
        if batch.practice
        else ", ".join(f"{progress.arms[arm]:,} {words}" for arm, words in ARMS.items() if arm in progress.arms)
    )
    bar = div(
        span(style=f"width:{100 * share:.1f}%"),
        cls="progress",
        role="progressbar",
        aria_valuenow=f"{100 * share:.0f}",
        aria_valuemin="0",
        aria_valuemax="100",
        aria_label=f"{batch.name}: questions done",
    )
    done = "–" if batch.practice else f"{batch.done:,} of {batch.questions:,}"
    return [
        row(
            tag("td", arms, cls="left kind wide"),
            done,
            tag("td", "" if batch.practice else bar, cls="bar wide"),
            tag("td", "✓ done" if batch.done == batch.questions and not batch.practice else batch.state, cls="left"),
            head=batch.name,
        )
    ]


def _strata(batches: Sequence[BatchProgress]) -> Html:
    lines = [
        row(
            wide_cell(f"{rates.positive.questions:,}"),
            wide_cell(f"{rates.positive.passages:,}"),
            rate_figure(rates.positive),
            wide_cell(rate_figure(rates.with_related)),
            head=join(name, span(f" {batch.batch.name}", cls="soft")),
        )
        for batch in batches
        for name, rates in batch.strata.items()
    ]
    if not lines:
        return Html("")
    related = wide_head(term("with related, %", "Positive or related"))
    head = table_head("stratum", wide_head("questions"), wide_head("passages"), "positive, %", related)
    note = "Share of positives among the judged passages of each stratum, unweighted. If the pairs of a stratum were drawn at random, its share is an estimate for the whole stratum. RocketQA's authors checked their pseudo-labels in the same way; more than 90% were correct."
    return div(
        tag("h3", "Strata of a training set"),
        scrolling(tag("table", head, tag("tbody", *lines), cls="figures rates")),
        tag("p", note, cls="convention"),
    )
