"""The results of a full-text search, with excerpts that highlight the words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from blindspot.app import url
from blindspot.app.markup import Html, div, join, link, span, tag
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.full_text import TextResult, TextSearch
from blindspot.backend.text.number_words import quantity

SHOWN_QUESTIONS = 3


class Retrieved(NamedTuple):
    """For each passage id, the questions for which a run ranks the passage in its first k, as (rank, question id,
    text), best rank first. leaves_out: whether questions that the person still has to judge are left out.
    """

    run: str
    k: int
    by: Mapping[str, Sequence[tuple[int, str, str]]]
    leaves_out: bool = False


def found_title(result: TextSearch, words: str, retrieving_questions: Retrieved | None) -> Html:
    """Say how many texts have the words, and how many of them a run retrieves."""
    place = result.place[:-1]
    if not result.results:
        return join(tag("h1", f"No {place} has “{words}”"), tag("p", result.method_note, cls="soft"))
    title = f"{'The first ' if result.has_more else ''}{quantity(len(result.results), place)} for “{words}”"
    if retrieving_questions is not None:
        number = len(retrieving_questions.by) or "none"
        title += f"; {retrieving_questions.run} retrieves {number} of them in the top {retrieving_questions.k} of at least one question"
    return join(tag("h1", title), tag("p", result.method_note, cls="soft"))


def found_list(
    study: Study, result: TextSearch, more_address: str | None, retrieving_questions: Retrieved | None = None
) -> Html:
    """Show the results, best or first ones first.

    Args:
        more_address: The address of a longer list. retrieving_questions: The questions that retrieve each passage.
    """
    gold = study.questions.questions_by_gold([each.id for each in result.results]) if result.place == "passages" else {}
    texts = _whole_texts(study, result)
    items = [
        _found_text_item(
            result, each, gold.get(each.id, []), texts.get(each.id, ""), _retrieved_by(retrieving_questions, each.id)
        )
        for each in result.results
    ]
    foot = link("Show more", more_address, cls="button", data_focus="more") if more_address else ""
    return join(tag("ol", *items, cls="found"), div(foot, cls="foot"))


def _whole_texts(study: Study, result: TextSearch) -> dict[str, str]:
    """Return the texts of the passages found, by id."""
    if result.place != "passages":
        return {}
    passages = study.corpus.by_id(each.id for each in result.results)
    return {id: passage.text for id, passage in passages.items()}


def _retrieved_by(retrieving_questions: Retrieved | None, passage: str) -> Html:
    """Links to the questions for which a run ranks the passage, best rank first."""
    found = [] if retrieving_questions is None else retrieving_questions.by.get(passage, [])
    if retrieving_questions is None:
        return Html("")
    if not found:
        return div(
            "retrieved for no question",
            " outside your open batches" if retrieving_questions.leaves_out else "",
            cls="soft",
        )
    shown = [
        join(link(text, url.href(url.QUESTION, {"question": id, "a": retrieving_questions.run})), f" at rank {rank}")
        for rank, id, text in found[:SHOWN_QUESTIONS]
    ]
    hidden = len(found) - len(shown)
    words = "retrieved for "
    more = f" and {quantity(hidden, 'more question')}" if hidden else ""
    return div(words, *(join(", " if place else "", each) for place, each in enumerate(shown)), more, cls="soft")


def _found_text_item(
    result: TextSearch, found_text: TextResult, gold: Sequence[tuple[str, str]], text: str, retrieving_questions: Html
) -> Html:
    excerpt = tag("p", *(tag("mark", piece, cls="word") if kind else piece for piece, kind in found_text.excerpt))
    if result.place == "questions":
        body = join(*(tag("mark", piece, cls="word") if kind else piece for piece, kind in found_text.excerpt))
        return tag(
            "li", link(body, url.href(url.QUESTION, {"question": found_text.id})), span(found_text.id, cls="soft id")
        )
    if result.place == "notes":
        about = f"on passage {found_text.passage}" if found_text.passage else "on the question"
        where = link(f"question {found_text.id}", url.href(url.QUESTION, {"question": found_text.id}))
        return tag("li", excerpt, div(found_text.title, " ", about, " of ", where, cls="soft"))
    whole = tag("details", tag("summary", "whole passage"), tag("p", text))
    return tag(
        "li",
        tag("b", found_text.title or "untitled"),
        span(found_text.id, cls="soft id"),
        excerpt,
        retrieving_questions,
        _gold_of(gold),
        whole,
    )


def _gold_of(questions: Sequence[tuple[str, str]]) -> Html:
    """Links to the questions that have the passage as gold."""
    if not questions:
        return Html("")
    shown = [link(text, url.href(url.QUESTION, {"question": id})) for id, text in questions[:SHOWN_QUESTIONS]]
    hidden = len(questions) - len(shown)
    more = f" and {hidden} more" if hidden else ""
    return div("gold of ", *(join(", " if place else "", each) for place, each in enumerate(shown)), more, cls="soft")
