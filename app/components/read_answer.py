"""A reader's answer on the Question page: the answer is framed in its passage, and a line shows its scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from blindspot.app import url
from blindspot.app.components.marks import letter
from blindspot.app.components.readings import cached_reading, chosen_reader
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.markup import Html, div, join, link, span, tag, term
from blindspot.backend.core.study import Study
from blindspot.backend.reader.answer_scores import score_prediction
from blindspot.db.records import Passage, Question

SELECTED = (
    "Probability that the reader selects this passage among the first {k} (softmax; the logit is {relevance:.2f})"
)
SPAN = (
    "Probability of this span in the passage: P(start) × P(end), softmax over the passage (sum of logits {score:.2f})"
)


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """The reader's answer from the first k passages.

    Attributes:
        span: start and end in characters of the passage's text.
        selected, probability: probabilities of the passage and of the span; see `Reading`.
    """

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
    """Return the reader's answer from the first k passages, or from fewer if it read fewer; None if it read none."""
    opened_reading = cached_reading(study, run, reader) if reader else None
    if opened_reading is None or (row := opened_reading.run.row(question.id)) is None:
        return None
    k = min(k, opened_reading.depth)
    at = int(opened_reading.selected(k)[row])
    if at < 0:
        return None
    low, high = opened_reading.spans[row, at].tolist()
    return ReadAnswer(
        reader,
        k,
        at + 1,
        int(opened_reading.run.hits.ordinals[row, at]),
        (low, high),
        float(opened_reading.relevance[row, at]),
        opened_reading.selection_probability(row, at, k),
        float(opened_reading.scores[row, at]),
        float(opened_reading.probabilities[row, at]),
    )


def read_badge(answer: ReadAnswer) -> Html:
    return span(
        "⟦⟧ read",
        cls="badge read",
        title=f"The reader {answer.reader} extracts its answer from this passage (of the first {answer.k})",
    )


def frame_answer(content: Html) -> Html:
    """Mark the reader's answer in its passage with a frame."""
    return tag("mark", content, cls="read", title="the reader's answer")


def read_lines(study: Study, question: Question, lists: Sequence, passages: dict[int, Passage]) -> Html:
    """One line for each list with a reader's answer; empty if neither list has one.

    Args:
        lists: the columns with their answers of readers.
        passages: ordinal to passage, including the passages of the answers.
    """
    lines = [
        _answer_line(column.run_side, column.reader_answer, question, passages[column.reader_answer.ordinal])
        for column in lists
        if column.reader_answer is not None
    ]
    if not lines:
        return Html("")
    _, known = chosen_reader(study, tuple(column.name for column in lists))
    parameters = {key: st.query_params[key] for key in st.query_params}
    others = [
        link(
            reader, url.href(url.QUESTION, {**parameters, "reader": reader}), cls="quiet", data_focus=f"reader-{reader}"
        )
        for reader in known
        if reader != lists_reader(lists)
    ]
    more = [div("Other readers: ", *(join(other, " ") for other in others), cls="soft")] if others else []
    return join(style_sheet("readings.css"), div(*lines, *more, cls="read-lines", role="note"))


def lists_reader(lists: Sequence) -> str:
    """Return the reader whose answers are shown."""
    return next((column.reader_answer.reader for column in lists if column.reader_answer is not None), "")


def _answer_line(run_side: str, read_answer: ReadAnswer, question: Question, passage: Passage) -> Html:
    answer = passage.text[slice(*read_answer.span)]
    verdict: object = ""
    if question.answers:
        right, shared = score_prediction(answer, question.answers, question.answer_rule == "regex")
        verdict = (
            span("✓ exact match", cls="right") if right else span(f"✗ no exact match, F1 {shared:.2f}", cls="wrong")
        )
    scores = span(
        f"from rank {read_answer.rank}, ",
        term(
            f"selected {100 * read_answer.selected:.0f}%",
            SELECTED.format(k=read_answer.k, relevance=read_answer.relevance),
        ),
        ", ",
        term(f"span {100 * read_answer.probability:.0f}%", SPAN.format(score=read_answer.score)),
        cls="scores",
    )
    return div(
        letter(run_side),
        f" {read_answer.reader} reads in the first {read_answer.k}: ",
        frame_answer(join(answer)),
        " ",
        verdict,
        scores,
    )
