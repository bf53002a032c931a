"""Question-passage pairs as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

from blindspot.app import url
from blindspot.app.markup import Html, link, span, tag
from blindspot.backend.core.study import Study


def pair_rows(
    open_study: Study, pairs: Sequence[tuple[str, str, *tuple[object, ...]]], **parameters: str
) -> list[Html]:
    """One row for each (question id, passage id, further cells ...). The question links to its page, with the given
    parameters in the address.

    A passage that is no longer in the collection shows as its id.
    """
    texts = {
        question.id: question.text
        for question in open_study.questions.with_ids(sorted({question for question, *_ in pairs}))
    }
    passages = open_study.corpus.by_id(passage for _, passage, *_ in pairs)
    titles = {id: passage.title or "untitled" for id, passage in passages.items()}
    return [
        tag(
            "tr",
            tag("td", link(texts[question], url.href(url.QUESTION, {"question": question, **parameters})), cls="left"),
            tag("td", tag("b", titles.get(passage, passage)), " ", span(passage, cls="soft"), cls="left"),
            *(tag("td", cell, cls="left") for cell in cells),
        )
        for question, passage, *cells in pairs
    ]
