"""The judging component: keys, cursor and outbox in the browser (`outbox.js`, `judge.js`), storing and handing out here.

A message from the browser is its whole outbox. `receive` stores it and keeps the receipts for the next run of the page, which
sends them back; whatever is not acknowledged is sent again, and stored once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from db.errors import BlindspotError
from db.labels import Labels

HERE = Path(__file__).parent
_HEARD = "judging-heard"


def mount(name: str, key: str, data: Mapping[str, Any], labels: Labels, annotator: str) -> None:
    """Put a component of this folder on the page. `data` is what it shows; receipts are added."""
    heard = st.session_state.get(_HEARD, {}).get(key, {"attempt": None, "receipts": [], "trouble": None})
    _component(name)(
        key=key,
        data={**data, **heard},
        default={"outbox": None},
        on_outbox_change=lambda: receive(key, labels, annotator),
        height="content",
    )


def receive(key: str, labels: Labels, annotator: str) -> None:
    """Store what the browser sent, and remember what became of it."""
    outbox = st.session_state[key].get("outbox") or {}
    entries, trouble, receipts = outbox.get("entries") or [], None, []
    try:
        receipts = [asdict(receipt) for receipt in labels.add_all(annotator, entries)]
    except BlindspotError as error:
        trouble = str(error)
    st.session_state.setdefault(_HEARD, {})[key] = {
        "attempt": outbox.get("attempt"),
        "receipts": receipts,
        "trouble": trouble,
    }


def asked(key: str, name: str, default: Any) -> Any:
    """Something that the browser sent beside its outbox."""
    state = st.session_state.get(key) or {}
    return (state.get("outbox") or {}).get(name, default)


@cache
def _source(*names: str) -> str:
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in names)


@st.cache_resource(show_spinner=False)
def _component(name: str):
    return st.components.v2.component(
        f"blindspot.{name}",
        html=f'<div data-{name} class="{name}-place"></div>',
        css=_source("judging.css"),
        js=_source("outbox.js", f"{name}.js"),
        isolate_styles=False,
    )
