"""Mounts `link.js`: a click on the map opens a point, which gets a ring."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import streamlit as st


@cache
def _source() -> str:
    return Path(__file__).with_name("link.js").read_text(encoding="utf-8")


def map_link() -> None:
    """Mount the script; call this once per run."""
    _component()(key="map-link", height="content")


@st.cache_resource(show_spinner=False)
def _component():
    return st.components.v2.component("blindspot.map_link", js=_source())
