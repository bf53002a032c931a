"""Small elements of the Quality page: a rate with its interval, an agreement coefficient, the state of the stopping
rule.
"""

from __future__ import annotations

from blindspot.analysis.agreement import Agreement
from blindspot.analysis.audit import Rate
from blindspot.app.components.marks import percent
from blindspot.app.markup import Html, div, span, tag
from blindspot.backend.text.number_words import quantity

INTERVAL_NOTE = "95% bootstrap interval over questions, because labels of the same question are correlated"


def bounds(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{100 * low:.1f}–{100 * high:.1f}"


def rate_figure(rate: Rate) -> Html:
    """A percentage with its interval next to it."""
    if rate.value is None:
        return span("–", title="no sampled passage has a settled label")
    unsettled = f"; {rate.unsettled:,} unsettled passages left out" if rate.unsettled else ""
    message = (
        f"{percent(rate.value)}% of {quantity(rate.passages, 'passage')} of "
        f"{quantity(rate.questions, 'question')}{unsettled}. {INTERVAL_NOTE}."
    )
    return span(
        percent(rate.value),
        span(bounds(rate.low, rate.high) or "no interval", cls="interval"),
        title=message,
        cls="figure",
    )


def gauge_head(title: str) -> Html:
    """The head of a column of rates: the scale from 0 to 100."""
    return tag("th", span("0", cls="zero"), span("100", cls="hundred"), cls="gauge-cell wide", scope="col", title=title)


def gauge(rate: Rate) -> Html:
    """The rate as a dot on a scale from 0 to 100, with its interval as a line."""
    if rate.value is None or rate.low is None or rate.high is None:
        return Html("")
    left, width = 100 * rate.low, 100 * (rate.high - rate.low)
    return div(
        div(cls="whisker", style=f"left:{left:.1f}%;width:{width:.1f}%"),
        div(cls="point", style=f"left:{100 * rate.value:.1f}%"),
        cls="gauge",
        aria_hidden="true",
    )


def stopping_state(rate: Rate, in_words: bool = False) -> Html:
    """The state of the stopping rule: finished, or the approximate number of questions still needed, and what for
    (`in_words`).
    """
    points = f"{100 * rate.target:.0f} points"
    if rate.finished:
        return span("✓ finished", cls="state finished", title=f"The interval is at most {points} wide")
    if rate.more is None:
        return span("too few questions", cls="state", title=f"Finished when the interval is at most {points} wide")
    more = f"{_round_estimate(rate.more):,} more"
    return span(
        f"about {more} questions narrow the title's interval to {points}" if in_words else f"~{more}",
        cls="state",
        title=f"Estimated number of further audit questions until the interval is at most {points} wide",
    )


def _round_estimate(number: int) -> int:
    """Round up to two significant digits, so that an estimate does not look exact."""
    step = 10 ** max(0, len(str(number)) - 2)
    return -(-number // step) * step


def coefficient(agreement: Agreement) -> Html:
    """Alpha or kappa with its interval below."""
    if agreement.value is None:
        why = "all labels are the same" if agreement.passages else "no passage has labels of two people"
        return span("–", title=f"not defined: {why}")
    interval = "" if agreement.low is None else f"{agreement.low:.2f} to {agreement.high:.2f}"
    return span(
        f"{agreement.value:.2f}",
        span(interval, cls="interval"),
        cls="figure",
        title=f"{agreement.method}. {INTERVAL_NOTE}.",
    )


def share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f}%"
