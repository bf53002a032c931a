"""The label store: nothing is lost, doubled, changed or undone by somebody else; a pair's state follows from the
events.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.events import LABELS, Choice, LabelEvent, parse_label_event
from tests.judging import PASSAGES, Desk


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def events(desk):
    return desk.labels.connection.execute("SELECT count(*) FROM label_event").fetchone()[0]


def test_the_same_gesture_sent_again_is_stored_once(desk):
    rest = LabelEvent("g", "label", "q0", tuple(Choice(p, "negative") for p in PASSAGES[1:4]), milliseconds=900)
    assert desk.labels.add("ann", rest).state == "stored"
    assert desk.labels.add("ann", rest).state == "known"
    # The order of the passages and the time are not part of an event's content.
    assert desk.labels.add("ann", replace(rest, choices=rest.choices[::-1], milliseconds=1)).state == "known"
    assert events(desk) == 3 and desk.labels.stored_ids(["g", "h"]) == {"g"}


@pytest.mark.parametrize(
    "other",
    [
        {"choices": (Choice("p1", "positive"),)},
        {"choices": (Choice("p2", "negative"),)},
        {"question": "q1"},
        {"choices": (Choice("p1", "negative"), Choice("p2", "negative"))},
        {"kind": "bad_question", "choices": ()},
    ],
)
def test_the_same_id_with_another_content_is_refused_aloud(desk, other):
    first = LabelEvent("g", "label", "q0", (Choice("p1", "negative"),))
    desk.labels.add("ann", first)
    with pytest.raises(Refused, match="'g' was already used for another event"):
        desk.labels.add("ann", replace(first, **other))
    with pytest.raises(Refused, match="already used"):
        desk.labels.add("ben", first)
    assert events(desk) == 1 and desk.standing() == {("q0", "p1"): ("negative", "agreed")}


def test_one_bad_gesture_of_an_outbox_stops_no_other(desk):
    desk.people.set_role("ann", "lead")  # who judges outside batches
    good = {
        "id": "a",
        "kind": "label",
        "question": "q0",
        "choices": [{"passage": "p1", "label": "positive", "rank": 3}],
    }
    receipts = desk.labels.add_all(
        "ann",
        [
            good,
            {**good, "id": "b", "choices": [{"passage": "p1"}]},
            {**good, "id": "c", "question": "q99"},
            "nonsense",
            {**good, "id": "d", "choices": [{"passage": "p9", "label": "positive"}]},
            {**good, "id": "e"},
            good,
            {**good, "id": "a", "kind": "note"},
        ],
    )
    assert [(r.id, r.state) for r in receipts] == [
        ("a", "stored"),
        ("b", "refused"),
        ("c", "refused"),
        ("", "refused"),
        ("d", "refused"),
        ("e", "stored"),
        ("a", "known"),
        ("a", "refused"),
    ]
    assert (
        "must have a label" in receipts[1].message and "'q99'" in receipts[2].message and "'p9'" in receipts[4].message
    )
    assert events(desk) == 2


@pytest.mark.parametrize("wrong, says", [
    ({"choices": []}, "must have a passage"),
    ({"choices": [{"passage": "p1"}]}, "must have a label"),
    ({"choices": [{"passage": "p1", "label": "maybe"}]}, "'maybe'"),
    ({"choices": [{"passage": "p1", "label": "positive"}] * 2}, "twice"),
    ({"choices": [{"passage": "p1", "label": "positive", "rank": 0}]}, "rank"),
    ({"choices": [{"passage": "p1", "label": "positive", "score": float("nan")}]}, "score"),
    ({"choices": [{"passage": "p1", "label": "positive", "colour": 1}]}, "colour"),
    ({"kind": "undo", "choices": []}, "that it undoes"),
    ({"kind": "note", "choices": []}, "text"),
    ({"kind": "note", "choices": [], "note": "\ud800"}, "surrogate"),
    ({"kind": "bad_question"}, "labels no passages"),
    ({"id": ""}, "id"), ({"milliseconds": True}, "milliseconds"), ({"undoes": "x"}, "undo"), ({"blind": 1}, "blind"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(wrong, says):
    good = {"id": "a", "kind": "label", "question": "q0", "choices": [{"passage": "p1", "label": "positive"}]}
    parse_label_event(good)
    with pytest.raises(BadInput, match=says):
        parse_label_event({**good, **wrong})


def test_an_undo_takes_back_one_whole_gesture(desk):
    desk.label("ann", "q0", {"p1": "related"})
    rest = desk.label("ann", "q0", {"p1": "negative", "p2": "negative", "p3": "negative"})
    assert desk.labels.labels_by("ann", ["q0"]) == {"q0": {"p1": "negative", "p2": "negative", "p3": "negative"}}
    desk.undo("ann", "q0", rest)
    assert desk.labels.labels_by("ann", ["q0"]) == {"q0": {"p1": "related"}}
    assert events(desk) == 7  # nothing is removed from the store


def test_an_undo_is_ones_own_done_once_and_cannot_be_undone(desk):
    mine = desk.label("ann", "q0", {"p1": "positive"})
    for who, question, gesture, says in [
        ("ben", "q0", mine, "somebody else's"),
        ("lea", "q0", mine, "somebody else's"),
        ("ann", "q0", "nothing", "no event"),
        ("ann", "q1", mine, "another question"),
    ]:
        with pytest.raises(Refused, match=says):
            desk.undo(who, question, gesture)
    undo = LabelEvent("u", "undo", "q0", undoes=mine)
    assert [desk.labels.add("ann", undo).state for _ in range(2)] == ["stored", "known"]
    with pytest.raises(Refused, match="already used"):
        desk.labels.add("ann", replace(undo, undoes="other"))
    with pytest.raises(Refused, match="undo cannot be undone"):
        desk.undo("ann", "q0", "u")
    with pytest.raises(Refused, match="was undone before"):
        desk.undo("ann", "q0", mine)
    assert desk.standing() == {} and events(desk) == 2


def test_what_can_be_undone_after_a_reload_the_last_first(desk):
    first = desk.label("ann", "q0", {"p1": "positive"})
    rest = desk.label("ann", "q3", {"p2": "negative", "p1": "negative"}, batch=None, blind=False)
    desk.label("ben", "q0", {"p1": "negative"})
    assert [(g.id, g.question, g.blind) for g in desk.labels.undoable_events("ann")] == [
        (rest, "q3", False),
        (first, "q0", True),
    ]
    assert {c.passage for c in desk.labels.undoable_events("ann")[0].choices} == {"p1", "p2"}
    desk.undo("ann", "q3", rest)
    assert [g.id for g in desk.labels.undoable_events("ann")] == [first]


def test_events_of_a_question_have_a_place(desk):
    bad = desk.labels.add("ann", LabelEvent("b", "bad_question", "q0", note="two people of that name"))
    desk.labels.add("ben", LabelEvent("n", "note", "q0", note="=see the title"))
    desk.labels.add("ben", LabelEvent("m", "note", "q0", (Choice("p1"),), note="out of date"))
    assert bad.is_in_store and desk.labels.bad_questions() == {"q0": ["ann"]}
    assert [(e.passage, e.note) for e in desk.labels.notes("q0")] == [
        (None, "two people of that name"),
        (None, "=see the title"),
        ("p1", "out of date"),
    ]
    desk.undo("ann", "q0", "b")
    assert desk.labels.bad_questions() == {} and len(desk.labels.notes("q0")) == 2
    assert desk.standing() == {}


def test_consensus_is_adjudicated_else_agreed_else_open(desk):
    desk.label("ann", "q0", {"p1": "positive", "p2": "positive", "p3": "unsure"})
    assert desk.standing()["q0", "p1"] == ("positive", "agreed")
    desk.label("ben", "q0", {"p1": "positive", "p2": "negative"})
    assert desk.standing() == {
        ("q0", "p1"): ("positive", "agreed"),
        ("q0", "p2"): (None, "open"),
        ("q0", "p3"): ("unsure", "agreed"),
    }
    settled = desk.label("ada", "q0", {"p2": "related"}, kind="adjudicate")
    assert desk.standing()["q0", "p2"] == ("related", "adjudicated")
    desk.label("cid", "q0", {"p2": "negative"})
    assert desk.standing()["q0", "p2"] == ("related", "adjudicated")
    desk.undo("ada", "q0", settled)
    assert desk.standing()["q0", "p2"] == (None, "open")
    assert {pair.passage: pair.people for pair in desk.labels.consensus()} == {"p1": 2, "p2": 3, "p3": 1}


def test_corrected_relevance_is_the_label_else_the_gold_and_open_in_dispute(desk):
    gold = {("q0", "p0"): "positive"}
    assert {(r.question, r.passage): r.relevance for r in desk.labels.corrected_relevance(["q0"])} == gold
    desk.label("ann", "q0", {"p0": "negative", "p1": "positive", "p2": "related", "p3": "unsure", "p4": "positive"})
    desk.label("ben", "q0", {"p4": "negative"})
    found = {r.passage: (r.relevance, r.gold, r.state) for r in desk.labels.corrected_relevance(["q0"])}
    assert found == {
        "p0": ("negative", True, "agreed"),
        "p1": ("positive", False, "agreed"),
        "p2": ("related", False, "agreed"),
        "p3": ("open", False, "agreed"),
        "p4": ("open", False, "open"),
    }
    desk.label("ben", "q0", {"p0": "positive"})
    assert {r.passage: r.relevance for r in desk.labels.corrected_relevance(["q0"])}["p0"] == "open"


def test_dev_and_test_questions_may_be_judged_and_never_train(desk):
    for question in ("q0", "q1", "q2"):
        desk.label("ann", question, {"p1": "positive"})
    assert {(r.question, r.split, r.trains) for r in desk.labels.corrected_relevance()} == {
        ("q0", "train", True),
        ("q1", "dev", False),
        ("q2", "test", False),
        ("q3", "train", True),
        ("q4", "train", True),
    }
    assert {r.question for r in desk.labels.corrected_relevance(training=True)} == {"q0", "q3", "q4"}


def test_what_was_shown_is_kept_with_the_event(desk):
    desk.queue.add_batch("b1", [item_of_audit()], {})
    desk.label("ann", "q0", {"p1": "positive"}, batch="b1", guideline_version="3", milliseconds=1234, client_time=5.5)
    (event,) = desk.labels.events()
    assert (event.run, event.rank, event.score, event.inclusion_probability) == ("dense", 4, 0.5, 0.05)
    assert (
        event.batch,
        event.guideline_version,
        event.milliseconds,
        event.client_time,
        event.server_time,
        event.blind,
    ) == ("b1", "3", 1234, 5.5, desk.clock.now, 1)
    shown = Choice("p1", "negative", run="bm25", rank=2, score=7.5, suggestion=0.9)
    desk.labels.add("ben", LabelEvent("s", "label", "q0", (shown,), blind=False))
    last = list(desk.labels.events())[-1]
    assert (last.run, last.rank, last.score, last.suggestion, last.inclusion_probability, last.blind) == (
        "bm25",
        2,
        7.5,
        0.9,
        None,
        0,
    )
    with pytest.raises(Missing, match="'p5' is not among those"):
        desk.label("ann", "q0", {"p5": "positive"}, batch="b1")
    with pytest.raises(Missing, match="no question 'q3'"):
        desk.label("ann", "q3", {"p1": "positive"}, batch="b1")


def item_of_audit():
    from blindspot.db.queue import Candidate, Item

    return Item("q0", (Candidate("p1", 0, "dense", 4, 0.5, True, 0.3, 0.05),), "audit", inclusion_probability=0.1)


def test_roles_are_asked_by_the_store(desk):
    with pytest.raises(Refused, match="ann is an annotator and may not adjudicate"):
        desk.label("ann", "q0", {"p1": "positive"}, kind="adjudicate")
    desk.label("lea", "q0", {"p1": "positive"}, kind="adjudicate")
    with pytest.raises(Missing, match="nobody is named 'zoe'"):
        desk.label("zoe", "q0", {"p1": "positive"})
    for act in (
        lambda by: desk.people.add("new", actor=by),
        lambda by: desk.people.pause("ben", actor=by),
        lambda by: desk.people.invite("x", actor=by),
        lambda by: desk.people.set_role("ben", "lead", actor=by),
        lambda by: desk.people.revoke("ben", actor=by),
    ):
        for by in ("ann", "ada"):
            with pytest.raises(Refused, match="takes the role lead"):
                act(by)
        act("lea")
    with pytest.raises(Refused, match="cannot take the role from themselves"):
        desk.people.set_role("lea", "annotator", actor="lea")


def test_an_invitation_is_a_secret_that_can_be_revoked(desk):
    secret = desk.people.invite("dot", "adjudicator", actor="lea")
    assert desk.people.person_of_link(secret).name == "dot" and desk.people.person_of_link(secret).is_allowed(
        "adjudicate"
    )
    again = desk.people.invite("dot", actor="lea")
    assert desk.people.person_of_link(secret) is None and desk.people.person_of_link(again).role == "adjudicator"
    assert secret not in "".join(map(str, desk.people.connection.execute("SELECT * FROM annotator").fetchall()))
    desk.people.revoke("dot", actor="lea")
    assert desk.people.person_of_link(again) is None
    with pytest.raises(BadInput, match="name"):
        desk.people.add(" x")


def test_of_somebody_paused_only_what_was_on_its_way_is_taken(desk):
    desk.batch()
    assert desk.claim("ann") == ["q0"]
    desk.people.pause("ann", actor="lea")
    with pytest.raises(Refused, match="paused"):
        desk.claim("ann")
    with pytest.raises(Refused, match="paused"):
        desk.label("ann", "q1", {"p1": "positive"}, batch="b1")
    assert desk.work("ann", "b1", "q0") is False
    desk.people.pause("ann", False, actor="lea")
    assert desk.claim("ann") == ["q1"]


def test_practice_is_no_judgement(desk):
    desk.batch("practice", practice=True)
    desk.label("ann", "q0", {"p1": "positive"}, batch="practice")
    assert desk.standing() == {} and desk.labels.judgements() == []
    assert desk.labels.labels_by("ann", ["q0"], "practice") == {"q0": {"p1": "positive"}}


class Judging(RuleBasedStateMachine):
    """The store compared with a plain model: a list of events, each undone or not."""

    names, pairs = ("ann", "ben", "ada"), [(q, p) for q in ("q0", "q1") for p in ("p0", "p1", "p2")]

    @initialize()
    def begin(self):
        import tempfile
        from pathlib import Path

        self.folder = tempfile.TemporaryDirectory()
        self.desk = Desk(Path(self.folder.name), 2)
        self.done: list[list] = []  # [id, kind, who, question, {passage: label}, live]

    @rule(
        who=st.sampled_from(names),
        question=st.sampled_from(("q0", "q1")),
        labels=st.dictionaries(st.sampled_from(PASSAGES[:3]), st.sampled_from(LABELS), min_size=1),
    )
    def label(self, who, question, labels):
        self.done.append([self.desk.label(who, question, labels), "label", who, question, labels, True])

    @rule(who=st.sampled_from(names), pair=st.sampled_from(pairs), label=st.sampled_from(LABELS))
    def adjudicate(self, who, pair, label):
        if who != "ada":
            with pytest.raises(Refused):
                self.desk.label(who, pair[0], {pair[1]: label}, kind="adjudicate")
            return
        id = self.desk.label(who, pair[0], {pair[1]: label}, kind="adjudicate")
        self.done.append([id, "adjudicate", who, pair[0], {pair[1]: label}, True])

    @rule(data=st.data(), who=st.sampled_from(names))
    def undo(self, data, who):
        if not self.done:
            return
        chosen = data.draw(st.sampled_from(self.done))
        id, kind, whose, question, _, live = chosen
        if whose != who or not live or kind == "undo":
            with pytest.raises(Refused):
                self.desk.undo(who, question, id)
            return
        self.done.append([self.desk.undo(who, question, id), "undo", who, question, {}, True])
        chosen[5] = False

    @rule(data=st.data())
    def send_again(self, data):
        if not self.done:
            return
        id, kind, who, question, labels, _ = data.draw(st.sampled_from(self.done))
        if kind != "undo":
            assert (
                self.desk.labels.add(
                    who, LabelEvent(id, kind, question, tuple(Choice(*one) for one in labels.items()))
                ).state
                == "known"
            )

    @invariant()
    def same_as_the_model(self):
        judged, settled = {}, {}
        for _, kind, who, question, labels, live in self.done:
            for passage, label in labels.items() if live else ():
                if kind == "label":
                    judged[question, passage, who] = label
                else:
                    settled[question, passage] = label
        assert {(j.question, j.passage, j.annotator): j.label for j in self.desk.labels.judgements()} == judged
        said = {pair: {judged[key] for key in judged if key[:2] == pair} for pair in self.pairs}
        expected = {}
        for pair, labels in said.items():
            if pair in settled:
                expected[pair] = (settled[pair], "adjudicated")
            elif labels:
                expected[pair] = (next(iter(labels)), "agreed") if len(labels) == 1 else (None, "open")
        assert self.desk.standing() == expected
        for row in self.desk.labels.corrected_relevance():
            label, _ = expected.get((row.question, row.passage), ("positive", "gold"))
            assert row.relevance == (label if label not in (None, "unsure") else "open")
            assert row.trains == (row.question == "q0")

    def teardown(self):
        if hasattr(self, "folder"):
            self.desk.labels.close(), self.desk.queue.close(), self.desk.people.close(), self.desk.questions.close()
            self.folder.cleanup()


Judging.TestCase.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
TestJudging = Judging.TestCase
