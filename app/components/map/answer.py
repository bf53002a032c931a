"""The answer on top of the Map page, and the one next step that follows from it."""

from __future__ import annotations

from blindspot.analysis.accuracy import Estimate
from blindspot.app import url
from blindspot.app.components.map import groups
from blindspot.app.components.map.point import first_ranks_sentence, passage_sentence
from blindspot.app.components.map.shown import Shown
from blindspot.app.components.marks import unbroken
from blindspot.app.markup import link, show, tag
from blindspot.backend.core.result_table import signed_number, stated_interval
from blindspot.backend.text.number_words import quantity


def answer(shown: Shown) -> None:
    """Show what the colours say, where they show hits and misses; else what is on the map."""
    map, (_, _, other, k) = shown.map, shown.colouring
    run = shown.colouring.run_of_misses
    if run is None:
        words = f"{quantity(map.shown_questions, 'question')} among {quantity(len(map.ordinals), 'passage')}"
        show(tag("h1", words))
        return
    if shown.point is not None and shown.point.is_question and (ranks := first_ranks_sentence(shown.point)):
        show(tag("h1", shown.point.title), tag("p", unbroken(ranks, shown.runs)))
        return
    if shown.point is not None and not shown.point.is_question:
        show(tag("h1", shown.point.title), tag("p", unbroken(passage_sentence(shown.point), shown.runs)))
        return
    in_all = _missed_in_all(shown.average, run, k)
    if shown.group is not None:
        title = tag("h1", unbroken(groups.missed_sentence(map, shown.group, run, shown.reference), shown.runs))
        show(title, tag("p", f"{in_all}.") if other is None else "")
    elif other is None:
        worst = groups.most_missed_sentence(map, shown.groups, run, shown.reference, shown.average)
        show(tag("h1", unbroken(in_all, [run])), tag("p", unbroken(worst, shown.runs)))
    if other is not None:
        _answer_of_two(shown, run, other, is_title=shown.group is None)


def _missed_in_all(hits: Estimate, run: str, k: int) -> str:
    """Return how many of the map's questions a run misses."""
    said = f"{run} misses {groups.missed_count(hits):,} of {quantity(hits.n, 'question')} in the top {k}"
    if hits.low is None:
        return said
    share, low, high = groups.missed_share(hits).percent
    return f"{said}: {share:.1f}% {stated_interval(low, high)}"


def _answer_of_two(shown: Shown, run: str, other: str, is_title: bool) -> None:
    """Show what the second run finds of what the first misses, and where it gains and loses.

    Args:
        is_title: whether this is the title of the page.
    """
    k = shown.colouring.k
    figures, cells = shown.compared
    pair = {"a": run, "b": other, "k": k}
    found = link(f"{cells.only_b:,} that {run} misses", url.href(url.COMPARE, {**pair, "cell": "only_b"}))
    lost = link(f"{cells.only_a:,} that {run} finds", url.href(url.COMPARE, {**pair, "cell": "only_a"}))
    names, missed = [run, other], [f"{cell + cells.neither:,}" for cell in (cells.only_b, cells.only_a)]
    title = f"{other} misses {missed[1]} of {quantity(cells.n, 'question')} in the top {k}, {run} {missed[0]}"
    difference = figures.difference.estimate
    points = ""
    if difference.low is not None:
        value, low, high = (-each for each in difference.percent)
        points = f": {signed_number(value)} points of Success@{k} {stated_interval(high, low, '+')}"
    where = groups.change_sentence(shown.groups, shown.changes, run, other) if is_title else f"{title}."
    show(
        tag("h1", unbroken(title, names)) if is_title else "",
        tag(
            "p",
            "It finds " if is_title else f"{other} finds ",
            found,
            " and misses ",
            lost,
            f"{points}. ",
            unbroken(where, names),
        ),
    )
