"""The header of every page."""

from __future__ import annotations

from collections.abc import Collection

from blindspot.app import url
from blindspot.app.markup import Html, div, link, span, tag
from blindspot.db.people import Person

GROUPS = (
    (("Check", url.CHECK), ("Home", url.HOME)),
    (
        ("Compare", url.COMPARE),
        ("Relations", url.RELATIONS),
        ("Slices", url.SLICES),
        ("Map", url.MAP),
        ("Question", url.QUESTION),
    ),
    (("Judge", url.JUDGE), ("Quality", url.QUALITY), ("Team", url.TEAM)),
    (("Training", url.TRAINING),),
)
"""The pages of the menu, in groups that follow the loop: see and look, judge, train."""
TAKES = {"Quality": "see others' labels", "Team": "manage people"}
"""The right that a person needs to see the link to a page."""


def header(
    study_name: str | None, current_page: str, person: Person | None = None, hidden_pages: Collection[str] = ("Check",)
) -> Html:
    """The study's name, the signed-in person and the menu.

    The menu's links keep the chosen runs, k and relevance.

    Args:
        current_page: the title of the current page. hidden_pages: titles of pages of which the study has nothing.
    """
    parameters = {key: url.value(key) for key in ("a", "b", "k", "relevance")}
    links: list[Html] = []
    for pages in GROUPS:
        shown = [(title, page) for title, page in pages if title not in hidden_pages and _may_see(title, person)]
        for place, (title, page) in enumerate(shown):
            is_here, begins_group = title == current_page, place == 0 and bool(links)
            classes = ("here" if is_here else "", "begins-group" if begins_group else "")
            links.append(
                link(
                    title,
                    url.href(page, parameters),
                    cls=" ".join(filter(None, classes)) or None,
                    aria_current="page" if is_here else None,
                )
            )
    brand = link(span("Blindspot"), url.href(url.HOME, parameters), cls="brand")
    return tag(
        "header",
        div(
            brand,
            span(study_name or "", cls="study-name"),
            span(*_at_work(person), cls="person"),
            cls="left",
        ),
        tag("nav", *links, aria_label="Pages"),
        cls="top",
    )


def _may_see(title: str, person: Person | None) -> bool:
    if person is None:
        return title not in TAKES
    return title == "Judge" or person.is_allowed(TAKES.get(title, "see results"))


def _at_work(person: Person | None) -> tuple[object, ...]:
    if person is None:
        return ()
    return (
        person.name,
        span(f" {person.role}", cls="soft"),
        " ",
        link("change", url.href(url.JUDGE, {"sign-out": 1}), cls="quiet"),
    )
