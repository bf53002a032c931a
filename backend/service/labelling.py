"""Read and store labels through the service and the agents' server. `db/events.py` validates each label event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from blindspot.backend.core.study import Study
from blindspot.backend.judging.cards import Cards
from blindspot.backend.judging.guidelines import guidelines
from blindspot.backend.service.caller import Caller, label_store
from blindspot.db.errors import Forbidden, Missing
from blindspot.db.events import Choice, Label, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue

OTHERS = "see others' labels"


def labels_of_question(study: Study, caller: Caller, question: str) -> dict[str, Any]:
    """Return the labels of a question's passages: everybody's if the caller may see them, or else only the caller's
    own.

    Raises:
        Missing: The question does not exist.
        Forbidden: The caller is no person, and may not see people's labels.
        Refused: The question is hidden from the caller.
    """
    study.questions.get(question)
    sees_others = caller.is_allowed(study, OTHERS)
    if not sees_others and caller.name is None:
        caller.require(study, OTHERS)
    caller.refuse_hidden(study, question)
    store = Labels(study.labels_path)
    given = [asdict(each) for each in store.judgements([question]) if sees_others or each.annotator == caller.name]
    agreed = [asdict(each) for each in store.consensus([question])] if sees_others else []
    return {"question": question, "labels": given, "consensus": agreed}


def store_events(study: Study, caller: Caller, events: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Store the label events of a person in their order, and return a receipt for each event.

    The rules are those of the app's Judge and Question pages: a question of a batch must have been given to the person,
    a question outside batches must not be hidden from them, and an event whose id the store has is not stored again.

    Raises:
        Forbidden: The caller is no person, or may not judge. NotSaved: The database cannot be written.
    """
    name = caller.person_with_right(study, "judge")
    receipts = label_store(study).add_all(name, events, guidelines(study.folder).version)
    return [asdict(each) for each in receipts]


def take_questions(study: Study, caller: Caller, count: int) -> list[dict[str, Any]]:
    """Lease up to `count` questions of the open batches to a person, and return them with their passages.

    Ranks, scores and runs are withheld until the person has labelled a passage.

    Raises Forbidden as `store_events` does, and Refused if the person is paused.
    """
    name = caller.person_with_right(study, "judge")
    leases = Queue(study.labels_path).claim(name, count)
    until = {(lease.batch, lease.question): lease.expires for lease in leases}
    return [
        {
            "batch": card["batch"],
            "question": card["question"],
            "text": card["text"],
            "answers": card["answers"],
            "expires": until[card["batch"], card["question"]],
            "gold": [_passage_texts(each) for each in card["positives"]],
            "passages": [
                {"passage": each["passage"], **_passage_texts(each), "label": card["given"].get(each["passage"])}
                for each in card["candidates"]
            ],
        }
        for card in Cards(study).cards_of_leases(name, leases)
    ]


def _passage_texts(passage: Mapping[str, Any]) -> dict[str, str]:
    return {"title": passage["title"], "text": "".join(piece for piece, _ in passage["pieces"])}


def machine_annotators(study: Study) -> list[dict[str, Any]]:
    """Return the machine annotators with the number of their labels."""
    return [
        {"machine": name, "labels": count} for name, count in Labels(study.labels_path).machine_label_counts().items()
    ]


def machine_judgements(study: Study, machine: str, offset: int, limit: int) -> dict[str, Any]:
    """Return a page of the labels of a machine annotator, by question and passage. Raises Missing if there is none."""
    store = Labels(study.labels_path)
    if machine not in store.machine_label_counts():
        raise Missing(f"there is no machine annotator {machine!r} in this study")
    rows, total = store.machine_label_page(machine, offset, limit)
    items = [{"question": question, "passage": passage, "label": label} for question, passage, label in rows]
    return {"total": total, "offset": offset, "items": items}


def check_machine(study: Study, machine: str) -> str:
    """Return the name of a machine annotator. Raises Forbidden if the name belongs to a person."""
    known = next((each for each in People(study.labels_path).all() if each.name == machine), None)
    if known is not None and known.kind != "machine":
        raise Forbidden(f"{machine} is a person; name another annotator for a machine's labels")
    return machine


def machine_event(id: str, question: str, labels: Mapping[str, Label]) -> LabelEvent:
    """Return the event with a machine's labels of passages for one question.

    Args:
        id: Chosen by the client, and the same whenever the client sends these labels again.
        labels: By passage.
    """
    return LabelEvent(id, "label", question, tuple(Choice(passage, label) for passage, label in labels.items()))


def store_judgements(study: Study, caller: Caller, machine: str, events: Sequence[LabelEvent]) -> list[dict[str, str]]:
    """Store the labels of a machine annotator in one transaction, and return a receipt for each event.

    Raises:
        Forbidden: The caller may not import labels of machines, or the name is a person's.
        BadInput, Missing, Refused, NotSaved: as `blindspot.db.labels.Labels.add_by_machine` does.
    """
    caller.require(study, "import")
    check_machine(study, machine)
    return [asdict(each) for each in label_store(study).add_by_machine(machine, events)]
