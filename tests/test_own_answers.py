"""The list of a person's own answers: what it shows, and that a change leaves everything else as it is."""

from __future__ import annotations

from blindspot.backend.core.study import Study
from blindspot.backend.judging.own_answers import own_answers
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue
from tests.app_pages import hand_made_study


def send(labels: Labels, kind: str, question: str, batch: str = "b1", **more) -> None:
    id = f"{kind}-{question}-{batch}-{len(list(labels.events()))}-{len(more)}"
    (receipt,) = labels.add_all("ann", [{"id": id, "kind": kind, "question": question, "batch": batch, **more}])
    assert receipt.state == "stored", receipt


def mark(passage: str, label: str) -> list[dict[str, str]]:
    return [{"passage": passage, "label": label}]


def listed(study: Study) -> list[tuple[str, str, bool]]:
    answers = own_answers(study, Queue(study.labels_path), Labels(study.labels_path), "ann")
    return [(one["key"].replace("\n", "/"), one["labels"], one["bad"] is not None) for one in answers]


def test_the_list_of_answers_and_a_change_of_one(tmp_path):
    study = hand_made_study(tmp_path / "study")
    people, queue, labels = People(study.labels_path), Queue(study.labels_path), Labels(study.labels_path)
    for name in ("ann", "ben"):
        people.add(name)
    shown = (Candidate("filler0"), Candidate("filler1"))
    queue.add_batch("b1", [Item(f"q{i}", shown, people_needed=2) for i in range(3)], {})
    queue.add_batch("practice", [Item("q5", shown)], {}, practice=True)
    assert listed(study) == []
    queue.claim("ann", 5)
    send(labels, "label", "q5", "practice", choices=mark("filler0", "negative"))
    send(labels, "finish", "q5", "practice")
    for question in ("q0", "q1"):
        send(labels, "label", question, choices=[*mark("filler0", "positive"), *mark("filler1", "negative")])
        send(labels, "finish", question)
    send(labels, "bad_question", "q2")
    send(labels, "finish", "q2")
    done = [batch.done for batch in queue.batches()]
    assert listed(study) == [
        ("b1/q2", "", True),
        ("b1/q1", "1 positive, 1 negative", False),
        ("b1/q0", "1 positive, 1 negative", False),
    ], "the latest first, without practice"
    send(labels, "label", "q0", choices=mark("filler0", "related"))
    assert listed(study)[2] == ("b1/q0", "1 related, 1 negative", False)
    assert listed(study)[:2] == [("b1/q2", "", True), ("b1/q1", "1 positive, 1 negative", False)]
    assert [batch.done for batch in queue.batches()] == done and queue.finished_counts("ann")["b1"] == 3
    ((_, event),) = labels.bad_marks("ann").items()
    send(labels, "undo", "q2", undoes=event)
    assert labels.bad_marks("ann") == {} and [lease.question for lease in queue.leases_of("ann")] == ["q2"]
    queue.set_state("b1", "closed")
    assert listed(study) == [], "answers of a closed batch stay as they are"
