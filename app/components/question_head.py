"""The facts about a question (answers, relation, subject, frequency), and the ranks of its gold passages in both lists."""

from __future__ import annotations

from collections.abc import Sequence

from blindspot.app.components.hit_lists import HitList, highlighted_text
from blindspot.app.components.marks import doubtful_badge, gold_badge, letter, relation_label
from blindspot.app.markup import Html, div, join, span, tag, term
from blindspot.app.study import set_label
from blindspot.backend.text.answers import answer_spans, mentions_subject, query_spans, rule_for
from blindspot.backend.text.number_words import quantity
from blindspot.db.records import Passage, Question

SHOWN_ANSWERS, SHOWN_GOLD = 8, 3


def question_head(question: Question, *finding: Html) -> Html:
    """The question as a heading, and what is found about it."""
    return div(tag("h1", question.text), *finding, cls="question-head")


def question_facts(question: Question, frequency_source: str | None, with_answers: bool = True) -> Html:
    """The facts about a question in one line.

    Args:
        with_answers: whether a question of the study has a known answer.
    """
    facts = [_answers(question)] if with_answers else []
    if question.relation:
        facts.append(_fact("relation", relation_label(question.relation)))
    if question.subject:
        facts.append(_fact("subject", question.subject))
    if question.frequency is not None:
        facts.append(
            _fact(
                term("frequency", f"How often the subject is mentioned (source: {frequency_source or 'unknown'})"),
                f"{question.frequency:,}",
            )
        )
    if question.bucket is not None:
        facts.append(
            _fact(
                term("frequency group", "Official frequency bucket of the set: 0 most frequent, 7 rarest"),
                f"{question.bucket}",
            )
        )
    return div(tag("dl", *facts), cls="question-head")


def set_and_id(question: Question) -> Html:
    return tag("p", f"{set_label(question.dataset, question.split)} · {question.id}", cls="soft")


def _fact(name: object, value: object) -> Html:
    return div(tag("dt", name), tag("dd", value))


def _answers(question: Question) -> Html:
    name = "answer" if len(question.answers) == 1 else "answers"
    if not question.answers:
        return _fact("answers", span("none known", cls="soft"))
    hidden = question.answers[SHOWN_ANSWERS:]
    shown = [tag("mark", answer, cls="answer") for answer in question.answers[:SHOWN_ANSWERS]]
    more = [span(f"and {len(hidden)} more", title=" · ".join(hidden), cls="soft", tabindex="0")] if hidden else []
    pattern = [span("patterns", cls="soft")] if question.answer_rule == "regex" else []
    return _fact(name, join(*(join(part, " ") for part in (*shown, *more, *pattern))))


def gold_table(question: Question, gold: Sequence[tuple[int, Passage]], lists: Sequence[HitList], rule: str) -> Html:
    """Every gold passage with its rank in each list; a click on the title opens the text."""
    if not question.gold:
        return div("This question has no gold passage.", cls="gold-line soft")
    missing = len(question.gold) - len(gold)
    rows = [
        _gold_row(question, ordinal, passage, lists, rule)
        for ordinal, passage in sorted(gold, key=lambda pair: _best_rank(pair[0], lists))
    ]
    parts = rows[:SHOWN_GOLD]
    if rows[SHOWN_GOLD:]:
        parts.append(
            tag(
                "details",
                tag("summary", quantity(len(rows) - SHOWN_GOLD, "more gold passage")),
                *rows[SHOWN_GOLD:],
                cls="more",
            )
        )
    if missing:
        parts.append(div(f"{quantity(missing, 'more gold passage')} not in this collection", cls="soft"))
    return div(*parts, cls="gold-table")


def _best_rank(ordinal: int, lists: Sequence[HitList]) -> int:
    return min((rank for column in lists if (rank := column.rank_of(ordinal)) is not None), default=1 << 30)


def _gold_row(question: Question, ordinal: int, passage: Passage, lists: Sequence[HitList], rule: str) -> Html:
    ranks = []
    for column in lists:
        rank = column.rank_of(ordinal)
        words = f"not in the top {column.depth}" if rank is None else f"rank {rank}"
        ranks.append(span(letter(column.run_side), " ", words, cls="where" + (" none" if rank is None else "")))
    answers = answer_spans(passage.text, question.answers, rule_for(question, rule)) if question.answers else []
    body = tag(
        "p", highlighted_text(passage.text, 0, len(passage.text), answers, query_spans(passage.text, question.text))
    )
    doubtful = "" if mentions_subject(passage, question) else doubtful_badge()
    return tag(
        "details", tag("summary", gold_badge(), doubtful, span(passage.title or "untitled", cls="title"), *ranks), body
    )
