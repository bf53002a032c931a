"""Find: words in passages, questions and the notes of annotators."""

from __future__ import annotations

import numpy as np
import streamlit as st

from blindspot.app import hidden_questions, study, url, who
from blindspot.app.components.found_texts import OPENED, Retrieved, found_list, found_title
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.entry import enter
from blindspot.app.markup import Html, join, link, show, tag
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.pairs import default_pair
from blindspot.backend.retrieval import full_text
from blindspot.backend.text.number_words import quantity

ABOUT = {
    "passages": ("Find a passage", "Each passage comes with the questions for which a run retrieves it."),
    "questions": ("Find a question", "By whole words of its text."),
    "notes": ("Find a note", "By words of the notes that annotators left."),
}
TITLES = {"passages": "Passages", "questions": "Questions", "notes": "Notes"}
SHOWN, MOST = 20, full_text.MAX_FOUND
EXAMPLES, MOST_RETRIEVED = 3, 10
DEPTH = 20  # ranks in which a passage counts as retrieved


def page() -> None:
    opened = study.current()
    places = _searchable_places(opened)
    show(style_sheet("find.css"))
    head = st.container()
    words, place, run = _search_fields(opened, places)
    if not words:
        heading, listed = _most_retrieved(opened, run) if run and place == "passages" else ("", Html(""))
        with head:
            empty, about = ABOUT[place]
            examples = "" if place == "notes" else _examples(opened, run, place)
            show(tag("h1", heading or empty), tag("p", about, " ", examples, cls="soft", data_to_search=True))
        show(listed)
        return
    limit = url.number("show", SHOWN, 1, MOST)
    with st.spinner("Searching …"):
        result = full_text.find(
            opened, words, place, limit, hidden_questions.hidden_ids(opened), _whose_notes(opened, place)
        )
    more = min(limit + SHOWN, MOST) if result.has_more and limit < MOST else None
    retrieved = _retrieved(opened, run, [each.id for each in result.results]) if run and place == "passages" else None
    with head:
        show(
            found_title(result, words, retrieved),
            "" if result.results else tag("p", _examples(opened, run, place), cls="soft"),
        )
    show(found_list(opened, result, st.query_params.to_dict(), more, retrieved))


def _search_fields(open_study: Study, places: list[full_text.Place]) -> tuple[str, full_text.Place, str]:
    """Show the fields of a search, and return its words, its place and the run whose hits are shown; "" without runs.
    The run is by default the study's dense run over dev.
    """
    runs = study.runs(open_study)
    usual = default_pair(runs)[1] if runs else ""
    with st.container(key="find"):
        columns = st.columns([6, 2, 2.4, 1.2], vertical_alignment="bottom")
        with columns[0]:
            words = url.text_box(
                "Words to find",
                "words",
                forget=("show", OPENED),
                max_chars=full_text.MAX_WORDS,
                placeholder="a name, a few words",
            ).strip()
        with columns[1]:
            place = url.select(
                "In", "place", places, places[0], forget=("show", OPENED), format_func=TITLES.__getitem__
            )
        with columns[2]:
            run = url.select("Retrieved by", "run", list(runs), usual) if runs and place == "passages" else usual
        with columns[3]:
            st.button("Find", type="primary", width="stretch")  # the field has stored its words when it loses the focus
    return words, place, run


def _examples(open_study: Study, run: str, place: full_text.Place) -> Html:
    """Links that search for the subjects of the first questions of a run."""
    if not run:
        return Html("")
    first = open_study.questions.with_ids(open_study.run(run).question_ids[:EXAMPLES])
    subjects = dict.fromkeys(question.subject for question in first if question.subject)
    links = [
        join(
            " · " if number else "",
            link(each, url.href(url.FIND, {"words": each, "place": None if place == "passages" else place})),
        )
        for number, each in enumerate(subjects)
    ]
    return join("For example: ", *links) if links else Html("")


def _most_retrieved(open_study: Study, name: str) -> tuple[str, Html]:
    """What a search without words shows: the passages that a run retrieves for the most questions, below a sentence on
    the first of them; "" and nothing if the run retrieves none.
    """
    run, hidden = open_study.run(name), hidden_questions.hidden_ids(open_study)
    visible = [row for row, id in enumerate(run.question_ids) if id not in hidden]
    hits = np.asarray(run.hits.ordinals[visible, : min(DEPTH, run.hits.k)])
    rows, counts = np.unique(hits[hits >= 0], return_counts=True)
    if not len(rows):
        return "", Html("")
    limit = url.number("show", MOST_RETRIEVED, 1, MOST)
    most = rows[np.argsort(-counts, kind="stable")[:limit]].tolist()
    passages = open_study.corpus.passages(most)
    found = [full_text.TextResult(each.id, each.title, _start(each.text), text=((each.text, ""),)) for each in passages]
    result = full_text.TextSearch("passages", found, False, "")
    retrieved = _retrieved(open_study, name, [each.id for each in found])
    first = found[0]
    gold = len(open_study.questions.questions_by_gold([first.id]).get(first.id, ()))
    count, questions = len(retrieved.by.get(first.id, ())), quantity(len(visible), "question")
    heading = (
        f"{first.title or f'Passage {first.id}'} is in {name}'s top {retrieved.k} for {count:,} of {questions} "
        f"and is gold for {gold or 'none'}"
    )
    title = tag("h2", f"The {quantity(len(found), 'passage')} that {name} retrieves for the most questions")
    more = min(limit + MOST_RETRIEVED, MOST) if len(rows) > limit and limit < MOST else None
    return heading, join(title, found_list(open_study, result, st.query_params.to_dict(), more, retrieved))


def _start(text: str) -> list[tuple[str, str]]:
    return [(("… " if full_text.begins_within_sentence(text) else "") + text, "")]


def _retrieved(open_study: Study, name: str, passages: list[str]) -> Retrieved:
    """Return the questions for which a run ranks these passages."""
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
    by = {passage: sorted(found) for passage, found in hits_by_passage.items()}
    return Retrieved(name, k, by, frozenset(run.question_ids), bool(hidden))


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
