"""The line under a list that is shown a page at a time."""

from __future__ import annotations

from collections.abc import Callable

from app.components.marks import count
from app.markup import Html, div, link, span, tag


def pager(total: int, page: int, per_page: int, what: str, to: Callable[[int], str]) -> Html:
    """Which of all are shown, and links to other pages where there are some.

    Args:
        page: this one, from 1.
        what: "question": one thing of the list.
        to: the address of a page.
    """
    pages = max(1, -(-total // per_page))
    said = f"{min((page - 1) * per_page + 1, total):,}–{min(page * per_page, total):,} of {count(total, what)}"
    if pages == 1:
        return div(said, cls="pager")

    def step(number: int, words: str, key: str) -> Html:
        return link(words, to(number), data_focus=key) if 1 <= number <= pages else span(words, cls="off")

    near = [
        span(f"{number:,}", cls="here", aria_current="page")
        if number == page
        else step(number, f"{number:,}", f"page{number}")
        for number in sorted({1, pages, *range(max(1, page - 2), min(pages, page + 2) + 1)})
    ]
    moves = span(step(page - 1, "‹ previous", "earlier"), *near, step(page + 1, "next ›", "later"), cls="pages")
    return tag("nav", said, moves, cls="pager", aria_label=f"Pages of {what}s")
