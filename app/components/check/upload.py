"""Drop a training file on an empty study: it becomes the check of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from blindspot.app import who
from blindspot.app.components.marks import command, notice
from blindspot.app.markup import join, show, tag
from blindspot.backend.checking.jobs import UPLOAD_TYPES, import_training_file, keep_upload
from blindspot.backend.core.jobs import request, submit_request
from blindspot.backend.core.study import Study
from blindspot.db.errors import BlindspotError

if TYPE_CHECKING:
    from streamlit.runtime.uploaded_file_manager import UploadedFile

_TAKEN = "upload-taken"  # (id of the file, why it was refused or "")


def is_empty(study: Study) -> bool:
    """Return whether a study holds nothing yet."""
    return not study.has_corpus and study.questions.last < 0


def upload_panel(opened: Study) -> None:
    """Show the field for a file; where others reach the app, the command."""
    if not is_empty(opened) or not who.may(opened.labels_path, "import"):
        return
    megabytes = int(st.get_option("server.maxUploadSize") or 0)
    with st.container(key="upload"):
        show(
            tag("h2", "Check a training file"),
            tag(
                "p",
                "Are its mined negatives false, and how many? Drop a file as trainers write it. It stays on this "
                "machine, in the study's folder.",
            ),
        )
        if megabytes <= 1:
            show(
                tag(
                    "p",
                    "Others can reach this app, so files come from the command line: ",
                    command("blindspot check FILE"),
                )
            )
            return
        words = f"Training file: {', '.join(UPLOAD_TYPES)}; at most {megabytes:,} MB"
        given = st.file_uploader(words, list(UPLOAD_TYPES), key="training-file")
        show(tag("p", join("Folders and larger files: ", command("blindspot check FILE --open")), cls="convention"))
        if given is None:
            return
        id, reason = st.session_state.get(_TAKEN, ("", ""))
        if id != given.file_id:
            reason = _take(opened, given)
            st.session_state[_TAKEN] = (given.file_id, reason)
        if reason:
            show(notice(reason, kind="error"))


def _take(opened: Study, given: UploadedFile) -> str:
    """Keep the file and start the job. Return why the file is refused; "" if it is not."""
    try:
        person = who.acting(opened.labels_path)
        asked = request(import_training_file, keep_upload(opened, given.name, given))
        submit_request(opened, asked, by=person)
    except BlindspotError as error:
        return str(error)
    return ""
