"""Labels on the Question page: the person's own, set by keys, and everybody's for people with the right to see them."""

from __future__ import annotations

from dataclasses import asdict

import streamlit as st

from blindspot.app import url
from blindspot.app.components import judging
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, div, join, link, show, span, tag
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity
from blindspot.db.judgements import Consensus
from blindspot.db.people import Person
from blindspot.db.records import Question

_STATES = {"agreed": "agreed", "adjudicated": "settled", "open": "in dispute"}


def question_labels(study: Study, question: Question, person: Person | None) -> None:
    """Mount the keys and buttons that label a passage of the two lists; without a signed-in person, show a link to sign in."""
    if person is None:
        show(div(link("Sign in", url.JUDGE), " to label passages here.", cls="soft foot"))
        return
    st.fragment(_cache_keys)(study, question, person)


def _cache_keys(study: Study, question: Question, person: Person) -> None:
    judging.at_work(study, person)
    stores = judging_stores(study)
    history = [
        event
        for event in stores.labels.undoable_events(person.name, 200)
        if event.batch is None and event.kind == "label" and event.question == question.id
    ]
    judging.mount(
        "question_labels",
        f"on-question-{person.name}",
        {
            "session": judging.session(study.labels_path, person, "question"),
            "question": question.id,
            "given": stores.labels.labels_by(person.name, [question.id]).get(question.id, {}),
            "history": [asdict(event) for event in reversed(history)],
        },
        study,
        person.name,
    )


def judged(study: Study, question: Question, person: Person | None) -> Html:
    """Everybody's labels of this question's passages; empty without the right to see them."""
    if person is None or not person.is_allowed("see others' labels"):
        return Html("")
    pairs = judging_stores(study).labels.consensus([question.id])
    if not pairs:
        return Html("")
    passages = study.corpus.by_id(pair.passage for pair in pairs)
    rows = [_row(pair, passages[pair.passage].title if pair.passage in passages else "") for pair in pairs]
    return tag(
        "details",
        tag("summary", f"All labels: {quantity(len(pairs), 'passage')}"),
        *rows,
        cls="gold-table judged",
    )


def _row(pair: Consensus, title: str) -> Html:
    return div(
        span(pair.label or "no agreement", cls=f"badge my-label {pair.label or ''}"),
        " ",
        tag("b", title, " ") if title else "",
        join(
            span(
                f"{pair.passage}, {_STATES[pair.state]}, {quantity(pair.people, 'person', 'people')}",
                cls="soft",
            )
        ),
    )
