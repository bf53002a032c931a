"""The charts of labels: what a learned judge reached with so many, and what further ones are expected to add."""

from __future__ import annotations

from collections.abc import Sequence

from blindspot.analysis.forecast_intervals import Forecast
from blindspot.app.markup import Html, div, span, tag, term
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training.forecast_steps import LABELS
from blindspot.backend.training.label_forecast import signed_points
from blindspot.backend.training.stored_curve_points import CurvePoint, Share

_MARGIN = 0.02  # room above and below the intervals
_HALF_LINE = 1.1  # half the width of a line, in percent of the plot's height

JUDGED_PAIRS = (
    "Passages of training questions that people judged. Two people's labels of a passage make one pair, so there are "
    "fewer pairs than labels; disputed pairs count here and teach nothing until they are settled"
)


def measured_chart(points: Sequence[CurvePoint], shares: Sequence[Share], base: Share) -> Html:
    """Draw the reranker's Success@1 after each measured number of judged pairs, with intervals.

    Args:
        shares: one for each point.
        base: Success@1 of BM25, whose hits the reranker orders.
    """
    low = max(0.0, min(base.value, *(share.low for share in shares)) - _MARGIN)
    high = min(1.0, max(base.value, *(share.high for share in shares)) + _MARGIN)
    most = max(point.labels for point in points) or 1

    def horizontal_position(point: CurvePoint) -> float:
        return 100 * (0.03 + 0.94 * point.labels / most)

    def vertical_position(value: float) -> float:
        return 100 * (high - value) / (high - low)

    places = [(horizontal_position(point), share) for point, share in zip(points, shares, strict=True)]
    marks = [span(cls="base", style=f"top:{vertical_position(base.value):.1f}%", title=f"BM25: {share_text(base)}")]
    corners = [tuple(vertical_position(value) for value in (share.high, share.value, share.low)) for _, share in places]
    marks += _line_with_band([(x, *ys) for (x, _), ys in zip(places, corners, strict=True)])
    for (x, share), point in zip(places, points, strict=True):
        top, bottom = vertical_position(share.high), vertical_position(share.low)
        marks.append(span(cls="bar", style=f"left:{x:.1f}%;top:{top:.1f}%;height:{bottom - top:.1f}%"))
        message = (
            f"{quantity(point.labels, 'judged pair')}, {quantity(point.judged, 'judged question')}: {share_text(share)}"
        )
        marks.append(
            span(
                cls="dot",
                style=f"left:{x:.1f}%;top:{vertical_position(share.value):.1f}%",
                title=message,
                tabindex="0",
                role="img",
                aria_label=message,
            )
        )
    ticks = [
        span(f"{100 * value:.0f}", cls="tick", style=f"top:{vertical_position(value):.1f}%") for value in (low, high)
    ]
    return div(
        div(
            tag("b", "Reranker, Success@1"),
            " ",
            f"{share_text(shares[-1])}",
            span(f" BM25 {100 * base.value:.1f}", cls="soft"),
            cls="curve-title",
        ),
        div(*marks, *ticks, cls="curve-plot"),
        div(
            span("0"), term(quantity(most, "judged pair"), JUDGED_PAIRS) if points[-1].labels else "", cls="curve-below"
        ),
        cls="curve-chart",
    )


def forecast_chart(expected: Sequence[Forecast], has_points: bool) -> Html:
    """Draw what further labels are expected to change in the reranker, from 0 further labels on, with its band.
    has_points: whether a chart below shows measured points.
    """
    low = min(0.0, *(found.low for found in expected)) - _MARGIN / 2
    high = max(0.0, *(found.high for found in expected)) + _MARGIN / 2

    def vertical_position(value: float) -> float:
        return 100 * (high - value) / (high - low)

    places = [(3.0, *[vertical_position(0.0)] * 3)]
    for number, found in zip(LABELS, expected, strict=True):
        ends = (vertical_position(value) for value in (found.high, found.value, found.low))
        places.append((3 + 94 * number / LABELS[-1], *ends))
    ticks = [
        span(signed_points(value), cls="tick", style=f"top:{vertical_position(value):.1f}%")
        for value in (low + _MARGIN / 2, 0.0, high - _MARGIN / 2)
    ]
    zero = span(cls="base", style=f"top:{vertical_position(0.0):.1f}%")
    return div(
        div(
            tag("b", "Learned from more questions"),
            span(", change of Success@1 in points", cls="soft"),
            cls="curve-title",
        ),
        div(zero, *_line_with_band(places), *ticks, cls="curve-plot", aria_hidden="true"),
        div(span("0 more labels"), span(f"{LABELS[-1]}"), cls="curve-below"),
        div("measured points: below", cls="curve-below") if has_points else "",
        cls="curve-chart",
    )


def _line_with_band(places: Sequence[tuple[float, ...]]) -> list[Html]:
    """Draw a line and the band around it through places (x, top, middle, bottom), in percent of the plot."""
    if len(places) < 2:
        return []
    band = [(x, top) for x, top, _, _ in places] + [(x, bottom) for x, _, _, bottom in reversed(places)]
    edge = [(x, y) for x, _, y, _ in places]
    line = [(x, y - _HALF_LINE) for x, y in edge] + [(x, y + _HALF_LINE) for x, y in reversed(edge)]
    return [span(cls="band", style=_polygon(band)), span(cls="curve-line", style=_polygon(line))]


def _polygon(corners: Sequence[tuple[float, float]]) -> str:
    return f"clip-path:polygon({','.join(f'{x:.1f}% {y:.1f}%' for x, y in corners)})"


def share_text(share: Share) -> str:
    return f"{100 * share.value:.1f} ({100 * share.low:.1f}–{100 * share.high:.1f})"
