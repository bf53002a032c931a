"""An uploaded log: retriever spans are imported at once; for a table, the person first chooses the columns."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from blindspot.app.components import jobs
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import notice
from blindspot.app.markup import show, table, table_head, tag
from blindspot.backend.checking.jobs import UPLOAD_TYPES, import_retrieval_log
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.data.retrieval_logs import open_log, preview, usual_columns
from blindspot.db.errors import BadInput

COLUMNS = {"question": "Question", "chunks": "Chunks, or one", "chunk_id": "Id of the chunk", "score": "Score"}


def start_log(open_study: Study, path: Path) -> bool:
    """Start the import if the file contains a retriever's spans. Return whether it was started."""
    try:
        if open_log(path).shape is None:
            return False
    except BadInput:
        return False
    jobs.start(open_study, request(import_retrieval_log, path.name))
    return True


def may_be_log(path: Path) -> bool:
    """Return whether the file is a table of two columns or more."""
    try:
        return path.suffix[1:] in UPLOAD_TYPES and len(preview(path)) > 1
    except BadInput:
        return False


def log_form(open_study: Study, path: Path) -> None:
    """Show the first values of each column, and fields in which the person says what each column is."""
    columns = preview(path)
    rows = [
        tag("tr", tag("th", name, scope="row"), *(tag("td", each, cls="left") for each in values))
        for name, values in columns.items()
    ]
    with st.expander("Is it a retriever's log? Choose its columns"):
        show(scrolling(table(table_head("column", "first values"), rows)))
        usual, chosen = usual_columns(list(columns)), {}
        parts = st.columns(len(COLUMNS), vertical_alignment="bottom")
        names = ["", *columns]
        for part, (name, words) in zip(parts, COLUMNS.items(), strict=True):
            place = names.index(usual.get(name, ""))
            column = part.selectbox(words, names, place, format_func=lambda each: each or "–", key=f"log-{name}")
            if column:
                chosen[name] = column
        lacking = "" if {"question", "chunks"} <= chosen.keys() else "choose the question and the chunks"
        if not lacking:
            try:
                open_log(path, chosen)
            except BadInput as error:
                show(notice(str(error), kind="warning"))
                return
        asked = request(import_retrieval_log, path.name, chosen)
        jobs.start_button(open_study, asked, key="read-log", label="Read the log", missing_part=lacking)
