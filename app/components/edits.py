"""The part of "Why did a run miss this?" that edits the gold passage or the question, and searches again."""

from __future__ import annotations

from collections.abc import Sequence

from blindspot.app import url
from blindspot.app.components.marks import notice
from blindspot.app.markup import Html, div, join, link, span, tag, term
from blindspot.backend.core.study import Study
from blindspot.backend.interventions.edits import DOUBT, edit_in_words
from blindspot.backend.interventions.explaining import SHARE_BEATEN, ExplainedMiss, TriedEdit
from blindspot.backend.interventions.live import explain_question, explainable_runs
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BlindspotError
from blindspot.db.records import Question

PLACEBO = (
    "The same edit, made on random passages without the answer. An edit names a cause only if it brings the gold passage "
    f"closer to the question than at least {SHARE_BEATEN:.0%} of them"
)


def edits_part(study: Study, question: Question, runs: Sequence[str], k: int, rule: str) -> Html:
    """Show the table of edits if the address has `edits=1`, otherwise a link to it, because encoding takes a moment."""
    import streamlit as st

    encoders = explainable_runs(study, runs) if question.gold else {}
    if not encoders:
        return Html("")
    parameters = st.query_params.to_dict()
    if url.value("edits") != "1":
        address = url.href(url.QUESTION, {**parameters, "question": question.id, "why": 1, "edits": 1})
        words = "Try edits of the gold passage and the question"
        return tag("p", link(words, address, cls="button", data_focus="edits"), cls="try-edits")
    return join(*(_tried_edits(study, run, encoder, question, k, rule) for run, encoder in encoders.items()))


def _tried_edits(study: Study, run: str, encoder: str, question: Question, k: int, rule: str) -> Html:
    import streamlit as st

    try:
        with st.spinner(f"Editing, encoding and searching with {encoder} (the first time also loads the index) …"):
            explained = explain_question(study, encoder, question, rule)
    except BlindspotError as error:
        return notice(f"{run}: {error}", kind="error")
    return div(
        tag("h3", f"What would bring the gold passage into the top {k} of {run}?"),
        tag("p", _sentence(explained, k), cls="conclusion"),
        _table(explained, k),
        cls="edits",
    )


def _sentence(explained_miss: ExplainedMiss, k: int) -> str:
    gold = f"The gold passage “{explained_miss.gold.title or 'untitled'}” is at rank {explained_miss.rank:,}"
    if explained_miss.rank <= k:
        return f"{gold}, which is in the top {k} already."
    if not explained_miss.mending(k):
        return f"{gold}. None of the edits brings a gold passage into the top {k}."
    named = explained_miss.named(k)
    if not named:
        return (
            f"{gold}. Edits bring it into the top {k}, but the same edits bring many passages without the answer as close: "
            "no cause that a placebo would not share."
        )
    causes = "; ".join(f"{each.cause.replace('_', ' ')} ({quantity(each.size, 'token')})" for each in named)
    return f"{gold}. {'Cause' if len(named) == 1 else 'Causes, smallest edit first'}: {causes}."


def _table(explained_miss: ExplainedMiss, k: int) -> Html:
    if not explained_miss.tried:
        return tag("p", "No edit applies to this question and passage.", cls="soft")
    heads = ("edit", "tokens changed", "rank after", term(f"placebos in the top {k}", PLACEBO), "edited text")
    head = tag(
        "tr", *(tag("th", words, scope="col", cls="left" if i in (0, 4) else None) for i, words in enumerate(heads))
    )
    lines = [
        tag(
            "tr",
            tag("th", edit_in_words(each.name), scope="row"),
            tag("td", f"{each.size:,}"),
            tag("td", tag("b", f"{each.rank:,}") if each.rank <= k else f"{each.rank:,}")
            if each.rank
            else tag("td", "–"),
            tag("td", f"{each.lifted(k)} of {len(each.placebos)}") if each.rank else tag("td", "–"),
            tag("td", _edited_text(explained_miss, each), cls="left"),
        )
        for each in (*explained_miss.tried, *explained_miss.pairs)
    ]
    return div(tag("table", tag("thead", head), tag("tbody", *lines), cls="figures groups"), cls="scrolling")


def _edited_text(explained_miss: ExplainedMiss, edit: TriedEdit) -> Html:
    """What the edit changed: the texts, escaped, or the number of passages that no longer compete."""
    if edit.name == DOUBT:
        close = len(edit.placebos) - edit.placebos_beaten
        return span(f"“{edit.text}”: {close} of {len(edit.placebos)} other sentences are as close to the question")
    parts: list[Html] = []
    if edit.question != explained_miss.question.text:
        parts.append(span(edit.question))
    if (edit.title, edit.text) != (explained_miss.gold.title, explained_miss.gold.text):
        parts.append(tag("details", tag("summary", edit.title or "untitled"), tag("p", edit.text)))
    if edit.counted is not None:
        parts.append(span(f"“{edit.counted or 'untitled'}” counts as gold"))
    if edit.removed:
        parts.append(span(f"{edit.removed:,} of the passages above left out"))
    return join(*parts)
