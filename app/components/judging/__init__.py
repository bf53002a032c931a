"""The server side of the judging component. The browser keeps the key bindings, the cursor and the outbox (`outbox.js`,
`judge.js`).

Each message from the browser contains the whole outbox. `receive` stores the events of the message. It saves the
receipts for the next rerun of the page, which returns them to the browser. The browser resends unacknowledged events;
the store keeps each event once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache, wraps
from pathlib import Path
from typing import Any

import streamlit as st

from blindspot.app import who
from blindspot.app.entry import TRANSIENT_ERRORS, describe, report
from blindspot.app.judging_stores import JudgingStores, judging_stores
from blindspot.backend.core.study import Study
from blindspot.backend.judging.guidelines import guidelines
from blindspot.db.errors import BlindspotError, Refused
from blindspot.db.people import Person

Draw = Callable[[Study, JudgingStores, Person], None]

HERE = Path(__file__).parent
_HEARD, _LAST = "judging-heard", "judging-last"


def mount(name: str, key: str, data: Mapping[str, Any], study: Study, annotator: str) -> None:
    """Put a component of this folder on the page, with `data` and the receipts for the last message."""
    st.session_state.setdefault(_LAST, {})[key] = data
    key = component_key(key)
    heard = st.session_state.get(_HEARD, {}).get(key, {"attempt": None, "receipts": [], "trouble": None})
    _component(name)(
        key=key,
        data={**data, **heard},
        default={"outbox": None},
        on_outbox_change=lambda: store_events(key, study, annotator),
        height="content",
    )


def keeps_component(prefix: str) -> Callable[[Draw], Draw]:
    """Decorate a function that mounts a person's own component, with the key `PREFIX-NAME`.

    While the study cannot be read, the component stays on the page with its last data and a line about the error, and
    the page keeps trying.
    """

    def decorate(draw: Draw) -> Draw:
        @wraps(draw)
        def with_errors_shown(study: Study, stores: JudgingStores, person: Person) -> None:
            line = st.container()
            try:
                draw(study, stores, person)
            except TRANSIENT_ERRORS as error:
                key = f"{prefix}-{person.name}"
                if key in st.session_state.get(_LAST, {}):
                    mount("judge", key, st.session_state[_LAST][key], study, person.name)
                with line:
                    report(error)

        return with_errors_shown

    return decorate


def store_events(key: str, study: Study, annotator: str) -> None:
    """Store the events that the browser sent, and save their receipts.

    The outbox belongs to `annotator`, who may have been signed out since the tab was opened. In that case nothing is
    stored, and the events stay in the browser until the annotator signs in again.
    """
    outbox = st.session_state[key].get("outbox") or {}
    entries, trouble, receipts = outbox.get("entries") or [], None, []
    try:
        person = who.signed_in_person(study.labels_path)
        if person is None or person.name != annotator:
            raise Refused(f"{annotator} is no longer signed in. Unsaved labels stay in this browser")
        version = guidelines(study.folder).version
        receipts = [asdict(receipt) for receipt in judging_stores(study).labels.add_all(annotator, entries, version)]
    except (BlindspotError, *TRANSIENT_ERRORS) as error:
        trouble = describe(error)
    st.session_state.setdefault(_HEARD, {})[key] = {
        "attempt": outbox.get("attempt"),
        "receipts": receipts,
        "trouble": trouble,
    }


def at_work(study: Study, person: Person) -> None:
    """Rerun the whole page if the signed-in person has changed; call this at the start of a fragment.

    Streamlit reruns a fragment with the arguments of the page's last run. Since then a link may have been revoked or a
    role changed.
    """
    if who.signed_in_person(study.labels_path) != person:
        st.rerun()


def component_key(key: str) -> str:
    """Return a key that Streamlit accepts for any person's name; a component's key must not contain "__"."""
    return key.replace("_", "_-")


def session(labels_path: Path, person: Person, mode: str = "") -> str:
    """Return the browser's storage name for one person's outbox in one study and page mode.

    The browser finds a person's outboxes by this prefix. A colon separates its parts, so a colon in a person's name is
    replaced by a character that no name contains: "sam" must not find the outbox of "sam:2".
    """
    parts = [who.cookie_name(labels_path), person.name.replace(":", "\x1f")]
    return ":".join([*parts, mode] if mode else parts)


def browser_value(key: str, name: str, default: Any) -> Any:
    """Return a value that the browser sent with its outbox."""
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
