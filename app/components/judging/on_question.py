"""Labels on the Question page: one's own by key, and for those who may see them what everybody said."""

from __future__ import annotations

from dataclasses import asdict

import streamlit as st

from app import url
from app.components import judging
from app.components.marks import count
from app.desk import desk
from app.markup import Html, div, join, link, show, span, tag
from backend.core.study import Study
from db.judgements import Consensus
from db.people import Person
from db.records import Question

_STATES = {"agreed": "agreed", "adjudicated": "settled", "open": "in dispute"}


def on_question(study: Study, question: Question, person: Person | None) -> None:
    """Below the two lists. Whoever has not said who they are is told how to."""
    if person is None:
        show(div(link("Say who you are", url.JUDGE), " to label passages here.", cls="soft foot"))
        return
    st.fragment(_keys)(study, question, person)


def _keys(study: Study, question: Question, person: Person) -> None:
    judging.at_work(study, person)
    stores = desk(study)
    history = [
        gesture
        for gesture in stores.labels.undoable(person.name, 200)
        if gesture.batch is None and gesture.kind == "label" and gesture.question == question.id
    ]
    judging.mount("on_question", f"on-question-{person.name}", {
        "session": judging.session(study.labels_path, person, "question"), "question": question.id,
        "given": stores.labels.labels_by(person.name, [question.id]).get(question.id, {}),
        "history": [asdict(gesture) for gesture in reversed(history)],
    }, study, person.name)  # fmt: skip


def judged(study: Study, question: Question, person: Person | None) -> Html:
    """What people said of this question's passages, for those who may see the labels of others."""
    if person is None or not person.may("see others' labels"):
        return Html("")
    pairs = desk(study).labels.consensus([question.id])
    if not pairs:
        return Html("")
    ordinals = study.corpus.ordinals([pair.passage for pair in pairs])
    titles = {passage.id: passage.title for passage in study.corpus.passages(list(ordinals.values()))}
    rows = [_row(pair, titles.get(pair.passage, "")) for pair in pairs]
    return tag(
        "details", tag("summary", f"Labels of people: {count(len(pairs), 'passage')}"), *rows, cls="gold-table judged"
    )


def _row(pair: Consensus, title: str) -> Html:
    said = pair.label or "no agreement"
    return div(
        span(said, cls=f"badge my-label {pair.label or ''}"),
        " ",
        tag("b", title or "untitled"),
        " ",
        join(
            span(
                f"{pair.passage}, {_STATES[pair.state]}, {pair.people} {'person' if pair.people == 1 else 'people'}",
                cls="soft",
            )
        ),
    )
