"""Buttons under tables that save them for a paper."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from blindspot.app.markup import span


def table_downloads(name: str, latex: Callable[[], str], csv: Callable[[], str]) -> None:
    """Show buttons that save a table as LaTeX (booktabs) and as CSV. The file contents are made after a click."""
    row = st.container(key=f"save-table-{name}", horizontal=True, vertical_alignment="center", gap="small")
    row.html(str(span("Save the table", cls="soft")), width="content")
    with row:
        _button("LaTeX", latex, f"{name}.tex", "text/x-tex")
        _button("CSV", csv, f"{name}.csv", "text/csv")


def _button(label: str, content: Callable[[], str], file: str, mime: str) -> None:
    st.download_button(label, content, file, mime, key=f"save-{file}", type="tertiary", on_click="ignore")
