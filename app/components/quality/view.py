"""The Quality page for one person, from the address and the label store."""

from __future__ import annotations

import streamlit as st

from blindspot.app import hidden_questions, url
from blindspot.app.components.marks import empty
from blindspot.app.components.next_step import next_step
from blindspot.app.components.quality.agreement import agreement_panel, people_panel
from blindspot.app.components.quality.audit import BYS, audit_panel
from blindspot.app.components.quality.batches import batches_panel
from blindspot.app.components.quality.disputes import JUDGE, disputes_panel
from blindspot.app.components.quality.judges import judges_panel
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.training.certificate import certificates_panel
from blindspot.app.markup import Html, div, join, link, show, tag
from blindspot.backend.core.study import Study
from blindspot.backend.judges.llm.injections import injection_report
from blindspot.backend.judges.llm.judge import llm_judges
from blindspot.backend.judges.measuring import BYS as BYS_OF_TRUST
from blindspot.backend.judges.measuring import SAMPLES, JudgeTable, Sample, measure_judges
from blindspot.backend.judges.powered_audit import PoweredAudit, powered_audits
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.audits import Audit, BatchProgress, audit, batch_progress
from blindspot.backend.judging.quality import Quality, quality
from blindspot.backend.text.counting import counted
from blindspot.db.errors import BlindspotError
from blindspot.db.labels import Labels
from blindspot.db.people import Person
from blindspot.db.queue import Queue

HERE = "quality"


def render(opened: Study, person: Person | None) -> None:
    """Show the page as far as the person has the right to see it."""
    if not Labels(opened.labels_path).last_event and not Queue(opened.labels_path).batches():
        show(_nothing(opened))
        return
    if person is None or not person.may("see others' labels"):
        show(_refusal(person))
        return
    show(style_sheet("quality/quality.css"))
    mark = _mark(opened)
    found, batches = _quality(opened, mark), _progress(opened, mark)
    if not found.events and not batches:
        show(_nothing(opened))
        return
    everything = _audit(opened, mark, None)
    chosen = url.one_of("batch", everything.batches, "") or None
    audited = _audit(opened, mark, chosen) if chosen else everything
    by, names, page = url.one_of("by", BYS, BYS[0]), url.value("names") == "1", url.number("page", 1)
    judge, trust = url.value("judge"), url.one_of("trust", BYS_OF_TRUST, BYS_OF_TRUST[0])
    sample = url.value("sample")
    now = {
        "judge": judge or None,
        "trust": trust if trust != BYS_OF_TRUST[0] else None,
        "sample": sample or None,
        "names": 1 if names else None,
        "page": page if page > 1 else None,
        "batch": chosen,
        "by": by if by != BYS[0] else None,
    }

    def here(**changes: object) -> str:
        return url.href(HERE, now | changes)

    hidden = hidden_questions.hidden(opened)  # questions that this person still has to judge stay blind here too
    visible = [dispute for dispute in found.disputes if dispute.question not in hidden]
    bad = [each for each in found.bad if each[0] not in hidden]
    disputes = disputes_panel(visible, bad, names, page, here)
    people = div(agreement_panel(found), people_panel(found), cls="stacked")
    show(_head(found), div(disputes, people, cls="side-by-side overview"))
    show(audit_panel(audited, everything.batches, chosen, by, here, _powered(opened, mark, chosen)))
    show(judges_panel(_judges(opened, mark, sample), judge, trust, _injections(opened, judge), here))
    show(certificates_panel(opened))
    show(batches_panel(batches))


def _judges(opened: Study, mark: tuple, sample: str) -> JudgeTable | str:
    """The measured judges, or one sentence about why there are none."""
    try:
        return _measured(opened, mark, _scored(opened), next((each for each in SAMPLES if each == sample), None))
    except BlindspotError as error:
        return f"{str(error)[:1].upper()}{str(error)[1:]}."


def _scored(opened: Study) -> tuple:
    """Return a cache key that changes with every score of a judge."""
    return tuple((name, ScoreStore.open(opened, name).digest) for name in opened.parts("scores"))


def _powered(opened: Study, mark: tuple, batch: str | None) -> list[PoweredAudit]:
    """The audit's rates with each judge's scores; empty if a judge's scores cannot be read."""
    try:
        return _powered_rates(opened, mark, _scored(opened), batch)
    except BlindspotError:
        return []


@st.cache_resource(max_entries=8, show_spinner="Reading the judges' scores …")
def _powered_rates(_opened: Study, mark: tuple, scored: tuple, batch: str | None) -> list[PoweredAudit]:
    return powered_audits(_opened, batch)


@st.cache_resource(max_entries=4, show_spinner="Measuring the judges …")
def _measured(_opened: Study, mark: tuple, scored: tuple, sample: Sample | None) -> JudgeTable:
    return measure_judges(_opened, None, sample)


def _injections(opened: Study, judge: str) -> str:
    """What is known of injections against a language model; "" for other judges."""
    if judge not in llm_judges(opened):
        return ""
    found = injection_report(opened, judge)
    if found is None or not found["tried"]:
        return f"Injections are not measured: blindspot judge injections {judge}"
    return (
        f"Instructions inside passages succeeded in {found['succeeded']:,} of {found['tried']:,} tries: "
        f"{found['rate']:.1%} ({found['low']:.1%} to {found['high']:.1%})."
    )


def _refusal(person: Person | None) -> Html:
    if person is None:
        return empty(
            "Sign in to see this page",
            join("This page shows other people's labels. Sign in on ", link("Judge", JUDGE), " first."),
        )
    return empty(
        "For adjudicators and leads only",
        "This page shows other people's labels, and anyone who has seen them can no longer judge independently.",
    )


def _nothing(opened: Study) -> Html:
    return empty(
        "No labels yet",
        "This page shows disagreements, agreement, the pace of annotators, and the share of unlabelled passages that "
        "answer their question.",
        join("To start, a lead creates a batch on ", link("Team", url.TEAM), ".")
        if opened.runs()
        else next_step(opened),
    )


def _head(quality: Quality) -> Html:
    labels, people = sum(each.labels for each in quality.work), len(quality.work)
    counts = tag(
        "span",
        tag("b", counted(labels, "label")),
        f" by {counted(people, 'person', 'people')}, ",
        tag("b", counted(sum(len(dispute.passages) for dispute in quality.disputes), "passage")),
        " to settle",
        cls="counts",
    )
    return div(tag("h1", "Label quality"), counts, cls="quality-head")


def _mark(opened: Study) -> tuple:
    """Return a cache key that changes with every label and with every change of a batch."""
    batches = tuple(
        (batch.name, batch.state, batch.done, batch.questions) for batch in Queue(opened.labels_path).batches()
    )
    return str(opened.folder), opened.labels_path.stat().st_ino, Labels(opened.labels_path).last_event, batches


@st.cache_resource(max_entries=4, show_spinner="Counting labels …")
def _quality(_opened: Study, mark: tuple) -> Quality:
    return quality(_opened)


@st.cache_resource(max_entries=8, show_spinner=False)
def _audit(_opened: Study, mark: tuple, batch: str | None) -> Audit:
    return audit(_opened, batch)


@st.cache_resource(max_entries=4, show_spinner=False)
def _progress(_opened: Study, mark: tuple) -> list[BatchProgress]:
    return batch_progress(_opened)
