"""The queue: whole questions under a lease, never more people than needed, late labels are never lost."""

from __future__ import annotations

from collections import Counter

import pytest

from blindspot.db.errors import Missing, Refused
from blindspot.db.events import LabelEvent, QueueEvent
from blindspot.db.leases import LEASE_SECONDS
from blindspot.db.queue import Candidate, Item
from tests.judging import PASSAGES, Desk

SHOWN = (Candidate("p1", 0, "bm25", 1, 9.0), Candidate("p2", 1, "bm25", 2, 8.0), Candidate("p3", 2, "bm25", 3, 7.0))


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def states(receipts):
    return [receipt.state for receipt in receipts]


def places(desk, question="q0", batch="b1"):
    """Return the people with a place at a question: finished in time, or holding it."""
    sql = (
        "SELECT l.annotator FROM lease l JOIN batch b ON b.number = l.batch WHERE b.name = ? AND l.question = ? AND "
        "((l.state = 'finished' AND l.surplus = 0) OR (l.state = 'held' AND l.expires > ?)) ORDER BY 1"
    )
    return [row[0] for row in desk.queue.connection.execute(sql, (batch, question, desk.clock.now))]


def test_everybody_gets_other_questions_in_the_order_of_the_batch(desk):
    desk.batch(questions=3)
    assert desk.claim("ann", 2) == ["q0", "q1"] and desk.claim("ben", 2) == ["q2"] and desk.claim("cid") == []
    assert desk.claim("ann", 2) == ["q0", "q1"], "what one holds is given again"
    assert [lease.question for lease in desk.queue.leases_of("ann")] == ["q0", "q1"]


def test_a_question_goes_to_as_many_people_as_it_needs(desk):
    desk.batch(questions=1, needed=2)
    assert [desk.claim(who) for who in ("ann", "ben", "cid")] == [["q0"], ["q0"], []]
    assert desk.work("ann", "b1", "q0") is False
    assert desk.claim("cid") == [] and desk.claim("ann") == []
    assert desk.work("ben", "b1", "q0") is False
    assert [batch.done for batch in desk.queue.batches()] == [1]


def test_a_question_of_two_batches_is_held_once_and_not_judged_twice(desk):
    desk.batch("b1", 1)
    desk.batch("b2", 1)
    assert [(lease.batch, lease.question) for lease in desk.queue.claim("ann", 3)] == [("b1", "q0")]
    desk.work("ann", "b1", "q0")
    assert desk.claim("ann", 3) == [] and [(one.batch, one.question) for one in desk.queue.claim("ben")] == [
        ("b2", "q0")
    ]


@pytest.mark.parametrize("arm, again", [("priority", []), ("second", []), ("repeat", ["q0"]), ("audit", ["q0"])])
def test_only_repeats_and_audits_come_to_those_who_judged_the_question(desk, arm, again):
    desk.batch("b1", 1)
    desk.claim("ann")
    desk.work("ann", "b1", "q0")
    desk.queue.add_batch("b2", [Item("q0", SHOWN, arm, inclusion_probability=0.5 if arm == "audit" else None)], {})
    assert desk.claim("ann") == again


def test_a_lapsed_lease_is_for_others_and_the_late_submit_is_kept_as_surplus(desk):
    desk.batch(questions=1)
    assert desk.claim("ann") == ["q0"]
    desk.clock.now += LEASE_SECONDS + 1
    assert desk.queue.leases_of("ann") == [] and desk.claim("ben") == ["q0"]
    assert desk.work("ben", "b1", "q0", "negative") is False
    assert desk.work("ann", "b1", "q0", "positive") is True
    assert desk.queue.finish("ann", "b1", "q0") is True, "sending it again changes nothing"
    assert len(desk.labels.judgements()) == 6 and places(desk) == ["ben"]
    assert desk.standing()["q0", "p1"] == (None, "open"), "a surplus label is a label: the dispute is seen"


def test_late_while_nobody_else_came_is_not_surplus(desk):
    desk.batch(questions=1)
    desk.claim("ann")
    desk.clock.now += 10 * LEASE_SECONDS
    assert desk.work("ann", "b1", "q0") is False and desk.queue.batches()[0].done == 1


