"""The plot of a map: points drawn with WebGL. Each pair of category and kind is a trace, which the legend can show or
hide.

Each category has a colour and a shape; questions are always diamonds. If there are too many points to draw, the density
of the others is drawn.
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
from blindspot.backend.maps.colours import FOUND, MISSED, quiet_categories
from blindspot.backend.maps.stored import Map
from blindspot.backend.maps.values import categories

SELECTABLE = 20_000
OTHERS = "other"
GREY = "#8a949e"
PURPLE = "#7a5fb8"
COLOURS = (*CHARTS[:6], PURPLE, "#a0522d", "#2e8b8b", "#b03a5b", "#6b8e23", "#4169a1")
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
    "gold": (GOLD, "star"),
    "positive": (GREEN, "square"),
    "negative": (VERMILION, "x"),
    "related": (PINK, "triangle-up"),
    "open": (PURPLE, "hexagon"),
    "question": (PINK, "circle"),
}
_LINE = 62


def held_figure(
    map: Map, hits_and_misses: Sequence[str], views: Sequence[int], highlighted: frozenset[str], *parts: Any
) -> Any:
    """Return `map_figure`, cached as long as its contents stay the same.

    Args:
        parts: titles, starts, ids and `labelled` of `map_figure`.
    """
    return _cached_figure(
        map,
        hits_and_misses,
        parts,
        map.folder,
        map.manifest["made"],
        tuple(views),
        highlighted,
        hash(tuple(hits_and_misses)),
    )


@st.cache_resource(max_entries=12, show_spinner=False)
def _cached_figure(
    _map: Map,
    _categories: Sequence[str],
    _parts: tuple,
    folder: Path,
    fingerprint: str,
    views: tuple[int, ...],
    highlighted: frozenset[str],
    cache_version: int,
) -> Any:
    titles, starts, ids, labelled = _parts
    return map_figure(_map, titles, starts, ids, _categories, views, highlighted, labelled)


def map_figure(
    map: Map,
    titles: Sequence[str],
    starts: Sequence[str],
    ids: Sequence[str],
    hits_and_misses: Sequence[str],
    views: Sequence[int],
    highlighted: Collection[str] = (),
    labelled: Any = str,
) -> Any:
    """The map as a plotly figure.

    titles, starts, ids: one entry for each point. found: the category of each point. views: indices of the encoders to
    show side by side. highlighted: ids of the points to mark with rings. labelled: returns the name of a category.
    """
    from plotly.subplots import make_subplots

    shown = selectable(len(map), len(views))
    heads = (
        [f"{'after' if number else 'before'}: {map.encoders[number]}" for number in views] if len(views) > 1 else None
    )
    result = make_subplots(rows=1, cols=len(views), subplot_titles=heads, horizontal_spacing=0.02)
    every = categories(hits_and_misses, maximum=len(COLOURS))
    selected = set(every)
    drawn = np.array([name if name in selected else OTHERS for name in hits_and_misses], dtype=object)[shown]
    quiet = quiet_categories() | {OTHERS}
    order = sorted({*every, *drawn.tolist()}, key=lambda name: (name not in quiet, -int((drawn == name).sum())))
    texts = [_hover(titles[i], starts[i], labelled(hits_and_misses[i])) for i in shown.tolist()]
    colours = _colours([name for name in every if name not in quiet])
    is_question = shown < map.shown_questions
    for column, view in enumerate(views, 1):
        places = np.asarray(map.coordinates(view))
        if len(shown) < len(map):
            result.add_trace(_density(places), 1, column)
        if highlighted:
            ringed = [i for i, id in enumerate(ids) if id in highlighted]
            result.add_trace(_rings(places[ringed]), 1, column)
        in_legend = set() if column == 1 else set(order)
        for name in order:
            for question in (False, True):
                rows = np.flatnonzero((drawn == name) & (is_question == question))
                if not len(rows):
                    continue
                colour, shape = colours.get(name, (GREY, "circle"))
                result.add_trace(
                    _trace(
                        places[shown[rows]],
                        [ids[i] for i in shown[rows]],
                        [texts[i] for i in rows],
                        PointStyle(
                            labelled(name), question, colour, _marker_shape(shape, name, question), name in quiet
                        ),
                        name not in in_legend,
                    ),
                    1,
                    column,
                )
                in_legend.add(name)
    _lay_out(result, map, len(views))
    return result


def stacked(plot: Any) -> Any:
    """Return a copy of a figure with its two maps below each other, for narrow windows."""
    from plotly.graph_objects import Figure

    copy = Figure(plot)
    for axis, low, high in (("", 0.53, 1.0), ("2", 0.0, 0.47)):
        copy.update_layout({f"xaxis{axis}": {"domain": [0, 1]}, f"yaxis{axis}": {"domain": [low, high]}})
    for head, top in zip(copy.layout.annotations, (1.0, 0.47), strict=True):
        head.update(x=0, y=top)
    return copy


def selectable(points: int, views: int) -> np.ndarray:
    """Return the rows to draw as points: all, or a fixed random sample of too many. (m,) int64, ascending."""
    room = SELECTABLE // views
    return (
        np.arange(points) if points <= room else np.sort(np.random.default_rng(0).choice(points, room, replace=False))
    )


def _colours(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    free = iter(zip(COLOURS, SHAPES))
    return {name: FIXED[name] if name in FIXED else next(free) for name in names}


def _marker_shape(marker: str, name: str, question: bool) -> str:
    if not question:
        return marker
    return "diamond-open" if name == MISSED else "diamond"


class PointStyle(NamedTuple):
    """How the points of one category look. name: as the legend shows it. is_quiet: whether they are drawn fainter, and
    below the others.
    """

    name: str
    is_question: bool
    colour: str
    shape: str
    is_quiet: bool


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
            "size": 8 if style.is_question else 6,
            "opacity": 0.4 if style.is_quiet else 0.8,
            "line": {"width": 0.8 if style.is_question else 0, "color": "rgba(255,255,255,0.55)"},
        },
        "unselected": {"marker": {"opacity": 0.12}},
        "selected": {"marker": {"opacity": 1}},
    }


def _rings(coordinates: np.ndarray) -> dict[str, Any]:
    return {
        "type": "scattergl",
        "mode": "markers",
        "x": coordinates[:, 0],
        "y": coordinates[:, 1],
        "hoverinfo": "skip",
        "showlegend": False,
        "name": "marked",
        "marker": {"color": "#e0218a", "symbol": "circle-open", "size": 14, "line": {"width": 2.5}},
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


def _hover(title: str, start: str, category: str) -> str:
    """Return the hover text. Data is escaped, because Plotly interprets some tags in hover texts."""
    head = "<br>".join(escape(line, quote=False) for line in textwrap.wrap(title, _LINE)[:2]) or "(no title)"
    lines = textwrap.wrap(start, _LINE)[:3]
    body = "<br>".join(escape(line, quote=False) for line in lines)
    return f"<b>{head}</b><br>{body}<br><i>{escape(category, quote=False)}</i>"


def _lay_out(plot: Any, map: Map, views: int) -> None:
    """Hide the axes, whose numbers have no meaning. Two aligned maps pan and zoom together."""
    hidden = {
        "showgrid": False,
        "zeroline": False,
        "showticklabels": False,
        "ticks": "",
        "showline": True,
        "mirror": True,
        "linewidth": 1,
        "linecolor": "rgba(128,140,150,0.35)",
    }
    plot.update_xaxes(**hidden)
    plot.update_yaxes(**hidden)
    for column in range(1, views + 1):
        axis = "" if column == 1 else str(column)
        plot.update_layout({f"yaxis{axis}": {"scaleanchor": f"x{axis}"}})
    if views > 1 and map.manifest["together"] == "aligned":
        plot.update_layout(xaxis2={"matches": "x"}, yaxis2={"matches": "y"})
    for number, head in enumerate(plot.layout.annotations):
        head.update(
            x=plot.layout[f"xaxis{number + 1 if number else ''}"].domain[0], xanchor="left", font={"size": 14}, yshift=4
        )
    plot.update_layout(
        margin={"l": 4, "r": 4, "t": 30 if views > 1 else 12, "b": 4},
        dragmode="lasso",
        hovermode="closest",
        legend={
            "orientation": "h",
            "yanchor": "top",
            "y": -0.02,
            "x": 0,
            "itemsizing": "constant",
            "font": {"size": 12},
        },
        hoverlabel={"align": "left"},
        uirevision=map.name,
    )
