"""Tags: the tag field of a question on Question, and the panel on Slices that counts, renames and merges tags."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import streamlit as st

from blindspot.analysis.accuracy import proportion, success_from_ranks
from blindspot.app import url, who
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import letter, percentage
from blindspot.app.components.message import show_last_message, try_action
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, div, join, link, row, show, span, table, table_head, tag
from blindspot.app.selection import Selection
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.slice_finder import write_condition
from blindspot.backend.evaluation.slices import Facts
from blindspot.backend.evaluation.tag_export import tags_as_csv, tags_as_json
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BadInput
from blindspot.db.people import Person
from blindspot.db.records import Question
from blindspot.db.tags import QuestionTag, TagCount, count_tags


def question_tags(open_study: Study, question: Question, person: Person | None, selection: Selection) -> None:
    """Show everybody's tags of a question. The signed-in person's own tags are in a field that accepts new ones."""
    st.fragment(_question_tags)(open_study, question, person, selection)


def _question_tags(open_study: Study, question: Question, person: Person | None, selection: Selection) -> None:
    if who.sign_in_has_ended(open_study.labels_path):
        st.rerun()
    everything = judging_stores(open_study).tags.all_tags()
    given = [each for each in everything if each.question == question.id]
    if person is not None and person.is_allowed("tag questions"):
        known = [each.tag for each in count_tags(everything)]
        _own_tags(open_study, question, person, selection, given, known)
    # Below the field: a part that comes and goes above it would make the browser build the field anew, without focus.
    show(_tag_list(open_study, given, selection))


def _own_tags(
    open_study: Study,
    question: Question,
    person: Person,
    selection: Selection,
    tags: list[QuestionTag],
    all_tags: list[str],
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
                [*all_tags, *(word for word in own if word not in all_tags)],
                key=key,
                accept_new_options=True,
                placeholder="Tag this question in your own words (key: t)",
                label_visibility="collapsed",
                on_change=try_action,
                args=(partial(_store_tags, open_study, question.id, about or None, key, own), "tags"),
            )
        show_last_message("tags")


def _store_tags(open_study: Study, question: str, run: str | None, key: str, old_tags: list[str]) -> None:
    """Store the tags that the person added to the field or removed from it."""
    now = st.session_state[key]
    by = who.acting_name(open_study.labels_path)
    for word in now:
        if word not in old_tags:
            judging_stores(open_study).tags.add(word, [question], run, by)
    for word in old_tags:
        if word not in now:
            judging_stores(open_study).tags.remove(word, question, run, by, own_only=True)


def _tag_list(open_study: Study, tags: list[QuestionTag], selection: Selection) -> Html:
    if not tags:
        return Html("")
    authors: dict[tuple[str, str | None], list[str]] = {}
    for each in tags:
        authors.setdefault((each.tag, each.run), []).append(each.author or "the command line")
    shows_people = who.may(open_study.labels_path, "see others' labels")
    marks = []
    for (word, run), people in authors.items():
        side = "a" if run == selection.a else "b" if run == selection.b else ""
        about = join(" ", letter(side) if side else span(run, cls="soft")) if run else ""
        title = f"By {', '.join(people)}. " if shows_people else ""
        address = url.href(url.COMPARE, selection.parameters(slice=write_condition("tag", word), cell="all", page=1))
        several = span(f" ×{len(people)}", cls="soft") if len(people) > 1 else ""
        words = join(word, about, several)
        marks.append(link(words, address, cls="badge part-tag", title=f"{title}Questions with this tag"))
    return div(span("tags", cls="soft"), *marks, cls="question-tags")


def tags_panel(open_study: Study, facts: Facts, selection: Selection, opens: Callable[[str], str]) -> None:
    """Show the tags with both runs' figures, and what the person may do with them. Nothing is shown if there are no
    tags.

    Args:
        opens: from an expression to the address of its slice.
    """
    counts = judging_stores(open_study).tags.counts()
    if not counts:
        return
    head = div(tag("h2", f"People's tags, Success@{selection.k}, %"), cls="list-head")
    note = "People who saw the results chose these questions. A difference within a tag can therefore be an effect of their choice."
    show(
        div(
            head,
            scrolling(_table(counts, facts, selection, opens)),
            tag("p", note, cls="convention"),
            cls="panel",
            id="tags",
        )
    )
    person = who.signed_in_person(open_study.labels_path)
    authors = who.has_right(person, "see others' labels")
    with st.container(key="save-tags", horizontal=True, vertical_alignment="center", gap="small"):
        for words, make, file, mime in (
            ("CSV", tags_as_csv, "tags.csv", "text/csv"),
            ("JSON", tags_as_json, "tags.json", "application/json"),
        ):
            content = make(open_study, authors)
            st.download_button(words, content, file, mime, key=f"save-{file}", type="tertiary", on_click="ignore")
    if who.has_right(person, "manage tags"):
        _manage(open_study, [each.tag for each in counts])


def _table(counts: list[TagCount], facts: Facts, selection: Selection, opens: Callable[[str], str]) -> Html:
    lines = []
    compared = facts.comparison
    for each in counts:
        expression = write_condition("tag", each.tag)
        rows = np.flatnonzero(facts.mask(expression))
        units = compared.units.codes[rows]
        firsts = (compared.first_ranks_a, compared.first_ranks_b)
        shares = [proportion(success_from_ranks(first[rows], selection.k), units) for first in firsts]
        shown = [percentage(share, inline=True) if share.n else "–" for share in shares]
        name = link(each.tag, opens(expression), title="Open this slice")
        lines.append(row(f"{each.questions:,}", f"{each.people:,}", f"{len(rows):,}", *shown, head=name))
    head = table_head("tag", "questions", "people", "in these runs", letter("a"), letter("b"))
    return table(head, lines, "figures groups slices")


def _manage(open_study: Study, names: list[str]) -> None:
    with st.expander("Rename, merge and delete tags"):
        show_last_message("tags")
        columns = st.columns([4, 3, 2, 2], vertical_alignment="bottom")
        with columns[0]:
            st.multiselect("Tags", names, key="tags-chosen")
        with columns[1]:
            st.text_input(
                "New name",
                key="tags-name",
                help="One tag: rename. Choose several tags, or type an existing name, to merge tags.",
            )
        rename, delete = (partial(_edit_tags, open_study, deletes) for deletes in (False, True))
        with columns[2]:
            st.button("Rename or merge", key="tags-rename", on_click=try_action, args=(rename, "tags"))
        with columns[3]:
            st.button("Delete", key="tags-delete", on_click=try_action, args=(delete, "tags"))


def _edit_tags(open_study: Study, deletes: bool) -> str:
    """Rename, merge or delete the chosen tags; return what was done."""
    chosen, name = st.session_state["tags-chosen"], st.session_state["tags-name"].strip()
    store = judging_stores(open_study).tags
    if not chosen or not (deletes or name):
        raise BadInput("Choose a tag." if not chosen else "Write the new name.")
    others = {each.tag.casefold() for each in store.counts()} - {word.casefold() for word in chosen}
    by = who.acting_name(open_study.labels_path)
    if deletes:
        count = sum(store.delete(word, by) for word in chosen)
        done = f"Taken back from {quantity(count, 'question')}. The record of who tagged them is kept."
    elif len(chosen) == 1 and name.casefold() not in others:
        store.rename(chosen[0], name, by)
        done = f"Renamed {chosen[0]} to {name}."
    else:
        store.merge(chosen, name, by)
        done = f"Merged {quantity(len(chosen), 'tag')} into {name}."
    st.session_state["tags-chosen"], st.session_state["tags-name"] = [], ""
    return done
