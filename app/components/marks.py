"""Small elements that all pages share: a run's letter, badges, percentages, notices and empty states."""

from __future__ import annotations

import re
from collections.abc import Iterable

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.buckets import FEW
from blindspot.analysis.relations import RELATIONS
from blindspot.app.markup import Html, div, join, span, tag, term
from blindspot.backend.core.result_table import TOO_FEW, interval_ends
from blindspot.backend.core.settings import Unit
from blindspot.backend.core.units import count_with_units, n_cell
from blindspot.backend.text.number_words import noun_form

INTERVAL = "95% interval over questions like these, counted by the study's unit of observation"
SUCCESS = (
    "Success@k: the share of questions with at least one relevant passage among the first k. DPR calls it "
    "top-k accuracy."
)
CONTRAST = (
    "Contrast: 1/rank of the first relevant passage in A minus the same in B. "
    "+1: rank 1 in A and not found in B; 0: no difference."
)


def letter(run_side: str) -> Html:
    """The letter of run "a" or "b", in its colour and shape (A square, B round)."""
    return span(run_side.upper(), cls=f"run {run_side}")


def relation_label(id: str | None) -> str:
    """Return a label such as "place of birth (P19)"; for an unknown relation, its id."""
    if not id:
        return "no relation"
    return f"{RELATIONS[id].label} ({id})" if id in RELATIONS else id


def grouping(grouping: str) -> str:
    """Return the displayed name of a grouping. "bucket" means groups by frequency; some of these are official buckets."""
    return "frequency group" if grouping == "bucket" else grouping


def bucket_name(label: str) -> str:
    """Return the displayed name of a frequency group: "group 7" for an official bucket, else its mentions."""
    return label.replace("bucket ", "group ") if label.startswith("bucket ") else label


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "" if estimate.value is None else TOO_FEW
    return interval_ends(100 * estimate.low, 100 * estimate.high)


def percentage(estimate: Estimate, inline: bool = False, is_share: bool = True) -> Html:
    """A percentage with its interval, shown next to it (`inline`) or in its tooltip.

    Args:
        is_share: whether the figure is a share of questions; else it is the mean of a measure such as nDCG.
    """
    of = "% of" if is_share else ", mean over"
    asked = count_with_units(estimate.n, estimate.units)
    message = f"{percent(estimate.value)}{of} {asked}, {interval(estimate)} (95%, {estimate.method})"
    if not inline:
        return tag("span", percent(estimate.value), title=message, cls="figure")
    return tag("span", percent(estimate.value), span(interval(estimate), cls="interval"), title=message, cls="figure")


def n_figure(n: int, unit_count: int | None, unit: Unit | None) -> Html:
    """The n of a table row, and below it, in small print, the number of facts (or other units) if it is another."""
    whole = n_cell(n, unit_count, unit)
    number, _, units = whole.partition(" ")
    return span(number, " ", span(units, cls="interval"), cls="figure") if units else Html(whole)


def rank(value: int, depth: int, run_side: str = "") -> Html:
    """The rank of the first relevant passage, such as "7", or ">100" if none is within `depth`."""
    if value <= 0:
        return tag("span", f">{depth}", cls="rank none", title=f"no relevant passage among the first {depth}")
    return tag("span", f"{value}", cls=f"rank {run_side}")


def answer_badge() -> Html:
    return span(
        "✓ answer", cls="badge answer", title="The text of this passage contains an answer (by the matching rule)"
    )


def gold_badge() -> Html:
    return span("★ gold", cls="badge gold", title="This passage is labelled as answering the question")


def doubtful_badge() -> Html:
    title = "The passage contains an answer but never mentions the question's subject: the match may be chance"
    return span("doubtful", cls="badge doubtful", title=title)


def methods_note(*label: object, title: str = "How this is counted") -> Html:
    """The methods and conventions of a page, in a closed expander, once per page."""
    return tag("details", tag("summary", title), div(*label), cls="how")


def unbroken(sentence: str, names: Iterable[str]) -> Html:
    """A sentence whose names, such as those of runs, do not break at a hyphen. Names too long for a line still break."""
    held = sorted({name for name in names if "-" in name and len(name) <= 24}, key=len, reverse=True)
    if not held:
        return join(sentence)
    parts = re.split(f"({'|'.join(map(re.escape, held))})", sentence)
    return join(*(span(part, cls="unbroken") if part in held else part for part in parts))


NOT_SURE = "p above 0.05 (adjusted for all tests of the table; intervals are not)"


def few(unit: Unit) -> str:
    """What makes a figure pale that comes from few units: "n < 30", or "fewer than 30 facts" where n counts questions."""
    return f"n < {FEW}" if unit == "question" else f"fewer than {FEW} {noun_form(2, unit)}"


def pale_note(*rules: str, looks: str = "Pale") -> Html:
    """The line under a table or plot that says what makes its figures pale, or its points hollow."""
    return tag("p", f"{looks}: {' or '.join(rules)}.", cls="convention")


def choices_fold(words: str) -> Html:
    """A line before the choices of a page (the container `pickers`): in a narrow window they are hidden until it is
    opened, so that the answer and its evidence come first.
    """
    return tag("details", tag("summary", "Change: ", span(words, cls="soft")), cls="choices-fold")


def notice(*label: object, kind: str = "") -> Html:
    return div(*label, cls=f"notice {kind}".strip(), role="note")


def empty(title: str, *label: object, heading: str = "h1") -> Html:
    """The empty state of a page, or of a panel with the heading h2: its purpose, and the next step."""
    return div(tag(heading, title), *(tag("p", line) for line in label), cls="empty")


def command(line: str) -> Html:
    return tag("code", line)


def success_head(k: int) -> Html:
    return term(f"S@{k}", f"Success@{k}. {SUCCESS}")