def test_a_label_begins_the_lease_anew_but_does_not_revive_it(desk):
    desk.batch(questions=2)
    desk.claim("ann")
    for _ in range(4):
        desk.clock.now += LEASE_SECONDS / 2
        desk.label("ann", "q0", {"p1": "negative"}, batch="b1")
    assert places(desk) == ["ann"]
    desk.clock.now += LEASE_SECONDS + 1
    desk.label("ann", "q0", {"p2": "negative"}, batch="b1")
    assert places(desk) == [] and desk.claim("ben") == ["q0"]


def test_a_clock_that_jumps_back_keeps_nobodys_question_for_ever(desk):
    desk.batch(questions=2)
    desk.claim("ann")
    desk.clock.now -= 1_000_000
    assert desk.claim("ben") == ["q1"], "ann holds q0 still"
    desk.clock.now += LEASE_SECONDS + 1
    assert desk.claim("cid") == ["q0"]


def test_a_clock_that_jumps_back_revives_no_lease_that_another_took_over(desk):
    desk.batch(questions=1)
    desk.claim("ann")
    desk.clock.now += LEASE_SECONDS + 5
    assert desk.claim("ben") == ["q0"]
    desk.clock.now -= LEASE_SECONDS
    assert places(desk) == ["ben"] and desk.queue.leases_of("ann") == []
    assert [desk.work("ann", "b1", "q0"), desk.work("ben", "b1", "q0")] == [True, False]


def test_skipping_frees_the_place(desk):
    desk.batch(questions=2)
    desk.claim("ann")
    desk.queue.skip("ann", "b1", "q0")
    assert desk.claim("ann") == ["q1"] and desk.claim("ben") == ["q0"]
    for who, question in (("cid", "q0"), ("ann", "q9")):
        with pytest.raises(Missing, match="does not hold"):
            desk.queue.skip(who, "b1", question)
    desk.work("ben", "b1", "q0")
    with pytest.raises(Refused, match="has finished"):
        desk.queue.skip("ben", "b1", "q0")


def test_a_skipped_question_comes_back_once_at_the_end_and_stays_blind(desk):
    desk.batch(questions=3)
    assert desk.claim("ann", 2) == ["q0", "q1"]
    desk.queue.skip("ann", "b1", "q0")
    assert desk.queue.available_counts("ann") == {"b1": 3} and desk.claim("ann", 2) == ["q1", "q2"]
    desk.work("ann", "b1", "q1")
    desk.work("ann", "b1", "q2")
    (lease,) = desk.queue.claim("ann", 2)
    assert lease.question == "q0" and lease.again and desk.queue.leases_of("ann") == [lease]
    (receipt,) = desk.labels.add_all("ann", [desk.sent("q0", {"p1": "positive"})])
    assert receipt.state == "stored" and [event.blind for event in desk.labels.events(questions=["q0"])] == [1]
    desk.queue.skip("ann", "b1", "q0")
    assert desk.claim("ann") == [] and desk.queue.available_counts("ann") == {}
    assert desk.queue.finished_questions("ann") == [("b1", "q1"), ("b1", "q2")]
    assert desk.claim("ben") == ["q0"], "others get it all the while"


def test_a_skipped_question_comes_after_the_others_that_one_holds(desk):
    desk.batch(questions=3)
    desk.claim("ann", 2)
    desk.queue.skip("ann", "b1", "q0")
    assert desk.claim("ann", 3) == ["q1", "q2", "q0"] == [lease.question for lease in desk.queue.leases_of("ann")]


def test_a_label_of_somebody_who_could_see_the_skipped_question_is_not_blind(desk):
    desk.batch(questions=1)
    desk.claim("lea")
    desk.queue.skip("lea", "b1", "q0")
    assert desk.claim("lea") == ["q0"]
    desk.labels.add_all("lea", [desk.sent("q0", {"p1": "positive"})])
    assert [event.blind for event in desk.labels.events()] == [0]


