"""The tables of the Relations page: runs by relation, by frequency, and beside published figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.buckets import FEW, NEVER, Point
from blindspot.analysis.relations import relation_order
from blindspot.app import url
from blindspot.app.components.compare_tables import GAIN, gain
from blindspot.app.components.marks import few, letter, n_figure, percentage, relation_label
from blindspot.app.components.strips import strip_cell, strip_head, widest_difference
from blindspot.app.markup import Html, join, link, row, span, table, table_head, tag, term, wide_cell, wide_head
from blindspot.backend.core.result_table import p_value
from blindspot.backend.core.units import n_cell
from blindspot.backend.evaluation.comparison import SURE, PairedFigures
from blindspot.backend.evaluation.measures import SUCCESS
from blindspot.backend.evaluation.panel import Curves, RelationTable
from blindspot.backend.evaluation.slice_finder import join_expressions, write_condition
from blindspot.backend.text.number_words import quantity

PAGE = "relations"
NOT_ESTABLISHED = "difference not established"


def order(table: RelationTable) -> list[str]:
    """Return the relations in the order of the table: by its parts (`_part_of`), in each by how far the first run is
    ahead; by id for a single run.
    """
    parts = ("", NOT_ESTABLISHED, few(table.unit))

    def place(name: str) -> tuple[int, float]:
        both = table.differences.get(name)
        return parts.index(_part_of(table, name)), -((both and both.difference.estimate.value) or 0.0)

    return sorted(sorted((row.group for row in table.rows), key=relation_order), key=place)


def _part_of(table: RelationTable, name: str) -> str:
    """Return the words above the part of the table that a relation is in, "" for the first part: the relations with
    enough units and, for two runs, an established difference.
    """
    if next(row.units for row in table.rows if row.group == name) < FEW:
        return few(table.unit)
    both = table.differences.get(name)
    return NOT_ESTABLISHED if both is not None and both.difference.p_shown > SURE else ""


Address = Callable[[str, str], str]
"""Returns the address of the questions of a relation or a slice, of all of them or of one cell of the two-by-two table."""


def relations(table: RelationTable, runs: Sequence[str], questions_address: Address) -> Html:
    """The measure of the table at its k, for every run and relation, and the difference of the first two runs, drawn on
    a line, with the number of questions that only one of them answers. The other k are shown on demand. A line names each
    part of the table but the first, see `_part_of`.
    """
    limit = widest_difference(each.difference.estimate for each in table.differences.values())
    rows = {row.group: row for row in table.rows}
    parts: dict[str, list[Html]] = {}
    for name in order(table):
        label = link(
            relation_label(name), questions_address(name, ""), title="Compare the first two runs on this relation"
        )
        n = n_figure(rows[name].n, rows[name].units, table.unit)
        both = table.differences.get(name)
        counts = [] if both is None else _count_cells(both, partial(questions_address, name))
        cells = _cells(table, runs, rows[name].success, both, limit, counts)
        counted = f"n {n_cell(rows[name].n, rows[name].units, table.unit)}"
        head = tag("th", label, scope="row", data_n=counted)
        line = row(wide_cell(n), *cells, head=head, cls="few" if rows[name].units < FEW else None)
        parts.setdefault(_part_of(table, name), []).append(line)
    micro = next(iter(table.micro.values()))[table.k]
    said = "Micro average: each question has the same weight"
    sums = [_summary_row(term("all questions", said), micro, table, table.micro, table.whole, limit)]
    if table.macro:
        some = next(iter(table.macro.values()))[table.k]
        said = f"Macro average, as in EntityQuestions: each of {some.n_groups} relations has the same weight"
        sums.append(_summary_row(term("mean of relations", said), some, table, table.macro, table.averaged, limit))
    columns = len(_heads(table, runs, limit))
    bodies = [tag("tbody", *sums, cls="sums")]
    for part, lines in parts.items():
        if part and len(parts) > 1:
            named = tag("th", part, colspan=columns, scope="rowgroup", cls="left soft")
            bodies.append(tag("tbody", tag("tr", named), cls="rule"))
        bodies.append(tag("tbody", *lines))
    head = tag("thead", tag("tr", *_heads(table, runs, limit)))
    return tag("table", head, *bodies, cls="figures groups panel-table sortable")


def _heads(table: RelationTable, runs: Sequence[str], limit: float) -> list[Html]:
    badges = [letter("a"), letter("b")] if table.differences else []
    names = [join(badge, " ", run) for badge, run in zip_longest(badges, runs, fillvalue="")]
    is_wide = "wide" if table.differences else None
    heads = [tag("th", "relation", scope="col", cls="left"), wide_head("n")]
    heads += [tag("th", name, f" @{table.k}", scope="col", cls=is_wide) for name in names]
    if table.differences:
        counted = quantity(len(table.differences), "relation")
        heads += [
            tag("th", term("ahead", GAIN), scope="col", cls="lead", aria_sort="descending"),
            *_count_heads(),
            strip_head(limit),
            tag("th", term("p (Holm)", f"p value, Holm-adjusted for {counted}"), scope="col", cls="wide deep"),
        ]
    others = [k for k in table.ks if k != table.k]
    return heads + [tag("th", name, f" @{k}", scope="col", cls="wide deep") for name in names for k in others]


def _cells(
    table: RelationTable,
    runs: Sequence[str],
    values: Mapping[str, Mapping[int, Estimate]],
    both: PairedFigures | None,
    limit: float,
    counts: Sequence[Html],
    *,
    inline: bool = False,
) -> list[Html]:
    """The cells of a row after its name and n, in the order of the heads. counts: those of `_count_cells`."""
    is_share, is_wide = table.measure is SUCCESS, "wide" if table.differences else None
    cells = [tag("td", percentage(values[run][table.k], inline, is_share), cls=is_wide) for run in runs]
    if table.differences and both is None:
        cells += [tag("td"), *counts, tag("td", cls="wide strip-column"), tag("td", cls="wide deep")]
    elif both is not None:
        estimate = both.difference.estimate
        cells += [
            tag("td", gain(both.difference), data_value=estimate.value),
            *counts,
            strip_cell(estimate, limit, is_pale=both.difference.p_shown > SURE or both.units < FEW),
            tag("td", _adjusted_p(both), cls="wide deep"),
        ]
    others = [k for k in table.ks if k != table.k]
    return cells + [
        tag("td", percentage(values[run][k], inline, is_share), cls="wide deep") for run in runs for k in others
    ]


def _adjusted_p(both: PairedFigures) -> str:
    p = both.difference.p_adjusted
    return "" if p is None else p_value(p)


def _count_heads() -> tuple[Html, Html]:
    return (
        wide_head(term(join("only ", letter("a")), "Questions that only A answers in the top k")),
        wide_head(term(join("only ", letter("b")), "Questions that only B answers in the top k")),
    )


def _count_cells(both: PairedFigures, cell_address: Callable[[str], str]) -> list[Html]:
    """How many questions only the first and only the second run answers, each with a link to them."""
    counts = {"only_a": both.flips.only_a, "only_b": both.flips.only_b}
    return [wide_cell(link(f"{n:,}", cell_address(cell)) if n else "0") for cell, n in counts.items()]


def _summary_row(
    name: Html,
    some: Estimate,
    table: RelationTable,
    values: Mapping[str, Mapping[int, Estimate]],
    both: PairedFigures | None,
    limit: float,
) -> Html:
    counts = [wide_cell("")] * len(_count_heads() if table.differences else ())
    cells = _cells(table, list(values), values, both, limit, counts, inline=True)
    return row(wide_cell(n_figure(some.n, some.units, table.unit)), *cells, head=name)


def along_frequency(curves: Curves, runs: Sequence[str], questions_address: Address) -> Html:
    """The values behind the plotted curves, one row for each frequency group and series, with the difference of the
    first two runs, and the number of questions that only one of them answers.
    """
    is_share, lines = curves.measure is SUCCESS, []
    for series, by_run in curves.series.items():
        differences = curves.differences.get(series, {})
        for number, point in enumerate(by_run[runs[0]]):
            known: list[Html | str] = [*curves.known_cells("" if number else series, point)]
            expression = slice_of(curves, series, point)
            if address := questions_address(expression, ""):
                named = max(place for place, words in enumerate(known) if words)
                known[named] = link(known[named], address, title="Compare the first two runs on these questions")
            head, *known = known
            shown = [percentage(by_run[run][number].success, True, is_share) for run in runs]
            cells = [*known, wide_cell(n_figure(point.n, point.units, curves.unit))]
            cells += [wide_cell(each) if curves.differences else each for each in shown[:2]]
            if curves.differences:
                both = differences.get(point.bucket)
                cells.append(tag("td", gain(both.difference) if both else ""))
                cells += (
                    [*_count_cells(both, partial(questions_address, expression)), wide_cell(_adjusted_p(both))]
                    if both
                    else [wide_cell("")] * 3
                )
            cells += [wide_cell(each) for each in shown[2:]]
            first = tag("th", head, scope="row", data_n=f"n {n_cell(point.n, point.units, curves.unit)}")
            lines.append(row(*cells, head=first, cls="few" if point.has_few_questions else None))
    badges = [letter("a"), letter("b")] if len(runs) > 1 else []
    names = [join(badge, " ", run) for badge, run in zip_longest(badges, runs, fillvalue="")]
    heads = [wide_head("n")]
    heads += [wide_head(name) if curves.differences else tag("th", name, scope="col") for name in names[:2]]
    if curves.differences:
        heads += [tag("th", term("ahead", GAIN), scope="col", cls="lead"), *_count_heads()]
        heads.append(wide_head(term("p (Holm)", "p value, Holm-adjusted for the number of groups")))
    heads += [wide_head(name) for name in names[2:]]
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
    return url.href(PAGE, page_parameters(**parameters))


def page_parameters(**parameters: object) -> dict[str, object]:
    """Return the parameters of this page's address with some of them changed."""
    import streamlit as st

    return {**st.query_params.to_dict(), **parameters}
