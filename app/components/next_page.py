"""The link at the end of a page that leads on in the loop: compare, look, judge, clean, train, compare again."""

from __future__ import annotations

import streamlit as st

from blindspot.app import study, url
from blindspot.app.markup import Html, link, span
from blindspot.backend.core.made_from import is_check
from blindspot.backend.core.study import Study
from blindspot.backend.upkeep.next_command import runs_of_change, trained_retrievers

NEXT: dict[str, tuple[str, str, dict[str, str]]] = {
    "Compare": ("look at questions", url.QUESTION, {}),
    "Relations": ("look at questions", url.QUESTION, {}),
    "Slices": ("look at questions", url.QUESTION, {}),
    "Map": ("look at questions", url.QUESTION, {}),
    "Question": ("judge passages", url.JUDGE, {}),
    "Judge": ("clean a training set", url.TRAINING, {"tab": "sets"}),
    "Quality": ("clean a training set", url.TRAINING, {"tab": "sets"}),
    "Team": ("judge passages", url.JUDGE, {}),
}
"""Title of a page: what comes next, its page and parameters."""
KEPT = ("a", "b", "k", "cell", "relation", "slice")
"""Parameters that go along from page to page."""


def next_link(open_study: Study, page: str) -> Html:
    """Return the link of a page; empty for a page that is no part of the loop."""
    to: tuple[str, str, dict[str, str]] | None
    if is_check(open_study):
        to = {"Judge": ("see the rate and the rule", url.CHECK, {})}.get(page)
    else:
        to = _after_training(open_study) if page == "Training" else NEXT.get(page)
    if to is None:
        return Html("")
    label, target, parameters = to
    kept = {
        key: st.query_params[key] for key in KEPT if key in st.query_params and target in (url.COMPARE, url.QUESTION)
    }
    return link(
        span(f"Next: {label}"), url.href(target, {**kept, **parameters}), cls="next", data_key=">", title="Key: >"
    )


def _after_training(open_study: Study) -> tuple[str, str, dict[str, str]]:
    """From a set to the training, and from a trained model to what it changed."""
    if url.value("tab") != "models":
        return "train on it", url.TRAINING, {"tab": "models", "set": url.value("set")}
    pair = runs_of_change(open_study, study.runs(open_study), trained_retrievers(open_study))
    if pair is None:
        return "compare the runs", url.COMPARE, {}
    return f"see what changed from {pair[0]} to {pair[1]}", url.COMPARE, {"a": pair[0], "b": pair[1]}
