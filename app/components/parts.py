"""The panel in which a lead downloads, describes, renames and deletes the parts of a kind (such as runs), and the tags
that show their keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from blindspot.app import hidden_questions, who
from blindspot.app.components.marks import notice
from blindspot.app.components.message import has_message, show_last_message, try_action
from blindspot.app.markup import Html, join, show, span, tag
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity
from blindspot.backend.upkeep import parts
from blindspot.backend.upkeep.dependents import dependents
from blindspot.backend.upkeep.downloads import download, formats
from blindspot.db.descriptions import Description, Descriptions


def descriptions(study: Study, kind: str) -> dict[str, Description]:
    """Return the descriptions of the parts of a kind, by name, as `described` needs them."""
    return Descriptions(study.labels_path).of_kind(kind)


def name_with_description(name: object, description: Description | None) -> Html:
    """Return a name with its keywords; its description is the tooltip."""
    if description is None:
        return join(name)
    keywords = (join(" ", span(each, cls="badge part-tag")) for each in description.keywords)
    return span(name, *keywords, title=description.text or None)


def parts_panel(
    study: Study, kind: str, names: Sequence[str], can_download: bool = True, further_form: Callable[[], object] = bool
) -> None:
    """Show an expander with everything that a lead may do with a part of this kind. Other people see nothing.

    Args:
        further_form: Shows what else a lead may do with them.
    """
    may_manage, may_export = who.may(study.labels_path, parts.ACTION), who.may(study.labels_path, "export")
    if not names or not (may_manage or may_export):
        return
    words = parts.kind_words(kind, 2) if len(names) > 1 else f"“{names[0]}”"
    title = f"Download, describe, rename or delete {words}" if can_download else f"Describe, rename or delete {words}"
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
        if may_manage:
            part_forms(study, kind, name)
            further_form()


def part_forms(study: Study, kind: str, name: str, is_narrow: bool = False) -> None:
    """Show the forms that describe, rename and delete a part to those who may. is_narrow: with one field a line."""
    if who.may(study.labels_path, parts.ACTION):
        _describe(study, kind, name, is_narrow)
        _rename_or_delete(study, kind, name, is_narrow)


def _fields(widths: Sequence[float], is_narrow: bool) -> Sequence[DeltaGenerator]:
    """Return a place for each field of a form, beside each other or below each other."""
    return [st.container() for _ in widths] if is_narrow else st.columns(widths, vertical_alignment="bottom")


def download_row(study: Study, kind: str, name: str, label: str = "Download") -> None:
    """Show the choice of a format and the button that downloads a part. The file is made after the click."""
    if kind == "run" and hidden_questions.any_hidden(study, study.run(name).question_ids):
        show(notice(f"You can download {name} once you have judged its questions that are assigned to you."))
        return
    offered = formats(kind)
    left, right = st.columns([2, 2], vertical_alignment="bottom")
    key = f"download-{kind}"
    format = left.selectbox("Format", offered, key=f"{key}-format") if len(offered) > 1 else offered[0]
    by = who.acting_name(study.labels_path)  # now: Streamlit makes the file outside of the page's session

    def file_content() -> bytes:
        return download(study, kind, name, format, actor=by).content

    with right:
        st.download_button(label, file_content, f"{name}.{format}", key=key, on_click="ignore")


def _describe(study: Study, kind: str, name: str, is_narrow: bool) -> None:
    about = Descriptions(study.labels_path).description_of(kind, name)
    with st.form(f"describe-{kind}-{name}", border=False, enter_to_submit=False):
        columns = _fields([4, 2.5, 1.2], is_narrow)
        text = columns[0].text_input("Description", about.text, max_chars=2000)
        keywords = columns[1].text_input("Keywords", ", ".join(about.keywords), help="Words separated by commas.")
        with columns[2]:
            pressed = st.form_submit_button("Save")
    if pressed:
        _apply_change(
            study,
            kind,
            lambda by: parts.describe(study, kind, name, text, keywords.split(","), actor=by),
            f"Saved the description of {name}.",
        )


def _rename_or_delete(study: Study, kind: str, name: str, is_narrow: bool) -> None:
    found = dependents(study, kind, name)
    if found:
        show(
            tag(
                "p",
                f"{quantity(len(found), 'part')} of this study {'depends' if len(found) == 1 else 'depend'} on {name}:",
            ),
            tag("ul", *(tag("li", each.sentence_part) for each in found), cls="soft"),
        )
    with st.form(f"rename-{kind}-{name}", border=False, enter_to_submit=False):
        columns = _fields([4, 1.6, 1.2, 1.2], is_narrow)
        new = columns[0].text_input("New name", name, max_chars=64)
        confirmed = columns[1].checkbox(
            "I am sure", help=f"Needed to delete{', and to rename what other parts name' if found else ''}."
        )
        with columns[2]:
            renames = st.form_submit_button("Rename")
        with columns[3]:
            deletes = st.form_submit_button("Delete")
    if renames:
        _apply_change(
            study,
            kind,
            lambda by: parts.rename(study, kind, name, new.strip(), bool(confirmed), actor=by),
            f"{name} is now {new.strip()}.",
        )
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
