"""Accuracy of two runs by the annotators' labels: the judged share, and original and corrected Success@k."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from blindspot.analysis.judged import JudgedFigures
from blindspot.app import hidden_questions, url
from blindspot.app.audit_words import success_lines
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import letter, methods_note, percent, percentage
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, join, link, row, span, table, table_head, tag, term
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.judges.powered_success import run_successes
from blindspot.backend.judges.scores import score_digests
from blindspot.backend.judging.corrected import corrected_run

_JUDGED = "Judged@k: the share of the first k passages that are gold or have a settled label"
_CORRECTED = (
    "Success@k with labels: positives are relevant, related and negative passages are not; disputed labels are ignored"
)
_BOUNDS = "Lower bound: no unjudged passage is relevant. Upper bound: every unjudged passage is relevant"

_SAMPLED = "Success@k if people judged every hit, estimated from the questions whose passages random audits showed completely, and from a judge's scores of all questions. A biased judge widens the interval and does not move the figure"


def judged_table(study: Study, names: tuple[str, str], k: int, relevance: Kind, rule: str) -> Html:
    """The panel for runs A and B.

    The figures use everybody's labels, including those of hidden questions. The panel is therefore empty while the
    person still has to judge questions of these runs, and while the study has no labels.
    """
    if any(hidden_questions.any_hidden(study, study.run(name).question_ids) for name in names):
        return Html("")
    last = judging_stores(study).labels.last_event
    if not last:
        return Html("")
    rows, sampled, counts = [], [], False
    scored = score_digests(study)
    for side, name in zip("ab", dict.fromkeys(names), strict=False):
        key = (name, study.run(name).manifest.get("made"), k, relevance, rule)
        figures = _judged_figures(study, *key, last)
        if figures is not None:
            rows.append(_row(side, name, figures))
            counts |= figures.corrected.value != figures.original.value
            sampled += _sampled_sentences(study, *key, last, scored)
    head = table_head(
        "run",
        term(f"Judged@{k}", _JUDGED),
        f"S@{k} original",
        term(f"S@{k} corrected", _CORRECTED),
        term("bounds", _BOUNDS),
    )
    few = " If few passages are judged, the corrected figures depend on which passages were judged: use the bounds."
    lines = [tag("p", term("Random sample", _SAMPLED), ": ", line, cls="convention powered") for line in sampled]
    same = "" if counts else span(": no label changes a figure", cls="soft")
    return tag(
        "details",
        tag("summary", "Accuracy with people's labels", same),
        scrolling(table(head, rows, "figures small")),
        *lines,
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


@st.cache_data(max_entries=64, show_spinner=False)
def _sampled_sentences(
    _study: Study,
    name: str,
    made_at: str | None,
    k: int,
    relevance: Kind,
    rule: str,
    last_event: int,
    scored_judges: tuple[tuple[str, str], ...],
) -> list[str]:
    """Success@k estimated from a random sample of questions, in words. `last_event` and `scored_judges` serve as cache
    keys.
    """
    measured = corrected_run(_study, _study.run(name), relevance, rule)
    found = (replace(each, todo="") for each in run_successes(_study, name, measured, [k]))  # the page has a button
    return [line for each in found for line in success_lines(_study, each)]


def _row(run_side: str, name: str, judged_figures: JudgedFigures) -> Html:
    return row(
        percentage(judged_figures.judged, inline=True),
        percentage(judged_figures.original, inline=True),
        percentage(judged_figures.corrected, inline=True),
        join(percent(judged_figures.lower_bound.value), " to ", percent(judged_figures.upper_bound.value)),
        head=join(letter(run_side), " ", name),
    )
