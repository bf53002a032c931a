"""Ranked lists side by side, with highlighted answers and question words, shared passages and gold passages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from blindspot.app.components.judge_opinions import JudgeMark
from blindspot.app.components.marks import answer_badge, gold_badge, letter
from blindspot.app.components.read_answer import ReadAnswer, frame_answer, read_badge
from blindspot.app.markup import Html, div, join, span, tag, text
from blindspot.backend.text.answers import answer_spans, has_answer, near_name_spans, query_spans, rule_for
from blindspot.backend.text.spans import Span, excerpt, split_at_spans
from blindspot.db.records import Hits, Passage, Question

FIRST_HITS = 3  # hits of each of several lists in a narrow window; style.css has the same number


@dataclass(frozen=True)
class HitList:
    """One column of a page of hit lists.

    Attributes:
        run_side: "a", "b", "c" or "d".
        ordinals, scores: arrays of shape (k,), without padding.
        note: description of the list.
        reader_answer: the answer that a reader extracted from the list, if any.
    """

    run_side: str
    name: str
    ordinals: np.ndarray
    scores: np.ndarray
    note: str = ""
    reader_answer: ReadAnswer | None = None

    @classmethod
    def from_hits(
        cls, run_side: str, name: str, hits: Hits, note: str = "", reader_answer: ReadAnswer | None = None
    ) -> HitList:
        present = hits.ordinals[0] >= 0
        return cls(run_side, name, hits.ordinals[0][present], hits.scores[0][present], note, reader_answer)

    @property
    def depth(self) -> int:
        return len(self.ordinals)

    def score_text(self, rank: int, shown_count: int) -> str:
        """Return the score at a rank, with as many decimals as four digits of any of the first `shown_count` need."""
        texts = [f"{float(score):.4g}" for score in self.scores[:shown_count]]
        if any("e" in each or "n" in each for each in texts):  # very small or large, infinite, not a number
            return f"{float(self.scores[rank - 1]):.4g}"
        decimals = max((len(each.partition(".")[2]) for each in texts), default=0)
        return f"{float(self.scores[rank - 1]):.{decimals}f}"

    def rank_of(self, ordinal: int) -> int | None:
        places = np.flatnonzero(self.ordinals == ordinal)
        return int(places[0]) + 1 if len(places) else None


def side_by_side(
    lists: Sequence[HitList],
    question: Question,
    passages: dict[int, Passage],
    gold: Sequence[int],
    shown_count: int,
    rule: str,
    judged: Mapping[int, JudgeMark] | None = None,
    opened_side: str = "a",
) -> Html:
    """The lists as columns. If there are two, a gap between them has room for the connecting lines.

    Args:
        passages: ordinal to passage, for all shown passages and all of `gold`.
        gold: ordinals of the gold passages.
        shown_count: number of hits to show of each list.
        judged: ordinal to what a judge says of the passage.
        opened_side: of two lists, the one that a narrow window shows first.
    """
    marked = {ordinal: _Marked.from_passage(passage, question, rule) for ordinal, passage in passages.items()}
    known = _Badges(frozenset(gold), judged or {})
    columns = [
        _column(column, [each for each in lists if each is not column], marked, known, shown_count) for column in lists
    ]
    if len(columns) == 2:
        columns.insert(1, div(cls="gutter", aria_hidden="true"))
        tabs = (span(letter(each.run_side), " ", each.name, cls=each.run_side) for each in lists)
        # A narrow window shows one list: B while the element is open.
        columns.insert(0, tag("details", tag("summary", *tabs), cls="list-tabs", open=opened_side == "b"))
    return div(*columns, cls="lists single" if len(lists) == 1 else "lists" if len(lists) == 2 else "lists many")


def rows_to_show(lists: Sequence[HitList], gold: Sequence[int], shown_count: int) -> list[int]:
    """Return the rows of the passages that `side_by_side` needs."""
    read = [column.reader_answer.ordinal for column in lists if column.reader_answer is not None]
    return list(
        dict.fromkeys([*gold, *read, *(int(ordinal) for column in lists for ordinal in column.ordinals[:shown_count])])
    )


@dataclass(frozen=True)
class _Badges:
    """What is marked on the passages of a list: which of them are gold, and a judge's probabilities."""

    gold: frozenset[int]
    judged: Mapping[int, JudgeMark]


