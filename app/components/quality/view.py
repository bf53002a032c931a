"""The Quality page for one person: what they may see of it, from the address and the label store."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app import blind, url
from app.components.marks import count, empty
from app.components.quality.agreement import agreement_panel, people_panel
from app.components.quality.audit import BYS, audit_panel
from app.components.quality.batches import batches_panel
from app.components.quality.disputes import JUDGE, disputes_panel
from app.markup import Html, div, join, link, show, tag
from backend.core.study import Study
from backend.judging.audits import Audit, BatchProgress, audit, batch_progress
from backend.judging.quality import Quality, quality
from db.labels import Labels
from db.people import Person
from db.queue import Queue

HERE = "quality"
STYLE = Path(__file__).parent / "quality.css"


def render(opened: Study, person: Person | None) -> None:
    """The page as somebody may see it."""
    if person is None or not person.may("see others' labels"):
        show(_refusal(person))
        return
    st.html(f"<style>{STYLE.read_text(encoding='utf-8')}</style>")
    mark = _mark(opened)
    found, batches = _quality(opened, mark), _progress(opened, mark)
    if not found.events and not batches:
        show(_nothing())
        return
    everything = _audit(opened, mark, None)
    chosen = url.one_of("batch", everything.batches, "") or None
    audited = _audit(opened, mark, chosen) if chosen else everything
    by, names, page = url.one_of("by", BYS, BYS[0]), url.value("names") == "1", url.number("page", 1)
    now = {
        "names": 1 if names else None,
        "page": page if page > 1 else None,
        "batch": chosen,
        "by": by if by != BYS[0] else None,
    }

    def here(**changes: object) -> str:
        return url.href(HERE, now | changes)

    hidden = blind.hidden(opened)  # what the reader has still to judge stays blind, here too
    open_to_them = [each for each in found.disputes if each.question not in hidden]
    bad = [each for each in found.bad if each[0] not in hidden]
    disputes = disputes_panel(open_to_them, bad, names, page, here)
    people = div(agreement_panel(found), people_panel(found), cls="stacked")
    show(_head(found), div(disputes, people, cls="side-by-side overview"))
    show(audit_panel(audited, everything.batches, chosen, by, here))
    show(batches_panel(batches))


def _refusal(person: Person | None) -> Html:
    if person is None:
        return empty(
            "Say who you are",
            join("This page shows other people's labels. Say who you are on ", link("Judge", JUDGE), " first."),
        )
    return empty(
        "Not for annotators",
        "This page shows other people's labels, and who has seen them can no longer judge independently. It is for adjudicators and leads.",
    )


def _nothing() -> Html:
    return empty(
        "There are no labels yet",
        "Here you will see where people disagree, how far they agree, how fast they work, and how many of the unlabelled passages "
        "answer their question after all.",
        join(
            "A lead makes a batch with ",
            tag("code", "blindspot batch new"),
            "; then people label it on ",
            link("Judge", JUDGE),
            ".",
        ),
    )


def _head(found: Quality) -> Html:
    labels, people = sum(each.labels for each in found.work), len(found.work)
    counts = tag(
        "span",
        tag("b", f"{labels:,}"),
        f" labels by {people:,} {'person' if people == 1 else 'people'}, ",
        tag("b", count(sum(len(each.passages) for each in found.disputes), "passage")),
        " to settle",
        cls="counts",
    )
    return div(tag("h1", "Quality of the labels"), counts, cls="quality-head")


def _mark(opened: Study) -> tuple:
    """Changes with every label, and whenever a batch is made, closed or moves on."""
    batches = tuple((each.name, each.state, each.done, each.questions) for each in Queue(opened.labels_path).batches())
    return str(opened.folder), opened.labels_path.stat().st_ino, Labels(opened.labels_path).last_event, batches


@st.cache_resource(max_entries=4, show_spinner="Counting the labels")
def _quality(_opened: Study, mark: tuple) -> Quality:
    return quality(_opened)


@st.cache_resource(max_entries=8, show_spinner=False)
def _audit(_opened: Study, mark: tuple, batch: str | None) -> Audit:
    return audit(_opened, batch)


@st.cache_resource(max_entries=4, show_spinner=False)
def _progress(_opened: Study, mark: tuple) -> list[BatchProgress]:
    return batch_progress(_opened)
