"""The small signs that mean the same on every page: a run's letter, badges, per cents, a pair of figures on a scale."""

from __future__ import annotations

from analysis.accuracy import Estimate
from analysis.relations import RELATIONS
from app.markup import Html, div, span, tag, term

WILSON = "95% Wilson interval: where the true share may lie, were more such questions asked"
SUCCESS = "Success@k: the share of questions with at least one relevant passage among the first k. DPR calls it top-k accuracy."
CONTRAST = "Contrast: 1/rank of the first relevant passage in A less that in B. +1: A has it first and B nowhere; 0: no difference."


def letter(side: str) -> Html:
    """The letter of run "a" or "b", in its colour and shape (A square, B round)."""
    return span(side.upper(), cls=f"run {side}")


def relation_label(id: str | None) -> str:
    """ "place of birth (P19)"; an unknown relation is its id."""
    if not id:
        return "no relation"
    return f"{RELATIONS[id].label} ({id})" if id in RELATIONS else id


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def interval(estimate: Estimate) -> str:
    return "" if estimate.low is None else f"{100 * estimate.low:.1f}–{100 * estimate.high:.1f}"


def figure(estimate: Estimate, inline: bool = False) -> Html:
    """A per cent with its interval: beside it, or when pointed at."""
    said = f"{percent(estimate.value)}% of {estimate.n:,} questions, {interval(estimate)} ({WILSON})"
    if not inline:
        return tag("span", percent(estimate.value), title=said, cls="figure")
    return tag("span", percent(estimate.value), span(interval(estimate), cls="interval"), title=said, cls="figure")


def rank(value: int, depth: int, side: str = "") -> Html:
    """The rank of a first hit; a dash where there is none within `depth`."""
    if value <= 0:
        return tag("span", "–", cls="rank none", title=f"no relevant passage among the first {depth}")
    return tag("span", f"{value}", cls=f"rank {side}")


def answer_badge() -> Html:
    return span("✓ answer", cls="badge answer", title="This passage holds an answer, by the matching rule")


def gold_badge() -> Html:
    return span("★ gold", cls="badge gold", title="This passage is labelled as answering the question")


def notice(*words: object, kind: str = "") -> Html:
    return div(*words, cls=f"notice {kind}".strip(), role="note")


def empty(title: str, *words: object) -> Html:
    """What a page says when it has nothing to show, and what to do about it."""
    return div(tag("h2", title), *(tag("p", line) for line in words), cls="empty")


def command(line: str) -> Html:
    return tag("code", line)


def count(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def success_head(k: int) -> Html:
    return term(f"S@{k}", f"Success@{k}. {SUCCESS}")
