"""Show Plotly figures on a page. The figures themselves are made in backend/evaluation/report_plots.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from blindspot.app.components.download_buttons import plot_downloads
from blindspot.backend.evaluation.report_plots import config

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def plot(chart: Figure, name: str) -> None:
    """Show a figure in the page's colours, with buttons that save it for a paper. The camera button saves the figure as
    it looks on the page.
    """
    clear = "rgba(0,0,0,0)"
    chart.update_layout(paper_bgcolor=clear, plot_bgcolor=clear, modebar={"bgcolor": clear})
    st.plotly_chart(
        chart,
        width="stretch",
        theme="streamlit",
        key=f"plot-{name}",
        config=config(name),
    )
    plot_downloads(chart, name)
