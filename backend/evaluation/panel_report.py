"""The panel's tables as rows of text, for the HTML report, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from blindspot.analysis import published
from blindspot.analysis.relations import relation_name
from blindspot.backend.core.spreadsheets import write_csv
from blindspot.backend.core.units import n_cell
from blindspot.backend.evaluation.latex import ABSENT, Table
from blindspot.backend.evaluation.measures import RankingMeasure
from blindspot.backend.evaluation.percentages import percent, percent_with_interval

if TYPE_CHECKING:
    from blindspot.analysis.accuracy import Estimate
    from blindspot.backend.evaluation.panel import Curves, RelationTable


def relation_rows(table: RelationTable, members: Sequence[str]) -> Table:
    """Return the measure of each run by relation, with the averages first."""
    heads = ["relation", "n", *(f"{run} @{k}" for run in members for k in table.ks)]
    rows = [
        [
            relation_name(row.group),
            n_cell(row.n, row.units, table.unit),
            *(percent(row.success[run][k]) for run in members for k in table.ks),
        ]
        for row in table.rows
    ]
    for name, values in (("mean of relations", table.macro), ("all questions", table.micro)):
        if values:
            some = next(iter(values.values()))[table.k]
            rows.insert(
                0,
                [
                    name,
                    n_cell(some.n, some.units, table.unit),
                    *(percent(values[run][k]) for run in members for k in table.ks),
                ],
            )
    return f"{table.measure.at('k')} by relation, %", heads, rows


def published_rows(table: RelationTable, members: Sequence[str], order: Sequence[str]) -> Table:
    """Return our Success@20 beside the figures of EntityQuestions, Table 5."""
    rows = {row.group: row for row in table.rows}
    result = []
    for name in order:
        if name in published.TOP_20:
            ours = [percent(rows[name].success[run][published.K]) for run in members]
            result.append([relation_name(name), *ours, *(f"{value:.1f}" for value in published.TOP_20[name])])
    ours = [percent(table.macro[run][published.K]) for run in members]
    result.insert(0, ["mean of relations", *ours, *(f"{v:.1f}" for v in published.AVERAGE)])
    heads = ["relation", *members, *(f"{each}, published" for each in published.SYSTEMS)]
    return f"Comparison with {published.SOURCE}: top {published.K}, %", heads, result


def frequency_rows(curves: Curves, members: Sequence[str]) -> Table:
    """Return the points of the curves, with their intervals."""
    rows = []
    for series, by_run in curves.series.items():
        for number, point in enumerate(by_run[members[0]]):
            span = (
                ABSENT if point.min_frequency is None else f"{point.min_frequency:,}\N{EN DASH}{point.max_frequency:,}"
            )
            shares = [percent_with_interval(by_run[run][number].success) for run in members]
            rows.append([series, curves.label(point.bucket), span, n_cell(point.n, point.units, curves.unit), *shares])
    return (
        f"{curves.title}, %, with 95% interval; frequency by {curves.source}",
        ["subjects", "group", "mentions", "n", *members],
        rows,
    )


def relations_csv(table: RelationTable, members: Sequence[str]) -> str:
    """Return one line for each relation, run and k. Values are shares of 1. The averages come first."""
    rows: list[dict[str, Any]] = []
    for name, values in (("all questions", table.micro), ("mean of relations", table.macro)):
        rows += [row for run in members if run in values for row in _lines("relation", name, run, values[run])]
    for group in table.rows:
        rows += [row for run in members for row in _lines("relation", group.group, run, group.success[run])]
    return _csv(("relation", *FIELDS), rows, table.measure)


def frequency_csv(curves: Curves, members: Sequence[str]) -> str:
    """Return one line for each series, group and run. Values are shares of 1."""
    rows = []
    for series, by_run in curves.series.items():
        for run in members:
            for point in by_run[run]:
                known = {"min_mentions": point.min_frequency, "max_mentions": point.max_frequency, "subjects": series}
                line = next(_lines("group", curves.label(point.bucket), run, {curves.k: point.success}))
                rows.append(line | known)
    return _csv(("subjects", "group", "min_mentions", "max_mentions", *FIELDS), rows, curves.measure)


FIELDS = ("run", "k", "n", "units", "success", "low", "high")


def _lines(kind: str, name: str, run: str, values: dict[int, Estimate]) -> Iterator[dict[str, Any]]:
    for k, estimate in values.items():
        yield {
            kind: name,
            "run": run,
            "k": k,
            "n": estimate.n,
            "units": estimate.n_units,
            "success": estimate.value,
            "low": estimate.low,
            "high": estimate.high,
        }


def _csv(columns: Sequence[str], rows: Sequence[dict[str, Any]], measure: RankingMeasure) -> str:
    """Write the lines; the column of the figures has the name of the measure."""
    out = StringIO()
    named = [{measure.name if key == "success" else key: value for key, value in row.items()} for row in rows]
    write_csv(out, [measure.name if column == "success" else column for column in columns], named)
    return out.getvalue()
