"""Tags: the field and the tags of a question on Question, and the panel that counts and mends them on Slices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import streamlit as st

from blindspot.analysis.accuracy import found_by, proportion
from blindspot.app import hidden_questions, url, who
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import figure, letter, notice
from blindspot.app.desk import desk
from blindspot.app.markup import Html, div, heads, join, link, row, show, span, table, tag
from blindspot.app.selection import Selection
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.slice_finder import written
from blindspot.backend.evaluation.slices import Facts
from blindspot.backend.evaluation.tag_export import tags_as_csv, tags_as_json
from blindspot.backend.text.counting import counted
from blindspot.db.errors import BlindspotError
from blindspot.db.people import Person
from blindspot.db.records import Question
from blindspot.db.tags import QuestionTag, TagCount, count_tags

_SAID = "tags-said"


def question_tags(opened: Study, question: Question, person: Person | None, selection: Selection) -> None:
    """Show everybody's tags of a question, and the signed-in person's own in a field that takes new ones."""
    st.fragment(_question_tags)(opened, question, person, selection)


def _question_tags(opened: Study, question: Question, person: Person | None, selection: Selection) -> None:
    if who.gone(opened.labels_path):
        st.rerun()
    everything = desk(opened).tags.all()
    given = [each for each in everything if each.question == question.id]
    if person is not None and person.may("tag questions"):
        known = [each.tag for each in count_tags(everything, hidden_questions.hidden(opened))]
        _own_tags(opened, question, person, selection, given, known)
    # Below the field: a part that comes and goes above it would make the browser build the field anew, without focus.
    show(_given(opened, given, selection))


def _own_tags(
    opened: Study, question: Question, person: Person, selection: Selection, tags: list[QuestionTag], known: list[str]
) -> None:
    with st.container(key="own-tags"):
        left, right = st.columns([5, 2], vertical_alignment="bottom")
        with right:
            runs = list(dict.fromkeys((selection.a, selection.b)))
            about = st.selectbox(
                "About",
                ["", *runs],
                format_func=lambda run: f"about {run or 'the question'}",
                key="tags-about",
                label_visibility="collapsed",
            )
        with left:
            mine = [each for each in tags if each.author == person.name and each.run == (about or None)]
            own = [each.tag for each in sorted(mine, key=lambda each: each.time)]  # Backspace takes the last
            key = f"tags-{question.id}-{about}"
            st.session_state[key] = own  # the store knows better than the browser: names change there
            st.multiselect(
                "Your tags",
                [*known, *(word for word in own if word not in known)],
                key=key,
                accept_new_options=True,
                placeholder="Tag this question in your own words (key: t)",
                label_visibility="collapsed",
                on_change=_change,
                args=(opened, question.id, about or None, key, own),
            )
        _show_said()


def _change(opened: Study, question: str, run: str | None, key: str, before: list[str]) -> None:
    """Store what the person added to the field and took out of it."""
    now = st.session_state[key]
    try:
        by = who.acting(opened.labels_path)
        for word in now:
            if word not in before:
                desk(opened).tags.add(word, [question], run, by)
        for word in before:
            if word not in now:
                desk(opened).tags.remove(word, question, run, by, own=True)
    except BlindspotError as error:
        _say(str(error), failed=True)


def _given(opened: Study, tags: list[QuestionTag], selection: Selection) -> Html:
    if not tags:
        return Html("")
    authors: dict[tuple[str, str | None], list[str]] = {}
    for each in tags:
        authors.setdefault((each.tag, each.run), []).append(each.author or "the command line")
    shows_people = who.may(opened.labels_path, "see others' labels")
    marks = []
    for (word, run), people in authors.items():
        side = "a" if run == selection.a else "b" if run == selection.b else ""
        about = join(" ", letter(side) if side else span(run, cls="soft")) if run else ""
        title = f"By {', '.join(people)}. " if shows_people else ""
        address = url.href(url.COMPARE, selection.parameters(slice=written("tag", word), cell="all", page=1))
        several = span(f" ×{len(people)}", cls="soft") if len(people) > 1 else ""
        words = join(word, about, several)
        marks.append(link(words, address, cls="badge part-tag", title=f"{title}Questions with this tag"))
    return div(span("tags", cls="soft"), *marks, cls="question-tags")


def tags_panel(opened: Study, facts: Facts, selection: Selection, opens: Callable[[str], str]) -> None:
    """Show the tags with both runs' figures, and what a person may do with them; nothing without tags.

    Args:
        opens: from an expression to the address of its slice.
    """
    hidden = hidden_questions.hidden(opened)
    counts = desk(opened).tags.counts(hidden)
    if not counts:
        return
    head = div(tag("h2", f"People's tags, Success@{selection.k}, %"), cls="list-head")
    note = "People who saw the results chose these questions. A difference within a tag follows from their choice."
    show(
        div(
            head,
            scrolling(_table(counts, facts, selection, opens)),
            tag("p", note, cls="convention"),
            cls="panel",
            id="tags",
        )
    )
    person = who.who(opened.labels_path)
    authors = who.allowed(person, "see others' labels")
    with st.container(key="save-tags", horizontal=True, vertical_alignment="center", gap="small"):
        for words, make, file, mime in (
            ("CSV", tags_as_csv, "tags.csv", "text/csv"),
            ("JSON", tags_as_json, "tags.json", "application/json"),
        ):
            content = make(opened, hidden, authors)
            st.download_button(words, content, file, mime, key=f"save-{file}", type="tertiary", on_click="ignore")
    if who.allowed(person, "manage tags"):
        _manage(opened, [each.tag for each in counts])


def _table(counts: list[TagCount], facts: Facts, selection: Selection, opens: Callable[[str], str]) -> Html:
    lines = []
    compared = facts.comparison
    for each in counts:
        expression = written("tag", each.tag)
        rows = np.flatnonzero(facts.mask(expression))
        units = compared.units.codes[rows]
        firsts = (compared.first_a, compared.first_b)
        shares = [proportion(found_by(first[rows], selection.k), units) for first in firsts]
        shown = [figure(share, inline=True) if share.n else "–" for share in shares]
        name = link(each.tag, opens(expression), title="Open this slice")
        lines.append(row(f"{each.questions:,}", f"{each.people:,}", f"{len(rows):,}", *shown, head=name))
    head = heads("tag", "questions", "people", "in these runs", letter("a"), letter("b"))
    return table(head, lines, "figures groups slices")


def _manage(opened: Study, names: list[str]) -> None:
    with st.expander("Rename, merge and delete tags"):
        _show_said()
        columns = st.columns([4, 3, 2, 2], vertical_alignment="bottom")
        with columns[0]:
            st.multiselect("Tags", names, key="tags-chosen")
        with columns[1]:
            st.text_input("New name", key="tags-name", help="One tag: rename. Several, or an existing name: merge.")
        with columns[2]:
            st.button("Rename or merge", key="tags-rename", on_click=_mend, args=(opened, False))
        with columns[3]:
            st.button("Delete", key="tags-delete", on_click=_mend, args=(opened, True))


def _mend(opened: Study, deletes: bool) -> None:
    """Rename, merge or delete the chosen tags."""
    chosen, name = st.session_state["tags-chosen"], st.session_state["tags-name"].strip()
    store = desk(opened).tags
    if not chosen or not (deletes or name):
        _say("Choose a tag." if not chosen else "Write the new name.", failed=True)
        return
    others = {each.tag.casefold() for each in store.counts()} - {word.casefold() for word in chosen}
    try:
        by = who.acting(opened.labels_path)
        if deletes:
            count = sum(store.delete(word, by) for word in chosen)
            _say(f"Taken back from {counted(count, 'question')}. The record keeps who tagged them.")
        elif len(chosen) == 1 and name.casefold() not in others:
            store.rename(chosen[0], name, by)
            _say(f"Renamed {chosen[0]} to {name}.")
        else:
            store.merge(chosen, name, by)
            _say(f"Merged {counted(len(chosen), 'tag')} into {name}.")
        st.session_state["tags-chosen"], st.session_state["tags-name"] = [], ""
    except BlindspotError as error:
        _say(str(error), failed=True)


def _say(words: str, failed: bool = False) -> None:
    """Keep words for the next drawing of the page."""
    st.session_state[_SAID] = words, failed


def _show_said() -> None:
    if said := st.session_state.pop(_SAID, None):
        words, failed = said
        show(notice(words, kind="error" if failed else ""))
