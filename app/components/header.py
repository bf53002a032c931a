"""The line at the top of every page."""

from __future__ import annotations

from app import url
from app.markup import Html, div, link, span, tag

PAGES = (("Home", url.HOME), ("Compare", url.COMPARE), ("Question", url.QUESTION))


def header(study_name: str | None, here: str) -> Html:
    """`here` is the page's title. The runs that are being looked at go along to the other pages."""
    kept = {key: url.value(key) for key in ("a", "b", "k", "relevance")}
    links = [
        link(
            title,
            url.href(page, kept),
            cls="here" if title == here else None,
            aria_current="page" if title == here else None,
        )
        for title, page in PAGES
    ]
    brand = link(span("Blindspot"), url.href(url.HOME, kept), cls="brand")
    return tag(
        "header",
        div(brand, span(study_name or "", cls="study-name"), cls="left"),
        tag("nav", *links, aria_label="Pages"),
        cls="top",
    )
