"""Uploads in the browser. In an empty study, a training file becomes a check; any other file is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from blindspot.app import who
from blindspot.app.components import jobs
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import command, notice
from blindspot.app.markup import join, show, table, table_head, tag
from blindspot.backend.checking.jobs import UPLOAD_TYPES, import_training_file
from blindspot.backend.checking.reading import open_training_file
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.data.importing.uploads import (
    COLUMNS,
    IMPORTS,
    TYPES,
    FileReading,
    delete_upload,
    possible_readings,
    store_upload,
)
from blindspot.db.errors import BlindspotError
from blindspot.db.records import SPLITS

TITLES = {
    "passages": "passages",
    "questions": "questions",
    "runs": "a run (ranked passages of each question)",
    "qrels": "relevance judgements",
    "frequencies": "mentions of entities",
}
AS_IN_FILE = "as in the file"
_TAKEN = "file-taken"  # (id of the uploaded file, its path, its readings, what is wrong)


def is_empty(study: Study) -> bool:
    """Return whether a study is still empty."""
    return not study.has_corpus and study.questions.last_position < 0


def files_panel(open_study: Study) -> None:
    """Show the upload field, a preview of the file and the button that imports it. If other machines can reach the app,
    show the commands instead.
    """
    if not who.may(open_study.labels_path, "import"):
        return
    if is_empty(open_study):
        with st.container(key="upload"):
            show(tag("h2", "Drop a file"))
            show(
                tag(
                    "p",
                    "Add your own passages, questions or a run. Or check a training file: how many of its negatives are false?",
                )
            )
            _field(open_study)
    else:
        with st.expander("Add a file: a run, questions, relevance judgements", expanded=_TAKEN in st.session_state):
            _field(open_study)


def _field(open_study: Study) -> None:
    megabytes = int(st.get_option("server.maxUploadSize") or 0)
    lines = join(
        "Folders and larger files: ", command("blindspot import --help"), ", ", command("blindspot check FILE")
    )
    if megabytes <= 1:
        show(tag("p", "Other people can reach this app, so files can be added only with the command line. ", lines))
        return
    given = st.file_uploader("It stays on this machine.", list(TYPES), key="file")
    show(tag("p", lines, cls="convention"))
    if given is None:
        return
    if st.session_state.get(_TAKEN, ("",))[0] != given.file_id:
        st.session_state[_TAKEN] = (given.file_id, *_keep_upload(open_study, given))
    _, path, found, fault = st.session_state[_TAKEN]
    if fault:
        show(notice(fault, kind="error"))
    elif found:
        _import_form(open_study, path, found)


def _keep_upload(open_study: Study, upload: Any) -> tuple[Path | None, list[FileReading], str]:
    """Keep the file. Return the path of the uploaded file, the ways to read it, and what is wrong with it. The check of
    a training file starts at once.
    """
    try:
        path = store_upload(open_study, upload.name, upload)
    except BlindspotError as error:
        return None, [], str(error)
    reason = "no passages, questions, run or judgements of a known form"
    try:
        found = possible_readings(path)
    except BlindspotError as error:
        found, reason = [], str(error)
    if is_empty(open_study) and path.suffix[1:] in UPLOAD_TYPES and not any(each.kind == "passages" for each in found):
        try:
            open_training_file(path)
            jobs.start(open_study, request(import_training_file, path.name))
            return None, [], ""
        except BlindspotError as error:
            reason = f"{error}; {reason}"
    if not found:
        delete_upload(path)
    return path, found, "" if found else reason


def _import_form(open_study: Study, path: Path, readings: list[FileReading]) -> None:
    """Show the first rows of the file, the choice of what kind of data it is, and the button that starts the import."""
    columns = st.columns([4, 2, 3, 3], vertical_alignment="bottom")
    kinds = {each.kind: f"{TITLES[each.kind]} · {each.what}" for each in readings}
    kind = columns[0].selectbox(
        "This file holds", list(kinds), format_func=kinds.__getitem__, key=f"file-kind-{path.name}"
    )
    arguments: dict[str, Any] = {}
    if kind in ("runs", "questions"):
        words = [AS_IN_FILE, *SPLITS]
        split = columns[1].selectbox(
            "Split", words, key=f"file-split-{path.name}", help="Import only the questions of this split."
        )
        arguments["split"] = None if split == AS_IN_FILE else split
    if kind == "runs":
        arguments["name"] = (
            columns[2].text_input("Name of the run", path.stem[:64], max_chars=64, key=f"file-run-{path.name}").strip()
        )
    chosen = next(each for each in possible_readings(path, arguments.get("split")) if each.kind == kind)
    lacking = "needs passages first" if kind in ("runs", "qrels") and not open_study.has_corpus else ""
    with columns[3]:
        job = request(IMPORTS[kind], str(path), format=chosen.format, **arguments)
        lacking = lacking or ("choose how to read it" if chosen.fault else "")
        jobs.start_button(open_study, job, key="file-import", label="Import", missing_part=lacking, primary=True)
    if chosen.fault:
        show(notice(chosen.fault.replace(str(path), path.name).replace("use --split", "choose one of"), kind="warning"))
        return
    rows = (tag("tr", *(tag("td", cell, cls="left") for cell in row)) for row in chosen.rows)
    show(scrolling(table(table_head(*(tag("th", name, scope="col", cls="left") for name in COLUMNS[kind])), rows)))
