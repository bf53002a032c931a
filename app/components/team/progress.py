"""The panel of progress: each person's questions and pace by day, agreement in words, and labels that were given very
fast.
"""

from __future__ import annotations

import streamlit as st

from blindspot.app import url
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import notice
from blindspot.app.components.quality.marks import share
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, div, join, link, row, show, span, table_head, tag, term, wide_cell, wide_head
from blindspot.backend.core.study import Study
from blindspot.backend.judging.agreement_words import AgreementWords, agreement_in_words
from blindspot.backend.judging.quality import quality
from blindspot.backend.judging.team_progress import (
    EXCERPT_WORDS,
    WORDS_PER_SECOND,
    DayOfWork,
    PersonProgress,
    team_progress,
)
from blindspot.backend.text.number_words import quantity
from blindspot.db.people import SIMULATED

DAYS_SHOWN = 14
FAST = (
    f"Labels given in less time than the sentence with the answer takes to read (up to {EXCERPT_WORDS} words a "
    f"passage, at {WORDS_PER_SECOND} words a second)"
)


def progress_panel(open_study: Study) -> None:
    """Show the progress of everybody who has labelled questions or can get some."""
    people = _known_progress(open_study)[0]
    if not people:
        return
    flagged = [person for person in people if person.is_too_fast]
    table = tag(
        "table",
        table_head(
            "annotator",
            wide_head("questions"),
            "to do",
            term("labels", "Labels in force: a passage that somebody judged twice counts once"),
            wide_head(term("per hour", "Labels per hour of labelling: all days, then the last day")),
            term("too fast", FAST),
            tag("th", f"given by day, last {DAYS_SHOWN} days", scope="col", cls="left wide"),
        ),
        tag("tbody", *(_person_row(person) for person in sorted(people, key=_is_simulated))),
        cls="figures team-progress",
    )
    show(
        div(
            div(tag("h2", "Progress"), link("Label quality", url.QUALITY, cls="quiet"), cls="list-head"),
            *(_too_fast(person) for person in flagged),
            scrolling(table),
            cls="panel",
        )
    )


def agreement_words(open_study: Study) -> AgreementWords | None:
    """Return the agreement of all annotators in words; None if no passage was judged blind by two people."""
    return _known_progress(open_study)[1]


def passages_to_settle(open_study: Study) -> int:
    """Return the number of passages on which people disagree."""
    return _known_progress(open_study)[2]


def _known_progress(open_study: Study) -> tuple[list[PersonProgress], AgreementWords | None, int]:
    stores = judging_stores(open_study)
    batches = tuple((batch.name, batch.state, batch.done) for batch in stores.queue.batches())
    return _progress(open_study, str(open_study.folder), stores.labels.last_event, batches)


@st.cache_resource(max_entries=4, show_spinner=False)
def _progress(_study: Study, *cache_version: object) -> tuple[list[PersonProgress], AgreementWords | None, int]:
    found = quality(_study)
    return team_progress(_study), agreement_in_words(found), sum(len(each.passages) for each in found.disputes)


def _is_simulated(person: PersonProgress) -> bool:
    return person.name.endswith(SIMULATED)


def _person_row(person: PersonProgress) -> Html:
    finished = ", ".join(f"{name}: {count:,}" for name, count in person.finished.items())
    return row(
        wide_cell(span(f"{sum(person.finished.values()):,}", title=finished or None)),
        f"{sum(person.remaining.values()):,}",
        f"{person.labels:,}",
        wide_cell(_labels_per_day(person.days)),
        span(share(person.fast / person.timed) if person.timed else "–", cls="bad" if person.is_too_fast else None),
        tag("td", _label_bars(person.days), cls="left wide"),
        head=person.name,
        cls="simulated" if _is_simulated(person) else None,
    )


def _labels_per_day(days: tuple[DayOfWork, ...]) -> str:
    timed = [day for day in days if day.per_hour]
    if not timed:
        return "–"
    hours = sum(day.labels / day.per_hour for day in timed if day.per_hour)
    overall, last = sum(day.labels for day in timed) / hours, timed[-1].per_hour or 0.0
    return f"{overall:,.0f}" if len(timed) == 1 else f"{overall:,.0f}, last {last:,.0f}"


def _label_bars(days: tuple[DayOfWork, ...]) -> Html:
    shown = days[-DAYS_SHOWN:]
    if not shown:
        return span("no labels yet", cls="soft")
    highest = max(day.labels for day in shown)
    bars = (span(style=f"height:{max(8.0, 100 * day.labels / highest):.0f}%", title=_day_text(day)) for day in shown)
    latest = shown[-1]
    return join(
        span(*bars, cls="day-bars", role="img", aria_label=f"labels by day: {', '.join(map(_day_text, shown))}"),
        span(f"{latest.labels:,} on {latest.date[5:]}", cls="soft after"),
    )


def _day_text(day: DayOfWork) -> str:
    pace = f", {day.per_hour:,.0f} per hour" if day.per_hour else ""
    return f"{day.date}: {quantity(day.labels, 'label')}{pace}"


def _too_fast(person: PersonProgress) -> Html:
    return notice(
        f"{person.name}: {person.fast:,} of {quantity(person.timed, 'label')} came faster than one can read. "
        "Check some of these labels before you rely on the rest.",
        kind="warning",
    )