def _column(
    column: HitList, other_lists: Sequence[HitList], highlighted: dict[int, _Marked], badges: _Badges, shown_count: int
) -> Html:
    cards = []
    for before, rank in pairwise([0, *_shown_ranks(column, badges.gold, shown_count)]):
        if rank > before + 1:
            cards.append(div(f"{rank - before - 1} more", cls="between"))
        cards.append(_card(column, other_lists, rank, highlighted, badges, shown_count))
    head = tag("h2", letter(column.run_side), " ", span(column.name, cls="name"), span(column.note, cls="note"))
    if not cards:
        cards = [div("No hits.", cls="notice")]
    elif other_lists and len(cards) > FIRST_HITS:
        cards.append(tag("details", tag("summary", f"All {len(cards)} hits of {column.name}"), cls="all-hits"))
    return tag(
        "section",
        head,
        *cards,
        cls=f"list {column.run_side}",
        aria_label=f"List {column.run_side.upper()}, {column.name}",
    )


def _shown_ranks(column: HitList, gold: Collection[int], shown_count: int) -> list[int]:
    """Return the ranks that a list shows: the first ones, and deeper ones of gold passages and of the reader's passage."""
    apart = {*gold, *([] if column.reader_answer is None else [column.reader_answer.ordinal])}
    deeper = sorted(rank for ordinal in apart if (rank := column.rank_of(ordinal)) is not None and rank > shown_count)
    return [*range(1, min(shown_count, column.depth) + 1), *deeper]


def answers_in_both(
    lists: Sequence[HitList],
    question: Question,
    passages: Mapping[int, Passage],
    gold: Collection[int],
    shown_count: int,
    rule: str,
) -> set[bool]:
    """Return, of the passages that all lists show, whether one contains an answer, and whether one does not."""
    shown = ({int(each.ordinals[rank - 1]) for rank in _shown_ranks(each, gold, shown_count)} for each in lists)
    return {
        _Marked.from_passage(passages[ordinal], question, rule).holds_answer for ordinal in set.intersection(*shown)
    }


def _card(
    column: HitList,
    other_lists: Sequence[HitList],
    rank: int,
    highlighted: dict[int, _Marked],
    known: _Badges,
    shown_count: int,
) -> Html:
    ordinal = int(column.ordinals[rank - 1])
    gold, mark = known.gold, known.judged.get(ordinal)
    found = highlighted[ordinal]
    read = (
        column.reader_answer if column.reader_answer is not None and column.reader_answer.ordinal == ordinal else None
    )
    badges = [answer_badge()] if found.holds_answer else []
    badges += [gold_badge()] if ordinal in gold else []
    badges += [mark.badge()] if mark is not None else []
    badges += [read_badge(read)] if read is not None else []
    badges += [_rank_in_other_list(other, ordinal, shown_count, ordinal in gold) for other in other_lists]
    classes = " ".join(
        filter(None, ("hit", "answers" if found.holds_answer else "", "gold" if ordinal in gold else ""))
    )
    head = div(
        span(f"{rank}", cls="place", title=f"rank {rank} of {column.depth}"),
        span(found.passage.title or "untitled", cls="title", title=f"passage {found.passage.id}"),
        span(*badges, cls="badges"),
        span(column.score_text(rank, shown_count), cls="score", title=f"score {float(column.scores[rank - 1])!r}"),
        cls="head",
    )
    return tag(
        "article",
        head,
        mark.reasons() if mark is not None and mark.contributions else "",
        found.body(None if read is None else read.span),
        cls=classes,
        id=f"{column.run_side}-{rank}",
        data_side=column.run_side,
        data_passage=str(ordinal),
        data_id=found.passage.id,
        tabindex="0",
        aria_label=f"{column.run_side.upper()}, rank {rank}",
    )


