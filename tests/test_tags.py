"""Tags: an append-only record that a plain replay agrees with, rights, blindness, slices, batches, the command, backups."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blindspot.backend.evaluation.comparison import Comparison, measure_all
from blindspot.backend.evaluation.slices import TAGS, Facts, by_results
from blindspot.backend.evaluation.tag_export import tag_rows, tags_as_csv, tags_as_json
from blindspot.backend.judging.batches import make_batch, questions_of
from blindspot.db.backup import check, checked_backup, restore
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.people import People
from blindspot.db.tags import RESERVED, Tags
from tests import forked
from tests.app_pages import Page, hand_made_study
from tests.studies import copied


@pytest.fixture
def study(tmp_path):
    made = hand_made_study(tmp_path / "toy")
    for name, role in {"ann": "annotator", "ben": "annotator", "ada": "adjudicator"}.items():
        People(made.labels_path).add(name, role)
    return made


@pytest.fixture
def tags(study) -> Tags:
    return Tags(study.labels_path, clock=iter(range(1, 1000)).__next__)


def standing(tags: Tags) -> list[tuple]:
    return [(each.tag, each.question, each.run, each.author) for each in tags.all_tags()]


def test_people_tag_in_their_own_words(tags):
    assert tags.add("  wrong   gold ", ["q1", "q2", "q1"], actor="ann") == "wrong gold"
    assert tags.add("Wrong Gold", ["q1"], actor="ben") == "wrong gold", "the spelling that is there is kept"
    tags.add("odd", ["q1"], "alpha", "ann")
    tags.add("odd", ["q1"], "alpha", "ann")
    assert tags.last_event == 4, "a tag that stands is not written again"
    assert [(each.tag, each.questions, each.people) for each in tags.counts()] == [("wrong gold", 2, 2), ("odd", 1, 1)]
    assert tags.questions("ODD") == tags.questions("odd", "alpha") == {"q1"} and tags.questions("odd", "beta") == set()
    assert {each.tag for each in tags.all_tags() if each.question == "q2"} == {"wrong gold"}


def test_renaming_merging_and_deleting(tags):
    tags.add("a", ["q1", "q2"], actor="ann")
    tags.add("b", ["q2", "q3"], actor="ann")
    tags.add("c", ["q4"], actor="ben")
    with pytest.raises(Refused, match="merge 'a' into it instead"):
        tags.rename("a", "B")
    tags.rename("a", "first", actor="ada")
    assert tags.questions("first") == {"q1", "q2"}
    with pytest.raises(Missing, match="tags: b, c, first"):
        tags.questions("a")
    assert tags.merge(["first", "b", "b"], "c", actor="ada") == 2
    assert tags.questions("c") == {"q1", "q2", "q3", "q4"} and len(tags.counts()) == 1
    tags.rename("c", "C")
    assert [each.tag for each in tags.counts()] == ["C"]
    assert tags.delete("c") == 4 and tags.all_tags() == []
    tags.add("a", ["q1"], actor="ann")
    assert standing(tags) == [("a", "q1", None, "ann")], "a word that was renamed once can be used again"


def test_own_tags_and_those_of_others(tags):
    for name in ("ann", "ben"):
        tags.add("x", ["q1"], actor=name)
    assert tags.remove("x", "q1", actor="ann") == 1 and standing(tags) == [("x", "q1", None, "ben")]
    with pytest.raises(Missing, match="no tag 'x' of yours"):
        tags.remove("x", "q1", actor="ann")
    assert tags.remove("x", "q1", actor="ada") == 1, "whoever settles disputes takes back everybody's"
    for attempt in (lambda: tags.rename("x", "y", actor="ann"), lambda: tags.delete("x", actor="ann")):
        with pytest.raises(Refused, match="and may not rename, merge and delete tags"):
            attempt()


@pytest.mark.parametrize("tag", ["", "   ", "a,b", "x" * 65, "a\0b", "\ud800", "BM25_only", "\x1b[31mred", "a\u202eb"])
def test_what_is_no_tag_is_refused(tags, tag):
    with pytest.raises(BadInput):
        tags.add(tag, ["q1"])
    assert tags.last_event == 0


def test_nothing_is_stored_unless_all_is_right(tags):
    with pytest.raises(Missing, match="no question 'q99'"):
        tags.add("x", ["q1", "q99"])
    with pytest.raises(Missing):
        tags.add("x", ["q1"], actor="nobody")
    assert tags.last_event == 0


def test_the_record_is_append_only(study, tags):
    tags.add("x", ["q1"], actor="ann")
    with sqlite3.connect(study.labels_path) as connection:
        for sql in (
            "UPDATE tag_event SET tag = 'y'",
            "DELETE FROM tag_event",
            "INSERT OR REPLACE INTO tag_event (number, kind, tag, question, server_time) VALUES (1, 'add', 'y', 'q1', 0)",
        ):
            with pytest.raises(sqlite3.DatabaseError, match="append-only"):
                connection.execute(sql)
        connection.execute("DROP TRIGGER tag_event_no_update")
    assert any("tag_event_no_update is missing" in problem for problem in check(study.labels_path).problems)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "rename", "merge", "delete"]),
        st.sampled_from("abc"),
        st.sampled_from("abc"),
        st.sampled_from(["q1", "q2"]),
        st.sampled_from(["ann", "ben"]),
    ),
    max_size=15,
)


@settings(max_examples=25, deadline=None)
@given(actions=ACTIONS)
def test_the_events_stand_for_the_same_as_a_plain_set(tmp_path_factory, actions):
    """A set of (tag, question, person) that each action changes at once, beside the record of events."""
    made = hand_made_study(tmp_path_factory.mktemp("model") / "toy")
    for name in ("ann", "ben"):
        People(made.labels_path).add(name)
    tags, model = Tags(made.labels_path), set()
    for kind, tag, other, question, by in actions:
        try:
            if kind == "add":
                tags.add(tag, [question], actor=by)
                model.add((tag, question, by))
            elif kind == "remove":
                tags.remove(tag, question, actor=by)
                assert (tag, question, by) in model
                model.discard((tag, question, by))
            elif kind == "delete":
                tags.delete(tag)
                model = {each for each in model if each[0] != tag}
            else:
                tags.rename(tag, other) if kind == "rename" else tags.merge([tag], other)
                model = {(other if each[0] == tag else each[0], *each[1:]) for each in model}
        except (Missing, Refused):
            continue
        assert {(tag, question, by) for tag, question, _, by in standing(tags)} == model


def test_tags_are_slices(study, tags):
    runs = measure_all(study, ("alpha", "beta"))
    facts = Facts(Comparison.of_runs(runs["alpha"], runs["beta"]), 5)
    tags.add('say "when"', ["q1", "q4"], actor="ann")
    tags.add("odd", ["q2"], "alpha", "ann")
    tags.add("odd", ["q3"], actor="ann")

    def rows(expression):
        return np.flatnonzero(facts.mask(expression)).tolist()

    assert rows('tag="say \\"when\\""') == [1, 4] and rows("tag:odd") == [2, 3] and by_results("tag:odd")
    assert rows("tag(beta):odd") == [3] and rows("tag(alpha):odd and not relation:P19") == [3]
    assert rows("tag:only_a") == [1, 4], "a tag that is computed from the runs"
    with pytest.raises(BadInput, match="no question has the tag 'nothing'; tags: odd, say"):
        facts.mask("tag:nothing")


def test_no_word_of_people_hides_a_tag_of_runs():
    assert set(TAGS) == RESERVED


def test_tags_choose_the_questions_of_a_batch(study, tags):
    tags.add("look", ["q1", "q3"], actor="ann")
    assert questions_of(study, tags=["look"]) == ["q1", "q3"] and questions_of(study, ["P50"], tags=["look"]) == ["q3"]
    made = make_batch(study, "tagged", ["alpha"], size=5, slice=questions_of(study, tags=["look"]))
    assert made.frame == 2
    with pytest.raises(Missing, match="no question has the tag 'none'"):
        questions_of(study, tags=["none"])


def test_backups_and_copies_carry_tags(study, tags, tmp_path):
    tags.add("x", ["q1"], "alpha", "ann")
    kept = checked_backup(study.labels_path, tmp_path / "kept.db")
    copied(study, tmp_path / "copy")
    assert standing(Tags(tmp_path / "copy" / "labels.db")) == [("x", "q1", "alpha", "ann")]
    tags.add("later", ["q2"], actor="ann")
    tags.close()
    with pytest.raises(Refused, match="drop-newer"):
        restore(kept, study.labels_path)
    restore(kept, study.labels_path, drop_newer=True)
    assert standing(Tags(study.labels_path)) == [("x", "q1", "alpha", "ann")]


def test_the_export_says_who_and_when(study, tags):
    tags.add("=1+1", ["q6"], "alpha", "ann")
    rows = json.loads(tags_as_json(study))
    assert rows == tag_rows(study) and rows[0] | {"text": ""} == {
        "tag": "=1+1", "question": "q6", "text": "", "run": "alpha", "annotator": "ann", "time": "1970-01-01T00:00:01Z",
    }  # fmt: skip
    (read,) = csv.DictReader(io.StringIO(tags_as_csv(study)))
    assert read["tag"] == "'=1+1", "no spreadsheet runs it as a formula"
    assert tag_rows(study, authors=False)[0]["annotator"] == ""


def blindspot(study, *words) -> subprocess.CompletedProcess:
    return forked.python("-m", "blindspot.app.cli", "tags", *words, "--study", study.folder)


def test_the_commands(study):
    assert "No tags yet" in blindspot(study, "list").stdout
    added = blindspot(study, "add", "wrong gold", "q1", "q2", "--run", "alpha", "--by", "ann")
    assert added.stdout == "2 questions tagged 'wrong gold'. As a slice: tag(alpha):\"wrong gold\"\n", added.stderr
    blindspot(study, "add", "odd", "q3")
    assert blindspot(study, "rename", "odd", "strange").returncode == 0
    assert "1 tag into 'wrong gold': 3 questions" in blindspot(study, "merge", "strange", "--into", "wrong gold").stdout
    assert json.loads(blindspot(study, "list", "--json").stdout) == [{"tag": "wrong gold", "questions": 3, "people": 2}]
    assert len(blindspot(study, "export").stdout.splitlines()) == 4
    assert blindspot(study, "remove", "wrong gold").stdout == "Removed 'wrong gold' from 3 questions.\n"
    for words, said in ((["remove", "odd"], "no question has the tag 'odd'; tags: none yet"), (["add", "x", "q1", "--run", "no"], "'no'"),
                        (["add", "a,b", "q1"], "contains a comma")):  # fmt: skip
        failed = blindspot(study, *words)
        assert failed.returncode == 1 and said in failed.stderr and len(failed.stderr.splitlines()) == 1


def test_the_question_page_shows_tags_and_takes_ones_own(study, tags, monkeypatch):
    tags.add("<b>odd</b>", ["q1"], "alpha", "ben")
    page = Page(study.folder, "question", "ada", a="alpha", b="beta", question="q1")
    assert "tags <b>odd</b> A" in page.text and "By ben." in page.html
    field = next(each for each in page.app.multiselect if each.label == "Your tags")
    assert field.value == [] and list(field.options) == ["<b>odd</b>"]
    unnamed = Page(study.folder, "question", a="alpha", b="beta", question="q1")
    assert "<b>odd</b>" in unnamed.text and not unnamed.app.multiselect
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    field.set_value(["<b>odd</b>"]).run()
    assert standing(tags) == [("<b>odd</b>", "q1", None, "ada"), ("<b>odd</b>", "q1", "alpha", "ben")]


def test_slices_counts_tags_and_leads_mend_them(study, tags, monkeypatch):
    tags.add("a", ["q1", "q2"], actor="ann")
    tags.add("b", ["q3"], actor="ben")
    address = {"a": "alpha", "b": "beta", "k": 5}
    page = Page(study.folder, "slices", "ada", **address)
    assert "People's tags, Success@5, %" in page.text and "a 2 1 2 100.0" in page.text
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    page.app.multiselect(key="tags-chosen").set_value(["a"])
    page.app.text_input(key="tags-name").set_value("B")
    page.app.button(key="tags-rename").click().run()
    assert standing(tags) == [("b", "q1", None, "ann"), ("b", "q2", None, "ann"), ("b", "q3", None, "ben")]
    assert "Merged 1 tag into B." in page.text
    page.app.multiselect(key="tags-chosen").set_value(["b"])
    page.app.text_input(key="tags-name").set_value("A, b")
    page.app.button(key="tags-rename").click().run()
    assert "contains a comma" in page.text and len(tags.all_tags()) == 3
    page.app.button(key="tags-delete").click().run()
    assert tags.all_tags() == [] and "People's tags" not in page.text


def test_a_lead_makes_a_batch_of_tagged_questions(study, tags, monkeypatch):
    started = []
    monkeypatch.setattr(
        "blindspot.app.components.jobs.start", lambda opened, request: bool(started.append(request)) or True
    )
    People(study.labels_path).add("lea", "lead")
    tags.add("look", ["q1", "q3"], actor="ann")
    page = Page(study.folder, "team", "lea")
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    next(each for each in page.app.multiselect if each.label == "Tags").set_value(["look"])
    next(each for each in page.app.button if each.label == "Create batch").click().run()
    assert [request.arguments["slice"] for request in started] == [["q1", "q3"]]
