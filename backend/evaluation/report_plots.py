"""Plotly figures, shared by the app and the HTML report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.buckets import FEW
from blindspot.analysis.relations import relation_name
from blindspot.backend.core.units import count_with_units, n_cell
from blindspot.backend.evaluation.chart_colours import COLOURS, HOLLOW
from blindspot.backend.text.number_words import quantity

if TYPE_CHECKING:
    from plotly.graph_objects import Figure, Scatter

    from blindspot.analysis.buckets import Point
    from blindspot.backend.evaluation.miss_table import MissTable
    from blindspot.backend.evaluation.panel import Curves, RelationTable
    from blindspot.backend.evaluation.slice_report import SliceReport

SYMBOLS = ("square", "circle", "diamond", "triangle-up", "x", "star", "cross", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot")
GREY = "#9a9a9a"
LINE, ROW, LABELLED_ROW = 34, 24, 40
"""Heights in pixels: of a legend's line, of a row, and of a row whose label stands above it."""
FIRST_POINT = 0.14  # part of a row that the first run's point lies below its label


def dumbbell(table: RelationTable, runs: Sequence[str], order: Sequence[str]) -> Figure:
    """Plot the measure of every run by relation. A thin line connects the runs of a relation, and whiskers are 95%
    intervals. The label of a relation is above its points, and the runs are one below the other, so that a narrow
    plot has room for the intervals and none hides another.

    Args:
        order: relations from top to bottom.
    """
    from plotly.graph_objects import Figure, Scatter

    rows = {row.group: row for row in table.rows}
    names = [
        f"{escape(relation_name(name))}  (n {n_cell(rows[name].n, rows[name].units, table.unit)})" for name in order
    ]  # plotly interprets some HTML
    figure = Figure()
    segments: tuple[list, list] = ([], [])
    step = min(0.22, 0.5 / len(runs))  # part of a row
    for place, name in enumerate(order):
        values = [rows[name].success[run][table.k].percent[0] for run in runs]
        segments[0].extend([*values, None])
        segments[1].extend([*(place + FIRST_POINT + step * number for number in range(len(runs))), None])
    line = {"color": GREY, "width": 1}
    figure.add_trace(Scatter(x=segments[0], y=segments[1], mode="lines", line=line, hoverinfo="skip", showlegend=False))
    for number, run in enumerate(runs):
        points = [
            (place, label, rows[name].success[run][table.k])
            for place, (name, label) in enumerate(zip(order, names, strict=True))
        ]
        trace = _points_below_labels(points, run, number, step)
        figure.add_traces([trace, _plot_hollow(trace, [rows[name].units < FEW for name in order])])
    figure.update_layout(
        xaxis={"title": {"text": f"{table.title}, %"}, "range": [-2, 102]},
        **_labels_above(names),
        height=110 + LINE + LABELLED_ROW * len(order),
        **_layout(),
    )
    return figure


def curve_plot(curves: Curves, runs: Sequence[str], letters: Sequence[str] = ()) -> Figure:
    """Plot the measure by frequency, with one colour per run and one dash style per series. Points with fewer than 30
    questions are hollow, and those with fewer than 5 are not joined by the line. The axis shows each n. The points of a
    group are drawn side by side.

    Args:
        letters: of the first runs, which the legend shows before their names.
    """
    from plotly.graph_objects import Figure

    figure = Figure()
    labels = _tick_labels(curves, runs)
    places = {bucket: place for place, bucket in enumerate(labels)}
    series_count = len(curves.series)
    for dash, (series, by_run) in enumerate(curves.series.items()):
        for number, run in enumerate(runs):
            points = by_run.get(run, [])
            name = " ".join([*letters[number : number + 1], run])
            label = escape(name if series_count == 1 else f"{name}, {series}")
            drawn = len(runs) * series_count
            shift = min(0.15, 0.6 / drawn) * (number * series_count + dash - (drawn - 1) / 2)
            at = {point.bucket: places[point.bucket] + shift for point in points}
            line = {"color": COLOURS[number % len(COLOURS)], "dash": DASHES[dash % len(DASHES)]}
            alone = [point for point in points if not point.is_joined]
            for part in filter(None, ([point for point in points if point.is_joined], alone)):
                is_named = part is not alone or len(alone) == len(points)
                figure.add_traces(_part_of_curve(part, at, label, number, line, is_named))
    figure.update_layout(
        xaxis={
            "title": {"text": AXES[curves.cut].format(source=escape(curves.source))},
            "tickvals": list(places.values()),
            "ticktext": list(labels.values()),
            "range": [-0.5, len(places) - 0.5],
            "tickangle": 0,
        },
        yaxis={"title": {"text": f"{curves.title}, %"}, "range": [-2, 102]},
        height=420,
        **_layout(),
    )
    return figure


