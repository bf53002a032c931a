"""The questions of a selection, one page of them."""

from __future__ import annotations

import numpy as np

from app.components.marks import CONTRAST, letter, rank, relation_label
from app.components.pager import pager
from app.markup import Html, div, join, link, span, tag, term
from app.selection import PER_PAGE, Selection
from app.study import Comparison

SHOWN_ANSWERS = 2
FREQUENCY = "Frequency: how often the question's subject is mentioned, by the count that was imported"
OVERLAP = (
    "Rank-biased overlap of the two lists, p = 0.9, extrapolated: 1 the same passages in the same order, 0 no passage shared. "
    "The first 10 ranks hold 86% of the weight."
)


def question_table(comparison: Comparison, selection: Selection, rows: np.ndarray) -> Html:
    """The page of `rows` that the selection asks for, with a head that sorts and the way to the other pages."""
    if not len(rows):
        return div(
            "No question fits. ",
            link(
                "Show all questions",
                selection.on_compare(cell="all", relation="", set="", bucket="", slice="", text=""),
            ),
            cls="notice",
        )
    pages = -(-len(rows) // PER_PAGE)
    page = min(selection.page, pages)
    shown = rows[(page - 1) * PER_PAGE : page * PER_PAGE]
    overlaps = comparison.overlap_of(shown).tolist()
    lines = [_line(comparison, selection, int(row), overlap) for row, overlap in zip(shown, overlaps, strict=True)]
    table = tag("table", tag("thead", _head(selection)), tag("tbody", *lines), cls="questions")
    return join(
        div(table, cls="scrolling"),
        pager(len(rows), page, PER_PAGE, "question", lambda number: selection.on_compare(page=number)),
    )


def _head(selection: Selection) -> Html:
    now, falling = selection.order

    def head(key: str, words: object, explained: str, cls: str = "") -> Html:
        chosen = now == key
        arrow = span(" ↓" if falling else " ↑", cls="arrow") if chosen else ""
        return tag(
            "th",
            link(
                join(words, arrow),
                selection.on_compare(sort=selection.toggled(key)),
                data_focus=f"sort-{key}",
                title=explained,
            ),
            aria_sort=("descending" if falling else "ascending") if chosen else None,
            scope="col",
            cls=cls or None,
        )

    return tag("tr",
        head("order", "question", "In the order in which they were imported", "left"),
        tag("th", "relation", scope="col", cls="left relation"),
        head("frequency", term("freq", FREQUENCY), "Sort by frequency"),
        head("a", letter("a"), "Rank of the first relevant passage in A"),
        head("b", letter("b"), "Rank of the first relevant passage in B"),
        head("contrast", "contrast", f"Sort by how far apart the two runs are. {CONTRAST}"),
        head("overlap", term("overlap", OVERLAP), "Sort by how alike the two lists are, the least alike first"))  # fmt: skip


def _line(comparison: Comparison, selection: Selection, row: int, overlap: float) -> Html:
    question = comparison.questions[row]
    first_a, first_b, contrast = (
        int(comparison.first_a[row]),
        int(comparison.first_b[row]),
        float(comparison.contrast[row]),
    )
    answers = " · ".join(question.answers[:SHOWN_ANSWERS]) + (" …" if len(question.answers) > SHOWN_ANSWERS else "")
    ahead = "" if contrast == 0 else "a" if contrast > 0 else "b"
    return tag("tr",
        tag("td", link(question.text, selection.on_question(question.id), cls="question"), span(answers, cls="answers"), cls="left"),
        tag("td", relation_label(question.relation) if question.relation else "", cls="left relation"),
        tag("td", "" if question.frequency is None else f"{question.frequency:,}"),
        tag("td", rank(first_a, comparison.a.k, "a")), tag("td", rank(first_b, comparison.b.k, "b")),
        tag("td", f"{abs(contrast):.2f}" if ahead else "0", " ", letter(ahead) if ahead else span(cls="run gap")),
        tag("td", "–" if overlap != overlap else f"{overlap:.2f}"))  # fmt: skip
