"""Plotly figures on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app import url
from backend.evaluation.report_plots import config

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def plot(figure: Figure, name: str) -> None:
    """Show a figure in the page's colours. Its camera button saves SVG, or PNG if the address has `image=png`."""
    figure.update_layout(paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)")
    st.plotly_chart(
        figure,
        width="stretch",
        theme="streamlit",
        key=f"plot-{name}",
        config=config(name, url.one_of("image", ("svg", "png"), "svg")),
    )
