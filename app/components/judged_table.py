"""Accuracy of two runs by the annotators' labels: the judged share, and original and corrected Success@k."""

from __future__ import annotations

import streamlit as st

from blindspot.analysis.judged import JudgedFigures
from blindspot.app import url
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import letter, methods_note, percent, percentage
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, join, link, row, span, table, table_head, tag, term
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.judging.corrected import corrected_run

_JUDGED = "Judged@k: the share of the first k passages that are gold or have a settled label"
_CORRECTED = (
    "Success@k with labels: positives are relevant, related and negative passages are not; disputed labels are ignored"
)
_BOUNDS = "Lower bound: no unjudged passage is relevant. Upper bound: every unjudged passage is relevant"


def judged_table(study: Study, names: tuple[str, str], k: int, relevance: Kind, rule: str) -> Html:
    """The panel for runs A and B; empty while the study has no labels."""
    last = judging_stores(study).labels.last_event
    if not last:
        return Html("")
    rows, counts = [], False
    for side, name in zip("ab", dict.fromkeys(names), strict=False):
        key = (name, study.run(name).manifest.get("made"), k, relevance, rule)
        figures = _judged_figures(study, *key, last)
        if figures is not None:
            rows.append(_row(side, name, figures))
            counts |= figures.corrected.value != figures.original.value
    head = table_head(
        "run",
        term(f"Judged@{k}", _JUDGED),
        f"S@{k} original",
        term(f"S@{k} corrected", _CORRECTED),
        term("bounds", _BOUNDS),
    )
    few = " If few passages are judged, the corrected figures depend on which passages were judged: use the bounds."
    same = "" if counts else span(": no label changes a figure", cls="soft")
    return tag(
        "details",
        tag("summary", "Accuracy with people's labels", same),
        scrolling(table(head, rows, "figures small")),
        methods_note("The labels come from ", link("Judge", url.JUDGE), f".{few}"),
        cls="panel fold",
        open=counts,
    )


@st.cache_data(max_entries=64, show_spinner=False)
def _judged_figures(
    _study: Study, name: str, made_at: str | None, k: int, relevance: Kind, rule: str, last_event: int
) -> JudgedFigures | None:
    found = corrected_run(_study, _study.run(name), relevance, rule).figures_at([k])
    return found[0] if found else None


def _row(run_side: str, name: str, judged_figures: JudgedFigures) -> Html:
    return row(
        percentage(judged_figures.judged, inline=True),
        percentage(judged_figures.original, inline=True),
        percentage(judged_figures.corrected, inline=True),
        join(percent(judged_figures.lower_bound.value), " to ", percent(judged_figures.upper_bound.value)),
        head=join(letter(run_side), " ", name),
    )
