"""What labels change about two runs: how much of their lists was judged, and accuracy on original and corrected relevance."""

from __future__ import annotations

import streamlit as st

from analysis.judged import JudgedFigures
from app import blind, url
from app.components.marks import figure, letter, percent
from app.desk import desk
from app.markup import Html, div, link, tag, term
from backend.core.study import Study
from backend.judging.corrected import corrected_run

_JUDGED = "Judged@k: the share of the first k passages that are gold or have a settled label"
_CORRECTED = "Success@k with labels: what was judged positive counts, what was judged related or negative does not; disputes change nothing"
_BOUNDS = "From: nothing that nobody judged is relevant. To: all of it is. The truth lies between"


def judged_table(study: Study, names: tuple[str, str], k: int, relevance: str, rule: str) -> Html:
    """A panel for runs A and B; nothing as long as nobody has judged anything, or the reader has still to judge questions of theirs.

    The figures follow from everybody's labels, those of hidden questions too.
    """
    if any(blind.any_hidden(study, study.run(name).question_ids) for name in names):
        return Html("")
    last = desk(study).labels.last_event
    if not last:
        return Html("")
    rows = []
    for side, name in zip("ab", dict.fromkeys(names), strict=False):
        found = _figures(study, name, study.run(name).manifest.get("made"), k, relevance, rule, last)
        if found is not None:
            rows.append(_row(side, name, found))
    head = tag("tr", tag("th", "run", scope="col", cls="left"), tag("th", term(f"Judged@{k}", _JUDGED), scope="col"),
               tag("th", f"S@{k} as before", scope="col"), tag("th", term(f"S@{k} corrected", _CORRECTED), scope="col"),
               tag("th", term("bounds", _BOUNDS), scope="col"))  # fmt: skip
    table = tag("table", tag("thead", head), tag("tbody", *rows), cls="figures small")
    few = ". Where little is judged, corrected figures say more about what was judged than about the runs: look at the bounds."
    note = tag("p", "The labels come from ", link("Judge", url.JUDGE), few, cls="convention")
    return div(tag("h2", "With the labels of people"), table, note, cls="panel")


@st.cache_data(max_entries=64, show_spinner=False)
def _figures(_study: Study, name: str, made: str, k: int, relevance: str, rule: str, last: int) -> JudgedFigures | None:
    found = corrected_run(_study, _study.run(name), relevance, rule).figures([k])
    return found[0] if found else None


def _row(side: str, name: str, found: JudgedFigures) -> Html:
    return tag(
        "tr",
        tag("th", letter(side), " ", name, scope="row"),
        tag("td", figure(found.judged, inline=True)),
        tag("td", figure(found.original, inline=True)),
        tag("td", figure(found.corrected, inline=True)),
        tag("td", percent(found.lower_bound.value), " to ", percent(found.upper_bound.value)),
    )
