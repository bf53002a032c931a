"""What a person's judging came to, as the Judge page says at the end: counts checked by hand on a small study."""

from __future__ import annotations

import pytest

from blindspot.backend.core.study import Study
from blindspot.backend.judging.own_work import MIN_COMPARED, own_work
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue
from tests.app_pages import Page, sent_to_browser
from tests.judging import searched_study

SHOWN = ("p100", "p101", "p102", "p103")


@pytest.fixture
def study(tmp_path) -> Study:
    """Four questions (q0 and q3 of train, q1 dev, q2 test) with four passages each that are not gold, for two people."""
    study = searched_study(tmp_path / "study")
    for name in ("ann", "ben"):
        People(study.labels_path).add(name)
    items = [Item(f"q{i}", tuple(map(Candidate, SHOWN)), people_needed=2) for i in range(4)]
    Queue(study.labels_path).add_batch("b1", items, {})
    return study


def judge(study: Study, who: str, question: str, labels: str, batch: str = "b1", milliseconds: int = 4000) -> None:
    """Give one label to each passage, each in so much time, and finish. labels: p, r, n or u for each passage."""
    kinds = {"p": "positive", "r": "related", "n": "negative", "u": "unsure"}
    queue, store = Queue(study.labels_path), Labels(study.labels_path)
    queue.claim(who, 4)
    for passage, letter in zip(SHOWN, labels, strict=True):
        id = f"{who}-{batch}-{question}-{passage}"
        choice = (Choice(passage, kinds[letter]),)
        store.add(who, LabelEvent(id, "label", question, choice, batch=batch, milliseconds=milliseconds))
    queue.finish(who, batch, question)


def test_counts_pace_agreement_and_what_the_labels_change(study):
    assert own_work(study, "ann") == []
    for question, labels in (("q0", "pnnn"), ("q1", "pnnn"), ("q2", "rnnu"), ("q3", "nnnn")):
        judge(study, "ann", question, labels)
    rows = dict(own_work(study, "ann"))
    assert rows["In all"] == "4 different questions, 16 passages: 2 positive, 1 related, 12 negative, 1 unsure"
    assert rows["Pace"] == "4.0 s a passage (median), 64 s in all"
    assert rows["What your labels change"] == (
        "2 passages answer their questions and were not known to, 1 of them for training questions; "
        "12 passages are confirmed as negatives"
    )
    assert "Agreement with yourself" not in rows


def test_a_pace_at_which_nobody_reads_is_said(study):
    """It needs 20 labels to be said."""
    batch = [Item(f"q{i}", (Candidate("p104"),), people_needed=1) for i in range(4)]
    Queue(study.labels_path).add_batch("b2", batch, {})
    for number in range(4):
        judge(study, "ann", f"q{number}", "pnnn", milliseconds=100)
    assert "faster" not in dict(own_work(study, "ann"))["Pace"], "16 labels"
    store = Labels(study.labels_path)
    for number in range(4):
        choice = (Choice("p104", "negative"),)
        store.add("ann", LabelEvent(f"more-{number}", "label", f"q{number}", choice, batch="b2", milliseconds=100))
    assert dict(own_work(study, "ann"))["Pace"].endswith(
        ". 20 labels came faster than one can read: look at these again"
    )


def test_agreement_with_others_is_given_only_where_no_single_label_shows(study):
    for question in ("q0", "q1"):
        judge(study, "ann", question, "pnnn")
        judge(study, "ben", question, "nnnn")
    assert (
        dict(own_work(study, "ann"))["Agreement with others"]
        == f"fewer than {MIN_COMPARED} labels of others on your passages"
    )
    for question in ("q2", "q3"):
        judge(study, "ann", question, "pnnn")
        judge(study, "ben", question, "pnnn")
    said = dict(own_work(study, "ann"))["Agreement with others"]
    assert said.startswith("14 of 16 labels of others on your passages equal yours (88%, 95% interval ")


def test_agreement_with_oneself_is_of_repeats(study):
    judge(study, "ann", "q0", "pnnn")
    Queue(study.labels_path).add_batch(
        "b2", [Item("q0", tuple(map(Candidate, SHOWN)), "repeat", assigned_to="ann")], {}
    )
    judge(study, "ann", "q0", "pnnr", "b2")
    rows = dict(own_work(study, "ann"))
    assert rows["Agreement with yourself"] == "3 of 4 second labels equal the first (75%)"
    assert rows["In all"].startswith("1 different question, 4 passages: 1 positive, 1 related, 2 negative")


def test_the_page_says_it_at_the_end_and_not_before(study):
    judge(study, "ann", "q0", "pnnn")
    assert "a passage (median)" not in sent_to_browser(Page(study.folder, "judge", "ann"))
    for question in ("q1", "q2", "q3"):
        judge(study, "ann", question, "nnnn")
    sent = sent_to_browser(Page(study.folder, "judge", "ann"))
    assert "4 different questions, 16 passages: 1 positive, 15 negative" in sent and "4.0 s a passage (median)" in sent
