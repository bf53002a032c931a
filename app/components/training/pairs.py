"""Pairs of a question and a passage as lines of a table."""

from __future__ import annotations

from collections.abc import Sequence

from app import blind, url
from app.markup import Html, link, span, tag
from backend.core.study import Study


def pair_rows(opened: Study, pairs: Sequence[tuple[str, str, *tuple[object, ...]]], **parameters: str) -> list[Html]:
    """A line for each (question id, passage id, what else is said of them ...). The question leads to its page, with these parameters.

    Texts are read in one go. A passage that the collection no longer has is its id. Pairs of questions that are hidden from whoever
    is at work are left out: a pair's role tells what people labelled it.
    """
    hidden = blind.hidden(opened)
    pairs = [pair for pair in pairs if pair[0] not in hidden]
    asked = {
        question.id: question.text for question in opened.questions.some(sorted({question for question, *_ in pairs}))
    }
    known = opened.corpus.ordinals({passage for _, passage, *_ in pairs})
    titles = {passage.id: passage.title or "untitled" for passage in opened.corpus.passages(list(known.values()))}
    return [
        tag(
            "tr",
            tag("td", link(asked[question], url.href(url.QUESTION, {"question": question, **parameters})), cls="left"),
            tag("td", tag("b", titles.get(passage, passage)), " ", span(passage, cls="soft"), cls="left"),
            *(tag("td", words, cls="left") for words in said),
        )
        for question, passage, *said in pairs
    ]
