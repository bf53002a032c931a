"""The plot of a map: points drawn with WebGL. Each pair of category and kind is a trace, which the legend can show or
hide.

Each category has a colour and a shape; questions are larger than passages. If there are too many points to draw, the
density of the others is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from html import escape
from pathlib import Path
from textwrap import shorten, wrap
from typing import Any, NamedTuple

import numpy as np
import streamlit as st

from blindspot.backend.evaluation.chart_colours import BLUE, GOLD, GREEN, PINK, VERMILION
from blindspot.backend.evaluation.chart_colours import COLOURS as CHARTS
from blindspot.backend.maps.colours import (
    BOTH,
    FOUND,
    MISSED,
    NEITHER,
    ONLY_FIRST,
    ONLY_SECOND,
    POSITIVE,
    quiet_categories,
)
from blindspot.backend.maps.point_values import categories
from blindspot.backend.maps.stored import Map

SELECTABLE = 20_000
FADED, FAINT = 0.3, 0.12  # opacity of the points that fade, and of those of a map with many questions, which overlap
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
    ONLY_SECOND: (BLUE, "triangle-up"),
    ONLY_FIRST: (VERMILION, "triangle-down"),
    "gold": (GOLD, "star"),
    POSITIVE: (GREEN, "square"),
    "negative": (VERMILION, "x"),
    "related": (PINK, "triangle-up"),
    "open": (PURPLE, "hexagon"),
    "question": (PINK, "circle"),
}
MANY_QUESTIONS = 800
"""More questions than so many are drawn smaller, so that their rings do not become one blob."""
PASSAGE_SIZE = 4
SMALL_QUESTION, SMALL = 6, 3  # a question and a passage of a map with many questions
_LINE = 62


def held_figure(map: Map, values: Sequence[str], view: int, strong: frozenset[str] | None, *parts: Any) -> Any:
    """Return `map_figure`, cached as long as its contents stay the same.

    Args:
        parts: hovers, ids and `label_of_value` of `map_figure`.
    """
    version = hash((*values, *(parts[-1](name) for name in dict.fromkeys(values))))
    return _cached_figure(map, values, parts, view, strong, (map.folder, map.manifest["made"], version))


@st.cache_resource(max_entries=12, show_spinner=False)
def _cached_figure(
    _map: Map,
    _categories: Sequence[str],
    _parts: tuple,
    view: int,
    strong: frozenset[str] | None,
    cache_version: tuple[Path, str, int],
) -> Any:
    hovers, ids, label_of_value = _parts
    return map_figure(_map, hovers, ids, _categories, view, strong, label_of_value)


def map_figure(
    map: Map,
    hovers: Sequence[str],
    ids: Sequence[str],
    values: Sequence[str],
    view: int = 0,
    strong: frozenset[str] | None = None,
    label_of_value: Any = str,
) -> Any:
    """The map as a plotly figure.

    Args:
        hovers, ids: one entry for each point; `hover_text` makes the first.
        values: the category of each point.
        view: index of the encoder that places the points.
        strong: the ids of the points that do not fade; None if none fades.
        label_of_value: returns the name of a category.
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
    for name, question, rows in _draw_order(drawn, is_question, quiet):
        colour, shape = colours.get(name, (GREY, "circle"))
        less = 2 * (name in quiet or name in (BOTH, NEITHER))
        size = question_size - less if question else passage_size
        size -= shape == "x" and size == SMALL_QUESTION  # a cross looks larger than a dot
        style = PointStyle(label_of_value(name), question, colour, shape, size)
        texts = [hovers[i] for i in shown[rows].tolist()]
        if name == OTHERS:
            own = (label_of_value(values[i]) for i in shown[rows])
            texts = [f"{text}<br><i>{escape(label, quote=False)}</i>" for text, label in zip(texts, own, strict=True)]
        if not any(trace.get("legendgroup") == style.name for trace in traces):
            traces.append(_legend_entry(style))
        traces.append(_trace(places[shown[rows]], [ids[i] for i in shown[rows]], texts, style))
    if strong is not None:
        _fade(traces, strong, FAINT if map.shown_questions > MANY_QUESTIONS else FADED)
    result = Figure(traces)
    _lay_out(result, map)
    for axis, ends in (("xaxis", places[:, 0]), ("yaxis", places[:, 1])):
        margin = 0.03 * float(np.ptp(ends))
        result.update_layout({axis: {"range": [float(ends.min()) - margin, float(ends.max()) + margin]}})
    return result


