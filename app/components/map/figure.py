"""The plot of a map: points drawn with WebGL. Each pair of category and kind is a trace, which the legend can show or
hide.

Each category has a colour and a shape; questions are larger than passages. If there are too many points to draw, the
density of the others is drawn.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import streamlit as st

from blindspot.backend.evaluation.chart_colours import BLUE, GOLD, GREEN, PINK, VERMILION
from blindspot.backend.evaluation.chart_colours import COLOURS as CHARTS
from blindspot.backend.maps.colours import BOTH, FOUND, MISSED, NEITHER, ONLY_FIRST, ONLY_SECOND, quiet_categories
from blindspot.backend.maps.point_values import categories
from blindspot.backend.maps.stored import Map

SELECTABLE = 20_000
RING = "#ea3a9c"  # 3.8 to 1 on white, 4.8 to 1 on the dark page
MANY_RINGS = 60
"""If more points than so many are marked, all others fade, and none has a ring."""
FADED, FAINT = 0.3, 0.12  # opacity of the others, and of those of a map with many questions, which overlap
RINGS_ON_PHONES = "missed in the worst cluster"  # what `link.js` writes in a narrow legend
EDGE = 0.3  # share of the map at either side where a name grows inwards, so that a narrow window shows all of it
OTHERS = "other"
GREY, DARK_GREY = "#78828c", "#626a72"
PURPLE = "#7a5fb8"
COLOURS = (*CHARTS[:5], "#3b93c4", PURPLE, "#a0522d", "#2e8b8b", "#b03a5b", "#6b8e23", "#4169a1")
SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "cross",
    "hexagon",
    "triangle-down",
    "pentagon",
    "star",
    "triangle-left",
    "triangle-right",
    "hourglass",
    "bowtie",
)
FIXED = {
    FOUND: (BLUE, "circle"),
    MISSED: (VERMILION, "x"),
    BOTH: (GREY, "circle-open"),
    NEITHER: (DARK_GREY, "x"),
    ONLY_SECOND: (GREEN, "triangle-up"),
    ONLY_FIRST: (VERMILION, "triangle-down"),
    "gold": (GOLD, "star"),
    "positive": (GREEN, "square"),
    "negative": (VERMILION, "x"),
    "related": (PINK, "triangle-up"),
    "open": (PURPLE, "hexagon"),
    "question": (PINK, "circle"),
}
LAYERS = (FOUND, MISSED, BOTH, NEITHER, ONLY_SECOND, ONLY_FIRST)
"""Hits and misses as they are drawn: misses, and what differs between two runs, above the others."""
MANY_QUESTIONS = 800
"""More questions than so many are drawn smaller, so that their rings do not become one blob."""
PASSAGE_SIZE = 4
SMALL = 3  # a passage of a map with many questions
_LINE = 62


class Highlighted(NamedTuple):
    """The points to mark.

    Attributes:
        ids: of the points. Few have rings.
        is_one_colour: whether many have one colour, and questions do not fade; otherwise many keep their own.
    """

    ids: Collection[str] = frozenset()
    is_one_colour: bool = False


NOTHING = Highlighted()


class PlaceName(NamedTuple):
    """A name to write on the map at a place."""

    words: str
    x: float
    y: float


def held_figure(
    map: Map,
    values: Sequence[str],
    view: int,
    highlighted_ids: frozenset[str],
    *parts: Any,
    names: tuple[PlaceName, ...] = (),
    rings: str = "",
) -> Any:
    """Return `map_figure` with names of places, cached as long as its contents stay the same.

    Args:
        parts: titles, starts, ids and `labelled` of `map_figure`.
        rings: what the legend says of the points with rings; "" for nothing.
    """
    version = hash((*values, *(parts[-1](name) for name in dict.fromkeys(values)), names, rings))
    return _cached_figure(
        map, values, (*parts, names, rings), map.folder, map.manifest["made"], view, highlighted_ids, version
    )


@st.cache_resource(max_entries=12, show_spinner=False)
def _cached_figure(
    _map: Map,
    _categories: Sequence[str],
    _parts: tuple,
    folder: Path,
    fingerprint: str,
    view: int,
    highlighted_ids: frozenset[str],
    cache_version: int,
) -> Any:
    titles, starts, ids, labelled, names, rings = _parts
    made = map_figure(_map, titles, starts, ids, _categories, view, Highlighted(highlighted_ids, bool(rings)), labelled)
    if rings:
        made.update_traces(
            {"name": escape(rings, quote=False), "showlegend": True, "meta": RINGS_ON_PHONES}, {"name": "marked"}
        )
    for name in names:
        text = escape(name.words, quote=False)
        low, high = made.layout.xaxis.range
        across = (name.x - low) / ((high - low) or 1.0)
        side = "left" if across < EDGE else "right" if across > 1 - EDGE else "center"
        place = {"x": name.x, "y": name.y, "xanchor": side, "yshift": 16}
        made.add_annotation(text=text, showarrow=False, font={"size": 13}, name="place", **place)
    return made


def map_figure(
    map: Map,
    titles: Sequence[str],
    starts: Sequence[str],
    ids: Sequence[str],
    values: Sequence[str],
    view: int = 0,
    highlighted: Highlighted = NOTHING,
    label_of_value: Any = str,
) -> Any:
    """The map as a plotly figure.

    titles, starts, ids: one entry for each point. values: the category of each point. view: index of the encoder that
    places the points. label_of_value: returns the name of a category.
    """
    from plotly.graph_objects import Figure

    shown, places = selectable(len(map)), np.asarray(map.coordinates(view))
    every = categories(values, maximum=len(COLOURS))
    selected = set(every)
    drawn = np.array([name if name in selected else OTHERS for name in values], dtype=object)[shown]
    quiet = quiet_categories() | {OTHERS}
    colours = _colours([name for name in every if name not in quiet])
    is_question, (question_size, passage_size) = shown < map.shown_questions, _sizes(map)
    traces = [_density(places)] if len(shown) < len(map) else []

    def depth(name: str) -> tuple[bool, int, int]:
        """Grey categories lie lowest, then hits and misses in their order, else the frequent below the rare."""
        return name not in quiet, name in LAYERS and LAYERS.index(name), -int((drawn == name).sum())

    for name in sorted({*every, *drawn.tolist()}, key=depth):
        colour, shape = colours.get(name, (GREY, "circle"))
        for question in (False, True):
            rows = np.flatnonzero((drawn == name) & (is_question == question))
            if len(rows):
                less = 2 * (name in quiet or name in (BOTH, NEITHER))
                size = question_size - less if question else passage_size
                style = PointStyle(label_of_value(name), question, colour, shape, size)
                texts = [_hover(titles[i], starts[i], label_of_value(values[i])) for i in shown[rows].tolist()]
                is_first = not any(trace.get("legendgroup") == style.name for trace in traces)
                traces.append(_trace(places[shown[rows]], [ids[i] for i in shown[rows]], texts, style, is_first))
    if highlighted.ids:
        traces += _highlight(traces, map, places, ids, highlighted)
    result = Figure(traces)
    _lay_out(result, map)
    for axis, ends in (("xaxis", places[:, 0]), ("yaxis", places[:, 1])):
        margin = 0.03 * float(np.ptp(ends))
        result.update_layout({axis: {"range": [float(ends.min()) - margin, float(ends.max()) + margin]}})
    return result


def selectable(points: int) -> np.ndarray:
    """Return the rows to draw as points: all, or a fixed random sample of too many. (m,) int64, ascending."""
    if points <= SELECTABLE:
        return np.arange(points)
    return np.sort(np.random.default_rng(0).choice(points, SELECTABLE, replace=False))


def _colours(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    free = iter(zip(COLOURS, SHAPES))
    return {name: FIXED[name] if name in FIXED else next(free) for name in names}


class PointStyle(NamedTuple):
    """How the points of one category look. name: as the legend shows it. size: in pixels."""

    name: str
    is_question: bool
    colour: str
    shape: str
    size: int


def _trace(
    coordinates: np.ndarray,
    ids: list[str],
    texts: list[str],
    style: PointStyle,
    legend: bool,
) -> dict[str, Any]:
    return {
        "type": "scattergl",
        "mode": "markers",
        "x": coordinates[:, 0],
        "y": coordinates[:, 1],
        "customdata": ids,
        "text": texts,
        "hovertemplate": "%{text}<extra></extra>",
        "name": escape(style.name, quote=False),
        "showlegend": legend,
        "legendgroup": style.name,
        "marker": {
            "color": style.colour,
            "symbol": style.shape,
            "size": style.size,
            # Opaque: through translucent points the background shows, and their contrast with it falls below 3 to 1.
            "opacity": 1,
            "line": {
                "width": 1 if style.shape.endswith("-open") else 0.5 if style.is_question else 0,
                "color": style.colour if style.shape.endswith("-open") else "rgba(18,22,27,0.7)",
            },
        },
        "unselected": {"marker": {"opacity": 0.12}},
        "selected": {"marker": {"opacity": 1}},
    }


def _highlight(
    traces: Sequence[dict[str, Any]], map: Map, places: np.ndarray, ids: Sequence[str], highlighted: Highlighted
) -> list[dict[str, Any]]:
    """Fade the other points if many are highlighted, and return the trace of the marks, if there are any."""
    has_many, is_many = map.shown_questions > MANY_QUESTIONS, len(highlighted.ids) > MANY_RINGS
    if is_many:
        questions = ids[: map.shown_questions] if highlighted.is_one_colour else ()
        _fade(traces, {*highlighted.ids, *questions}, FAINT if has_many else FADED)
        if not highlighted.is_one_colour:
            return []
    marked = np.array([i for i, id in enumerate(ids) if id in highlighted.ids], np.int64)
    sizes = np.where(marked < map.shown_questions, *_sizes(map))
    return [_marks(places[marked], sizes, is_many)]


def _sizes(map: Map) -> tuple[int, int]:
    """Return the sizes of a question and of a passage, in pixels."""
    return (6, SMALL) if map.shown_questions > MANY_QUESTIONS else (8, PASSAGE_SIZE)


def _fade(traces: Sequence[dict[str, Any]], highlighted_ids: Collection[str], opacity: float) -> None:
    """Fade all points but some. Where a trace fades whole and another of its group not at all, the legend shows the latter."""
    for trace in (each for each in traces if "customdata" in each):
        shown = [1.0 if id in highlighted_ids else opacity for id in trace["customdata"]]
        trace["marker"]["opacity"] = shown if 1.0 in shown else opacity
        if opacity not in shown:
            for each in traces:
                if each.get("legendgroup") == trace["legendgroup"]:
                    each["showlegend"] = each is trace


def _marks(coordinates: np.ndarray, sizes: np.ndarray, is_many: bool) -> dict[str, Any]:
    """Rings above all points; crosses of one colour where there are many, because rings side by side hide what they mark.
    Without ids, and without hovering, they let clicks through and are in no selection.
    """
    return {
        "type": "scattergl",
        "mode": "markers",
        "x": coordinates[:, 0],
        "y": coordinates[:, 1],
        "hoverinfo": "skip",
        "showlegend": False,
        "name": "marked",
        "legendrank": 1,  # last in the legend, whose order is reversed
        "marker": {
            "color": RING,
            "symbol": "x" if is_many else "circle-open",
            "size": (sizes + (1 if is_many else 4)).tolist(),
            "line": {"width": 0 if is_many else 2},
        },
        "unselected": {"marker": {"opacity": 1}},
    }


def _density(coordinates: np.ndarray, cells: int = 160) -> dict[str, Any]:
    counts, x, y = np.histogram2d(coordinates[:, 0], coordinates[:, 1], bins=cells)
    counts = np.where(counts > 0, np.log1p(counts), np.nan)
    return {
        "type": "heatmap",
        "x": (x[:-1] + x[1:]) / 2,
        "y": (y[:-1] + y[1:]) / 2,
        "z": counts.T,
        "showscale": False,
        "hoverinfo": "skip",
        "colorscale": [[0, "rgba(120,130,140,0.12)"], [1, "rgba(120,130,140,0.75)"]],
    }


def _hover(title: str, text_start: str, category: str) -> str:
    """Return the hover text. Data is escaped, because Plotly interprets some tags in hover texts."""
    head = "<br>".join(escape(line, quote=False) for line in textwrap.wrap(title, _LINE)[:2]) or "(no title)"
    lines = textwrap.wrap(text_start, _LINE)[:3]
    body = "<br>".join(escape(line, quote=False) for line in lines)
    return f"<b>{head}</b><br>{body}<br><i>{escape(category, quote=False)}</i>"


def _lay_out(plot: Any, map: Map) -> None:
    """Hide the axes, whose numbers have no meaning, and put the legend on top."""
    # The domain gives way, not the range: a range that a first, small size has widened would stay so.
    plot.update_xaxes(visible=False, constrain="domain")
    plot.update_yaxes(visible=False, constrain="domain", scaleanchor="x")
    plot.update_layout(
        margin={"l": 0, "r": 0, "t": 4, "b": 4},
        dragmode="lasso",
        hovermode="closest",
        legend={
            "orientation": "h",
            "yanchor": "bottom",
            "y": 1,
            "x": 0,
            "itemsizing": "constant",
            "font": {"size": 13},
            "traceorder": "reversed",
        },
        hoverlabel={"align": "left"},
        uirevision=map.name,
    )
