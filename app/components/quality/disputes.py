"""The panel in which an adjudicator settles disagreements, with the annotators' names hidden."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blindspot.app import url
from blindspot.app.components.pager import pager
from blindspot.app.markup import Html, div, link, span, tag
from blindspot.backend.judging.quality import Dispute, DisputedPassage
from blindspot.backend.text.number_words import quantity

JUDGE = "judge"
PER_PAGE = 8


def disputes_panel(
    disputes: Sequence[Dispute],
    bad: Sequence[tuple[str, str, int]],
    names: bool,
    page: int,
    page_address: Callable[..., str],
) -> Html:
    """One page of the disputes.

    Args:
        names: whether to show the annotators' names.
        page_address: returns the page's address with changed parameters.
    """
    if not disputes:
        note = tag(
            "p",
            "No passage is disputed or unsure. Disagreements appear when two people judge the same question; batches include second labels for that purpose.",
            cls="convention",
        )
        return div(tag("h2", "Disagreements"), note, _bad_question_row(bad), cls="panel")
    pages = -(-len(disputes) // PER_PAGE)
    page = min(page, pages)
    shown = disputes[(page - 1) * PER_PAGE : page * PER_PAGE]
    toggle = link(
        "Hide names" if names else "Show names",
        page_address(names=None if names else 1),
        cls="quiet",
        data_focus="names",
    )
    head = div(
        tag("h2", "Disagreements ", span(f"on {quantity(len(disputes), 'question')}", cls="soft")),
        span(
            toggle,
            cls="foot",
        ),
        cls="list-head",
    )
    order = "Positive against negative first. " if _has_opposites(disputes) else ""
    note = tag(
        "p",
        f"{order}A disputed passage is left out of training and of all rates until it is settled. Decide before you "
        "look at the names.",
        cls="convention",
    )
    more = (
        pager(
            len(disputes), page, PER_PAGE, "question", lambda number: page_address(page=number if number > 1 else None)
        )
        if pages > 1
        else ""
    )
    listed = div(*(_dispute(each, names) for each in shown), cls="disputes")
    return div(head, note, listed, more, _bad_question_row(bad), cls="panel")


def _has_opposites(disputes: Sequence[Dispute]) -> bool:
    """Whether some passages, but not all, are labelled both positive and negative."""
    opposed = [{"positive", "negative"} <= passage.votes.keys() for dispute in disputes for passage in dispute.passages]
    return any(opposed) and not all(opposed)


def settle_button(disputes: Sequence[Dispute]) -> Html:
    """The page's main button, which leads to the first dispute; nothing without one."""
    if not disputes:
        return Html("")
    passages = sum(len(dispute.passages) for dispute in disputes)
    address = adjudication_address(disputes[0].question)
    return div(link(f"Settle {quantity(passages, 'passage')}", address, cls="button main"), cls="action")


def adjudication_address(question: str) -> str:
    """Return the address of the page on which a question is adjudicated."""
    return url.href(JUDGE, {"adjudicate": 1, "question": question})


def _dispute(dispute: Dispute, names: bool) -> Html:
    passages = tag("ul", *(_passage(passage, names) for passage in dispute.passages))
    address = adjudication_address(dispute.question)
    asked = link(dispute.text, address, title="Settle this question", data_focus=f"settle-{dispute.question}")
    return div(div(asked, cls="asked"), passages, cls="dispute")


def _passage(passage: DisputedPassage, names: bool) -> Html:
    votes = [
        span(label, f" {', '.join(people)}" if names else _times(len(people)), cls=f"vote {label}")
        for label, people in passage.votes.items()
    ]
    return tag("li", span(passage.title or passage.passage, cls="title"), span(*votes, cls="votes"))


def _times(people: int) -> str:
    return f" ×{people}" if people > 1 else ""


def _bad_question_row(bad: Sequence[tuple[str, str, int]]) -> Html:
    if not bad:
        return Html("")
    items = [
        tag(
            "li",
            link(text, url.href(url.QUESTION, {"question": id})),
            span(f" by {quantity(people, 'annotator')}", cls="soft"),
        )
        for id, text, people in bad
    ]
    return tag("details", tag("summary", quantity(len(bad), "bad question")), tag("ul", *items), cls="bad-list")
