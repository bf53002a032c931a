"""Judge: label whether each candidate passage answers the question. With `?adjudicate=1`: settle disagreements.

The panel in the browser, with its keys, is app/components/judging/judge.js.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import streamlit as st

from blindspot.app import study, url, who
from blindspot.app.components import judging
from blindspot.app.components.empty_page import show_empty_page
from blindspot.app.components.marks import notice
from blindspot.app.components.sign_in import confirm_sign_out, sign_in
from blindspot.app.components.team.batches import new_batch_button
from blindspot.app.entry import enter
from blindspot.app.judging_stores import JudgingStores, judging_stores
from blindspot.app.markup import div, link, show
from blindspot.backend.core.made_from import is_check
from blindspot.backend.core.study import Study
from blindspot.backend.judging.cards import card_key
from blindspot.backend.judging.guidelines import guidelines
from blindspot.backend.judging.own_answers import own_answers
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.db.events import LabelEvent
from blindspot.db.people import Person
from blindspot.db.queue import Batch, Lease
from blindspot.db.waiting import UnfinishedQuestion

SKIPPED = "You skipped this question before. Skip it again to leave it to somebody else."
AHEAD, MAX_AHEAD = 4, 15
HISTORY = 60  # events that can be undone after a reload
RENEW = 600.0  # a lease is renewed this many seconds before it expires


def page() -> None:
    opened = study.current()
    person = who.signed_in_person(opened.labels_path)
    if url.value("sign-out") and person is not None:
        confirm_sign_out(opened.labels_path, person)
        return
    if person is None:
        sign_in(
            opened.labels_path,
            "Each label is stored under the name of its annotator, so that agreement can be measured.",
        )
        if not study.runs(opened) and who.mode() == "local":
            about = "On this page annotators judge whether the top passages of runs answer their questions."
            show_empty_page(opened, "Nothing to judge yet", about)
        return
    stores = judging_stores(opened)
    if url.value("adjudicate") and person.is_allowed("adjudicate"):
        st.fragment(_adjudicate)(opened, stores, person)
        show(div(link("Judge questions of batches", url.JUDGE, cls="quiet"), cls="foot"))
        return
    if person.paused:
        show(notice(f"A lead has paused {person.name}, who gets no more questions until a lead lifts the pause."))
    st.fragment(_judge)(opened, stores, person)
    batches = stores.queue.batches()
    if not any(batch.state == "open" for batch in batches):
        show(div(new_batch_button(opened), cls="below-judge"))
    further = []
    if person.is_allowed("adjudicate") and stores.labels.disputed_questions():
        further.append(link("Settle disagreements", url.href(url.JUDGE, {"adjudicate": 1}), cls="quiet"))
    if person.is_allowed("make batches"):
        further.append(link("Batches, people and their progress", url.TEAM, cls="quiet"))
    show(div(div(*further, cls="foot"), cls="below-judge"))


@judging.keeps_component("judge")
def _judge(open_study: Study, stores: JudgingStores, person: Person) -> None:
    judging.at_work(open_study, person)
    component = f"judge-{person.name}"
    leases = _leases(stores, person, judging.browser_value(component, "want", AHEAD))
    history = [
        event
        for event in stores.labels.undoable_events(person.name, HISTORY)
        if event.batch and event.kind != "adjudicate" and not person.paused
    ]
    batches = stores.queue.batches()
    # The questions of the latest events are sent too, so that undo can show its question without waiting for the
    # server.
    recent = dict.fromkeys((event.batch, event.question) for event in history[:12] if event.batch is not None)
    leased = {(lease.batch, lease.question) for lease in leases}
    opened_answer = _opened_answer(stores, person, judging.browser_value(component, "open", None))
    if opened_answer is not None and opened_answer not in leased:
        recent[opened_answer] = None
    undoable = [Lease(batch, question, 0.0, False) for batch, question in recent if (batch, question) not in leased]
    cards = stores.cards.cards_of_leases(person.name, [*leases, *undoable])
    mine = stores.queue.finished_counts(person.name)
    remaining = _batches_open_to(stores, person.name, str(open_study.labels_path), tuple(mine.items()), tuple(leased))
    progress = {name: _progress(name, mine.get(name, 0), remaining.get(name, 0)) for name in {*mine, *remaining}}
    again = {card_key(lease.batch, lease.question) for lease in leases if lease.again}
    for card in cards:
        card["progress"] = progress.get(card["batch"], "")
        card["notice"] = SKIPPED if card["key"] in again else ""
    title, lines = ("", []) if leases else _empty_state(open_study, stores, batches, person, mine)
    judging.mount(
        "judge",
        component,
        {
            "session": judging.session(open_study.labels_path, person),
            "mode": "judge",
            "kind": "label",
            "with_answers": study.with_answers(open_study),
            "cards": cards,
            "order": [card_key(lease.batch, lease.question) for lease in leases],
            "again": sorted(again),
            "answers": own_answers(open_study, stores.queue, stores.labels, person.name)
            if judging.browser_value(component, "answers", False)
            else None,
            "answered": sum(mine.values()),
            "history": _history(history),
            "empty_title": title,
            "empty": lines,
            "paused": person.paused,
            **_guidelines(open_study),
        },
        open_study,
        person.name,
    )


def _progress(batch: str, mine: int, remaining: int) -> str:
    """Return the person's own progress, as in "You: 7 of 20 questions of batch b1"."""
    return f"You: {mine:,} of {quantity(mine + remaining, 'question')} of batch {batch}"


