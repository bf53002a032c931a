"""One check of a training set on the Training page: what it checks, its state, and its button."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from blindspot.app.markup import show, tag, term


def check_row(name: str, explanation: str) -> tuple[DeltaGenerator, DeltaGenerator]:
    """Show the name of a check, and return the places of its state and of its button."""
    columns = st.columns([2, 5, 3], vertical_alignment="top")
    with columns[0]:
        show(tag("h3", term(name, explanation)))
    return columns[1], columns[2]
