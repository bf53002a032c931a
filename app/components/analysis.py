"""The style sheet of the analysis pages."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import streamlit as st

from app.markup import Html


@cache
def _source() -> str:
    return Path(__file__).with_name("analysis.css").read_text(encoding="utf-8")


def analysis_css() -> Html:
    """Return the style sheet as markup."""
    return Html(f"<style>{_source()}</style>")


def analysis_style() -> None:
    st.html(str(analysis_css()))
