"""Mounts `behaviour.js`: links that do not reload the page, keyboard shortcuts, and the lines between shared passages."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import streamlit as st

from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.markup import show

HERE = Path(__file__).parent


@cache
def _source(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def style() -> None:
    show(style_sheet("style.css"))


def behaviour(cookie: tuple[str, str] | None = None) -> None:
    """Mount the script. Call this once per rerun of a page, before anything that relies on the script.

    Args:
        cookie: name and value of a cookie for the browser to store.
    """
    _component()(key="behaviour", data={"cookie": cookie}, height="content")


@st.cache_resource(show_spinner=False)
def _component():
    return st.components.v2.component("blindspot.behaviour", js=_source("behaviour.js"))
