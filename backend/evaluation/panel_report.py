"""Format the results of several runs as tables for the HTML report and LaTeX, and as figures for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from blindspot.analysis import published
from blindspot.analysis.relations import relation_name
from blindspot.backend.core.result_table import Column, ResultTable, percent
from blindspot.backend.core.units import n_value

if TYPE_CHECKING:
    from blindspot.backend.evaluation.panel import Curves, RelationTable


def relation_rows(table: RelationTable, members: Sequence[str]) -> ResultTable:
    """Return the measure of each run by relation, with the averages first."""
    columns: list[Column | str] = [
        "relation",
        "n",
        *(Column(f"{run} @{k}", format="percent") for run in members for k in table.ks),
    ]
    rows: list[list[object]] = [
        [
            relation_name(row.group),
            n_value(row.n, row.units, table.unit),
            *(row.success[run][k] for run in members for k in table.ks),
        ]
        for row in table.rows
    ]
    for name, values in (("mean of relations", table.macro), ("all questions", table.micro)):
        if values:
            some = next(iter(values.values()))[table.k]
            n = n_value(some.n, some.units, table.unit)
            rows.insert(0, [name, n, *(values[run][k] for run in members for k in table.ks)])
    return ResultTable(f"{table.measure.title_at('k')} by relation, %", columns, rows)


def published_rows(table: RelationTable, members: Sequence[str], order: Sequence[str]) -> ResultTable:
    """Return the runs' Success@20 next to the published figures of EntityQuestions, Table 5."""
    rows = {row.group: row for row in table.rows}
    result = []
    for name in order:
        if name in published.TOP_20:
            ours = [percent(rows[name].success[run][published.K]) for run in members]
            result.append([relation_name(name), *ours, *(f"{value:.1f}" for value in published.TOP_20[name])])
    ours = [percent(table.macro[run][published.K]) for run in members]
    result.insert(0, ["mean of relations", *ours, *(f"{v:.1f}" for v in published.AVERAGE)])
    heads = ["relation", *members, *(f"{each}, published" for each in published.SYSTEMS)]
    return ResultTable(f"Comparison with {published.SOURCE}: top {published.K}, %", heads, result)


def frequency_rows(curves: Curves, members: Sequence[str]) -> ResultTable:
    """Return the points of the curves, with their intervals."""
    rows = []
    for series, by_run in curves.series.items():
        for number, point in enumerate(by_run[members[0]]):
            shares = [by_run[run][number].success for run in members]
            rows.append([*curves.known_cells(series, point), n_value(point.n, point.units, curves.unit), *shares])
    return ResultTable(
        f"{curves.title}, %, with 95% interval; frequency by {curves.source}",
        [*curves.known_columns, "n", *members],
        rows,
    )


def relation_figures(table: RelationTable, members: Sequence[str]) -> ResultTable:
    """Return one row for each relation, run and k, averages first. Values are shares between 0 and 1."""
    groups = [("all questions", table.micro), ("mean of relations", table.macro)]
    groups += [(row.group, row.success) for row in table.rows]
    rows = [
        (name, run, k, each.n, each.n_units, each.value, each.low, each.high)
        for name, values in groups
        for run in members
        if run in values
        for k, each in values[run].items()
    ]
    return ResultTable("", ["relation", "run", "k", "n", "units", table.measure.name, "low", "high"], rows)


def frequency_figures(curves: Curves, members: Sequence[str]) -> ResultTable:
    """Return one row for each series, group and run. Values are shares between 0 and 1."""
    rows = []
    for series, by_run in curves.series.items():
        for run in members:
            for point in by_run[run]:
                known = (series, curves.label(point.bucket), point.min_frequency, point.max_frequency)
                each = point.success
                rows.append((*known, run, curves.k, each.n, each.n_units, each.value, each.low, each.high))
    columns = [
        "subjects",
        "group",
        "min_mentions",
        "max_mentions",
        "run",
        "k",
        "n",
        "units",
        curves.measure.name,
        "low",
        "high",
    ]
    return ResultTable("", columns, rows)
