"""The tables of the Relations page: runs by relation, by frequency, and beside published figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.buckets import FEW, NEVER, Point
from blindspot.analysis.relations import relation_order
from blindspot.app import url
from blindspot.app.components.compare_tables import gain
from blindspot.app.components.marks import letter, percentage, relation_label
from blindspot.app.markup import Html, join, link, row, span, table, table_head, tag, term
from blindspot.backend.core.units import n_cell
from blindspot.backend.evaluation.comparison import PairedFigures
from blindspot.backend.evaluation.measures import SUCCESS
from blindspot.backend.evaluation.panel import Curves, RelationTable
from blindspot.backend.evaluation.slice_finder import join_expressions, write_condition

PAGE = "relations"


def order(table: RelationTable) -> list[str]:
    """Return the relations, ordered by the difference of the first two runs, largest first; ordered by id for a single
    run.
    """
    names = sorted((row.group for row in table.rows), key=relation_order)
    if table.differences:
        names.sort(key=lambda name: -(table.differences[name].difference.estimate.value or 0.0))
    return names


def relations(table: RelationTable, runs: Sequence[str], questions_address: Callable[[str], str]) -> Html:
    """The measure of the table, for every run and relation. `questions_address` returns the address of a relation's
    questions.
    """
    compared = (join(letter("a"), " "), join(letter("b"), " ")) if table.differences else ()
    badges = [*compared, *[""] * (len(runs) - len(compared))]
    over = [
        tag("td", colspan=3 if table.differences else 2),
        *(
            tag("th", badge, run, colspan=len(table.ks), scope="colgroup", cls="over")
            for badge, run in zip(badges, runs, strict=True)
        ),
    ]
    under = [tag("th", "relation", scope="col", cls="left"), tag("th", "n", scope="col", cls="wide")]
    if table.differences:
        title = f"{runs[0]} − {runs[1]}, {table.title}, paired 95% interval; faint if p (Holm) > 0.05"
        under.append(tag("th", f"A − B @{table.k}", title=title, scope="col"))
    classes = {k: _cell_class(k, table) for k in table.ks}
    under += [tag("th", f"@{k}", scope="col", cls=classes[k]) for _ in runs for k in table.ks]
    rows = {row.group: row for row in table.rows}
    lines = []
    for name in order(table):
        cells = [_estimate_cell(rows[name].success[run][k], k, table) for run in runs for k in table.ks]
        if table.differences:
            both = table.differences[name].difference
            cells.insert(0, tag("td", gain(both), data_value=both.estimate.value))
        label = link(relation_label(name), questions_address(name), title="Compare the first two runs on this relation")
        n = tag("td", n_cell(rows[name].n, rows[name].units, table.unit), cls="wide")
        lines.append(row(n, *cells, head=label, cls="few" if rows[name].units < FEW else None))
    micro = next(iter(table.micro.values()))[table.k]
    said = "Micro average: each question has the same weight"
    sums = [_summary_row("all questions", said, micro, table.micro, runs, table, table.whole)]
    if table.macro:
        some = next(iter(table.macro.values()))[table.k]
        said = f"Macro average, as in EntityQuestions: each of {some.n_groups} relations has the same weight"
        sums.append(_summary_row("mean of relations", said, some, table.macro, runs, table, table.averaged))
    body = [tag("tbody", *sums, cls="sums"), tag("tbody", *lines)]
    head = tag("thead", tag("tr", *over, cls="wide"), tag("tr", *under))
    return tag("table", head, *body, cls="figures groups panel-table sortable")


def _cell_class(k: int, table: RelationTable) -> str | None:
    """The class of a run's column: narrow windows show the difference, or the chosen k of a single run."""
    is_wide = bool(table.differences) or k != table.k
    return " ".join(filter(None, ("first" if k == table.ks[0] else "", "wide" if is_wide else ""))) or None


def _estimate_cell(estimate: Estimate, k: int, table: RelationTable, inline: bool = False) -> Html:
    return tag("td", percentage(estimate, inline, table.measure is SUCCESS), cls=_cell_class(k, table))


Values = dict[str, dict[int, Estimate]]
"""[run][k]."""


def _summary_row(
    name: str,
    explanation: str,
    estimates: Estimate,
    values: Values,
    runs: Sequence[str],
    table: RelationTable,
    paired_figures: PairedFigures | None,
) -> Html:
    cells = [_estimate_cell(values[run][k], k, table, inline=True) for run in runs for k in table.ks]
    if table.differences:
        cells.insert(0, tag("td", gain(paired_figures.difference) if paired_figures else ""))
    return tag(
        "tr",
        tag("th", term(name, explanation), scope="row"),
        tag("td", n_cell(estimates.n, estimates.units, table.unit), cls="wide"),
        *cells,
    )


def along_frequency(curves: Curves, runs: Sequence[str], questions_address: Callable[[str], str]) -> Html:
    """The values behind the plotted curves, one row for each frequency group and series. `questions_address` returns the address
    of a slice's questions.
    """
    is_share, lines = curves.measure is SUCCESS, []
    for series, by_run in curves.series.items():
        for number, point in enumerate(by_run[runs[0]]):
            count = tag("td", n_cell(point.n, point.units, curves.unit), cls="wide")
            known: list[Html | str] = [*curves.known_cells("" if number else series, point)]
            if address := questions_address(slice_of(curves, series, point)):
                named = max(place for place, words in enumerate(known) if words)
                known[named] = link(known[named], address, title="Compare the first two runs on these questions")
            head, *known = known
            shown = [percentage(by_run[run][number].success, True, is_share) for run in runs]
            cells = [*known, count, *shown[:2], *(tag("td", each, cls="wide") for each in shown[2:])]
            lines.append(row(*cells, head=head, cls="few" if point.has_few_questions else None))
    heads = (tag("th", name, scope="col", cls="wide" if name in ("n", *runs[2:]) else None) for name in ("n", *runs))
    known_heads = ("frequency group" if name == "bucket" else name for name in curves.known_columns)
    return table(table_head(*known_heads, *heads), lines, "figures groups panel-table")


def slice_of(curves: Curves, series: str, point: Point) -> str:
    """Return the slice of the questions behind a point. A slice cannot express whether the training data asks about a
    question's subject.
    """
    relation = write_condition("relation", curves.relation) if curves.relation else ""
    if curves.cut == "official":
        return join_expressions([relation, write_condition("set", series), f"bucket:{point.bucket}"])
    if point.bucket == NEVER:
        return join_expressions([relation, "frequency=0"])
    return join_expressions([relation, f"frequency>={point.min_frequency}", f"frequency<={point.max_frequency}"])


def choices(label: str, options: Sequence[tuple[str, str, bool]]) -> Html:
    """A row of links with the current choice marked. Each option is (words, address, whether it is chosen)."""
    links = [
        link(
            words,
            to,
            cls="here" if active else None,
            aria_current="true" if active else None,
            data_focus=f"{label}-{words}",
        )
        for words, to, active in options
    ]
    return tag("div", span(label, cls="label"), span(*links, cls="choices"), cls="k-picker")


def page_address(**parameters: object) -> str:
    """Return this page's address with some parameters changed."""
    import streamlit as st

    return url.href(PAGE, {**st.query_params.to_dict(), **parameters})
