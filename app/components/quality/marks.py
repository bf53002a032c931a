"""Signs of the Quality page: a rate with its interval, a coefficient, the state of the stopping rule."""

from __future__ import annotations

from analysis.agreement import Agreement
from analysis.audit import Rate
from app.components.marks import count, percent
from app.markup import Html, div, span, tag

COVERS = "95% interval; questions were drawn again, for the labels of one question are alike"


def bounds(low: float | None, high: float | None) -> str:
    return "" if low is None else f"{100 * low:.1f}–{100 * high:.1f}"


def rate_figure(rate: Rate) -> Html:
    """A per cent with its interval beside it."""
    if rate.value is None:
        return span("–", title="nothing settled was sampled")
    unsettled = f"; {rate.unsettled:,} unsettled left out" if rate.unsettled else ""
    said = f"{percent(rate.value)}% of {count(rate.passages, 'passage')} of {count(rate.questions, 'question')}{unsettled}. {COVERS}."
    return span(
        percent(rate.value),
        span(bounds(rate.low, rate.high) or "no interval", cls="interval"),
        title=said,
        cls="figure",
    )


def gauge(rate: Rate) -> Html:
    """The rate as a dot on a scale from 0 to 100, its interval as a line."""
    if rate.low is None:
        return Html("")
    left, width = 100 * rate.low, 100 * (rate.high - rate.low)
    return div(
        div(cls="whisker", style=f"left:{left:.1f}%;width:{width:.1f}%"),
        div(cls="point", style=f"left:{100 * rate.value:.1f}%"),
        cls="gauge",
        aria_hidden="true",
    )


def stopping(rate: Rate) -> Html:
    """Is enough judged, and if not, about how many more questions does it take?"""
    points = f"{100 * rate.target:.0f} points"
    if rate.finished:
        return span("✓ finished", cls="state finished", title=f"The interval is at most {points} wide")
    if rate.more is None:
        return span("too few to say", cls="state", title=f"Finished when the interval is at most {points} wide")
    return span(
        f"~{_about(rate.more):,} more",
        cls="state",
        title=f"About so many more audit questions until the interval is at most {points} wide, at the present spread",
    )


def _about(number: int) -> int:
    """Two digits that count: a guess must not look exact."""
    step = 10 ** max(0, len(str(number)) - 2)
    return -(-number // step) * step


def coefficient(agreement: Agreement) -> Html:
    """Alpha or kappa with its interval below."""
    if agreement.value is None:
        why = "all labels are the same" if agreement.passages else "no passage was judged by two people"
        return span("–", title=f"not defined: {why}")
    interval = "" if agreement.low is None else f"{agreement.low:.2f} to {agreement.high:.2f}"
    return span(
        f"{agreement.value:.2f}", span(interval, cls="interval"), cls="figure", title=f"{agreement.method}. {COVERS}."
    )


def share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f}%"


def row(*cells: object, head: str | Html, **attributes: object) -> Html:
    return tag(
        "tr",
        tag("th", head, scope="row"),
        *(cell if isinstance(cell, Html) and cell.startswith("<td") else tag("td", cell) for cell in cells),
        **attributes,
    )


def heads(first: str, *rest: object) -> Html:
    return tag(
        "thead",
        tag(
            "tr",
            tag("th", first, scope="col", cls="left"),
            *(
                each if isinstance(each, Html) and each.startswith("<th") else tag("th", each, scope="col")
                for each in rest
            ),
        ),
    )