def test_nothing_is_finished_before_something_is_said_of_it(desk):
    desk.batch(questions=2)
    desk.claim("ann", 2)
    with pytest.raises(Refused, match="has no label of yours yet"):
        desk.queue.finish("ann", "b1", "q0")
    undone = desk.label("ann", "q0", {"p1": "positive"}, batch="b1")
    desk.undo("ann", "q0", undone)
    with pytest.raises(Refused, match="has no label of yours yet"):
        desk.queue.finish("ann", "b1", "q0")
    desk.labels.add("ann", LabelEvent("bad", "bad_question", "q1", batch="b1"))
    assert desk.queue.finish("ann", "b1", "q1") is False
    with pytest.raises(Missing, match="no batch 'b9'"):
        desk.queue.finish("ann", "b9", "q0")
    with pytest.raises(Missing, match="no question 'q4'"):
        desk.queue.finish("ann", "b1", "q4")


def test_an_undo_after_finishing_opens_the_question_again_for_that_annotator_alone(desk):
    desk.batch(questions=2)
    assert desk.claim("ann", 1) == ["q0"]
    gesture = desk.label("ann", "q0", dict.fromkeys(("p1", "p2", "p3"), "negative"), batch="b1")
    desk.queue.finish("ann", "b1", "q0")
    assert desk.queue.batches()[0].done == 1 and desk.queue.leases_of("ann") == []
    desk.clock.now += 10 * LEASE_SECONDS
    desk.undo("ann", "q0", gesture)
    assert [lease.question for lease in desk.queue.leases_of("ann")] == ["q0"] and desk.queue.batches()[0].done == 0
    assert desk.claim("ben") == ["q1"], "the place was kept, so nobody else gets the question"
    assert desk.work("ann", "b1", "q0", "positive") is False and desk.queue.batches()[0].done == 1


def test_an_undo_of_surplus_takes_no_place(desk):
    desk.batch(questions=1)
    desk.claim("ann")
    desk.clock.now += LEASE_SECONDS + 1
    desk.claim("ben")
    desk.work("ben", "b1", "q0")
    gesture = desk.label("ann", "q0", {"p1": "positive"}, batch="b1")
    assert desk.queue.finish("ann", "b1", "q0") is True
    desk.undo("ann", "q0", gesture)
    assert places(desk) == ["ben"] and desk.labels.labels_by("ann", ["q0"], "b1") == {}


def test_a_closed_batch_hands_out_nothing_and_takes_what_is_out(desk):
    desk.batch(questions=2)
    desk.claim("ann")
    desk.queue.set_state("b1", "closed", actor="lea")
    assert desk.claim("ann") == [] and desk.claim("ben") == [] and desk.queue.unfinished_questions() == set()
    assert desk.work("ann", "b1", "q0") is False
    desk.queue.set_state("b1", "open", actor="lea")
    assert desk.claim("ann") == ["q1"]
    with pytest.raises(Missing, match="b9"):
        desk.queue.set_state("b9", "closed")


def test_only_a_lead_changes_the_queue(desk):
    desk.batch(questions=1)
    for by in ("ann", "ada"):
        for change in (
            lambda by: desk.queue.set_state("b1", "closed", actor=by),
            lambda by: desk.queue.set_people_needed("b1", 2, actor=by),
            lambda by: desk.queue.assign("b1", "ann", actor=by),
            lambda by: desk.queue.add_batch("b2", [Item("q1", SHOWN)], {}, actor=by),
        ):
            with pytest.raises(Refused, match="takes the role lead"):
                change(by)
    assert [batch.name for batch in desk.queue.batches()] == ["b1"]
    desk.queue.add_batch("b2", [Item("q1", SHOWN)], {"seed": 4}, actor="lea")
    assert (desk.queue.batches()[1].made_by, desk.queue.batches()[1].settings) == ("lea", {"seed": 4})
    with pytest.raises(Refused, match="already"):
        desk.queue.add_batch("b2", [Item("q1", SHOWN)], {})
    with pytest.raises(Refused, match="nothing to judge"):
        desk.queue.add_batch("b3", [Item("q1", ())], {})


