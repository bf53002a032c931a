"""The tables of the Relations page: runs by relation, by frequency, and next to published figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from blindspot.analysis import published
from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.buckets import FEW, NEVER, Point
from blindspot.analysis.relations import relation_order
from blindspot.app import url
from blindspot.app.components.marks import figure, relation_label
from blindspot.app.components.tables import gain
from blindspot.app.markup import Html, join, link, span, tag, term
from blindspot.backend.core.units import n_cell
from blindspot.backend.evaluation.comparison import PairedFigures
from blindspot.backend.evaluation.measures import SUCCESS
from blindspot.backend.evaluation.panel import Curves, Panel, RelationTable
from blindspot.backend.evaluation.slice_finder import joined, written

PAGE = "relations"
Address = Callable[..., str]
"""Returns the page's address with changed parameters."""


def order(table: RelationTable, runs: Sequence[str], sort: str) -> list[str]:
    """Return the relations sorted by `sort`: "relation", "n", "difference" or "RUN@K"; a leading "-" reverses the
    order."""
    key = sort.removeprefix("-")
    rows = {row.group: row for row in table.rows}
    names = sorted(rows, key=relation_order)
    if key == "difference" and table.differences:
        measure: Callable[[str], Any] = lambda name: table.differences[name].difference.estimate.value  # noqa: E731
    elif key == "n":
        measure = lambda name: rows[name].n  # noqa: E731
    elif "@" in key and key.rpartition("@")[0] in runs and key.rpartition("@")[2] in map(str, table.ks):
        run, _, k = key.rpartition("@")
        measure = lambda name: rows[name].success[run][int(k)].value  # noqa: E731
    else:
        return names[::-1] if sort.startswith("-") else names
    return sorted(names, key=measure, reverse=not sort.startswith("-"))


def relations(
    table: RelationTable, runs: Sequence[str], sort: str, address: Address, opened: Callable[[str], str]
) -> Html:
    """The table's measure of every run by relation. `opened` returns the address of a relation's questions."""

    def head(key: str, words: object, title: str = "", **more: object) -> Html:
        chosen = sort.removeprefix("-") == key
        arrow = span(" ↓" if sort == key else " ↑", cls="arrow") if chosen else ""
        other = f"-{key}" if sort == key else key
        way = ("descending" if sort == key else "ascending") if chosen else None
        return tag(
            "th",
            link(join(words, arrow), address(sort=other), data_focus=f"sort-{key}", title=title or None),
            scope="col",
            aria_sort=way,
            **more,
        )

    over = [
        tag("td", colspan=2),
        *(tag("th", run, colspan=len(table.ks), scope="colgroup", cls="over") for run in runs),
    ]
    heads = [head("relation", "relation", cls="left"), head("n", "n")]
    heads += [head(f"{run}@{k}", f"@{k}", cls="first" if k == table.ks[0] else None) for run in runs for k in table.ks]
    if table.differences:
        over.append(tag("td"))
        title = f"{runs[0]} − {runs[1]}, {table.title}, paired 95% interval; faint if p (Holm) > 0.05"
        heads.append(head("difference", f"A − B @{table.k}", title, cls="first"))
    rows = {row.group: row for row in table.rows}
    lines = []
    for name in order(table, runs, sort):
        cells = [_cell(rows[name].success[run][k], k == table.ks[0], table) for run in runs for k in table.ks]
        if table.differences:
            cells.append(tag("td", gain(table.differences[name].difference), cls="first"))
        label = link(relation_label(name), opened(name), title="Compare the first two runs on this relation")
        cells = [tag("th", label, scope="row"), tag("td", n_cell(rows[name].n, rows[name].units, table.unit)), *cells]
        lines.append(tag("tr", *cells, cls="few" if rows[name].units < FEW else None))
    sums = []
    micro = next(iter(table.micro.values()))[table.k]
    sums.append(
        _sum(
            "all questions",
            "Micro average: each question has the same weight",
            micro,
            table.micro,
            runs,
            table,
            table.whole,
        )
    )
    if table.macro:
        some = next(iter(table.macro.values()))[table.k]
        message = f"Macro average, as in EntityQuestions: each of {some.n_groups} relations has the same weight"
        sums.append(_sum("mean of relations", message, some, table.macro, runs, table, table.averaged))
    body = [tag("tbody", *sums, cls="sums"), tag("tbody", *lines)]
    return tag("table", tag("thead", tag("tr", *over), tag("tr", *heads)), *body, cls="figures groups panel-table")


def _cell(estimate: Estimate, first: bool, table: RelationTable) -> Html:
    return tag("td", figure(estimate, is_share=table.measure is SUCCESS), cls="first" if first else None)


Values = dict[str, dict[int, Estimate]]
"""[run][k]."""


