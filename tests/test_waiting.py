"""What a batch waits for: active people alone count, the lead sees who blocks, and blocked questions are moved on."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from blindspot.app.commands.batches import batch_app
from blindspot.backend.core.study import Study
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.judging.labels_io import export_labels, import_labels
from blindspot.backend.judging.settings import ArmShares
from blindspot.backend.judging.team_progress import team_progress
from blindspot.db.errors import Forbidden, Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import SIMULATED, People
from blindspot.db.queue import Candidate, Item, Queue
from blindspot.db.waiting import Reassignment
from tests.app_pages import Page, hand_made_study, sent_to_browser
from tests.judging import PASSAGES, Desk, searched_study

FIVE = ("ann", "ben", "cid", "dot", "eve")
SHOWN = (Candidate("p1", 0), Candidate("p2", 1))


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def waiting(desk, batch="b1"):
    """Each unfinished question: whether it is blocked, for whom it is reserved, how many people lack, who can judge it."""
    return [
        (each.is_blocked, each.reserved, each.missing, " ".join(sorted(each.people)))
        for each in desk.queue.unfinished(batch)
    ]


def done(store: Queue, batch: str) -> tuple[int, int]:
    (found,) = [each for each in store.batches() if each.name == batch]
    return found.done, found.questions


def work(study, batch: str, people, questions: int | None = None) -> int:
    """Let people judge in turn until the queue has nothing for them, or `questions` are finished; return how many."""
    queue, labels = Queue(study.labels_path), Labels(study.labels_path)
    finished = 0
    while turns := [(name, lease) for name in people for lease in queue.claim(name, 1)]:
        for name, lease in turns:
            (item,) = queue.items(lease.batch, [lease.question])
            choices = tuple(Choice(candidate.passage, "negative") for candidate in item.candidates)
            id = f"{name}-{lease.batch}-{lease.question}"
            labels.add(name, LabelEvent(id, "label", lease.question, choices, batch=lease.batch))
            queue.finish(name, lease.batch, lease.question)
            finished += 1
            if finished == questions:
                queue.connection.execute("DELETE FROM lease WHERE state = 'held'")
                return finished
    return finished


@pytest.mark.parametrize("needed", [1, 4])
def test_a_batch_of_thirty_by_five_people_two_of_them_paused_on_the_way_is_done(tmp_path, needed):
    study = searched_study(tmp_path / "study")
    people, queue = People(study.labels_path), Queue(study.labels_path)
    for name in FIVE:
        people.add(name)
    make_batch(study, "before", ["a", "b"], size=60)
    work(study, "before", FIVE)
    mix = ArmShares(audit=0.1, second=0.2, repeat=0.3)
    made = make_batch(study, "b", ["a", "b"], size=30, mix=mix, people_needed=needed)
    assert made.arms == {"audit": 3, "second": 6, "repeat": 9, "priority": 12}
    work(study, "b", FIVE, questions=5)
    people.pause("dot")
    people.pause("eve")
    work(study, "b", FIVE[:3])
    finished, size = done(queue, "b")
    reserved = {each.reserved for each in queue.unfinished("b") if each.reserved}
    assert finished < size == 30 and reserved and reserved <= {"dot", "eve"}
    assert all(each.is_blocked for each in queue.unfinished("b")), "whoever is active has nothing left to do"
    result = queue.reassign("b")
    assert result.skipped_count == 0 and result.moved_count + result.done_count == 30 - finished
    work(study, "b", FIVE[:3])
    assert done(queue, "b") == (30, 30) and queue.unfinished("b") == []


def test_repeats_and_second_labels_are_for_active_people_alone(tmp_path):
    """Neither the paused nor simulated annotators get repeats; nobody gets second labels where only their judge is active."""
    study = searched_study(tmp_path / "study")
    people, queue = People(study.labels_path), Queue(study.labels_path)
    for name in ("ann", "ben", f"Ada{SIMULATED}"):
        people.add(name)
    make_batch(study, "before", ["a", "b"], size=60)
    work(study, "before", ("ann", "ben", f"Ada{SIMULATED}"))
    people.pause("ben")
    make_batch(study, "b", ["a", "b"], size=40, mix=ArmShares(0, 0.5, 0.5))
    items = queue.items("b")
    assert {item.assigned_to for item in items if item.arm == "repeat"} == {"ann"}
    judged = {judgement.question: judgement.annotator for judgement in Labels(study.labels_path).judgements()}
    seconds = [judged[item.question] for item in items if item.arm == "second"]
    assert seconds and "ann" not in seconds, "ann alone is active, and can give no second label of her own"
    work(study, "b", ["ann"])
    assert done(queue, "b") == (40, 40)


def test_the_store_knows_who_is_awaited(desk):
    desk.batch(questions=2)
    assert waiting(desk) == [(False, None, 1, "ada ann ben cid lea")] * 2
    desk.queue.assign("b1", "ben", ["q0"])
    assert waiting(desk) == [(False, "ben", 1, "ben"), (False, None, 1, "ada ann ben cid lea")]
    desk.people.pause("ben")
    assert waiting(desk) == [(True, "ben", 1, ""), (False, None, 1, "ada ann cid lea")]
    desk.people.pause("ben", False)
    desk.people.set_kind("ben", "machine")
    assert waiting(desk)[0] == (True, "ben", 1, "")
    desk.queue.set_people_needed("b1", 5)
    assert waiting(desk)[1] == (True, None, 5, "ada ann cid lea")


def test_a_question_that_one_person_held_or_skipped_once_still_waits_for_them(desk):
    desk.batch(questions=1)
    for name in ("ben", "cid", "ada", "lea"):
        desk.people.pause(name)
    desk.claim("ann")
    desk.queue.skip("ann", "b1", "q0")
    assert waiting(desk) == [(False, None, 1, "ann")]
    desk.claim("ann")
    desk.queue.skip("ann", "b1", "q0")
    assert waiting(desk) == [(True, None, 1, "")]
    assert desk.queue.reassign("b1") == Reassignment(0, 0, 1)
    desk.people.pause("ben", False)
    assert desk.queue.reassign("b1") == Reassignment(0, 0, 0) and desk.claim("ben") == ["q0"]


def test_reassigning_ends_reservations_and_lowers_the_number_of_people(desk):
    desk.batch(questions=3, needed=3)
    for name in ("ann", "ben"):
        assert len(desk.claim(name, 3)) == 3
        desk.work(name, "b1", "q0")
    for name in ("cid", "ada", "lea"):
        desk.people.pause(name)
    desk.queue.assign("b1", "cid", ["q2"])
    assert desk.queue.reassign("b1") == Reassignment(moved_count=2, done_count=1, skipped_count=0)
    assert [(item.people_needed, item.assigned_to) for item in desk.queue.items("b1")] == [(2, None)] * 3
    for name in ("ann", "ben"):
        for question in desk.claim(name, 3):
            desk.work(name, "b1", question)
    assert done(desk.queue, "b1") == (3, 3) and waiting(desk) == []
    assert desk.queue.reassign("b1") == Reassignment(0, 0, 0)


def test_a_second_label_that_nobody_new_can_give_becomes_a_repeat(desk):
    desk.batch("b0", 1)
    desk.claim("ann")
    desk.work("ann", "b0", "q0")
    desk.queue.add_batch("b1", [Item("q0", SHOWN, "second")], {})
    for name in ("ben", "cid", "ada", "lea"):
        desk.people.pause(name)
    assert desk.claim("ann") == [] and desk.queue.reassign("b1") == Reassignment(1, 0, 0)
    assert desk.claim("ann") == ["q0"] and desk.queue.items("b1")[0].arm == "repeat"


def test_what_cannot_be_moved_on_is_said(desk):
    desk.batch(questions=1)
    with pytest.raises(Forbidden, match="close, open and assign batches"):
        desk.queue.reassign("b1", actor="ann")
    for person in desk.people.all():
        desk.people.pause(person.name)
    with pytest.raises(Refused, match="nobody is active"):
        desk.queue.reassign("b1")
    desk.batch("p", 1, practice=True)
    assert desk.queue.unfinished("p") == [], "practice is never done"


def test_a_revoked_link_pauses_until_the_next_one(desk):
    desk.people.invite("ann")
    desk.batch(questions=1)
    desk.claim("ann")
    desk.people.revoke("ann")
    assert not desk.people.get("ann").active
    desk.people.invite("ann")
    assert desk.people.get("ann").active
    desk.people.pause("ann")
    desk.people.invite("ann")
    assert not desk.people.get("ann").active, "replacing a lost link lifts no pause"


def test_labels_that_come_in_by_import_count_as_progress(tmp_path):
    """Everything judged in a copy of the study: its labels finish the questions here, and nobody is asked again."""
    here = searched_study(tmp_path / "here")
    for name in ("ann", "ben"):
        People(here.labels_path).add(name)
    make_batch(here, "b", ["a", "b"], size=20)
    here.questions.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copytree(here.folder, tmp_path / "there")
    there = Study.open(tmp_path / "there")
    assert work(there, "b", ("ann", "ben")) == 20
    file = export_labels(there, "jsonl", tmp_path / "labels.jsonl").path
    queue = Queue(here.labels_path)
    assert done(queue, "b") == (0, 20)
    import_labels(here, file)
    assert done(queue, "b") == (20, 20) and queue.claim("ann") == []
    assert queue.finished_counts("ann")["b"] + queue.finished_counts("ben")["b"] == 20


def test_imported_labels_of_another_origin_finish_the_priority_arm_alone(tmp_path):
    study = searched_study(tmp_path / "study")
    shown = (Candidate("p1", 0, inclusion_probability=0.5), Candidate("p2", 1, inclusion_probability=0.5))
    items = [Item(id, SHOWN) for id in ("q0", "q6", "q9")]
    items.insert(1, Item("q3", shown, "audit", inclusion_probability=0.5))
    queue = Queue(study.labels_path)
    queue.add_batch("b", items, {})
    file = tmp_path / "mine.qrels"
    pairs = [(question, passage) for question in ("q0", "q3") for passage in ("p1", "p2")]
    file.write_text("".join(f"{question} 0 {passage} 1\n" for question, passage in [*pairs, ("q6", "p1")]))
    import_labels(study, file, annotator="mia", by_person=True)
    assert [each.question for each in queue.unfinished("b")] == ["q3", "q6", "q9"]
    file.write_text("q9 0 p1 1\nq9 0 p2 0\n")
    import_labels(study, file, annotator="another tool")
    assert len(queue.unfinished("b")) == 3, "labels of a machine are no judgements"


def test_older_labels_are_not_counted_with_an_import(desk):
    """A disputed question in a new batch asks for new judgements; an import about something else must not end that."""
    for name in ("ann", "ben"):
        desk.label(name, "q0", dict.fromkeys(PASSAGES[1:3], "positive" if name == "ann" else "negative"))
    desk.queue.add_batch("b1", [Item("q0", SHOWN)], {})
    other = next(iter(desk.labels.events()))
    desk.labels.import_event_rows([replace(other, number=99, gesture="other", question="q1", annotator="cid")])
    assert [each.question for each in desk.queue.unfinished("b1")] == ["q0"]


def test_the_team_page_counts_what_is_blocked_and_moves_on_by_a_button(tmp_path, monkeypatch):
    study = hand_made_study(tmp_path / "study")
    people, queue = People(study.labels_path), Queue(study.labels_path)
    for name, role in (("Ann", "annotator"), ("Ben", "annotator"), ("Lea", "lead")):
        people.add(name, role)
    shown = (Candidate("answer0"), Candidate("filler1"))
    queue.add_batch("b1", [Item("q0", shown), Item("q1", shown, assigned_to="Ben")], {})
    people.pause("Ben")
    assert {one.name: one.remaining for one in team_progress(study)} == {"Ann": {"b1": 1}, "Lea": {"b1": 1}}
    told = CliRunner().invoke(batch_app, ["list", "--study", str(study.folder)]).output
    assert "blindspot batch reassign b1" in told
    page = Page(study.folder, "team", "Lea")
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    assert "b1 0 of 2 questions , blocked: 1" in page.text
    (button,) = [button for button in page.app.button if button.label == "Reassign 1 question"]
    button.click().run()
    assert not page.app.exception and "1 question moved to active people" in page.text
    assert queue.items("b1")[1].assigned_to is None
    assert not [button for button in page.app.button if button.label.startswith("Reassign")]
    queue.assign("b1", "Ben")
    told = CliRunner().invoke(batch_app, ["reassign", "b1", "--study", str(study.folder)]).output
    assert "2 questions moved to active people" in told


def test_the_judge_page_says_that_a_batch_is_blocked_and_names_nobody(tmp_path):
    study = hand_made_study(tmp_path / "study")
    people = People(study.labels_path)
    people.add("Ann")
    people.add("Ben")
    Queue(study.labels_path).add_batch("b1", [Item("q1", (Candidate("answer0"),), assigned_to="Ben")], {})
    people.pause("Ben")
    sent = sent_to_browser(Page(study.folder, "judge", "Ann"))
    assert "1 question waits" in sent and "Ben" not in sent


def test_waiting_is_counted_in_a_few_statements(tmp_path):
    """The page Team counts at every rerun, so the number of statements must not grow with the questions."""
    desk = Desk(tmp_path, questions=1000, people={f"person {i}": "annotator" for i in range(12)})
    for batch in ("b0", "b1"):
        desk.queue.add_batch(batch, [Item(f"q{i}", SHOWN, people_needed=2) for i in range(1000)], {})
    statements: list[str] = []
    desk.queue.connection.set_trace_callback(statements.append)
    assert len(desk.queue.unfinished("b1")) == 1000 and len(statements) <= 4