def _rank_in_other_list(other_list: HitList, ordinal: int, shown_count: int, is_gold: bool) -> Html:
    """The passage's rank in the other list, as a link to the passage if that list shows it."""
    rank = other_list.rank_of(ordinal)
    if rank is None:
        return span(
            letter(other_list.run_side),
            "–",
            cls="badge other none",
            title=f"not among the {other_list.depth} of {other_list.name}",
        )
    where = f"rank {rank} in {other_list.name}"
    if rank <= shown_count or is_gold:
        return tag(
            "a",
            letter(other_list.run_side),
            f"{rank}",
            href=f"#{other_list.run_side}-{rank}",
            data_jump=f"{other_list.run_side}-{rank}",
            cls="badge other",
            title=f"{where}: jump to this passage",
        )
    return span(letter(other_list.run_side), f"{rank}", cls="badge other far", title=f"{where}, below the hits shown")


@dataclass(frozen=True)
class _Marked:
    """A passage and the spans to highlight in it."""

    passage: Passage
    answers: list[Span]
    word_spans: list[Span]
    holds_answer: bool
    names: list[Span]  # the question's subject, or words of its name
    near: list[Span]  # names that look like the subject's

    @classmethod
    def from_passage(cls, passage: Passage, question: Question, rule: str) -> _Marked:
        rule = rule_for(question, rule)
        holds = bool(question.answers) and has_answer(passage.text, question.answers, rule, passage.title)
        spans = answer_spans(passage.text, question.answers, rule) if question.answers else []
        words, subject = query_spans(passage.text, question.text), question.subject or ""
        names = answer_spans(passage.text, [subject]) if subject else []
        names = names or query_spans(passage.text, subject)
        return cls(passage, spans, words, holds, names, near_name_spans(passage.text, subject))

    def body(self, reader_span: Span | None = None) -> Html:
        """The text, shortened to an excerpt around the reader's answer or the first known answer; a click shows all of
        it.
        """
        whole = self.passage.text
        shown_answers = self.answers if reader_span is None else [reader_span]
        start, end = excerpt(whole, shown_answers, self.word_spans, self.names)
        pieces = [("rest", 0, start), ("", start, end), ("rest", end, len(whole))]
        shown = [
            span(
                self._highlight(low, high, reader_span),
                cls=f"{name} {'early' if low == 0 else 'late'}" if name else None,
            )
            for name, low, high in pieces
            if high > low
        ]
        folded = end - start < len(whole)
        button = (
            tag(
                "button", "more", title="Show the whole passage", type="button", data_toggle=True, aria_expanded="false"
            )
            if folded
            else ""
        )
        return tag("p", *shown, " ", button)

    def _highlight(self, low: int, high: int, reader_span: Span | None = None) -> Html:
        """The highlighted text between the positions `low` and `high`. Answers take precedence over question words; the
        reader's answer is framed.
        """
        whole = self.passage.text
        if reader_span is None or reader_span[0] < low or reader_span[1] > high:
            return highlighted_text(whole, low, high, self.answers, self.word_spans, self.near)
        before, inside, after = (
            highlighted_text(whole, *ends, self.answers, self.word_spans, self.near)
            for ends in ((low, reader_span[0]), reader_span, (reader_span[1], high))
        )
        return join(before, frame_answer(inside), after)


def passage_excerpt(passage: Passage, question: Question, rule: str) -> Html:
    """The part of a passage's text around the first answer, as a list shows it folded."""
    marked = _Marked.from_passage(passage, question, rule)
    start, end = excerpt(passage.text, marked.answers, marked.word_spans, marked.names)
    return tag(
        "p",
        "… " if start else "",
        marked._highlight(start, end),
        " …" if end < len(passage.text) else "",
        cls="excerpt",
    )


def highlighted_text(
    whole: str, low: int, high: int, answers: Sequence[Span], word_spans: Sequence[Span], near: Sequence[Span] = ()
) -> Html:
    cut = split_at_spans(whole, low, high, answers, word_spans, near)
    return join(*(tag("mark", piece, cls=kind) if kind else text(piece) for piece, kind in cut))