def _part_of_curve(
    points: Sequence[Point], places: Mapping[int, float], label: str, number: int, line: dict[str, str], is_named: bool
) -> list[Scatter]:
    """Plot the points of a run that its line joins, or those that it does not join, and those of few questions again,
    hollow.

    Args:
        is_named: whether the legend shows the run by these points.
    """
    trace = _points([point.success for point in points], [places[p.bucket] for p in points], label, number)
    spans = [
        "" if point.min_frequency is None else f"{point.min_frequency:,} to {point.max_frequency:,} mentions"
        for point in points
    ]
    trace.update(
        hovertemplate=trace.hovertemplate.replace("%{x}: ", ""),
        mode="lines+markers" if points[0].is_joined else "markers",
        line=line,
        text=spans,
        showlegend=is_named,
    )
    return [trace, _plot_hollow(trace, [point.has_few_questions for point in points])]


def slice_plot(report: SliceReport) -> Figure:
    """Plot A − B in each found slice with its 95% interval. The dotted line is the difference over all questions."""
    from plotly.graph_objects import Figure, Scatter

    names = [
        f"{escape(each.expression)}  (n {n_cell(each.figures.n, each.figures.units, each.figures.unit)})"
        for each in report.found_slices.slices
    ]
    differences = [each.figures.difference.estimate for each in report.found_slices.slices]
    figure = Figure()
    if names:
        mean = 100 * report.found_slices.mean
        line = {"color": GREY, "dash": "dot", "width": 2}
        figure.add_trace(
            Scatter(
                x=[mean] * len(names),
                y=names,
                mode="lines",
                line=line,
                hoverinfo="skip",
                name="all questions",
            )
        )
        figure.add_trace(_points(differences, names, "in the slice", 0, flat=True))
    figure.update_layout(
        xaxis={"title": {"text": escape(f"Success@{report.k}, {report.run_a} − {report.run_b}, points")}},
        yaxis={"autorange": "reversed", "automargin": True},
        height=110 + LINE + ROW * len(names),
        **_layout(),
    )
    return figure


SPLIT_NAMES = {"subjects not in training": "not seen", "subjects in training": "seen"}
"""Short names of the series by training subjects (`panel.RANDOM`, `panel.TRAINED`) for the ticks."""
AXES = {
    "official": "bucket of the question sets: 0 most frequent, 7 rarest",
    "mentions": "times the subject is mentioned in {source}",
    "mass": "bucket of equal cumulative frequency ({source}): 0 most frequent, 7 rarest",
}
"""Titles of the frequency axis, by `Curves.cut`."""


def cause_plot(table: MissTable) -> Figure:
    """Plot the share of each cause. Filled points are the share among a run's misses, with 95% intervals; hollow points
    are the share among the questions that it finds.

    Causes that no miss has, or that could not be measured, are left out. The most frequent cause is on top.
    """
    from plotly.graph_objects import Figure

    names, step = table.counted, 0.22
    figure = Figure()
    for number, run in enumerate(table.runs):
        lines = [(row, line) for row, name in enumerate(names) if (line := run.cause_line(name)).is_measured]
        trace = _points_below_labels([(row, line.title, line.share) for row, line in lines], run.run, number, step)
        trace.update(name=f"{escape(run.run)}, misses", legendgroup=f"misses {number}")
        figure.add_traces([trace, _plot_in_grey(trace, [line.share.n < FEW for _, line in lines])])
        found = [(row, line.title, line.found) for row, line in lines if line.found.n]
        hollow = _points_below_labels(found, run.run, number, step)
        hollow.update(name=f"{escape(run.run)}, found", legendgroup=f"found {number}", error_x=None)
        hollow.update(marker={"symbol": f"{SYMBOLS[number % len(SYMBOLS)]}-open"})
        figure.add_trace(hollow)
    figure.update_layout(
        xaxis={"title": {"text": f"% of misses, and of found, at {table.k}"}, "range": [-2, 102]},
        **_labels_above([table.runs[0].cause_line(name).title for name in names]),
        height=110 + LINE + LABELLED_ROW * len(names),
        **_layout(),
    )
    return figure


def _points_below_labels(points: Sequence[tuple[int, str, Estimate]], run: str, number: int, step: float) -> Scatter:
    """The points of a run, each with its row and the row's label above it. A run's points lie `step` below those of the
    one before.
    """
    places = [row + FIRST_POINT + step * number for row, _, _ in points]
    trace = _points([estimate for _, _, estimate in points], places, escape(run), number, flat=True)
    about = trace.hovertemplate.replace("<br>%{text}", "").replace("%{y}: ", "%{text}: ")
    return trace.update(text=[label for _, label, _ in points], hovertemplate=about)