def _sum(
    name: str,
    said: str,
    some: Estimate,
    values: Values,
    runs: Sequence[str],
    table: RelationTable,
    both: PairedFigures | None,
) -> Html:
    cells = [
        tag("td", figure(values[run][k], True, table.measure is SUCCESS), cls="first" if k == table.ks[0] else None)
        for run in runs
        for k in table.ks
    ]
    if table.differences:
        cells.append(tag("td", gain(both.difference) if both else "", cls="first"))
    return tag(
        "tr", tag("th", term(name, said), scope="row"), tag("td", n_cell(some.n, some.units, table.unit)), *cells
    )


def beside_published(table: RelationTable, runs: Sequence[str], panel: Panel) -> Html | None:
    """Our Success@20 next to the paper's; None if no relation is in both."""
    rows = {row.group: row for row in table.rows if row.group in published.TOP_20}
    if not rows or published.K not in table.ks:
        return None
    heads = [
        tag("th", "relation", scope="col", cls="left"),
        *(tag("th", run, scope="col") for run in runs),
        *(tag("th", each, scope="col", cls="first" if i == 0 else None) for i, each in enumerate(published.SYSTEMS)),
    ]
    over = [
        tag("td"),
        tag("th", f"here, @{published.K}", colspan=len(runs), scope="colgroup", cls="over"),
        tag(
            "th", f"{published.SOURCE}, top {published.K}", colspan=len(published.SYSTEMS), scope="colgroup", cls="over"
        ),
    ]
    lines = [
        _beside(relation_label(name), [rows[name].success[run][published.K] for run in runs], published.TOP_20[name])
        for name in sorted(rows, key=relation_order)
    ]
    if table.macro:
        lines.insert(
            0, _beside("mean of relations", [table.macro[run][published.K] for run in runs], published.AVERAGE)
        )
    result = tag(
        "table",
        tag("thead", tag("tr", *over), tag("tr", *heads)),
        tag("tbody", *lines),
        cls="figures groups panel-table",
    )
    return join(
        tag("p", published.not_comparable(len(panel.study.corpus), len(panel)), cls="notice warning"),
        tag("div", result, cls="scrolling"),
    )


def _beside(name: str, ours: Sequence[Estimate], theirs: Sequence[float]) -> Html:
    cells = [tag("td", figure(value)) for value in ours] + [
        tag("td", f"{their:.1f}", cls="first" if i == 0 else None) for i, their in enumerate(theirs)
    ]
    return tag("tr", tag("th", name, scope="row"), *cells)


def along_frequency(curves: Curves, runs: Sequence[str], opened: Callable[[str], str]) -> Html:
    """The points of the curves, one row for each bucket and series. `opened` returns the address of a slice's
    questions."""
    grouped = curves.cut == "mentions"
    words = (
        ("subjects", "mentions", "n")
        if grouped
        else ("subjects", "bucket" if curves.cut == "official" else "group", "mentions", "n")
    )
    heads = [tag("th", word, scope="col", cls="left" if word == "subjects" else None) for word in words]
    heads += [tag("th", run, scope="col") for run in runs]
    lines = []
    for series, by_run in curves.series.items():
        for number, point in enumerate(by_run[runs[0]]):
            address = opened(slice_of(curves, series, point))
            span_cell = "" if grouped else tag("td", _span(point))
            is_share = curves.measure is SUCCESS
            cells = [tag("td", figure(by_run[run][number].success, True, is_share)) for run in runs]
            count = (
                link(
                    n_cell(point.n, point.units, curves.unit),
                    address,
                    title="Compare the first two runs on these questions",
                )
                if address
                else n_cell(point.n, point.units, curves.unit)
            )
            head = tag("th", series if number == 0 else "", scope="row")
            lines.append(
                tag(
                    "tr",
                    head,
                    tag("td", curves.label(point.bucket)),
                    span_cell,
                    tag("td", count),
                    *cells,
                    cls="few" if point.few else None,
                )
            )
    return tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *lines), cls="figures groups panel-table")


def _span(point: Point) -> str:
    if point.min_frequency is None:
        return ""
    return (
        f"{point.min_frequency:,}"
        if point.min_frequency == point.max_frequency
        else f"{point.min_frequency:,}–{point.max_frequency:,}"
    )


def slice_of(curves: Curves, series: str, point: Point) -> str:
    """Return the slice of the questions behind a point. A slice cannot express whether training saw a subject."""
    relation = written("relation", curves.relation) if curves.relation else ""
    if curves.cut == "official":
        return joined([relation, written("set", series), f"bucket:{point.bucket}"])
    if point.bucket == NEVER:
        return joined([relation, "frequency=0"])
    return joined([relation, f"frequency>={point.min_frequency}", f"frequency<={point.max_frequency}"])


def choices(label: str, options: Sequence[tuple[str, str, bool]]) -> Html:
    """A row of links with the current choice marked. Each option is (words, address, is chosen)."""
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
    """Return this page's address with changed parameters."""
    import streamlit as st

    return url.href(PAGE, {**st.query_params.to_dict(), **parameters})
