"""The tags of a question on Question, in a field that takes known words and new ones."""

from __future__ import annotations

from functools import partial

import streamlit as st

from blindspot.app import who
from blindspot.app.components.message import show_last_message, try_action
from blindspot.app.judging_stores import judging_stores
from blindspot.backend.core.study import Study
from blindspot.db.errors import Refused
from blindspot.db.records import Question


def question_tags(open_study: Study, question: Question) -> None:
    """Show the tags of a question. Those who may tag add to them and remove them."""
    st.fragment(_question_tags)(open_study, question)


def _question_tags(open_study: Study, question: Question) -> None:
    if who.sign_in_has_ended(open_study.labels_path):
        st.rerun()
    store = judging_stores(open_study).tags
    given = store.of_question(question.id)
    person = who.signed_in_person(open_study.labels_path)
    key = f"tags-{question.id}"
    st.session_state[key] = given  # the store knows better than the browser
    with st.container(key="question-tags"):
        st.multiselect(
            "Tags",
            store.known(),
            key=key,
            accept_new_options=True,
            disabled=person is None or not person.is_allowed("tag questions"),
            placeholder="Tag this question in your own words (key: t)",
            label_visibility="collapsed",
            on_change=try_action,
            args=(partial(_store_tags, open_study, question.id, key, given), "tags"),
        )
        show_last_message("tags")


def _store_tags(open_study: Study, question: str, key: str, before: list[str]) -> None:
    """Store the tags that were added to the field or removed from it."""
    store, now = judging_stores(open_study).tags, st.session_state[key]
    if (by := who.acting_name(open_study.labels_path)) is None:
        raise Refused(who.SIGNED_OUT)
    for word in now:
        if word not in before:
            store.add(word, question, by)
    for word in before:
        if word not in now:
            store.remove(word, question, by)