def _labels_above(labels: Sequence[str]) -> dict[str, object]:
    """The layout of rows from top to bottom whose labels stand within the plot, above their points, so that a narrow window
    has room for the points. The labels are annotations: Plotly drops the ticks below tick labels that are within a plot.
    """
    place = {"xref": "paper", "x": 0, "xanchor": "left", "yanchor": "middle", "showarrow": False, "align": "left"}
    ticks = {"tickvals": list(range(len(labels))), "ticktext": list(labels)}  # drawn in plots for papers
    axis = {**ticks, "showticklabels": False, "range": [len(labels) - 0.2, -0.7], "showgrid": False, "zeroline": False}
    return {
        "yaxis": axis,
        "annotations": [{**place, "y": row - 0.22, "text": label} for row, label in enumerate(labels)],
    }


def _tick_labels(curves: Curves, runs: Sequence[str]) -> dict[int, str]:
    """Return the tick label of each bucket: its name, and the n of each series below it, named if there are several."""
    by_series = {
        series: {point.bucket: point for point in by_run.get(runs[0], [])} for series, by_run in curves.series.items()
    }
    is_one, has_units = len(by_series) == 1, _has_units(curves)

    def line(series: str, point: Point | None) -> str:
        if is_one and point is not None:
            return f"n {point.n:,}" + (f"<br>{quantity(point.units, curves.unit)}" if has_units else "")
        n = "0" if point is None else n_cell(point.n, point.units, curves.unit)
        return f"{escape(SPLIT_NAMES.get(series, series))} {n}"

    return {
        bucket: "<br>".join(
            [curves.label(bucket), *(line(series, there.get(bucket)) for series, there in by_series.items())]
        )
        for bucket in sorted(set().union(*by_series.values()))
    }


def _has_units(curves: Curves) -> bool:
    """Return whether questions and units of observation differ in a group."""
    points = [point for by_run in curves.series.values() for each in by_run.values() for point in each]
    return any(point.units != point.n for point in points)


def _points(
    estimates: Sequence[Estimate],
    tick_labels: Sequence[str] | Sequence[float],
    name: str,
    number: int,
    flat: bool = False,
):
    """Plot a run's points with their intervals, horizontally if `flat`."""
    from plotly.graph_objects import Scatter

    figures = [estimate.percent for estimate in estimates]
    values = [value for value, _, _ in figures]
    whiskers = {
        "type": "data",
        "symmetric": False,
        "array": [high - value for value, _, high in figures],
        "arrayminus": [value - low for value, low, _ in figures],
        "thickness": 1,
        "width": 0 if flat else 4,
        "color": COLOURS[number % len(COLOURS)],
    }
    hover = [
        f"{count_with_units(estimate.n, estimate.units)}, 95% interval {low:.1f} to {high:.1f}"
        for estimate, (_, low, high) in zip(estimates, figures, strict=True)
    ]
    value, place = ("x", "y") if flat else ("y", "x")
    return Scatter(
        **{value: values, place: list(tick_labels), f"error_{value}": whiskers},
        mode="markers",
        name=name,
        legendgroup=name,
        customdata=hover,
        marker={"color": COLOURS[number % len(COLOURS)], "symbol": SYMBOLS[number % len(SYMBOLS)], "size": 9},
        hovertemplate=(
            f"<b>%{{fullData.name}}</b><br>%{{{place}}}: "
            f"%{{{value}:.1f}}%<br>%{{customdata}}<br>%{{text}}<extra></extra>"
        ),
        text=[""] * len(hover),
    )


def _plot_in_grey(trace, has_few_questions: Sequence[bool]):
    """Plot the points that are based on few questions again in grey."""
    return _plot_again(trace, has_few_questions, {"color": GREY})


def _plot_hollow(trace, has_few_questions: Sequence[bool]):
    """Plot the points that are based on few questions again, hollow, with an outline in the run's colour."""
    line = {"color": trace.marker.color, "width": 1.5}
    return _plot_again(trace, has_few_questions, {"color": HOLLOW, "line": line})


def _plot_again(trace, is_shown: Sequence[bool], look: Mapping[str, object]):
    from plotly.graph_objects import Scatter

    places = [i for i, each in enumerate(is_shown) if each]
    return Scatter(
        x=[trace.x[i] for i in places],
        y=[trace.y[i] for i in places],
        mode="markers",
        hoverinfo="skip",
        showlegend=False,
        name=trace.name,
        legendgroup=trace.legendgroup,
        marker={"symbol": trace.marker.symbol, "size": 9, **look},
    )


def _layout() -> dict[str, object]:
    return {
        "margin": {"l": 10, "r": 10, "t": 40, "b": 50},
        "legend": {"orientation": "h", "yref": "container", "yanchor": "top", "y": 1.0, "x": 0},
        "hovermode": "closest",
        "template": "plotly_white",
        "font": {"size": 13},
    }


def config(name: str, form: str = "svg") -> dict[str, object]:
    """Return the configuration of Plotly's toolbar. The browser saves SVG and PNG files without network access."""
    return {
        "displaylogo": False,
        "displayModeBar": "hover",
        "toImageButtonOptions": {"format": form, "filename": name, "scale": 2},
        "modeBarButtonsToRemove": ["lasso2d", "select2d", "autoScale2d"],
    }
