"""The panel in which a lead downloads and deletes the parts of a kind, such as runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from blindspot.app import who
from blindspot.app.components.message import has_message, show_last_message, try_action
from blindspot.app.markup import show, tag
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity
from blindspot.backend.upkeep import parts
from blindspot.backend.upkeep.dependents import dependents
from blindspot.backend.upkeep.downloads import download, formats


def parts_panel(study: Study, kind: str, names: Sequence[str], can_download: bool = True) -> None:
    """Show an expander with everything that a lead may do with a part of this kind. Other people see nothing."""
    may_manage, may_export = who.may(study.labels_path, parts.ACTION), who.may(study.labels_path, "export")
    if not names or not (may_manage or may_export):
        return
    words = parts.kind_words(kind, 2) if len(names) > 1 else f"“{names[0]}”"
    title = f"Download or delete {words}" if can_download else f"Delete {words}"
    with st.expander(title, expanded=has_message(f"parts-{kind}")):
        show_last_message(f"parts-{kind}")
        left, right = st.columns([3, 4], vertical_alignment="bottom")
        name = names[0]
        if len(names) > 1:
            name = left.selectbox(parts.kind_words(kind).capitalize(), list(reversed(names)), key=f"part-{kind}")
        if can_download and may_export:
            with right:
                download_row(study, kind, name)
        if kind == "run" and may_export:
            download_row(study, "report", "report", "Download a report on all runs")
        delete_form(study, kind, name)


def download_row(study: Study, kind: str, name: str, label: str = "Download") -> None:
    """Show the choice of a format and the button that downloads a part. The file is made after the click."""
    offered = formats(kind)
    left, right = st.columns([2, 2], vertical_alignment="bottom")
    key = f"download-{kind}"
    format = left.selectbox("Format", offered, key=f"{key}-format") if len(offered) > 1 else offered[0]
    by = who.acting_name(study.labels_path)  # now: Streamlit makes the file outside of the page's session

    def file_content() -> bytes:
        return download(study, kind, name, format, actor=by).content

    with right:
        st.download_button(label, file_content, f"{name}.{format}", key=key, on_click="ignore")


def delete_form(study: Study, kind: str, name: str) -> None:
    """Show the form that deletes a part to those who may, with what depends on it."""
    if not who.may(study.labels_path, parts.ACTION):
        return
    found = dependents(study, kind, name)
    if found:
        depends = (
            f"{quantity(len(found), 'part')} of this study {'depends' if len(found) == 1 else 'depend'} on {name}:"
        )
        show(tag("p", depends), tag("ul", *(tag("li", each.sentence_part) for each in found), cls="soft"))
    with st.form(f"delete-{kind}-{name}", border=False, enter_to_submit=False):
        confirmed = st.checkbox("I am sure", help="Nothing brings it back.")
        deletes = st.form_submit_button("Delete")
    if deletes:
        _apply_change(
            study, kind, lambda by: parts.delete(study, kind, name, bool(confirmed), actor=by), f"Deleted {name}."
        )


def _apply_change(study: Study, kind: str, change: Callable[[str | None], object], message: str) -> None:
    """Make a change as the signed-in person, and show the page again with the result."""

    def work() -> str:
        change(who.acting_name(study.labels_path))
        return message

    try_action(work, f"parts-{kind}")
    st.rerun()
