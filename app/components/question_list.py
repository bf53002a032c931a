"""One page of the list of selected questions."""

from __future__ import annotations

import numpy as np

from blindspot.app.components.marks import CONTRAST, letter, rank, relation_label
from blindspot.app.components.pager import pager
from blindspot.app.markup import Html, div, join, link, span, tag, term
from blindspot.app.selection import PER_PAGE, Selection
from blindspot.app.study import Comparison

SHOWN_ANSWERS = 2
FREQUENCY = "Frequency: how often the question's subject is mentioned, from the imported counts"
OVERLAP = (
    "Rank-biased overlap of the two lists (p = 0.9, extrapolated): 1 for identical lists, 0 for no shared passage. "
    "The first 10 ranks have 86% of the weight."
)


def question_table(comparison: Comparison, selection: Selection, rows: np.ndarray) -> Html:
    """The current page of `rows`, with sortable columns and links to the other pages."""
    if not len(rows):
        return div(
            "No question matches the filters. ",
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
    lines = [
        _question_row(comparison, selection, int(row), overlap) for row, overlap in zip(shown, overlaps, strict=True)
    ]
    table = tag("table", tag("thead", _table_head(selection)), tag("tbody", *lines), cls="questions")
    return join(
        div(table, cls="scrolling"),
        pager(len(rows), page, PER_PAGE, "question", lambda number: selection.on_compare(page=number)),
    )


def _table_head(selection: Selection) -> Html:
    now, falling = selection.order

    def sort_heading(key: str, label: object, explanation: str, cls: str = "") -> Html:
        chosen = now == key
        arrow = span(" ↓" if falling else " ↑", cls="arrow") if chosen else ""
        return tag(
            "th",
            link(
                join(label, arrow),
                selection.on_compare(sort=selection.toggled(key)),
                data_focus=f"sort-{key}",
                title=explanation,
            ),
            aria_sort=("descending" if falling else "ascending") if chosen else None,
            scope="col",
            cls=cls or None,
        )

    return tag(
        "tr",
        sort_heading("order", "question", "Sort by order of import", "left"),
        sort_heading("frequency", term("freq", FREQUENCY), "Sort by frequency", "aside"),
        sort_heading("a", join("rank ", letter("a")), "Rank of the first relevant passage in A"),
        sort_heading("b", join("rank ", letter("b")), "Rank of the first relevant passage in B"),
        sort_heading("contrast", term("contrast", CONTRAST), "Sort by contrast between the two runs"),
        sort_heading("overlap", term("RBO", OVERLAP), "Sort by overlap of the two lists, lowest first", "aside"),
    )


def _question_row(comparison: Comparison, selection: Selection, row: int, overlap: float) -> Html:
    question = comparison.questions[row]
    first_a, first_b, contrast = (
        int(comparison.first_ranks_a[row]),
        int(comparison.first_ranks_b[row]),
        float(comparison.contrast[row]),
    )
    relation = relation_label(question.relation) if question.relation else ""
    answers = " · ".join(question.answers[:SHOWN_ANSWERS]) + (" …" if len(question.answers) > SHOWN_ANSWERS else "")
    ahead = "" if contrast == 0 else "a" if contrast > 0 else "b"
    return tag(
        "tr",
        tag(
            "td",
            link(question.text, selection.on_question(question.id), cls="question"),
            span(" · ".join(filter(None, (answers, relation))), cls="answers"),
            cls="left",
        ),
        tag("td", "" if question.frequency is None else f"{question.frequency:,}", cls="aside"),
        tag("td", rank(first_a, comparison.run_a.k, "a")),
        tag("td", rank(first_b, comparison.run_b.k, "b")),
        tag("td", f"{abs(contrast):.2f}" if ahead else "0", " ", letter(ahead) if ahead else span(cls="run gap")),
        tag("td", "–" if overlap != overlap else f"{overlap:.2f}", cls="aside"),
        id=f"row-{question.id}",
    )
