"""The Quality page as one person sees it, from the address and the label store."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from blindspot.app import url, who
from blindspot.app.components.empty_page import show_empty_page
from blindspot.app.components.marks import empty, percent
from blindspot.app.components.quality.agreement import agreement_panel, people_panel
from blindspot.app.components.quality.audit import BYS, audit_panel
from blindspot.app.components.quality.batches import batches_panel
from blindspot.app.components.quality.disputes import disputes_panel, settle_button
from blindspot.app.components.quality.judges import judges_panel
from blindspot.app.components.sign_in import sign_in
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.team.batches import new_batch_button, offer_random_questions
from blindspot.app.judging_stores import label_count_words, labels_and_givers
from blindspot.app.markup import Html, div, show, tag
from blindspot.backend.core.result_table import stated_interval
from blindspot.backend.core.study import Study
from blindspot.backend.judges.measuring import BYS as BYS_OF_TRUST
from blindspot.backend.judges.measuring import SAMPLES, JudgeTable, Sample, measure_judges
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.audits import Audit, BatchProgress, audit, batch_progress
from blindspot.backend.judging.quality import Quality, quality
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BlindspotError
from blindspot.db.labels import Labels
from blindspot.db.people import Person
from blindspot.db.queue import Queue

HERE = "quality"
MOST_AUDITED = 500  # questions of an offered audit


def render(open_study: Study, person: Person | None) -> None:
    """Show the parts of the page that the person has the right to see."""
    if not Labels(open_study.labels_path).last_event and not Queue(open_study.labels_path).batches():
        _show_empty_page(open_study)
        return
    if person is None:
        sign_in(open_study.labels_path, "This page shows other people's labels.")
        return
    show(style_sheet("quality/quality.css"))
    mark = _labels_version(open_study)
    found, batches = _quality(open_study, mark), _progress(open_study, mark)
    if not found.events and not batches:
        _show_empty_page(open_study)
        return
    everything = _audit(open_study, mark, None)
    chosen = url.one_of("batch", everything.batches, "") or None
    audited = _audit(open_study, mark, chosen) if chosen else everything
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

    def page_address(**changes: object) -> str:
        return url.href(HERE, now | changes)

    disputes = disputes_panel(found.disputes, found.bad, names, page, page_address)
    drawn_from = _drawn_from(open_study, audited)
    show(*_page_head(open_study, found, audited, drawn_from), settle_button(found.disputes))
    with st.container(key="audit"):
        show(audit_panel(audited, everything.batches, chosen, by, page_address, drawn_from[1]))
        _offer_audit(open_study, audited, *drawn_from)
    show(div(agreement_panel(found), people_panel(found), cls="side-by-side people-beside"), disputes)
    show(judges_panel(_judges(open_study, mark, sample), judge, trust, page_address))
    show(batches_panel(batches))


def _judges(open_study: Study, cache_version: tuple, sample: str) -> JudgeTable | str:
    """The measured judges, or one sentence that says why there are none."""
    try:
        return _measured_judges(
            open_study,
            cache_version,
            _scores_version(open_study),
            next((each for each in SAMPLES if each == sample), None),
        )
    except BlindspotError as error:
        return f"{str(error)[:1].upper()}{str(error)[1:]}."


def _scores_version(open_study: Study) -> tuple:
    """Return a cache key that changes with every score of a judge."""
    return tuple((name, ScoreStore.open(open_study, name).digest) for name in open_study.parts("scores"))


@st.cache_resource(max_entries=4, show_spinner="Measuring the judges …")
def _measured_judges(_study: Study, cache_version: tuple, scores_version: tuple, sample: Sample | None) -> JudgeTable:
    return measure_judges(_study, None, sample)


def _show_empty_page(open_study: Study) -> None:
    about = (
        "This page shows disagreements, agreement, the pace of annotators, and the share of unlabelled passages that "
        "answer their question."
    )
    if open_study.runs():
        show(
            empty("No labels yet", about, "To start, a lead creates a batch of questions."),
            new_batch_button(open_study),
        )
    else:
        show_empty_page(open_study, "No labels yet", about)


def _page_head(
    open_study: Study, found: Quality, audited: Audit, drawn_from: tuple[tuple[str, ...], int | None]
) -> list[Html]:
    """Say how many unlabelled passages answer, where that is measured; then of what that is measured, how many labels
    there are, how well annotators agree, and what is to do.
    """
    rate = audited.overall.positive if audited.overall else None
    agreement = found.together.four if found.together else None
    alpha, over = "", ""
    if agreement and agreement.value is not None and agreement.low is not None and agreement.high is not None:
        alpha = f"alpha {agreement.value:.2f} {stated_interval(agreement.low, agreement.high, places=2)}"
        over = quantity(agreement.passages, "passage")
    number, givers = labels_and_givers(open_study)
    labels = f"All labels: {number:,} by {givers}"
    if rate is not None and rate.value is not None and rate.low is not None and rate.high is not None:
        title = f"{percent(rate.value)}% of the unlabelled passages{_frame_words(*drawn_from)} answer their question "
        title += stated_interval(100 * rate.low, 100 * rate.high)
        title += f", from {quantity(rate.questions, 'random question')} with {quantity(rate.passages, 'passage')}"
        labels += f", {alpha} on {over}" if alpha else ""
    elif alpha:
        title = f"Annotators agree with {alpha} over {over}"
    else:
        title, labels = label_count_words(open_study), ""
    to_settle = sum(len(dispute.passages) for dispute in found.disputes)
    rest = "; ".join(filter(None, [labels, f"{quantity(to_settle, 'passage')} to settle" if to_settle else ""]))
    return [tag("h1", f"{title}."), tag("p", f"{rest}.", cls="lead") if rest else Html("")]


def _offer_audit(open_study: Study, audited: Audit, runs: Sequence[str], depth: int | None) -> None:
    """Offer a batch of as many random questions as narrow the title's interval to 10 points, drawn like the audit."""
    more = audited.overall.positive.more if audited.overall else None
    if not more or not runs or not depth or not who.may(open_study.labels_path, "make batches"):
        return
    asked = len(set().union(*(open_study.run(name).question_ids for name in runs if name in open_study.parts("runs"))))
    left = asked - audited.overall.positive.questions if audited.overall else asked
    if left <= 0:
        return
    if left < more:
        show(
            tag(
                "p",
                f"Only {quantity(left, 'question')} of the runs are not audited: fewer than that.",
                cls="convention",
            )
        )
    offer_random_questions(open_study, "audit", runs, min(more, left, MOST_AUDITED), depth)


