"""The links to other pages below a list."""

from __future__ import annotations

from collections.abc import Callable

from blindspot.app.markup import Html, div, link, span, tag
from blindspot.backend.text.number_words import quantity


def pager(total: int, page: int, per_page: int, noun: str, page_url: Callable[[int], str]) -> Html:
    """The range of the current page, and links to the other pages.

    Args:
        page: the current page, from 1.
        noun: singular noun for an entry of the list, such as "question".
        page_url: returns the address of a page.
    """
    pages = max(1, -(-total // per_page))
    message = f"{min((page - 1) * per_page + 1, total):,}–{min(page * per_page, total):,} of {quantity(total, noun)}"
    if pages == 1:
        return div(message, cls="pager")

    def step(number: int, label: str, key: str) -> Html:
        return link(label, page_url(number), data_focus=key) if 1 <= number <= pages else span(label, cls="off")

    shown = sorted({1, pages, *range(max(1, page - 2), min(pages, page + 2) + 1)})
    near = []
    for before, number in zip([0, *shown], shown, strict=False):
        if number > before + 1:
            near.append(span("…", cls="off"))
        here = number == page
        number_shown = f"{number:,}"
        near.append(
            span(number_shown, cls="here", aria_current="page") if here else step(number, number_shown, f"page{number}")
        )
    moves = span(step(page - 1, "‹ previous", "earlier"), *near, step(page + 1, "next ›", "later"), cls="pages")
    return tag("nav", message, moves, cls="pager", aria_label=f"Pages of {noun}s")
