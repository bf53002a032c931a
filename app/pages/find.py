"""Find: words in passages, questions and the notes of annotators."""

from __future__ import annotations

import numpy as np
import streamlit as st

from blindspot.app import hidden_questions, study, url, who
from blindspot.app.components.found_texts import Retrieved, found_list
from blindspot.app.components.marks import empty
from blindspot.app.entry import enter
from blindspot.app.markup import show
from blindspot.app.runs import offered_runs
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval import full_text

ABOUT = "In the passages, in the questions, and in the notes that annotators wrote. Of a passage: who retrieves it, and at what rank."
TITLES = {"passages": "Passages", "questions": "Questions", "notes": "Notes"}
SHOWN, MOST = 20, full_text.MAX_FOUND
DEPTH = 20  # ranks in which a passage counts as retrieved


def page() -> None:
    opened = study.current()
    places = _searchable_places(opened)
    head = st.container()
    with st.container(key="find"):
        words_column, place_column = st.columns([5, 2], vertical_alignment="bottom")
        with words_column:
            words = url.text_box(
                "Words to find",
                "words",
                forget=("show",),
                max_chars=full_text.MAX_WORDS,
                placeholder="a name, a few words",
            ).strip()
        with place_column:
            place = url.select("In", "place", places, places[0], forget=("show",), format_func=TITLES.__getitem__)
    if not words:
        with head:
            show(empty("Find words", ABOUT))
        return
    limit = url.number("show", SHOWN, 1, MOST)
    with st.spinner("Searching …"):
        result = full_text.find(
            opened, words, place, limit, hidden_questions.hidden_ids(opened), _whose_notes(opened, place)
        )
    here = {key: st.query_params[key] for key in st.query_params}
    more = url.href(url.FIND, here | {"show": min(limit + SHOWN, MOST)}) if result.more and limit < MOST else None
    retrieved = _retrieved(opened, [each.id for each in result.found]) if place == "passages" else None
    show(found_list(opened, result, words, more, retrieved))


def _retrieved(open_study: Study, passages: list[str]) -> Retrieved | None:
    """Return the questions for which a run ranks these passages: the run in the address, or else the newest run over
    dev.
    """
    runs = offered_runs(open_study)
    if not runs:
        return None
    usual = next((name for name in reversed(runs) if runs[name].get("split") == "dev"), next(reversed(runs)))
    name = url.one_of("run", list(runs), usual)
    run, hidden = open_study.run(name), hidden_questions.hidden_ids(open_study)
    k = min(DEPTH, run.hits.k)
    rows = open_study.corpus.ordinals(passages)
    places = np.argwhere(np.isin(run.hits.ordinals[:, :k], list(rows.values())))
    of_row = {row: passage for passage, row in rows.items()}
    hits_by_passage: dict[str, list[tuple[int, str, str]]] = {}
    texts = {each.id: each.text for each in open_study.questions.with_ids([run.question_ids[row] for row, _ in places])}
    for row, column in places.tolist():
        id = run.question_ids[row]
        if id not in hidden:
            hits_by_passage.setdefault(of_row[int(run.hits.ordinals[row, column])], []).append(
                (column + 1, id, texts[id])
            )
    return Retrieved(name, k, {passage: sorted(found) for passage, found in hits_by_passage.items()})


def _searchable_places(open_study: Study) -> list[full_text.Place]:
    """Return what the signed-in person can search. Notes can be searched only under a name: annotators find their own
    notes.
    """
    places: list[full_text.Place] = ["passages", "questions"] if open_study.has_corpus else ["questions"]
    return [*places, "notes"] if who.signed_in_person(open_study.labels_path) else places


def _whose_notes(open_study: Study, place: full_text.Place) -> str | None:
    if place != "notes" or who.may(open_study.labels_path, "see others' labels"):
        return None
    return who.acting_name(open_study.labels_path)


enter(page)
