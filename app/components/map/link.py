"""Mounts `link.js`: a click on the map opens a point, which gets a ring and lines to what belongs to it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import streamlit as st


@cache
def _source() -> str:
    return Path(__file__).with_name("link.js").read_text(encoding="utf-8")


class Lines(NamedTuple):
    """The ids of the points to which lines lead from the open point: solid ones to a question's positives, or to a
    passage's questions; dotted ones to a question's hits, by rank, where "" is a hit that is not on the map.
    """

    solid: tuple[str, ...] = ()
    dotted: tuple[str, ...] = ()


def map_link(lines: Lines) -> None:
    """Mount the script; call this once per run."""
    _component()(key="map-link", data=lines._asdict(), height="content")


@st.cache_resource(show_spinner=False)
def _component():
    return st.components.v2.component("blindspot.map_link", js=_source())