def test_people_needed_can_be_changed_and_what_is_done_follows(desk):
    desk.batch(questions=2)
    desk.claim("ann", 2)
    for question in ("q0", "q1"):
        desk.work("ann", "b1", question)
    assert desk.claim("ben", 3) == []
    assert desk.queue.set_people_needed("b1", 2, actor="lea") == 2 and desk.queue.batches()[0].done == 0
    assert desk.claim("ben", 3) == ["q0", "q1"]
    assert desk.queue.set_people_needed("b1", 1, ["q0"], actor="lea") == 1 and desk.queue.batches()[0].done == 1
    with pytest.raises(Refused, match="at least one"):
        desk.queue.set_people_needed("b1", 0)


def test_assigned_questions_go_to_one_person(desk):
    desk.batch(questions=3)
    assert desk.queue.assign("b1", "ben", ["q0", "q2"], actor="lea") == 2
    assert desk.claim("ann", 3) == ["q1"] and desk.claim("ben", 3) == ["q0", "q2"]
    desk.queue.connection.execute("DELETE FROM lease WHERE annotator = 'ben'")
    desk.queue.assign("b1", None, actor="lea")
    assert desk.claim("cid", 3) == ["q0", "q2"]
    with pytest.raises(Missing, match="zoe"):
        desk.queue.assign("b1", "zoe")


def test_practice_comes_first_for_everyone_and_is_never_done(desk):
    desk.batch("b1", 3)
    desk.batch("practice", 2, practice=True)
    for who in ("ann", "ben", "cid"):
        assert desk.claim(who, 2) == ["q0", "q1"]
        assert {lease.batch for lease in desk.queue.leases_of(who)} == {"practice"} and all(
            lease.practice for lease in desk.queue.leases_of(who)
        )
        assert [desk.work(who, "practice", question) for question in ("q0", "q1")] == [False, False]
    assert desk.claim("ann", 3) == ["q2"], (
        "whoever was shown the settled labels of q0 and q1 can give no label of their own"
    )
    assert [batch.done for batch in desk.queue.batches()] == [0, 0]
    assert (desk.queue.unfinished_questions(), desk.queue.practised_questions()) == ({"q0", "q1", "q2"}, {"q0", "q1"})


def test_the_candidates_come_back_as_they_were_put(desk):
    audited = (Candidate("p2", 0, "dense", 3, 0.5, False, 0.2, 0.05), Candidate("p1", 0, None, None, None, None))
    items = [Item("q1", audited, "audit", 0.0, 2, "ben", 0.1), Item("q0", SHOWN, "priority", 3.5)]
    desk.queue.add_batch("b1", items, {})
    assert desk.queue.items("b1") == items and desk.queue.items("b1", ["q0"]) == items[1:]
    assert desk.queue.audited_questions() == {"q1"}


def test_outcomes_are_those_of_settled_candidates(desk):
    desk.queue.add_batch(
        "b1", [Item("q0", (Candidate("p1", 0, "bm25", 4, 1.0, True), Candidate("p2", 1, "bm25", 6, 1.0, False)))], {}
    )
    desk.label("ann", "q0", {"p1": "positive", "p2": "negative"}, batch="b1")
    desk.label("ben", "q0", {"p2": "positive"}, batch="b1")
    assert desk.queue.settled_candidates() == [("q0", "p1", True, 4, "positive")]


def test_an_outbox_carries_finish_and_skip_in_order_with_the_labels(desk):
    desk.batch(questions=4)
    desk.claim("ann", 3)
    rest = dict.fromkeys(("p1", "p2", "p3"), "negative")
    outbox = [
        desk.sent("q0", rest),
        desk.act("finish", "q0", milliseconds=4000, client_time=5.0),
        desk.act("finish", "q1"),
        desk.act("skip", "q1"),
        desk.sent("q2", {"p1": "positive"}),
        desk.act("finish", "q2"),
    ]
    receipts = desk.labels.add_all("ann", outbox)
    assert states(receipts) == ["stored", "stored", "refused", "stored", "stored", "stored"]
    assert "question 'q1' has no label of yours" in receipts[2].message and not any(
        r.message for r in receipts if r.is_in_store
    )
    assert states(desk.labels.add_all("ann", outbox[:2] + outbox[3:])) == ["known"] * 5
    assert desk.claim("ann", 3) == ["q3", "q1"] and desk.queue.batches()[0].done == 2, "q1 was skipped: it is last"
    ids = [each["id"] for each in outbox]
    assert desk.labels.stored_ids(ids) == set(ids) - {ids[2]}


