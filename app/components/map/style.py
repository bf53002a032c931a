"""The style sheet of the Map page."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import streamlit as st


@cache
def _source() -> str:
    return Path(__file__).with_name("page.css").read_text(encoding="utf-8")


def map_style() -> None:
    st.html(f"<style>{_source()}</style>")
