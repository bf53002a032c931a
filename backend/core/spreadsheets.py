"""Write CSV that is safe to open in a spreadsheet, where a cell that begins with = + - @ would run as a formula.

Such a text is written with an apostrophe in front, which spreadsheets do not show. Files for other tools
(`blindspot.backend.data.formats`) do not get the apostrophe, because those tools would read it as part of the text.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The characters with which a formula begins; the last four are full-width, which Excel accepts too."""


def safe_cell(text: str) -> str:
    """Return a text that spreadsheets do not interpret as a formula."""
    return "'" + text if text.startswith(FORMULA) else text


def plain_cell(cell: str) -> str:
    """Undo `safe_cell`: return the original text."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell


def write_csv(file: TextIO, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a header and rows. Missing values are empty cells, and keys that are not in `columns` are left out.
    Numbers, even as text, are written without an apostrophe.
    """
    writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: _cell_value(value) for key, value in row.items()})


def _cell_value(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return safe_cell(value)
    return value if value.isascii() and not value[0].isspace() else safe_cell(value)
