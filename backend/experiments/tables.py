"""Format an experiment's result as a terminal table, CSV or LaTeX, with the study's figures next to the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from blindspot.backend.core.result_table import ResultTable, latex_tables, records_table
from blindspot.backend.text.number_words import quantity

FIELDS = ("row", "column", "value", "low", "high", "n", "seeds", "published")


def format_value(value: float | None, unit: str) -> str:
    """Format a figure in its unit: shares as per cent with one decimal; "-" for None."""
    if value is None:
        return "-"
    return f"{100 * value:.1f}" if unit == "%" else f"{value:,.2f}"


def format_figure(cell: Mapping[str, Any], unit: str) -> str:
    """Format a figure with its interval."""
    if cell["value"] is None:
        return "-"
    return f"{format_value(cell['value'], unit)} ({format_value(cell['low'], unit)}–{format_value(cell['high'], unit)})"


def result_grid(result: Mapping[str, Any]) -> tuple[list[str], list[str], dict[tuple[str, str], dict]]:
    """Return the names of the rows, the names of the columns, and the cells by (row, column), in the order
    of the plan.
    """
    cells = {(cell["row"], cell["column"]): cell for cell in result["cells"]}
    return list(dict.fromkeys(row for row, _ in cells)), list(dict.fromkeys(column for _, column in cells)), cells


def count_note(row: str, cells: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """Format the number of questions of a row, and of seeds if there are several."""
    ns = sorted({cell["n"] for (name, _), cell in cells.items() if name == row})
    seeds = max(cell["seeds"] for (name, _), cell in cells.items() if name == row)
    return f"{ns[0]:,}" + (f" to {ns[-1]:,}" if len(ns) > 1 else "") + (f" x {seeds}" if seeds > 1 else "")


def result_table(result: Mapping[str, Any]) -> ResultTable:
    """Return an experiment's table with its notes."""
    title = f"{result['experiment']}: {result['paper']}, {result['source']}"
    return _figures_table(result, title, as_lines(result))


def _figures_table(result: Mapping[str, Any], title: str, notes: Sequence[str] = ()) -> ResultTable:
    """Return a table of the study's figures with intervals, and of the paper's figures in separate columns."""
    rows, columns, cells = result_grid(result)
    printed = [
        column for column in columns if any(cells.get((row, column), {}).get("published") is not None for row in rows)
    ]
    heads = [""]
    for column in columns:
        heads += [column, "paper"] if column in printed else [column]
    lines = []
    for row in rows:
        line = [row]
        for column in columns:
            cell = cells.get((row, column))
            line.append(format_figure(cell, result["unit"]) if cell else "")
            if column in printed:
                line.append("" if cell is None or cell["published"] is None else f"{cell['published']:g}")
        lines.append([*line, count_note(row, cells)])
    return ResultTable(title, [*heads, "n"], lines, notes)


def as_lines(result: Mapping[str, Any]) -> list[str]:
    """Return the lines under the table: the note on the figures, each claim, the notes, the verdict."""
    lines = [result["convention"]]
    for claim in result["claims"]:
        lines.append(f"{claim['about']}: {claim['says']}: {difference(claim, result['unit'])}: {claim['word']}")
    return [*lines, *result["notes"], result["sentence"]]


def difference(claim: Mapping[str, Any], unit: str) -> str:
    """Format the figures on which a claim's verdict is based: the difference, its interval and the number of questions."""
    if claim["difference"] is None:
        return "no questions"
    value, low, high = (_signed_value(claim[name], unit) for name in ("difference", "low", "high"))
    level = f"{100 * claim.get('level', 0.95):.4g}%"  # above 95% where several claims are tested together
    points = " points" if unit == "%" else ""
    return f"{value}{points} ({level}: {low} to {high}), {quantity(claim['n'], 'question')}"


def _signed_value(value: float, unit: str) -> str:
    text = format_value(value, unit)
    return f"\N{MINUS SIGN}{text[1:]}" if text.startswith("-") else f"+{text}"


def as_csv(result: Mapping[str, Any]) -> str:
    """Return CSV with one line for each cell. The study's figures are shares between 0 and 1, and the paper's figure is
    as printed.
    """
    return records_table(FIELDS, result["cells"]).as_csv()


def as_latex(result: Mapping[str, Any]) -> str:
    """Return a LaTeX table (booktabs) with the paper's figures in separate columns."""
    caption = f"{result['experiment']}: {result['sentence']}"
    return latex_tables([_figures_table(result, caption)], [caption])
