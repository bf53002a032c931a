"""Redraw the app's plots with matplotlib for use in a paper: one column wide, black on white, with embedded fonts, as
PDF, SVG or PNG.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from html import unescape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from blindspot.backend.evaluation.chart_colours import COLOURS, HOLLOW
from blindspot.db.errors import BadInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from plotly.graph_objects import Figure

PlotForm = Literal["pdf", "svg", "png"]
FORMS: tuple[PlotForm, ...] = ("svg", "pdf", "png")
MIME = {"svg": "image/svg+xml", "pdf": "application/pdf", "png": "image/png"}
COLUMN = 3.35
"""Width in inches of one column of the ACL style (7.7 cm) with its margins."""
DPI = 300
LONGEST = 34
"""Maximum number of characters of a category beside the y axis; a longer name is shortened before its n."""
STYLE: dict[str, Any] = {"font.size": 7.5, "axes.titlesize": 8, "axes.labelsize": 7.5, "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 7,
         "pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "path", "axes.linewidth": 0.6, "lines.linewidth": 1.0,
         "xtick.major.width": 0.6, "ytick.major.width": 0.6, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "blindspot"}  # fmt: skip
MARKERS = {"square": "s", "circle": "o", "diamond": "D", "triangle-up": "^", "x": "X", "star": "*", "cross": "P", "triangle-down": "v",
           "pentagon": "p", "hexagon": "h", "triangle-left": "<", "triangle-right": ">"}  # fmt: skip
LINES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}


def paper_plot(plot: Figure, form: PlotForm, width: float = COLUMN) -> bytes:
    """Redraw a Plotly figure of points, lines, bars or a density, and return the bytes of the file.

    Args:
        width: in inches for each plot side by side. The height follows the shape of the figure on the page.

    Raises BadInput for a kind of trace that this module cannot draw.
    """
    from matplotlib import style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    content = plot.to_dict()
    layout, traces = content.get("layout", {}), content.get("data", [])
    columns = sorted({_axis_number(trace) for trace in traces}) or [1]
    with style.context(STYLE):
        height = width * 0.62
        if rows := _categories(traces, "y") or _values(layout.get("yaxis", {}).get("ticktext")):
            height = max(height, 0.7 + 0.16 * len(rows))
        drawing = Drawing(figsize=(width * (1 if len(columns) == 1 else 1.9), height), layout="constrained")
        FigureCanvasAgg(drawing)
        titles = [_plain_text(each.get("text", "")) for each in layout.get("annotations", ())]
        for place, number in enumerate(columns):
            axes = drawing.add_subplot(1, len(columns), place + 1)
            own = [trace for trace in traces if _axis_number(trace) == number]
            _draw(axes, own, layout)
            _label(axes, layout, number)
            if len(columns) > 1 and place < len(titles):
                axes.set_title(titles[place])
        handles, names = drawing.axes[0].get_legend_handles_labels()
        if len(names) > 1 or (names and layout.get("showlegend")):
            fitting = max(1, int(width / (0.35 + 0.055 * max(map(len, names)))))
            drawing.set_figheight(height + 0.14 * (-(-len(names) // fitting)))
            drawing.legend(handles, names, loc="outside upper left", ncols=fitting, frameon=False, columnspacing=1.0)
        out = io.BytesIO()
        drawing.savefig(
            out,
            format=form,
            dpi=DPI,
            metadata={"Date": None} if form == "svg" else {"CreationDate": None} if form == "pdf" else None,
        )
    return out.getvalue()


def _axis_number(trace: Mapping[str, Any]) -> int:
    return int((trace.get("xaxis") or "x")[1:] or 1)


def _categories(traces: Sequence[Mapping[str, Any]], axis: str) -> list[str]:
    """Return the distinct texts along an axis in their order; [] for a numeric axis."""
    names = (value for trace in traces for value in _values(trace.get(axis)) if isinstance(value, str))
    return list(dict.fromkeys(names))


def _values(values: Any) -> list[Any]:
    """Return the values of a trace as a list. Plotly may store them as an array or in base64."""
    if values is None:
        return []
    if isinstance(values, Mapping):
        import base64

        return np.frombuffer(base64.b64decode(values["bdata"]), dtype=np.dtype(values["dtype"])).tolist()
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _draw(axes: Axes, traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> None:
    places = {along: _category_positions(traces, layout, along) for along in ("x", "y")}
    heights: dict[Any, float] = {}
    for number, trace in enumerate(traces):
        values = {
            along: [places[along].get(v, v) if isinstance(v, str) else v for v in _values(trace.get(along))]
            for along in ("x", "y")
        }
        kind = trace.get("type", "scatter")
        if kind in ("scatter", "scattergl"):
            _draw_points(axes, trace, values, number)
        elif kind == "bar":
            _draw_bars(axes, trace, values, heights, number)
        elif kind == "heatmap":
            z = np.asarray(trace["z"], dtype=float)
            axes.pcolormesh(values["x"], values["y"], z, cmap="Greys", shading="nearest", rasterized=True, alpha=0.6)
        else:
            raise BadInput(f"A plot of kind {kind!r} cannot be saved for a paper. Use the camera button of the plot")
    for along, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        if places[along]:
            names = [_shorten(_plain_text(name)) if along == "y" else _plain_text(name) for name in places[along]]
            axis.set_ticks(list(places[along].values()), names, fontsize=6)


def _category_positions(traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any], axis: str) -> dict[str, int]:
    """Return the position of each category on the axis, in the order given by the layout, or else in the order of the
    traces.
    """
    occurring = _categories(traces, axis)
    declared = [name for name in _values(layout.get(f"{axis}axis", {}).get("categoryarray")) if name in occurring]
    return {name: place for place, name in enumerate(dict.fromkeys([*declared, *occurring]))}


def _shorten(name: str) -> str:
    counted = re.search(r"\s*\(n [\d,]+\)$", name)
    tail = counted.group() if counted else ""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - len(tail) - 1].rstrip()}…{tail}"


def _colour(trace: Mapping[str, Any], number: int) -> str:
    for part in ("marker", "line"):
        colour = trace.get(part, {}).get("color")
        if isinstance(colour, str) and colour.startswith("#"):
            return colour
    return COLOURS[number % len(COLOURS)]


def _draw_points(axes: Axes, trace: Mapping[str, Any], values: Mapping[str, list], number: int) -> None:
    x, y = (np.array([np.nan if v is None else v for v in values[along]], dtype=float) for along in ("x", "y"))
    mode, colour, marker = trace.get("mode") or "lines", _colour(trace, number), trace.get("marker", {})
    symbol = str(marker.get("symbol") or "circle")
    many = len(x) > 500
    label = _plain_text(str(trace["name"])) if trace.get("name") and trace.get("showlegend") is not False else None
    x_error, y_error = _error_bar_lengths(trace.get("error_x")), _error_bar_lengths(trace.get("error_y"))
    capsize = 0.0 if x_error is None and y_error is None else 1.5
    axes.errorbar(
        x,
        y,
        xerr=x_error,
        yerr=y_error,
        label=label,
        color=colour,
        ecolor=colour,
        elinewidth=0.7,
        capsize=capsize,
        linestyle=LINES.get(trace.get("line", {}).get("dash") or "solid", "-") if "lines" in mode else "none",
        marker=MARKERS.get(symbol.removesuffix("-open"), "o") if "markers" in mode else "none",
        markersize=1.5 if many else 3.5,
        markerfacecolor="none" if symbol.endswith("-open") else colour,
        markeredgecolor=marker["line"]["color"] if colour == HOLLOW else colour,
        markeredgewidth=0 if many else 0.6,
        rasterized=many,
    )


def _error_bar_lengths(error: Mapping[str, Any] | None) -> np.ndarray | None:
    """Return the lengths of the error bars below and above each point, (2, n)."""
    if not error or error.get("array") is None:
        return None
    above = _values(error["array"])
    below = _values(error["arrayminus"]) if error.get("arrayminus") is not None else above
    return np.maximum(np.array([below, above], dtype=float), 0.0)


def _draw_bars(
    axes: Axes, trace: Mapping[str, Any], values: Mapping[str, list], heights: dict[Any, float], number: int
) -> None:
    """Draw a trace of stacked bars."""
    base = [heights.get(x, 0.0) for x in values["x"]]
    colour = _colour(trace, number)
    label = _plain_text(str(trace["name"])) if trace.get("name") else None
    axes.bar(values["x"], values["y"], bottom=base, color=colour, label=label, width=0.85)
    for x, bottom, height in zip(values["x"], base, values["y"], strict=True):
        heights[x] = bottom + height


def _label(axes: Axes, layout: Mapping[str, Any], number: int) -> None:
    suffix = "" if number == 1 else str(number)
    for along in ("x", "y"):
        settings = layout.get(f"{along}axis{suffix}", {})
        logarithmic = settings.get("type") == "log"
        if title := settings.get("title", {}).get("text"):
            getattr(axes, f"set_{along}label")(_plain_text(title))
        if logarithmic:
            getattr(axes, f"set_{along}scale")("log")
        if settings.get("range") is not None and settings.get("type") != "category":
            low, high = (10.0**each if logarithmic else each for each in settings["range"])
            getattr(axes, f"set_{along}lim")(low, high)
        if settings.get("autorange") == "reversed":
            getattr(axes, f"invert_{along}axis")()
        if settings.get("ticktext") is not None:
            names = [_plain_text(each) for each in settings["ticktext"]]
            names = [_shorten(name) for name in names] if along == "y" else names
            getattr(axes, f"{along}axis").set_ticks(_values(settings["tickvals"]), names, fontsize=6)
        elif settings.get("showticklabels") is False:  # with names, annotations stand in their place: see report_plots
            getattr(axes, f"{along}axis").set_ticks([])
    axes.grid(axis="y", linewidth=0.3, color="#dddddd")
    axes.set_axisbelow(True)


def _plain_text(text: str) -> str:
    """Return a Plotly label as plain text without HTML tags. Dollar signs are escaped, because they start a formula in
    matplotlib.
    """
    return unescape(re.sub(r"<[^>]*>", "", re.sub(r"<br\s*/?>", "\n", text))).replace("$", r"\$")
