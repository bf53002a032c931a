"""Buttons under plots and tables that save them for a paper."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from blindspot.app.markup import span
from blindspot.backend.evaluation.paper_plots import FORMS, MIME, paper_plot

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def plot_downloads(plot: Figure, name: str) -> None:
    """Show buttons that save a plot as SVG, PDF or PNG: one column wide, black on white, with embedded fonts."""
    with _row(f"save-plot-{name}", "Save the plot"):
        for form in FORMS:
            _button(form.upper(), partial(paper_plot, plot, form), f"{name}.{form}", MIME[form])


def table_downloads(name: str, latex: Callable[[], str], csv: Callable[[], str]) -> None:
    """Show buttons that save a table as LaTeX (booktabs) and as CSV. The file contents are made after a click."""
    with _row(f"save-table-{name}", "Save the table"):
        _button("LaTeX", latex, f"{name}.tex", "text/x-tex")
        _button("CSV", csv, f"{name}.csv", "text/csv")


def _row(key: str, label: str):
    row = st.container(key=key, horizontal=True, vertical_alignment="center", gap="small")
    row.html(str(span(label, cls="soft")), width="content")
    return row


def _button(label: str, content: Callable[[], str | bytes], file: str, mime: str) -> None:
    st.download_button(label, content, file, mime, key=f"save-{file}", type="tertiary", on_click="ignore")