@st.cache_data(max_entries=64, show_spinner=False)
def _batches_open_to(_stores: JudgingStores, name: str, *key: object) -> dict[str, int]:
    """Return how many questions of each batch the person can still get. It is computed once for each finished question."""
    return _stores.queue.available_counts(name)


def _opened_answer(stores: JudgingStores, person: Person, request: Any) -> tuple[str, str] | None:
    """Return the (batch, question) of an answered question that the browser asks for; None if it is not this person's
    question.
    """
    if not isinstance(request, str):
        return None
    answered = stores.queue.finished_questions(person.name)
    return next((one for one in answered if card_key(*one) == request), None)


def _leases(stores: JudgingStores, person: Person, want: Any) -> list[Lease]:
    """Return the person's leases, after claiming as many questions as the browser asks for.

    The store is written only if leases are missing or about to expire.
    """
    if person.paused:
        return []
    leases = stores.queue.leases_of(person.name)
    count = min(max(want, AHEAD), MAX_AHEAD) if isinstance(want, int) else AHEAD
    if len(leases) >= count and min(lease.expires for lease in leases) > time.time() + RENEW:
        return leases
    return stores.queue.claim(person.name, count)


def _empty_state(
    open_study: Study, stores: JudgingStores, batches: list[Batch], person: Person, mine: Mapping[str, int]
) -> tuple[str, list[str]]:
    """Return the title and the lines of the empty state when there is nothing to judge."""
    if person.paused:
        return "Paused", ["A lead has paused your work. Labels already sent are still saved for a minute."]
    batches = [batch for batch in batches if batch.state == "open"]
    if not batches:
        about = (
            "On this page annotators judge batches: questions with the top-ranked passages that nobody has labelled."
        )
        come_back = "A lead creates batches; come back when there is one."
        return "There is nothing to judge yet", [about] if person.is_allowed("make batches") else [about, come_back]
    waiting = [each for batch in batches for each in stores.queue.unfinished(batch.name)]
    judged = sum(mine.get(batch.name, 0) for batch in batches)
    lines = []
    if judged:
        lines.append(f"You judged {quantity(judged, 'question')}. Thank you.")
    lines += _waiting_sentences(waiting)
    if person.is_allowed("manage batches"):
        if any(each.is_blocked for each in waiting):
            lines.append("Reassign them on the page Team.")
        elif not waiting and is_check(open_study):
            lines.append("The page Check shows the rate and the rule, and draws more pairs.")
        elif not waiting:
            lines.append("Create another batch on the page Team.")
    if judged:
        return "You are done", lines
    return ("No question for you at the moment" if waiting else "All done"), lines


def _waiting_sentences(waiting: list[UnfinishedQuestion]) -> list[str]:
    """Say how many questions open batches wait for, without names: annotators must not know who judges what."""
    blocked = sum(each.is_blocked for each in waiting)
    others = len(waiting) - blocked
    lines = []
    if others:
        lines.append(f"Other annotators judge the remaining {quantity(others, 'question')}.")
    if blocked:
        lines.append(f"{quantity(blocked, 'question')} {noun_form(blocked, 'waits', 'wait')} for a lead to reassign.")
    return lines or ["Enough people have judged every question of every open batch."]


def _history(events: list[LabelEvent]) -> list[dict[str, Any]]:
    """Return the events for the browser, oldest first."""
    return [asdict(event) for event in reversed(events)]


def _guidelines(open_study: Study) -> dict[str, Any]:
    text = guidelines(open_study.folder)
    return {"guideline": text.version, "guideline_text": text.as_elements()}


@judging.keeps_component("adjudicate")
def _adjudicate(open_study: Study, stores: JudgingStores, person: Person) -> None:
    """Show the disputed passages, question by question; the question in the address comes first."""
    judging.at_work(open_study, person)
    component = f"adjudicate-{person.name}"
    question_id = url.value("question")
    history = [event for event in stores.labels.undoable_events(person.name, HISTORY) if event.kind == "adjudicate"]
    disputed = dict.fromkeys(stores.labels.disputed_questions())
    order = ([question_id] if question_id in disputed else []) + [id for id in disputed if id != question_id]
    earlier = [id for id in dict.fromkeys(event.question for event in history[:12]) if id not in disputed]
    cards = stores.cards.adjudication_cards([*order[: AHEAD + MAX_AHEAD], *earlier])
    for card in cards:
        card["progress"] = f"{quantity(len(disputed), 'question')} in dispute"
    judging.mount(
        "judge",
        component,
        {
            "session": judging.session(open_study.labels_path, person, "adjudicate"),
            "mode": "adjudicate",
            "kind": "adjudicate",
            "with_answers": study.with_answers(open_study),
            "cards": cards,
            "order": [card_key(None, id) for id in order[: AHEAD + MAX_AHEAD]],
            "history": _history(history),
            "empty_title": "Nothing to settle",
            "empty": [] if disputed else _nothing_to_settle(stores),
            **_guidelines(open_study),
        },
        open_study,
        person.name,
    )


def _nothing_to_settle(stores: JudgingStores) -> list[str]:
    """Say why there are no disagreements to settle."""
    pairs = [pair for pair in stores.labels.consensus() if pair.people > 1 or pair.state == "adjudicated"]
    if not pairs:
        return ["No passage has been judged by two people yet."]
    settled = sum(pair.state == "adjudicated" for pair in pairs)
    if settled:
        return [f"Every dispute is settled: {quantity(settled, 'passage')}."]
    return ["Annotators agree on every passage that at least two people judged."]


enter(page)
