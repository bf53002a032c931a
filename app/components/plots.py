"""Show Plotly figures on a page. The figures themselves are made in backend/evaluation/report_plots.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from blindspot.app.markup import Html, show
from blindspot.backend.evaluation.chart_colours import BLUE, BROWN, GOLD, GREEN, HOLLOW, PURPLE, VERMILION
from blindspot.backend.evaluation.report_plots import config

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


IN_DARK = {
    BLUE: "#56b4e9",
    VERMILION: "#f0975a",
    GREEN: "#5fd3ad",
    GOLD: "#f2c14e",
    BROWN: "#d0a090",
    PURPLE: "#b79bf0",
    HOLLOW: "#12161b",  # the page
}
"""Colours of charts, and those in their place on a dark page, as style.css has them."""


def plot(chart: Figure, name: str, note: Html | None = None) -> None:
    """Show a figure in the page's colours. The camera button saves the figure as it looks on the page.

    Args:
        note: the line directly below the figure that says what its marks mean.
    """
    clear = "rgba(0,0,0,0)"
    chart.update_layout(paper_bgcolor=clear, plot_bgcolor=clear, modebar={"bgcolor": clear})
    st.plotly_chart(
        _in_dark(chart) if st.context.theme.type == "dark" else chart,
        width="stretch",
        theme="streamlit",
        key=f"plot-{name}",
        config=config(name),
    )
    show(note or "")


def _in_dark(chart: Figure) -> Figure:
    """Return a copy of a figure with lighter colours."""
    from plotly.io import from_json

    drawn = str(chart.to_json())
    for light, dark in IN_DARK.items():
        drawn = drawn.replace(light, dark)
    return from_json(drawn)
