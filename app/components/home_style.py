"""The style sheet of Home."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import streamlit as st


@cache
def _source() -> str:
    return Path(__file__).with_name("home.css").read_text(encoding="utf-8")


def home_style() -> None:
    st.html(f"<style>{_source()}</style>")
