"""The panel of batches: create, close and assign them, and download the labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Literal

import streamlit as st

from blindspot.app import study, url, who
from blindspot.app.components import jobs
from blindspot.app.components.empty_page import show_next_step
from blindspot.app.components.marks import notice
from blindspot.app.components.message import show_last_message, try_action
from blindspot.app.components.parts import delete_form, download_row
from blindspot.app.components.setting_fields import setting_field
from blindspot.app.judging_stores import judging_stores, label_count_words
from blindspot.app.markup import Html, div, join, link, show, span, tag
from blindspot.app.runs import over_training_questions
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.judges.judge import judges_of
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.judging.settings import ORDERS, ArmShares, BatchSettings, Order
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.backend.training_sets.judged_batches import make_batch_by_judge
from blindspot.backend.training_sets.training_set import training_sets
from blindspot.db.people import Person
from blindspot.db.queue import Batch, Item
from blindspot.db.records import SPLITS

ANYBODY = "anybody"
_LINE = [8.2, 1.2]  # the columns of a batch's line and of its menu
RUNS_OFFERED = 3  # at most, for an offered batch to pool
ANSWERS_AND_RANK = "answer match, subject and rank"
ORDER_TITLES: dict[Order, str] = {
    "priority": "likely and harmful false negatives",
    "random": "at random",
}
_ABOUT_ARMS = (
    "75% of the questions are chosen by priority, 10% at random (the audit, the only source of false-negative rates), "
    "10% for second labels and 5% as repeats. If an arm cannot be filled, its questions are chosen by priority instead."
)
_ABOUT_SPLITS = (
    "Splits to draw questions from; if empty, all searched questions. "
    "Labels of dev and test questions correct the evaluation and never enter training."
)


def batch_panel(open_study: Study, primary: bool) -> None:
    """Show the batches, the form for a new one, and the jobs that make them; leads only.

    Args:
        primary: Whether a new batch is the one next thing to do.
    """
    batches, everybody = judging_stores(open_study).queue.batches(), who.people(open_study.labels_path).all()
    show_last_message("batches")
    with st.container(key="team-batches"):
        with st.container(key="team-batches-head", horizontal=True, vertical_alignment="center"):
            show(tag("h2", "Batches" if batches else "New batch"))
            # With another key after a new batch, the form is closed.
            new_batch = st.popover("New batch", key=f"new-batch-{len(batches)}") if batches else None
            if who.may(open_study.labels_path, "export labels") and judging_stores(open_study).labels.last_event:
                with st.popover("Download labels"):
                    words = f"The {label_count_words(open_study)}, with those that were undone or replaced."
                    show(tag("p", words, cls="soft"))
                    download_row(open_study, "labels", "labels")
        show_last_message("parts-batch")
        if batches:
            heads = ("batch", "done", "blocked")
            name, *state = (span(words, cls="soft") for words in heads)
            line = div(name, span(*state, cls="batch-state"), cls="batch-line heads")
            st.columns(_LINE)[0].html(str(line))
        for batch in reversed(batches):
            _batch(open_study, batch, everybody)
        with new_batch or st.container(), st.container(key="new-batch"):
            _new_batch_form(open_study, {batch.name for batch in batches}, primary)


def new_batch_button(open_study: Study) -> Html:
    """Return the main button of a page where there is nothing to judge: it leads to the form for a batch; only leads see
    it.
    """
    if not who.may(open_study.labels_path, "make batches"):
        return Html("")
    words = f"Create a batch of {quantity(BatchSettings().size, 'question')}"
    return tag("p", link(words, url.TEAM, cls="button main"))


def send_to_judging(open_study: Study, question_ids: Sequence[str], runs: Sequence[str], key: str) -> None:
    """Show a button that makes a batch of all these questions; only leads see it."""
    if not who.may(open_study.labels_path, "make batches"):
        return
    words = f"Send {quantity(len(question_ids), 'question')} to judging"
    send = partial(_send, open_study, list(question_ids), list(runs))
    st.button(words, key=key, on_click=try_action, args=(send, "send-to-judging"))
    show_last_message("send-to-judging")


def _send(open_study: Study, question_ids: list[str], runs: list[str]) -> str:
    taken = {batch.name for batch in judging_stores(open_study).queue.batches()}
    name = next(name for n in range(1, 100_000) if (name := f"slice-{n}") not in taken)
    if not _start(open_study, name, runs, size=len(question_ids), slice=question_ids):
        return ""
    return join(f"Creating batch {name}. It will appear on ", link("Judge", url.JUDGE), " in a few seconds.")


def offer_batch(open_study: Study, stem: str, runs: Sequence[str], words: str, **settings: Any) -> bool:
    """Link to an open batch with these settings that has questions of some of these runs, or show a button that makes
    such a batch from the first runs. Return False without runs.
    """
    batches = judging_stores(open_study).queue.batches()
    if waiting := next((each for each in batches if each.state == "open" and _is_offer(each, runs, settings)), None):
        show(tag("p", link(f"Judge batch {waiting.name}", url.JUDGE), f": its questions are {words}."))
        return True
    if not runs:
        return False
    taken = {batch.name for batch in batches}
    name = next(name for number in range(1, 10_000) if (name := f"{stem}-{number}") not in taken)
    asked = request(make_batch, name, list(runs[:RUNS_OFFERED]), **settings)
    jobs.followed_button(open_study, asked, key=f"make-{stem}", words=f"Make a batch of {words}")
    return True


def offer_random_questions(open_study: Study, stem: str, runs: Sequence[str], size: int, depth: int) -> None:
    """Offer a batch of random questions, which shows every passage that these runs rank in the first `depth`."""
    offer_batch(
        open_study,
        stem,
        runs,
        f"{size} random questions",
        size=size,
        depth=depth,
        candidates=depth * len(runs),
        mix=asdict(ArmShares(1.0, 0.0, 0.0)),
    )


def _is_offer(batch: Batch, runs: Sequence[str], settings: Mapping[str, Any]) -> bool:
    kept = batch.settings
    return all(kept.get(name) == value for name, value in settings.items()) and {*kept.get("runs", ())} <= {*runs}


def _start(open_study: Study, name: str, runs: list[str], **settings: Any) -> bool:
    """Start the job that makes a batch, as the signed-in person. Return False if the job was refused."""
    by = who.acting_name(open_study.labels_path)
    if "judge" in settings:
        return jobs.start(open_study, request(make_batch_by_judge, name, runs, **settings, by=by))
    return jobs.start(open_study, request(make_batch, name, runs, **settings, by=by))


def _batch(open_study: Study, batch: Batch, people: list[Person]) -> None:
    """Show a line for a batch, how many of its questions nobody active can judge, and a menu for the lead."""
    queue, kind = judging_stores(open_study).queue, "closed" if batch.state == "closed" else ""
    waiting = queue.unfinished(batch.name) if batch.state == "open" else []
    blocked = sum(each.is_blocked for each in waiting)
    unit = f" {noun_form(batch.questions, 'question')}"
    done = join(f"{batch.done:,} of {batch.questions:,}", span(unit, cls="in-line"))
    line = div(
        span(tag("b", batch.name), span(f" {kind}", cls="soft") if kind else ""),
        span(
            span(done),
            span(span(", blocked: ", cls="in-line"), f"{blocked:,}") if blocked else span("–", cls="soft none"),
            cls="batch-state",
        ),
        cls="batch-line",
    )
    left, right = st.columns(_LINE, vertical_alignment="center")
    with left:
        show(line)
        show_last_message(f"batch-{batch.name}")
        _reassign_button(open_study, batch.name, blocked)
    with right.popover("Change", key=f"menu-batch-{batch.name}"):
        _menu(open_study, batch, people)
        delete_form(open_study, "batch", batch.name)


def _menu(open_study: Study, batch: Batch, people: list[Person]) -> None:
    queue, acting = judging_stores(open_study).queue, partial(who.acting_name, open_study.labels_path)
    items, needed = queue.items(batch.name), f"needed-{batch.name}"
    st.number_input(
        "People per question",
        1,
        20,
        _most_common(items),
        key=needed,
        on_change=_apply_change,
        args=(lambda: queue.set_people_needed(batch.name, st.session_state[needed], actor=acting()),),
    )
    holder = _holder(items)
    # Questions are assigned to people who can judge them; whoever holds them now is named too.
    names = [ANYBODY, *(person.name for person in people if person.active or person.name == holder)]
    st.selectbox(
        "Assigned to",
        names,
        index=names.index(holder) if holder in names else 0,
        key=f"for-{batch.name}",
        on_change=_apply_change,
        args=(lambda: queue.assign(batch.name, _selection_text(batch), actor=acting()),),
    )
    other_state: Literal["open", "closed"] = "closed" if batch.state == "open" else "open"
    st.button(
        "Close batch" if batch.state == "open" else "Reopen batch",
        key=f"state-{batch.name}",
        on_click=_apply_change,
        args=(lambda: queue.set_state(batch.name, other_state, actor=acting()),),
    )


def _reassign_button(open_study: Study, name: str, blocked: int) -> None:
    """Show the button that moves on what nobody active can judge, if there is any."""
    if blocked:
        st.button(
            f"Reassign {quantity(blocked, 'question')}",
            key=f"reassign-{name}",
            help="Only active people get these questions. If fewer of them can judge a question than it needs, it needs only those.",
            on_click=try_action,
            args=(lambda: _reassign(open_study, name), f"batch-{name}"),
        )


def _reassign(open_study: Study, name: str) -> str:
    result = judging_stores(open_study).queue.reassign(name, actor=who.acting_name(open_study.labels_path))
    return (
        f"{quantity(result.moved_count, 'question')} moved to active people, {result.done_count:,} counted as done, "
        f"{result.skipped_count:,} skipped by every active person."
    )


def _most_common(items: list[Item]) -> int:
    needed = [item.people_needed for item in items]
    return max(set(needed), key=needed.count)


def _holder(items: list[Item]) -> str:
    held = {item.assigned_to for item in items}
    return next(iter(held)) or ANYBODY if len(held) == 1 else ANYBODY


def _selection_text(batch: Batch) -> str | None:
    name = st.session_state[f"for-{batch.name}"]
    return None if name == ANYBODY else name


def _new_batch_form(open_study: Study, taken_names: set[str], primary: bool) -> None:
    runs = study.runs(open_study)
    if not runs:
        show(tag("p", "A batch takes its candidate passages from runs, and this study has no run yet."))
        show_next_step(open_study)
        return
    training = over_training_questions(open_study, runs)
    if not training:
        show(
            notice(
                "No run has searched the training questions. A batch of dev or test questions corrects the "
                "evaluation and never trains. If you want labels that train, search the training questions first.",
                kind="warning",
            )
        )
        asked = request(retrieve, "bm25", split="train")
        jobs.start_button(open_study, asked, key="search-train", label="Search the training questions with BM25")
    number = next(n for n in range(1, 10_000) if f"batch-{n}" not in taken_names)
    with st.form("make-batch", border=False, enter_to_submit=False):
        top = st.columns([2, 5, 2])
        name = top[0].text_input("Name", f"batch-{number}", max_chars=64)
        chosen = top[1].multiselect("Runs to pool", list(runs), (training or list(runs))[:3])
        size = setting_field(top[2], BatchSettings, "size")
        with st.expander("More"):
            show(tag("p", _ABOUT_ARMS, cls="soft"))
            middle = st.columns(2)
            splits = middle[0].multiselect("Splits", SPLITS, ["train"] if training else [], help=_ABOUT_SPLITS)
            judge, training_set = _judge_fields(open_study, middle[1])
            low = st.columns(4, vertical_alignment="bottom")
            fields = ("depth", "candidates", "people_needed", "seed")
            chosen_settings = {
                field: setting_field(place, BatchSettings, field) for place, field in zip(low, fields, strict=True)
            }
            order, pairs = _order_fields()
        submitted = st.form_submit_button("Create batch", type="primary" if primary else "secondary")
    if submitted:
        priority_arguments = _priority_arguments(order, pairs, judge, training_set)
        settings = priority_arguments | chosen_settings | {"size": size, "splits": splits or None}
        _apply_change(lambda: _start(open_study, name.strip(), chosen, **settings))
        st.rerun()


def _order_fields() -> tuple[Order, int | None]:
    """Show the fields for the order of questions; return the chosen order and the maximum number of passages."""
    columns = st.columns([3, 1.5, 4.5])
    titles = list(ORDER_TITLES.values())
    order = ORDERS[titles.index(columns[0].selectbox("Order", titles))]
    return order, setting_field(columns[1], BatchSettings, "pairs")


def _priority_arguments(
    order: Order, pairs: int | None, judge: str | None, training_set: str | None
) -> dict[str, str | int | None]:
    """Return the arguments that determine how the priority arm chooses questions."""
    chosen: dict[str, str | int | None] = {"judge": judge, "training_set": training_set} if judge else {}
    if order != "priority":
        chosen |= {"order": order, "pairs": pairs}
    return chosen


def _judge_fields(open_study: Study, place: Any) -> tuple[str | None, str | None]:
    """Show the field that chooses a judge, if the study has scores of one. Return the judge and the newest training
    set.
    """
    cards = sorted((card for card in judges_of(open_study) if card.scored), key=lambda card: card.calibrated)
    scored = [card.name for card in cards]  # shown in reverse: calibrated probabilities come first
    if not scored:
        return None, None
    sets = list(training_sets(open_study))
    gain = f" times what training would gain ({sets[-1]})" if sets else ""
    chosen = place.selectbox(
        "Priority by",
        [*reversed(scored), ANSWERS_AND_RANK],
        help=(
            f"A judge: its probability of a false negative, with the answer match and the subject{gain}. The audit is still drawn at random."
        ),
    )
    return (None, None) if chosen == ANSWERS_AND_RANK else (chosen, sets[-1] if sets else None)


def _apply_change(change: Callable[[], object]) -> None:
    def work() -> None:
        change()

    try_action(work, "batches")
