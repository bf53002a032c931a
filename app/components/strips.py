"""A column of a table that draws A − B on a line from one end of the scale to the other, one row each."""

from __future__ import annotations

from collections.abc import Iterable

from blindspot.analysis.accuracy import Estimate
from blindspot.app.markup import Html, div, join, span, tag
from blindspot.backend.core.result_table import signed_ends, signed_number


def difference_strip(
    estimate: Estimate,
    limit: float,
    outside: float | None = None,
    what: str = "A − B",
    is_pale: bool | None = None,
) -> Html:
    """Draw a difference, of A and B unless `what` names two others, with its 95% interval on a line from -limit to limit.
    The figures of the row say the same. The mark has the colour and the shape of the run that is ahead. Empty without
    an interval.

    Args:
        outside: the difference in the other questions, in points, as a hollow mark.
        is_pale: whether the mark is pale, as the row's figure is; by default where the interval includes 0.
    """
    if estimate.low is None:
        return Html("")
    value, low, high = estimate.percent

    def place(points: float) -> float:
        return 50 + 50 * max(-1.0, min(points / limit, 1.0))

    side = "a" if value > 0 else "b" if value < 0 else "level"
    pale = " pale" if (low <= 0 <= high if is_pale is None else is_pale) else ""
    elsewhere = "" if outside is None else f", {signed_number(outside)} elsewhere"
    return div(
        span(cls="zero"),
        span(cls="range", style=f"left:{place(low):.1f}%;width:{place(high) - place(low):.1f}%"),
        span(cls=f"dot {side}{pale}", style=f"left:{place(value):.1f}%"),
        "" if outside is None else span(cls="rest", style=f"left:{place(outside):.1f}%"),
        cls="strip",
        title=f"{what}, points: {signed_number(value)} ({signed_ends(low, high)}){elsewhere}",
        aria_hidden="true",
    )


def strip_head(limit: float) -> Html:
    """The head of the column: the ends of the scale and its middle."""
    ends = (signed_number(-limit, 0), "0", signed_number(limit, 0))
    label = join(div("A − B, points"), div(*(span(each) for each in ends), cls="strip-scale"))
    return tag("th", label, scope="col", cls="wide strip-column", data_unsorted=True)


def strip_cell(estimate: Estimate, limit: float, outside: float | None = None, is_pale: bool | None = None) -> Html:
    """The cell of a row."""
    return tag("td", difference_strip(estimate, limit, outside, is_pale=is_pale), cls="wide strip-column")


def widest_difference(estimates: Iterable[Estimate]) -> float:
    """Return the end of the scale, a multiple of 10 points that holds all intervals."""
    ends = [abs(end) for each in estimates if each.low is not None for end in each.percent]
    return 10.0 * int(-(-max(ends, default=100.0) // 10))
