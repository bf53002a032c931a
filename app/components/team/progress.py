"""The panel of progress: each person's questions and labels, and agreement in words."""

from __future__ import annotations

import streamlit as st

from blindspot.app import url
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, div, link, row, show, span, table_head, tag, term, wide_cell, wide_head
from blindspot.backend.core.study import Study
from blindspot.backend.judging.agreement_words import AgreementWords, agreement_in_words
from blindspot.backend.judging.quality import quality
from blindspot.backend.judging.team_progress import PersonProgress, team_progress
from blindspot.db.people import SIMULATED


def progress_panel(open_study: Study) -> None:
    """Show the progress of everybody who has labelled questions or can get some."""
    people = _known_progress(open_study)[0]
    if not people:
        return
    table = tag(
        "table",
        table_head(
            "annotator",
            wide_head("questions"),
            "to do",
            term("labels", "Labels in force: a passage that somebody judged twice counts once"),
        ),
        tag("tbody", *(_person_row(person) for person in sorted(people, key=_is_simulated))),
        cls="figures team-progress",
    )
    show(
        div(
            div(tag("h2", "Progress"), link("Label quality", url.QUALITY, cls="quiet"), cls="list-head"),
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
        head=person.name,
        cls="simulated" if _is_simulated(person) else None,
    )