def test_an_old_finish_sent_again_does_not_finish_what_was_opened_since(desk):
    desk.batch(questions=1)
    desk.claim("ann")
    label = desk.sent("q0", {"p1": "negative"})
    outbox = [label, desk.sent("q0", {"p2": "negative"}), desk.act("finish", "q0"), desk.act("finish", "q0")]
    assert states(desk.labels.add_all("ann", outbox)) == ["stored", "stored", "stored", "known"]
    outbox.append({"id": "z", "kind": "undo", "question": "q0", "undoes": label["id"]})
    assert states(desk.labels.add_all("ann", outbox)) == ["known", "known", "known", "known", "stored"]
    assert [lease.question for lease in desk.queue.leases_of("ann")] == ["q0"]
    assert states(desk.labels.add_all("ann", outbox)) == ["known"] * 5
    assert [lease.question for lease in desk.queue.leases_of("ann")] == ["q0"], "neither finish was done a second time"
    assert states(desk.labels.add_all("ann", [*outbox, desk.act("finish", "q0")]))[-1] == "stored"
    assert desk.queue.batches()[0].done == 1


def test_a_receipt_says_that_a_finish_was_surplus(desk):
    desk.batch(questions=1)
    desk.claim("ann")
    desk.clock.now += LEASE_SECONDS + 1
    desk.claim("ben")
    outbox = [desk.sent("q0", {"p1": "positive"}), desk.act("finish", "q0")]
    for state in ("stored", "known"):
        receipt = desk.labels.add_all("ann", outbox)[1]
        assert receipt.state == state and "surplus" in receipt.message
    again = desk.labels.add_all("ann", [desk.act("finish", "q0")])[0]
    assert again.state == "known" and "surplus" in again.message


@pytest.mark.parametrize("other", [{"question": "q1"}, {"kind": "skip"}, {"batch": "b2"}])
def test_the_id_of_an_act_is_its_own(desk, other):
    desk.batch("b1", 2)
    desk.batch("b2", 2)
    desk.claim("ann", 2)
    label, finish = desk.sent("q0", {"p1": "negative"}), desk.act("finish", "q0")
    desk.labels.add_all("ann", [label, finish])
    wrong = [{**finish, **other}, {**finish, "id": label["id"]}, {**label, "id": finish["id"]}]
    receipts = desk.labels.add_all("ann", wrong) + desk.labels.add_all("ben", [finish])
    assert states(receipts) == ["refused"] * 4 and all("already used" in receipt.message for receipt in receipts)
    assert desk.queue.batches()[0].done == 1


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({"batch": None}, "batch must be text"),
        ({"question": ""}, "question must be text"),
        ({"choices": []}, "no field 'choices'"),
        ({"milliseconds": -1}, "milliseconds"),
        ({"kind": "rest"}, "batch"),
        ({"batch": "b9"}, "no batch 'b9'"),
        ({"id": 7}, "id must be text"),
        ({"question": "q4"}, "no question 'q4'"),
    ],
)
def test_an_act_that_makes_no_sense_is_refused_and_stops_no_other(desk, wrong, says):
    desk.batch(questions=1)
    desk.claim("ann")
    outbox = [{**desk.act("finish", "q0"), **wrong}, desk.sent("q0", {"p1": "negative"}), desk.act("finish", "q0")]
    receipts = desk.labels.add_all("ann", outbox)
    if wrong == {"kind": "rest"}:
        says = "'rest'; it must be one of"
    assert states(receipts) == ["refused", "stored", "stored"] and says in receipts[0].message


