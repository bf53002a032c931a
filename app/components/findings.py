"""Home's first panel: the main finding in one sentence, the one next action, and both runs' accuracy by frequency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blindspot.analysis.accuracy import Estimate
from blindspot.app import study, url
from blindspot.app.components.marks import SUCCESS, few, letter, methods_note, pale_note, percent, unbroken
from blindspot.app.markup import Html, div, join, link, span, tag
from blindspot.app.runs import convention
from blindspot.backend.core.settings import Unit
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import count_with_units, generalisation
from blindspot.backend.evaluation.findings import (
    FrequencyPoint,
    findings,
    frequency_points,
)
from blindspot.backend.evaluation.pairs import default_pair
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.text.number_words import quantity


def findings_panel(open_study: Study, runs: Mapping[str, dict], heading: str = "h1") -> Html:
    """The findings about the two chosen runs, the first one as the heading. Empty if there are no two runs that share
    questions.

    Args:
        heading: the element of the first finding: "h2" below another panel's heading.
    """
    if len(runs) < 2:
        return Html("")
    first, second = default_pair(runs)
    a, b = url.one_of("a", list(runs), first), url.one_of("b", list(runs), second)
    rule = study.rule_of_runs(open_study, a, b)
    compared = study.comparison(open_study, a, b, "answers", rule)
    k = min(HEADLINE_K, compared.depth) if len(compared) else 0
    found = findings(compared, k, (a, b)) if k else []
    if not found or a == b:
        return Html("")
    about = (
        f"{compared.units.count_words()}, {a} and {b}, 95% intervals. {SUCCESS} {convention(compared.run_a.kind, rule)} "
        f"{generalisation(compared.units.name)}"
    )
    points = frequency_points(compared, k)
    figure = curves(points, (a, b), k, compared.units.name) if len(points) > 1 else ""
    frequency = [tag("p", each.sentence) for each in found if each.topic == "frequency"][:1]
    button = link("Compare the runs", url.href(url.COMPARE, {"a": a, "b": b, "k": k}), cls="button main")
    return div(
        div(
            tag(heading, link(unbroken(found[0].sentence, (a, b)), url.href(url.COMPARE, {"a": a, "b": b, "k": k}))),
            *frequency,
            div(button, methods_note(about), cls="action"),
        ),
        figure,
        cls="findings",
    )


def curves(points: Sequence[FrequencyPoint], names: tuple[str, str], k: int, unit: Unit) -> Html:
    """A plot of both runs' accuracy by frequency, drawn with HTML boxes because Streamlit removes SVG from markup. A
    group of fewer than 5 units is a point without a line.
    """
    official = points[0].label.startswith("bucket ")
    points = points if official else points[::-1]  # as on By frequency: groups by mentions begin with the rarest
    places = [100 * (number + 0.5) / len(points) for number in range(len(points))]
    sides = {"a": [point.estimate_a for point in points], "b": [point.estimate_b for point in points]}
    joined = [number for number, point in enumerate(points) if point.is_joined]
    shifts = {"a": -1.5, "b": 1.5}  # so that the points of a group are side by side
    lines = [
        div(
            cls=f"line {side}",
            style=f"clip-path:{_ribbon([places[n] + shifts[side] for n in joined], [each[n] for n in joined])}",
        )
        for side, each in sides.items()
    ]
    dots = [
        _dot(side, place + shifts[side], estimate, point)
        for side, each in sides.items()
        for place, estimate, point in zip(places, each, points, strict=True)
    ]
    scale = [span(f"{value}", style=f"bottom:{value}%") for value in (0, 50, 100)]
    with_units = any(point.estimate_a.units not in (None, point.n) for point in points)
    labels = [
        span(
            span(_short_label(point.label)),
            span(f"n {point.n:,}", cls="soft"),
            span(quantity(point.estimate_a.units or 0, unit), cls="soft") if with_units else "",
            cls="pale" if point.has_few_questions else None,
        )
        for point in points
    ]
    key = div(
        *(span(letter(side), f" {name}", cls="who") for side, name in zip("ab", names, strict=True)),
        span(f"Success@{k}, %, by {'frequency group' if official else 'mentions of the subject'}", cls="soft"),
        cls="key",
    )
    words = "; ".join(
        f"{point.label}: {names[0]} {percent(point.estimate_a.value)}, {names[1]} {percent(point.estimate_b.value)}"
        for point in points
    )
    plot = div(div(*scale, cls="scale"), div(*lines, *dots, cls="area"), cls="plot", role="img", aria_label=words)
    hollow = pale_note(few(unit), looks="Hollow") if any(point.has_few_questions for point in points) else ""
    return div(key, plot, div(*labels, cls="labels"), hollow, cls="curves")


def _ribbon(positions: Sequence[float], estimates: Sequence[Estimate]) -> str:
    """Return the polygon of a line through the estimates, with a thickness of 1%."""
    heights = [100 - 100 * (estimate.value or 0.0) for estimate in estimates]
    upper = [f"{place:.2f}% {height - 0.6:.2f}%" for place, height in zip(positions, heights, strict=True)]
    lower = [f"{place:.2f}% {height + 0.6:.2f}%" for place, height in zip(positions, heights, strict=True)]
    return f"polygon({', '.join([*upper, *reversed(lower)])})"


def _dot(run_side: str, place: float, estimate: Estimate, point: FrequencyPoint) -> Html:
    value, low, high = estimate.percent
    tooltip = (
        f"{point.label}: {value:.1f}% ({low:.1f} to {high:.1f}), {count_with_units(point.n, point.estimate_a.units)}"
    )
    pale = " pale" if point.has_few_questions else ""
    line = div(cls=f"whisker {run_side}{pale}", style=f"left:{place:.2f}%;bottom:{low:.2f}%;height:{high - low:.2f}%")
    return join(
        line,
        div(cls=f"dot {run_side}{pale}", style=f"left:{place:.2f}%;bottom:{value:.2f}%", title=tooltip),
    )


def _short_label(label: str) -> str:
    return label.removesuffix(" mentions").removeprefix("bucket ").replace("<=", "≤").replace("-", "–")
