"""The page's behaviour in the browser: links that do not reload, keys, the lines between shared passages. See `behaviour.js`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import streamlit as st

HERE = Path(__file__).parent


@cache
def _source(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def style() -> None:
    st.html(f"<style>{_source('style.css')}</style>")


def behaviour(cookie: tuple[str, str] | None = None) -> None:
    """Mount the script, once per run, before anything that relies on it. `cookie`: name and value that the browser is to keep."""
    _component()(key="behaviour", data={"cookie": cookie}, height="content")


@st.cache_resource(show_spinner=False)
def _component():
    return st.components.v2.component("blindspot.behaviour", js=_source("behaviour.js"))