def test_acts_of_strangers_are_refused(desk):
    desk.batch(questions=1)
    for who, says in (("zoe", "nobody is named"), ("ben", "does not hold")):
        (receipt,) = desk.labels.add_all(who, [QueueEvent("a", "skip", "q0", "b1")])
        assert receipt.state == "refused" and says in receipt.message


def test_one_can_go_back_to_a_question_that_one_finished_or_skipped(desk):
    desk.batch(questions=3)
    desk.claim("ann", 3)
    desk.work("ann", "b1", "q0")
    desk.queue.skip("ann", "b1", "q1")
    desk.queue.skip("ann", "b1", "q2")
    assert desk.claim("ben", 1) == ["q1"]
    receipts = desk.labels.add_all("ann", [desk.act("reopen", question) for question in ("q0", "q1", "q2", "q2")])
    assert states(receipts) == ["stored", "refused", "stored", "known"] and "somebody else" in receipts[1].message
    assert [lease.question for lease in desk.queue.leases_of("ann")] == ["q0", "q2"] and places(desk, "q1") == ["ben"]
    assert desk.labels.labels_by("ann", ["q0"], "b1")["q0"] == dict.fromkeys(PASSAGES[1:4], "negative"), (
        "nothing is taken back by it"
    )
    desk.queue.set_state("b1", "closed")
    desk.queue.skip("ann", "b1", "q2")
    (closed,) = desk.labels.add_all("ann", [desk.act("reopen", "q2")])
    (never,) = desk.labels.add_all("cid", [desk.act("reopen", "q2")])
    assert (
        (closed.state, never.state) == ("refused", "refused")
        and "ask a lead" in closed.message
        and "was not given" in never.message
    )


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_in_whatever_order_no_question_has_too_many_people(tmp_path, seed):
    """Random people do random actions while the clock jumps both ways; after each action, the people at each question
    are counted.
    """
    import random

    desk, chance, needed = (
        Desk(tmp_path, 6),
        random.Random(seed),
        {"q0": 1, "q1": 1, "q2": 1, "q3": 2, "q4": 2, "q5": 2},
    )
    for store in (desk.labels, desk.queue):
        store.connection.execute("PRAGMA synchronous=OFF")
    desk.queue.add_batch("b1", [Item(question, SHOWN, people_needed=people) for question, people in needed.items()], {})
    done = Counter()
    for _ in range(250):
        who, question = chance.choice(("ann", "ben", "cid", "ada")), chance.choice(list(needed))
        what = chance.choice(("claim", "claim", "label", "finish", "finish", "skip", "reopen", "undo", "clock"))
        if what == "claim":
            done[what] += len(desk.claim(who, chance.randint(1, 3)))
        elif what == "clock":
            desk.clock.now += chance.choice(
                (60, LEASE_SECONDS / 2, LEASE_SECONDS + 1, -60, -LEASE_SECONDS, -10 * LEASE_SECONDS)
            )
        elif what == "undo":
            for gesture in desk.labels.undoable_events(who, 1):
                desk.undo(who, gesture.question, gesture.id)
                done[what] += 1
        else:
            sent = desk.sent(question, {"p1": "negative"}) if what == "label" else desk.act(what, question)
            done[what, desk.labels.add_all(who, [sent])[0].state] += 1
        for each, people in needed.items():
            assert len(places(desk, each)) <= people, (seed, what, who, question, each)
    assert (
        done["claim"]
        and done["undo"]
        and done["finish", "stored"]
        and done["skip", "stored"]
        and done["reopen", "stored"]
    ), done


def test_acts_are_append_only(desk):
    import sqlite3

    desk.batch(questions=1)
    desk.claim("ann")
    desk.labels.add_all("ann", [desk.sent("q0", {"p1": "negative"}), desk.act("finish", "q0")])
    for sql in (
        "UPDATE queue_act SET kind = 'skip'",
        "DELETE FROM queue_act",
        "INSERT OR REPLACE INTO queue_act SELECT * FROM queue_act",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            desk.queue.connection.execute(sql)