def _frame_words(runs: Sequence[str], depth: int | None) -> str:
    """Say of what the audit was drawn, as in " in the top 10 of bm25-train"; "" where its batches differ."""
    return f" in the top {depth:,} of {' or '.join(runs)}" if runs and depth else ""


def _drawn_from(open_study: Study, audited: Audit) -> tuple[tuple[str, ...], int | None]:
    """Return the runs and the depth from which the audit was drawn; (), None where its batches differ."""
    settings = [batch.settings for batch in Queue(open_study.labels_path).batches() if batch.name in audited.batches]
    drawn = {(tuple(each.get("runs") or ()), each.get("depth")) for each in settings}
    return drawn.pop() if len(drawn) == 1 else ((), None)


def _labels_version(open_study: Study) -> tuple:
    """Return a cache key that changes with every label and with every change of a batch."""
    batches = tuple(
        (batch.name, batch.state, batch.done, batch.questions) for batch in Queue(open_study.labels_path).batches()
    )
    return (
        str(open_study.folder),
        open_study.labels_path.stat().st_ino,
        Labels(open_study.labels_path).last_event,
        batches,
    )


@st.cache_resource(max_entries=4, show_spinner="Counting labels …")
def _quality(_study: Study, cache_version: tuple) -> Quality:
    return quality(_study)


@st.cache_resource(max_entries=8, show_spinner=False)
def _audit(_study: Study, cache_version: tuple, batch: str | None) -> Audit:
    return audit(_study, batch)


@st.cache_resource(max_entries=4, show_spinner=False)
def _progress(_study: Study, cache_version: tuple) -> list[BatchProgress]:
    return batch_progress(_study)
