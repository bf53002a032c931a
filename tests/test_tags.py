"""Tags: an append-only record that a plain replay agrees with, rights, slices, backups, the field on Question."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blindspot.backend.evaluation.comparison import Comparison, measure_all
from blindspot.backend.evaluation.slices import TAGS, Facts, by_results
from blindspot.db.backup import check, checked_backup, restore
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.people import People
from blindspot.db.tags import RESERVED, Tags
from tests.app_pages import HOSTILE, Page, hand_made_study
from tests.studies import copied

PEOPLE = {"ann": "annotator", "ada": "adjudicator", "lea": "lead"}


@pytest.fixture
def study(tmp_path):
    return peopled_study(tmp_path / "toy")


@pytest.fixture
def tags(study) -> Tags:
    return Tags(study.labels_path)


def peopled_study(folder):
    made = hand_made_study(folder)
    for name, role in PEOPLE.items():
        People(made.labels_path).add(name, role)
    return made


def events(study) -> list[tuple]:
    with sqlite3.connect(study.labels_path) as connection:
        return connection.execute("SELECT kind, tag, question, annotator FROM tag_event ORDER BY number").fetchall()


def test_people_tag_in_their_own_words(study, tags):
    assert tags.add("  wrong   gold ", "q1", "ada") == "wrong gold"
    assert tags.add("Wrong Gold", "q2", "lea") == "wrong gold", "the spelling that is there is kept"
    tags.add("odd", "q1", "ada")
    tags.add("ODD", "q1", "lea")
    assert len(events(study)) == 3, "a tag that stands is not written again"
    assert tags.known() == ["wrong gold", "odd"] and tags.of_question("q1") == ["wrong gold", "odd"]
    assert tags.questions("ODD") == {"q1"} and tags.questions("wrong gold") == {"q1", "q2"}
    tags.remove("Odd", "q1", "lea")
    assert tags.known() == ["wrong gold"] and events(study)[-1] == ("remove", "odd", "q1", "lea")
    with pytest.raises(Missing, match="no question has the tag 'odd'; tags: wrong gold"):
        tags.remove("odd", "q1", "ada")
    with pytest.raises(Missing, match="question 'q3' has no tag 'wrong gold'"):
        tags.remove("wrong gold", "q3", "ada")


def test_annotators_do_not_tag(study, tags):
    tags.add("x", "q1", "ada")
    for attempt in (tags.add, tags.remove):
        with pytest.raises(Refused, match="and may not tag questions"):
            attempt("x", "q1", "ann")
    assert len(events(study)) == 1


@pytest.mark.parametrize("tag", ["", "   ", "a,b", "x" * 65, "a\0b", "\ud800", "BM25_only", "\x1b[31mred", "a\u202eb"])
def test_what_is_no_tag_is_refused(study, tags, tag):
    with pytest.raises(BadInput):
        tags.add(tag, "q1", "ada")
    assert events(study) == []


def test_unknown_questions_and_people_store_nothing(study, tags):
    with pytest.raises(Missing, match="no question 'q99'"):
        tags.add("x", "q99", "ada")
    with pytest.raises(Missing):
        tags.add("x", "q1", "nobody")
    assert events(study) == []


def test_the_record_is_append_only(study, tags):
    tags.add("x", "q1", "ada")
    with sqlite3.connect(study.labels_path) as connection:
        for sql in (
            "UPDATE tag_event SET tag = 'y'",
            "DELETE FROM tag_event",
            "INSERT OR REPLACE INTO tag_event (number, kind, tag, question, annotator, server_time) "
            "VALUES (1, 'add', 'y', 'q1', 'ada', 0)",
        ):
            with pytest.raises(sqlite3.DatabaseError, match="append-only"):
                connection.execute(sql)
        connection.execute("DROP TRIGGER tag_event_no_update")
    assert any("tag_event_no_update is missing" in problem for problem in check(study.labels_path).problems)


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["add", "remove"]), st.sampled_from("abA"), st.sampled_from(["q1", "q2"])), max_size=15
)


@settings(max_examples=15, deadline=None)
@given(actions=ACTIONS)
def test_the_events_stand_for_the_same_as_a_plain_set(tmp_path_factory, actions):
    """A set of (tag, question) that each action changes at once, beside the record of events."""
    tags, model = Tags(peopled_study(tmp_path_factory.mktemp("model") / "toy").labels_path), set()
    for kind, tag, question in actions:
        stored = next((each for each, _ in model if each.casefold() == tag.casefold()), tag)
        if kind == "add":
            tags.add(tag, question, "ada")
            model.add((stored, question))
        elif (stored, question) in model:
            tags.remove(tag, question, "lea")
            model.discard((stored, question))
        else:
            with pytest.raises(Missing):
                tags.remove(tag, question, "lea")
        assert set(tags.all_tags()) == model


def test_tags_are_slices(study, tags):
    runs = measure_all(study, ("alpha", "beta"))
    facts = Facts(Comparison.of_runs(runs["alpha"], runs["beta"]), 5)
    for tag, question in (('say "when"', "q1"), ('say "when"', "q4"), ("odd", "q2"), ("odd", "q3")):
        tags.add(tag, question, "ada")

    def rows(expression):
        return np.flatnonzero(facts.mask(expression)).tolist()

    assert rows('tag="say \\"when\\""') == [1, 4] and rows("tag:odd") == [2, 3] and by_results("tag:odd")
    assert rows("tag:odd and not relation:P19") == [3]
    assert rows("tag:only_a") == [1, 4], "a tag that is computed from the runs"
    with pytest.raises(BadInput, match="no question has the tag 'nothing'; tags: odd, say"):
        facts.mask("tag:nothing")
    with pytest.raises(BadInput, match="not a valid condition"):
        facts.mask("tag(alpha):odd")


def test_no_word_of_people_hides_a_tag_of_runs():
    assert set(TAGS) == RESERVED


def test_backups_and_copies_carry_tags(study, tags, tmp_path):
    tags.add("x", "q1", "ada")
    kept = checked_backup(study.labels_path, tmp_path / "kept.db")
    copied(study, tmp_path / "copy")
    assert Tags(tmp_path / "copy" / "labels.db").all_tags() == [("x", "q1")]
    tags.add("later", "q2", "ada")
    tags.close()
    with pytest.raises(Refused, match="drop-newer"):
        restore(kept, study.labels_path)
    restore(kept, study.labels_path, drop_newer=True)
    assert Tags(study.labels_path).all_tags() == [("x", "q1")]


def test_the_question_page_shows_tags_and_takes_new_ones(study, tags, monkeypatch):
    hostile = HOSTILE[:60].strip()
    tags.add(hostile, "q1", "ada")
    tags.add("odd", "q2", "ada")
    page = Page(study.folder, "question", "lea", a="alpha", b="beta", question="q1")
    field = page.app.multiselect(key="tags-q1")
    assert field.value == [hostile] and list(field.options) == [hostile, "odd"] and not field.disabled
    assert hostile not in page.html, "options are plain text, never markup"
    unnamed = Page(study.folder, "question", a="alpha", b="beta", question="q1").app.multiselect(key="tags-q1")
    assert unnamed.disabled and unnamed.value == [hostile]
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    field.set_value(["odd"]).run()
    assert tags.of_question("q1") == ["odd"]
    assert events(study)[2:] == [("add", "odd", "q1", "lea"), ("remove", hostile, "q1", "lea")]
