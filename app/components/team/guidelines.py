"""The panel in which a lead edits the guidelines for annotators, with a preview and the versions so far."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from blindspot.app import who
from blindspot.app.components.message import has_message, show_last_message, try_action
from blindspot.app.markup import Html, div, show, span, tag
from blindspot.backend.core.study import Study
from blindspot.backend.judging.guidelines import (
    MAX_TEXT,
    Guidelines,
    edit_guidelines,
    guideline_versions,
    guidelines,
    version_of,
)

_TEXT = "guidelines-text"


def guidelines_panel(open_study: Study) -> None:
    """Show the guidelines to edit beside what annotators see, and who changed them when."""
    now = guidelines(open_study.folder)
    key = f"{_TEXT}-{now.version}"  # text that was typed over another version is not put over this one
    with st.expander("Guidelines for annotators", expanded=has_message("guidelines"), key="team-guidelines"):
        show_last_message("guidelines")
        left, right = st.columns(2)
        text = left.text_area("Guidelines, in Markdown", now.text, height=420, max_chars=MAX_TEXT, key=key)
        with right:
            show(
                tag("p", "What annotators see (key G on Judge):", cls="soft"),
                div(
                    *map(_element, Guidelines(version_of(text), text).as_elements()),
                    cls="guidelines-preview",
                    tabindex="0",
                ),
            )
        with left:
            save = partial(_save, open_study, key)
            st.button("Save the guidelines", key="save-guidelines", on_click=try_action, args=(save, "guidelines"))
        versions = [
            tag(
                "details",
                tag(
                    "summary", each.version, span(f" since {each.time_text} UTC", f", by {each.by}" if each.by else "")
                ),
                tag("pre", each.text),
            )
            for each in guideline_versions(open_study)
        ]
        show(div(tag("h3", "Versions, the one in force first"), *versions, cls="guidelines-versions"))


def _save(open_study: Study, key: str) -> str:
    saved = edit_guidelines(open_study, st.session_state[key], actor=who.acting_name(open_study.labels_path))
    return f"Version {saved.version} is in force. Labels from now on name it; earlier labels keep theirs."


def _element(part: Any) -> Html | str:
    """Return a part of `Guidelines.as_elements` as markup."""
    if isinstance(part, str):
        return part
    name, attributes, *children = part
    return tag(name, *map(_element, children), **attributes)
