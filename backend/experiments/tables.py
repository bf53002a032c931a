"""Format an experiment's result as a terminal table, CSV or LaTeX, with our figures beside the paper's."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.spreadsheets import write_csv
from blindspot.backend.evaluation.latex import latex_table

if TYPE_CHECKING:
    from rich.table import Table

FIELDS = ("row", "column", "value", "low", "high", "n", "seeds", "published")


def shown(value: float | None, unit: str) -> str:
    """Format a figure in its unit: shares as per cent with one decimal; "-" for none."""
    if value is None:
        return "-"
    return f"{100 * value:.1f}" if unit == "%" else f"{value:,.2f}"


def figure(cell: Mapping[str, Any], unit: str) -> str:
    """Format a figure with its interval."""
    if cell["value"] is None:
        return "-"
    return f"{shown(cell['value'], unit)} ({shown(cell['low'], unit)}–{shown(cell['high'], unit)})"


def grid(result: Mapping[str, Any]) -> tuple[list[str], list[str], dict[tuple[str, str], dict]]:
    """Return (rows, columns, cells by row and column), in the order of the plan."""
    cells = {(cell["row"], cell["column"]): cell for cell in result["cells"]}
    return list(dict.fromkeys(row for row, _ in cells)), list(dict.fromkeys(column for _, column in cells)), cells


def counts(row: str, cells: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """Format the number of questions of a row, and of seeds if there are several."""
    ns = sorted({cell["n"] for (name, _), cell in cells.items() if name == row})
    seeds = max(cell["seeds"] for (name, _), cell in cells.items() if name == row)
    return f"{ns[0]:,}" + (f" to {ns[-1]:,}" if len(ns) > 1 else "") + (f" x {seeds}" if seeds > 1 else "")


def as_rich(result: Mapping[str, Any]) -> Table:
    """Return a table of our figures with intervals, with the paper's figures in separate columns."""
    from rich.markup import escape
    from rich.table import Table

    rows, columns, cells = grid(result)
    printed = [
        column for column in columns if any(cells.get((row, column), {}).get("published") is not None for row in rows)
    ]
    table = Table(title=escape(f"{result['experiment']}: {result['paper']}, {result['source']}"), title_justify="left")
    table.add_column("")
    for column in columns:
        table.add_column(escape(column), justify="right")
        if column in printed:
            table.add_column("paper", justify="right", style="dim")
    table.add_column("n", justify="right")
    for row in rows:
        line = [escape(row)]
        for column in columns:
            cell = cells.get((row, column))
            line.append(figure(cell, result["unit"]).replace(" (", "\n(") if cell else "")
            if column in printed:
                line.append("" if cell is None or cell["published"] is None else f"{cell['published']:g}")
        table.add_row(*line, counts(row, cells))
    return table


def as_lines(result: Mapping[str, Any]) -> list[str]:
    """Return the lines under the table: the note on the figures, each claim, the notes, the verdict."""
    lines = [result["convention"]]
    for claim in result["claims"]:
        lines.append(f"{claim['says']}: {difference(claim, result['unit'])}: {claim['word']}")
    return [*lines, *result["notes"], result["sentence"]]


def difference(claim: Mapping[str, Any], unit: str) -> str:
    """Format the basis of a claim's verdict: the difference, its interval, n."""
    if claim["difference"] is None:
        return "no questions"
    return (
        f"{_signed(claim['difference'], unit)} ({_signed(claim['low'], unit)} to {_signed(claim['high'], unit)}), "
        f"n = {claim['n']:,}"
    )


def _signed(value: float, unit: str) -> str:
    text = shown(value, unit)
    return text if text.startswith("-") else f"+{text}"


def as_csv(result: Mapping[str, Any]) -> str:
    """Return CSV with one line for each cell, with shares of 1 and the paper's figure as printed."""
    out = io.StringIO()
    write_csv(out, FIELDS, result["cells"])
    return out.getvalue()


def as_latex(result: Mapping[str, Any]) -> str:
    """Return a LaTeX table (booktabs) with the paper's figures in brackets."""
    rows, columns, cells = grid(result)
    lines = []
    for row in rows:
        line = [row]
        for column in columns:
            cell = cells.get((row, column))
            paper = "" if cell is None or cell["published"] is None else f" [{cell['published']:g}]"
            line.append(figure(cell, result["unit"]) + paper if cell else "")
        lines.append([*line, counts(row, cells)])
    caption = f"{result['experiment']}: {result['sentence']}"
    return latex_table([(caption, ["", *columns, "n"], lines)], [caption])
