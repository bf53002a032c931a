"""What the Experiments page shows of an experiment that has not run: what its paper reports, and what a run would make."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from blindspot.app.components.compare_tables import scrolling
from blindspot.app.markup import Html, div, join, row, span, table, table_head, tag, term
from blindspot.backend.core.result_table import signed_number
from blindspot.backend.experiments.papers import ExperimentDescription

if TYPE_CHECKING:
    from blindspot.backend.experiments.plan import Cell, PaperClaim

Place = tuple[str, str]
"""The row and the column of a cell."""


class PlannedWords(NamedTuple):
    """What an experiment would do.

    Attributes:
        figures, parts: what the paper reports, and the parts that a run makes.
        title: what the paper reports or claims, in a sentence; "" if it claims nothing.
        trainings: the models that it trains.
    """

    figures: Html
    parts: Html
    title: str
    trainings: str


def planned_table(
    cells: Sequence[Cell], claims: Sequence[PaperClaim], notes: Iterable[str], about: ExperimentDescription
) -> Html:
    """Each claim with the difference of the paper's figures, below them those figures that no claim has, by variant, and
    the notes of the plan.
    """
    printed = published_figures(cells)
    if not printed and not claims:
        return Html("")
    claimed, reported = _claims_table(cells, claims, about.paper), _figures_table(printed)
    is_told = printed.keys() <= {
        place
        for claim in claims
        if claim.expected_worse in printed
        for place in (claim.expected_better, claim.expected_worse)
    }
    where = span(f"on {about.measured_on}", cls="soft") if about.measured_on and printed else ""
    head = tag("h2", f"What {about.paper} {'reports' if printed else 'claims'} ", where)
    more = (tag("p", note, cls="convention") for note in notes)
    return div(head, claimed, "" if is_told else scrolling(reported), *more, cls="panel planned")


def _claims_table(cells: Sequence[Cell], claims: Sequence[PaperClaim], paper: str) -> Html:
    if not claims:
        return Html("")
    printed, shares = published_figures(cells), _shares(cells)
    explained = "The difference of the paper's two figures; without figures, what it claims of the difference"
    lines = []
    for claim in dict.fromkeys(claims):
        compared = _compared(claim)
        lines.append(
            row(
                tag("td", _paper_cell(claim, printed, shares)),
                tag("td", "not run", cls="not-run"),
                head=join(
                    claim.statement, *(span(words, cls="about") for words in (claim.about or compared,) if words)
                ),
            )
        )
    return table(table_head("claim", term(paper, explained), "here"), lines, "figures papers")


def _compared(claim: PaperClaim) -> str:
    """Name the two variants, or the two measures of one, whose difference the claim is about; "" for a single cell."""
    if claim.expected_worse is None:
        return ""
    number = claim.expected_better[0] == claim.expected_worse[0]
    return f"{claim.expected_better[number]} less {claim.expected_worse[number]}"


def _paper_cell(claim: PaperClaim, printed: Mapping[Place, str], shares: Collection[Place]) -> Html | str:
    more, less = claim.expected_better, claim.expected_worse
    scale = 100 if more in shares else 1
    if less and more in printed and less in printed:
        change = signed_number(float(printed[more]) - float(printed[less])) + (" points" if more in shares else "")
        return span(change, span(f"{printed[more]} against {printed[less]}", cls="interval"), cls="figure")
    if claim.tolerance is not None:
        return f"within ±{scale * claim.tolerance:g}"
    return f"above {signed_number(scale * claim.minimum_gain, 0) if claim.minimum_gain < 0 else f'{scale * claim.minimum_gain:g}'}"


def _figures_table(printed: Mapping[Place, str]) -> Html:
    rows, columns = (list(dict.fromkeys(place[number] for place in printed)) for number in (0, 1))
    lines = [row(*(printed.get((name, column), "–") for column in columns), head=name) for name in rows]
    return table(table_head("variant", *columns), lines, "figures small")


def published_figures(cells: Sequence[Cell]) -> dict[Place, str]:
    """Return the paper's figures by row and column, all with as many decimals as the most precise one."""
    known = {(cell.row, cell.column): cell.published for cell in cells if cell.published is not None}
    decimals = max((len(f"{value:g}".partition(".")[2]) for value in known.values()), default=0)
    return {place: f"{value:.{decimals}f}" for place, value in known.items()}


def _shares(cells: Sequence[Cell]) -> set[Place]:
    """Return the cells whose values are shares, which differ by points."""
    return {(cell.row, cell.column) for cell in cells if any(getattr(each, "share", False) for each in cell.measures)}


def planned_title(cells: Sequence[Cell], claims: Sequence[PaperClaim], paper: str) -> str:
    """Say what a paper reports of the claim with its largest difference, or what it claims; "" if it claims nothing."""
    said = {claim: claim.as_published or claim.statement for claim in claims}
    printed = published_figures(cells)

    def apart(claim: PaperClaim) -> float:
        return abs(float(printed[claim.expected_better]) - float(printed[claim.expected_worse or ("", "")]))

    known = [claim for claim in said if claim.expected_better in printed and claim.expected_worse in printed]
    if known:
        chosen = max(known, key=apart)
        more, less = printed[chosen.expected_better], printed[chosen.expected_worse or ("", "")]
        about = f"; {chosen.about}" if chosen.about else ""
        points = f"{signed_number(apart(chosen))[1:]}{_unit_words(chosen, cells)} ({more} against {less}{about})"
        return f"{paper} reports that {said[chosen]}: {points}; not run here yet."
    first = next(iter(said.values()), "")
    return f"{paper} claims that {first}; not run here yet." if first else ""


def _unit_words(claim: PaperClaim, cells: Sequence[Cell]) -> str:
    """Return the unit of the difference, such as " points of Success@5"; "" if the values are no shares."""
    place = claim.expected_better
    if place not in _shares(cells):
        return ""
    measure = next(each for cell in cells if (cell.row, cell.column) == place for each in cell.measures)
    if re.fullmatch(r"\w+@\d+", place[1]):
        return f" points of {place[1]}"
    return f" points of Success@{measure.k}" if hasattr(measure, "k") else " points"


def parts_list(waiting: str, existing: str) -> Html:
    """What a run of the experiment makes, folded."""
    items = (tag("li", each) for each in waiting.split(", "))
    there = tag("p", f"There already: {existing}.", cls="convention")
    return tag("details", tag("summary", "What it makes"), div(tag("ul", *items), there), cls="how")