def _draw_order(
    drawn: np.ndarray, is_question: np.ndarray, quiet: Collection[str]
) -> Iterator[tuple[str, bool, np.ndarray]]:
    """Yield the category, whether they are questions, and the rows of the points of each trace, the lowest first: grey
    categories, then the frequent below the rare; passages below questions.
    """
    counts = Counter(drawn.tolist())
    order = sorted(counts, key=lambda name: (name not in quiet, -counts[name], name))
    for question in (False, True):
        for name in order:
            if len(rows := np.flatnonzero((drawn == name) & (is_question == question))):
                yield name, question, rows


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

    @property
    def line(self) -> dict[str, Any]:
        """The outline: of an open shape its colour; thin and dark around a question, unless it is small."""
        if self.shape.endswith("-open"):
            return {"width": 1, "color": self.colour}
        return {"width": 0.5 if self.is_question and self.size > SMALL_QUESTION else 0, "color": "rgba(18,22,27,0.7)"}


def _legend_entry(style: PointStyle) -> dict[str, Any]:
    """A trace without points, so that the legend shows a category at full strength whichever of its points fade."""
    return {
        "type": "scattergl",
        "mode": "markers",
        "x": [None],
        "y": [None],
        "name": escape(style.name, quote=False),
        "legendgroup": style.name,
        "hoverinfo": "skip",
        "marker": {"color": style.colour, "symbol": style.shape, "size": style.size, "line": style.line},
    }


def _trace(coordinates: np.ndarray, ids: list[str], texts: list[str], style: PointStyle) -> dict[str, Any]:
    return {
        "type": "scattergl",
        "mode": "markers",
        "x": coordinates[:, 0],
        "y": coordinates[:, 1],
        "customdata": ids,
        "text": texts,
        "hovertemplate": "%{text}<br><i>%{meta}</i><extra></extra>",
        "meta": escape(style.name, quote=False),
        "name": escape(style.name, quote=False),
        "showlegend": False,
        "legendgroup": style.name,
        "marker": {
            "color": style.colour,
            "symbol": style.shape,
            "size": style.size,
            # Opaque: through translucent points the background shows, and their contrast with it falls below 3 to 1.
            "opacity": 1,
            "line": style.line,
        },
        "unselected": {"marker": {"opacity": 0.12}},
        "selected": {"marker": {"opacity": 1}},
    }


def _sizes(map: Map) -> tuple[int, int]:
    """Return the sizes of a question and of a passage, in pixels."""
    return (SMALL_QUESTION, SMALL) if map.shown_questions > MANY_QUESTIONS else (8, PASSAGE_SIZE)


def _fade(traces: Sequence[dict[str, Any]], strong_ids: Collection[str], opacity: float) -> None:
    """Fade all points but some."""
    for trace in (each for each in traces if "customdata" in each):
        shown = [1.0 if id in strong_ids else opacity for id in trace["customdata"]]
        trace["marker"]["opacity"] = shown if 1.0 in shown else opacity


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


def hover_text(title: str, text_start: str) -> str:
    """Return what shows on hovering. Data is escaped, because Plotly interprets some tags in hover texts."""
    head = "<br>".join(escape(line, quote=False) for line in wrap(title, _LINE)[:2]) or "(no title)"
    start = shorten(text_start, _LINE, placeholder=" …")
    return f"<b>{head}</b><br>{escape(start, quote=False)}" if start else f"<b>{head}</b>"


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
