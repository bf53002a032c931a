"""CSV for people, who open it in a spreadsheet: a cell that begins with = + - @ would be run there as a formula.

Such a text gets an apostrophe before it, which spreadsheets do not show. Files in the formats of other tools
(`blindspot.backend.data.formats`) are not for spreadsheets: a changed text would be another text there.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The characters with which a formula begins; the last four are full-width, which Excel accepts too."""


def safe_cell(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return "'" + text if text.startswith(FORMULA) else text


def plain_cell(cell: str) -> str:
    """Return the text that `safe_cell` was given."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell


def write_csv(file: TextIO, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a header and rows. Absent columns are empty, others are left out; numbers stay numbers, also those given as
    text.
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
