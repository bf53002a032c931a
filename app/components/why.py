"""Why did this run miss this question? Facts beside the two lists of the page Question."""

from __future__ import annotations

from collections.abc import Sequence

from app import url
from app.components.analysis import analysis_css
from app.components.marks import count, gold_badge, letter
from app.markup import Html, div, join, link, span, tag, term
from backend.core.study import Study
from backend.evaluation.why import Standing, Why, Words, why
from db.records import Question

MARGIN = "The top passage's score less the gold's, in the run's own unit"
NEAR = "The passages nearest to the gold among the stored vectors. Where many of them look alike, the encoder cannot tell the gold apart"


def why_section(study: Study, question: Question, runs: Sequence[str], rule: str = "dpr") -> Html:
    """A link that opens the panel, or the panel where the address asks for it (`why=1`): reading the vectors takes a moment."""
    import streamlit as st

    here = st.query_params.to_dict()
    if url.value("why") != "1":
        return link(
            "Why did a run miss this?",
            url.href(url.QUESTION, {**here, "question": question.id, "why": 1}),
            cls="quiet",
            data_focus="why",
        )
    close = link("close", url.href(url.QUESTION, {**here, "why": None}), cls="quiet", data_focus="why")
    head = div(tag("h2", "Why did a run miss this?"), close, cls="list-head")
    return join(analysis_css(), div(head, why_panel(study, question, runs, rule), cls="panel why"))


def why_panel(study: Study, question: Question, runs: Sequence[str], rule: str = "dpr", neighbours: int = 5) -> Html:
    """The facts for one question; `runs` are A and B, in this order. Raises Missing for a run that does not exist."""
    found = why(study, question, runs, rule, neighbours)
    if not found.standings:
        return Html("")
    facts = [div(tag("dt", name), tag("dd", value)) for name, value in _facts(found)]
    return join(
        tag("p", _summary(found), cls="conclusion"),
        _standings(found, list(runs)),
        tag("dl", *facts, cls="why-facts"),
        *_neighbours(found),
    )


def _summary(found: Why) -> str:
    """The most telling fact, in one line."""
    for each in found.standings:
        if each.winner in found.namesake and each.rank != 1:
            title = found.passages[each.winner].title
            return f"{each.run} puts another entity of a similar name first: {title}, for {found.question.subject}."
    for each in found.standings:
        if each.rank is not None and each.rank > 1 and found.holds_answer.get(each.winner, False):
            return f"{each.run} puts a passage first that holds an answer and that no gold names: perhaps a false negative."
    if not any(each.gold is not None for each in found.standings):
        return (
            "No gold passage is among the hits of these runs."
            if found.question.gold
            else "No passage is labelled as the answer."
        )
    if all(each.rank == 1 for each in found.standings):
        return "Every run has a gold passage first."
    return "What is known about the gold and about the passage that stands first:"


def _standings(found: Why, runs: Sequence[str]) -> Html:
    heads = (
        "",
        "gold at",
        "its score",
        term("margin", MARGIN),
        "first is",
        "holds an answer",
        "shares with the question",
        "the gold shares",
    )
    lines = [
        _line(found, each, "ab"[runs.index(each.run)] if runs.index(each.run) < 2 else "") for each in found.standings
    ]
    head = tag(
        "tr",
        *(tag("th", words, scope="col", cls="left" if i in (0, 4, 6, 7) else None) for i, words in enumerate(heads)),
    )
    return div(tag("table", tag("thead", head), tag("tbody", *lines), cls="figures groups"), cls="scrolling")


def _line(found: Why, each: Standing, side: str) -> Html:
    gold = each.gold if each.gold is not None else _any_gold(found)
    winner = "–" if each.winner is None else found.passages[each.winner].title or "untitled"
    share = found.namesake.get(each.winner, 0.0) if each.winner is not None else 0.0
    namesake = span(f" another entity, {100 * share:.0f}% of the subject's name", cls="soft") if share else ""
    return tag(
        "tr",
        tag("th", letter(side) if side else "", " ", each.run, scope="row"),
        tag("td", f"{each.rank:,}" if each.rank else f"not in {each.k}"),
        tag("td", _number(each.score)),
        tag("td", _number(each.margin)),
        tag("td", winner, namesake, cls="left"),
        tag("td", "–" if each.winner is None else "yes" if found.holds_answer[each.winner] else "no"),
        tag("td", _words(found.words.get(each.winner) if each.winner is not None else None), cls="left"),
        tag("td", _words(found.words.get(gold) if gold is not None else None), cls="left"),
    )


def _any_gold(found: Why) -> int | None:
    winners = {each.winner for each in found.standings}
    return next((ordinal for ordinal in found.words if ordinal not in winners), None)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.3f}" if abs(value) < 10 else f"{value:,.1f}"


def _words(words: Words | None) -> Html:
    if words is None:
        return Html("–")
    missing = span(" without ", ", ".join(words.missing), cls="soft") if words.missing else ""
    return join(", ".join(words.shared) or "nothing", missing)


def _facts(found: Why) -> list[tuple[object, object]]:
    known = found.frequency is not None
    facts: list[tuple[object, object]] = [
        (
            "subject",
            f"mentioned {count(found.frequency, 'time')}, by {found.frequency_source}"
            if known
            else "its frequency is not known",
        ),
    ]
    if found.trained is None:
        facts.append(("training", "the study has no training questions"))
    else:
        seen = found.trained
        told = f"{seen.relation:,} ask for this relation, {seen.template:,} in this wording, {seen.subject:,} about this subject"
        facts.append(("training", f"of {seen.total:,} training questions {told}"))
    return facts


def _neighbours(found: Why) -> list[Html]:
    made = []
    for encoder, near in found.neighbours.items():
        lines = [
            tag("li", found.passages[each.ordinal].title or "untitled", " ", span(_number(each.similarity), cls="soft"),
                join(" ", gold_badge()) if each.is_gold else "")
            for each in near
        ]  # fmt: skip
        made.append(div(tag("p", term(f"Nearest to the gold, by {encoder}", NEAR)), tag("ol", *lines), cls="near"))
    return made
