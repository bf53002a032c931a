"""The panel about batches: their progress."""

from __future__ import annotations

from collections.abc import Sequence

from blindspot.app import url
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.markup import Html, div, link, row, span, table_head, tag, wide_head
from blindspot.backend.judging.audits import BatchProgress

ARMS = {"priority": "by priority", "audit": "random audit", "second": "second labels", "repeat": "repeats"}


def batches_panel(batches: Sequence[BatchProgress]) -> Html:
    title = tag("summary", "Batches")
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
    return tag("details", title, scrolling(table), cls="panel fold")


def _lines(progress: BatchProgress) -> list[Html]:
    batch = progress.batch
    share = batch.done / batch.questions
    arms = ", ".join(f"{progress.arms[arm]:,} {words}" for arm, words in ARMS.items() if arm in progress.arms)
    bar = div(
        span(style=f"width:{100 * share:.1f}%"),
        cls="progress",
        role="progressbar",
        aria_valuenow=f"{100 * share:.0f}",
        aria_valuemin="0",
        aria_valuemax="100",
        aria_label=f"{batch.name}: questions done",
    )
    done = f"{batch.done:,} of {batch.questions:,}"
    return [
        row(
            tag("td", arms, cls="left kind wide"),
            done,
            tag("td", bar, cls="bar wide"),
            tag("td", "✓ done" if batch.done == batch.questions else batch.state, cls="left"),
            head=batch.name,
        )
    ]
