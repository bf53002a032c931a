"""Tables for the terminal at any width, without broken numbers and words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from blindspot.backend.evaluation.latex import Table

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table as RichTable

NARROWEST = 9
"""Minimum width of the first column in characters; longer names continue on the next line."""
LONG = 5
"""Maximum width of a heading in characters; a longer heading has one word per line."""
BETWEEN = 2
"""Characters between two columns."""


def rich_tables(tables: Sequence[Table], remarks: Sequence[str]) -> RenderableType:
    """Return the tables with the remarks below them."""
    from rich.console import Group
    from rich.text import Text

    result: list[RenderableType] = []
    for table in tables:
        result += [FittingTable(table), Text()]
    return Group(*result, *(Text(remark) for remark in remarks))


class FittingTable:
    """A table that fits the terminal's width.

    An interval is on a separate line below its value. Columns that do not fit follow in a second part of the table,
    which repeats the first column.
    """

    def __init__(self, table: Table) -> None:
        self.caption, headings, rows = table
        self.headings = [
            heading.replace(" ", "\n") if number and len(heading) > LONG else heading
            for number, heading in enumerate(headings)
        ]
        self.rows = [[row[0], *(cell.replace(" [", "\n[", 1) for cell in row[1:])] for row in rows]
        self.widths = [self._width(column) for column in range(len(headings))]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        first, parts = self.parts(options.max_width)
        for number, columns in enumerate(parts):
            if number:
                yield ""
            yield self._part(first, columns, number == 0)

    def parts(self, width: int) -> tuple[int, list[list[int]]]:
        """Return the width of the first column, and the other columns of each part."""
        beside = sum(width + BETWEEN for width in self.widths[1:])
        first = min(self.widths[0], max(NARROWEST, width - beside if beside <= width - NARROWEST else width // 3))
        parts: list[list[int]] = [[]]
        room = width - first
        for column, needed in enumerate(self.widths[1:], 1):
            if parts[-1] and needed + BETWEEN > room:
                parts.append([])
                room = width - first
            parts[-1].append(column)
            room -= needed + BETWEEN
        return first, parts

    def _width(self, column: int) -> int:
        from rich.cells import cell_len

        cells = (self.headings[column], *(row[column] for row in self.rows))
        return max(cell_len(line) for cell in cells for line in cell.split("\n"))

    def _part(self, first: int, columns: Sequence[int], titled: bool) -> RichTable:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable
        from rich.text import Text

        result = RichTable(
            title=Text(self.caption) if titled else None,
            title_justify="left",
            box=SIMPLE_HEAD,
            padding=(0, BETWEEN - 1, 0, 0),
            pad_edge=False,
            show_edge=False,
        )
        result.add_column(Text(self.headings[0]), width=first, overflow="fold")
        for column in columns:
            result.add_column(Text(self.headings[column]), width=self.widths[column], justify="right")
        for row in self.rows:
            result.add_row(
                *(Text(row[column]) for column in (0, *columns))
            )  # plain Text, so that brackets are not read as markup
        return result
