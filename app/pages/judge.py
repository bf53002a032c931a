"""Judge: say of each candidate passage whether it answers the question. With `?adjudicate=1`, settle what people disagree on."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import streamlit as st

from app import study, url, who
from app.components import judging
from app.components.batches import batch_panel
from app.components.marks import notice
from app.components.sign_in import confirm_sign_out, sign_in
from app.desk import Desk, desk
from app.entry import enter
from app.markup import show
from backend.core.study import Study
from backend.judging.cards import key
from backend.judging.guidelines import guidelines
from db.events import LabelEvent
from db.people import Person
from db.queue import Batch, Lease

AHEAD, MOST_AHEAD = 4, 15
HISTORY = 60  # gestures that can be taken back after a reload
RENEW = 600.0  # seconds before its end at which a lease is renewed


def page() -> None:
    opened = study.current()
    person = who.who(opened.labels_path)
    if url.value("sign-out") and person is not None:
        confirm_sign_out(opened.labels_path, person)
        return
    if person is None:
        sign_in(
            opened.labels_path,
            "Every label is kept under a name: people see their own labels, and agreement can be measured.",
        )
        return
    stores = desk(opened)
    if url.value("adjudicate") and person.may("adjudicate"):
        st.fragment(_adjudicate)(opened, stores, person)
        return
    if person.paused:
        show(notice(f"{person.name} is paused: no more questions for now. A lead can change that."))
    st.fragment(_judge)(opened, stores, person)
    if person.may("make batches"):
        batch_panel(opened)


@judging.keeps_component("judge")
def _judge(opened: Study, stores: Desk, person: Person) -> None:
    judging.at_work(opened, person)
    component = f"judge-{person.name}"
    leases = _leases(stores, person, judging.asked(component, "want", AHEAD))
    history = [
        gesture
        for gesture in stores.labels.undoable(person.name, HISTORY)
        if gesture.batch and gesture.kind != "adjudicate" and not person.paused
    ]
    batches = stores.queue.batches()
    practice = {batch.name for batch in batches if batch.practice}
    # The questions of the last gestures too, so that taking one back shows its question at once; and the one on the page.
    earlier = dict.fromkeys((gesture.batch, gesture.question) for gesture in history[:12])
    held = {(lease.batch, lease.question): lease for lease in leases}
    also = [
        Lease(batch, question, 0.0, batch in practice) for batch, question in earlier if (batch, question) not in held
    ]
    cards = stores.cards.leased(person.name, [*leases, *also])
    progress = {
        batch.name: f"Batch {batch.name}: {batch.done:,} of {batch.questions:,} questions done" for batch in batches
    }
    for card in cards:
        card["progress"] = progress.get(card["batch"], "")
        card["notice"] = (
            "Practice: these labels do not count. After Enter you see what was settled."
            if card["settled"] is not None
            else ""
        )
    title, lines = _empty(batches, person)
    judging.mount("judge", component, {
        "session": judging.session(opened.labels_path, person), "mode": "judge", "kind": "label", "cards": cards,
        "order": [key(lease.batch, lease.question) for lease in leases], "history": _history(history),
        "empty_title": title, "empty": lines, "paused": person.paused, **_guidelines(opened),
    }, opened, person.name)  # fmt: skip


def _leases(stores: Desk, person: Person, want: Any) -> list[Lease]:
    """What the person holds, filled up to what the browser asks for. Writes only where something is lacking or about to lapse."""
    if person.paused:
        return []
    held = stores.queue.held(person.name)
    count = min(max(want, AHEAD), MOST_AHEAD) if isinstance(want, int) else AHEAD
    if len(held) >= count and min(lease.expires for lease in held) > time.time() + RENEW:
        return held
    return stores.queue.claim(person.name, count)


def _empty(batches: list[Batch], person: Person) -> tuple[str, list[str]]:
    """What is said where there is nothing to judge."""
    if person.paused:
        return "Paused", ["A lead has paused you. Labels that were on their way are still taken for a minute."]
    batches = [batch for batch in batches if batch.state == "open"]
    if not batches:
        return "There is nothing to judge yet", [
            "A batch is a set of questions with the passages that runs put on top though nobody labelled them.",
            "Make one below." if person.may("make batches") else "A lead makes batches; come back when there is one.",
        ]
    left = sum(batch.questions - batch.done for batch in batches if not batch.practice)
    if left:
        return "Nothing for you at the moment", [
            f"{left:,} questions are with other people, or wait for somebody who has not judged them yet.",
        ]
    return "All done", [
        "Every question of every open batch has been judged by as many people as it needs.",
        "Make another batch below." if person.may("make batches") else "Thank you.",
    ]


def _history(gestures: list[LabelEvent]) -> list[dict[str, Any]]:
    """Oldest first."""
    return [asdict(gesture) for gesture in reversed(gestures)]


def _guidelines(opened: Study) -> dict[str, Any]:
    found = guidelines(opened.folder)
    return {"guideline": found.version, "guideline_text": found.blocks()}


@judging.keeps_component("adjudicate")
def _adjudicate(opened: Study, stores: Desk, person: Person) -> None:
    """The pairs that people label differently, question by question; the one in the address first.

    A question that the adjudicator holds to judge herself waits until she has finished it.
    """
    judging.at_work(opened, person)
    component = f"adjudicate-{person.name}"
    asked = url.value("question")
    history = [gesture for gesture in stores.labels.undoable(person.name, HISTORY) if gesture.kind == "adjudicate"]
    hidden = stores.queue.hidden(person.name)
    disputed = dict.fromkeys(
        pair.question for pair in stores.labels.consensus() if pair.state == "open" and pair.question not in hidden
    )
    order = ([asked] if asked in disputed else []) + [id for id in disputed if id != asked]
    earlier = [
        id
        for id in dict.fromkeys(gesture.question for gesture in history[:12])
        if id not in disputed and id not in hidden
    ]
    cards = stores.cards.disputed([*order[: AHEAD + MOST_AHEAD], *earlier])
    for card in cards:
        card["progress"] = f"{len(disputed):,} questions with disagreement"
    judging.mount("judge", component, {
        "session": judging.session(opened.labels_path, person, "adjudicate"), "mode": "adjudicate", "kind": "adjudicate",
        "cards": cards, "order": [key(None, id) for id in order[:AHEAD + MOST_AHEAD]], "history": _history(history),
        "empty_title": "Nothing to settle", "empty": ["People agree wherever two of them judged the same passage."],
        **_guidelines(opened),
    }, opened, person.name)  # fmt: skip


enter(page)
