"""What a reader answered, on the page Question: a frame around it in its passage, and a line with its scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from app import url
from app.components.marks import letter
from app.components.readings import chosen_reader, reading, readings_style
from app.markup import Html, div, join, link, span, tag, term
from backend.core.study import Study
from backend.reader.answer_scores import scored
from db.records import Passage, Question

SELECTED = "How much the reader prefers this passage: its share among the first {k}, after softmax (its logit is {relevance:.2f})"
SPAN = "How sure it is of this span in it: P(start) x P(end), after softmax over the passage (the logits' sum is {score:.2f})"


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """The answer at k. span: in characters of the passage's text; selected, probability: from 0 to 1, see `Reading`."""

    reader: str
    k: int
    rank: int
    ordinal: int
    span: tuple[int, int]
    relevance: float
    selected: float
    score: float
    probability: float


def read_answer(study: Study, run: str, question: Question, reader: str, k: int) -> ReadAnswer | None:
    """What was answered from the first k passages, or from all that were read where they are fewer; None where nothing was."""
    found = reading(study, run, reader) if reader else None
    row = None if found is None else found.run.row(question.id)
    if row is None:
        return None
    k = min(k, found.depth)
    at = int(found.selected(k)[row])
    if at < 0:
        return None
    low, high = found.spans[row, at].tolist()
    return ReadAnswer(
        reader, k, at + 1, int(found.run.hits.ordinals[row, at]), (low, high), float(found.relevance[row, at]),
        found.selection_probability(row, at, k), float(found.scores[row, at]), float(found.probabilities[row, at]),
    )  # fmt: skip


def read_badge(read: ReadAnswer) -> Html:
    return span(
        "⟦⟧ read",
        cls="badge read",
        title=f"The reader {read.reader} takes its answer from this passage, of the first {read.k}",
    )


def framed(inside: Html) -> Html:
    """The answer that was read, in its passage."""
    return tag("mark", inside, cls="read", title="the answer that the reader took")


def read_lines(study: Study, question: Question, lists: Sequence, passages: dict[int, Passage]) -> Html:
    """A line for each list that was read; nothing where none was.

    Args:
        lists: the columns; each knows what was `read`.
        passages: by ordinal, those of the answers among them.
    """
    lines = [
        _line(column.side, column.read, question, passages[column.read.ordinal])
        for column in lists
        if column.read is not None
    ]
    if not lines:
        return Html("")
    _, known = chosen_reader(study, tuple(column.name for column in lists))
    here = {key: st.query_params[key] for key in st.query_params}
    others = [link(reader, url.href(url.QUESTION, {**here, "reader": reader}), cls="quiet", data_focus=f"reader-{reader}")
              for reader in known if reader != lists_reader(lists)]  # fmt: skip
    more = [div("Other readers: ", *(join(each, " ") for each in others), cls="soft")] if others else []
    return join(readings_style(), div(*lines, *more, cls="read-lines", role="note"))


def lists_reader(lists: Sequence) -> str:
    """The reader whose answers are shown."""
    return next((column.read.reader for column in lists if column.read is not None), "")


def _line(side: str, read: ReadAnswer, question: Question, passage: Passage) -> Html:
    answer = passage.text[slice(*read.span)]
    verdict: object = ""
    if question.answers:
        right, shared = scored(answer, question.answers, question.answer_rule == "regex")
        verdict = (
            span("✓ exact match", cls="right") if right else span(f"✗ no exact match, F1 {shared:.2f}", cls="wrong")
        )
    scores = span(
        f"from rank {read.rank}, ",
        term(f"selected {100 * read.selected:.0f}%", SELECTED.format(k=read.k, relevance=read.relevance)), ", ",
        term(f"span {100 * read.probability:.0f}%", SPAN.format(score=read.score)),
        cls="scores",
    )  # fmt: skip
    return div(
        letter(side), f" {read.reader} reads in the first {read.k}: ", framed(join(answer)), " ", verdict, scores
    )
