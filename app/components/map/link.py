"""Mounts `link.js`: a click on the map opens a point, which gets a ring and lines to what belongs to it; a group of the
list gets rings around its questions while the pointer or the focus is on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def map_link(lines: Lines, groups: Mapping[str, Sequence[str]]) -> None:
    """Mount the script; call this once per run.

    Args:
        groups: by the group's id, the ids of the points of its questions.
    """
    _component()(key="map-link", data={**lines._asdict(), "groups": groups}, height="content")


@st.cache_resource(show_spinner=False)
def _component():
    return st.components.v2.component("blindspot.map_link", js=_source())
