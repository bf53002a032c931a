"""The judging component: keys, cursor and outbox in the browser (`outbox.js`, `judge.js`), storing and handing out here.

A message from the browser is its whole outbox. `receive` stores it and keeps the receipts for the next run of the page, which
sends them back; whatever is not acknowledged is sent again, and stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache, wraps
from pathlib import Path
from typing import Any

import streamlit as st

from app import who
from app.desk import Desk, desk
from app.entry import PASSING, describe, report
from backend.core.study import Study
from backend.judging.guidelines import guidelines
from db.errors import BlindspotError, Refused
from db.people import Person

Draw = Callable[[Study, Desk, Person], None]

HERE = Path(__file__).parent
_HEARD, _LAST = "judging-heard", "judging-last"


def mount(name: str, key: str, data: Mapping[str, Any], study: Study, annotator: str) -> None:
    """Put a component of this folder on the page. `data` is what it shows; receipts are added."""
    st.session_state.setdefault(_LAST, {})[key] = data
    key = component_key(key)
    heard = st.session_state.get(_HEARD, {}).get(key, {"attempt": None, "receipts": [], "trouble": None})
    _component(name)(
        key=key,
        data={**data, **heard},
        default={"outbox": None},
        on_outbox_change=lambda: receive(key, study, annotator),
        height="content",
    )


def keeps_component(prefix: str) -> Callable[[Draw], Draw]:
    """Decorate a function that mounts the component `PREFIX-NAME` of a person. When the study cannot be read for a while, the
    component stays on the page with what it last showed, below a line about the error, and the page tries again."""

    def decorate(draw: Draw) -> Draw:
        @wraps(draw)
        def guarded(study: Study, stores: Desk, person: Person) -> None:
            line = st.container()
            try:
                draw(study, stores, person)
            except PASSING as error:
                key = f"{prefix}-{person.name}"
                if key in st.session_state.get(_LAST, {}):
                    mount("judge", key, st.session_state[_LAST][key], study, person.name)
                with line:
                    report(error)

        return guarded

    return decorate


def receive(key: str, study: Study, annotator: str) -> None:
    """Store what the browser sent, and remember what became of it.

    `annotator` is whose outbox it is. The store is asked who is at work now: a tab may be open for longer than a link is valid.
    Of somebody who is not signed in any more nothing is stored; the outbox stays in the browser until they come back.
    """
    outbox = st.session_state[key].get("outbox") or {}
    entries, trouble, receipts = outbox.get("entries") or [], None, []
    try:
        person = who.who(study.labels_path)
        if person is None or person.name != annotator:
            raise Refused(f"{annotator} is not signed in any more. Unsaved labels stay in this browser")
        version = guidelines(study.folder).version
        receipts = [asdict(receipt) for receipt in desk(study).labels.add_all(annotator, entries, version)]
    except (BlindspotError, *PASSING) as error:
        trouble = describe(error)
    st.session_state.setdefault(_HEARD, {})[key] = {
        "attempt": outbox.get("attempt"),
        "receipts": receipts,
        "trouble": trouble,
    }


def at_work(study: Study, person: Person) -> None:
    """At the start of a fragment: run the whole page again where the person is not the one that the fragment was made for.

    A fragment keeps what it was given when its page ran. Since then a link may have been revoked, or a role changed.
    """
    if who.who(study.labels_path) != person:
        st.rerun()


def component_key(key: str) -> str:
    """Return a key that Streamlit takes for any name of a person: a component's key must not hold "__"."""
    return key.replace("_", "_-")


def session(labels_path: Path, person: Person, mode: str = "") -> str:
    """Return the name under which the browser keeps one person's outbox in one study, by mode of the page.

    The browser finds the outboxes of a person by this prefix. A person's name may hold a colon, which separates the parts
    here, so it is replaced by a character that no name holds: "sam" must not find the outbox of "sam:2".
    """
    parts = [who.cookie_name(labels_path), person.name.replace(":", "\x1f")]
    return ":".join([*parts, mode] if mode else parts)


def asked(key: str, name: str, default: Any) -> Any:
    """Something that the browser sent beside its outbox."""
    state = st.session_state.get(component_key(key)) or {}
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
