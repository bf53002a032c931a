"""Result tables that are declared once and can be written as terminal text, LaTeX, HTML, Markdown, CSV or a DataFrame.

Cells hold values: texts, counts, shares between 0 and 1, or estimates with an interval. The format of a column
determines how its values are written. Tables in a terminal are fitted to its width: an interval is printed on the line
below its value, and columns that do not fit are printed as a second table. Notes are printed below a table; in LaTeX
they are comments above it.
"""

from __future__ import annotations

import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from blindspot.analysis.accuracy import Estimate
from blindspot.backend.core.spreadsheets import write_csv

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table as RichTable

ABSENT = "\N{EN DASH}"
"""Shown in place of a missing value."""
TOO_FEW = "too few to say"
"""Shown in place of an interval if there are too few observations for one."""
NARROWEST = 9
"""Minimum width of the first column in characters; longer names continue on the next line."""
LONG = 5
"""Maximum width of a heading in characters; a longer heading has one word per line."""
BETWEEN = 2
"""Characters between two columns of a terminal table."""

_INTERVAL = re.compile(r"^([-+\d.,%]+) (?=[\[(].*(?:\N{EN DASH}|,| to ))")
"""A figure with its interval; a terminal prints the interval below the figure."""
Format = Literal["plain", "percent", "interval", "range", "difference", "p"]


def percent(estimate: Estimate | float | None) -> str:
    """Return a share in percent, such as "61.2"; a dash for None."""
    value = estimate.value if isinstance(estimate, Estimate) else estimate
    return ABSENT if value is None else f"{100 * value:.1f}"


def percent_with_interval(estimate: Estimate | None, separator: str = "\N{EN DASH}") -> str:
    """Return a share in percent with its interval, such as "61.2 [58.0–64.1]"; a dash for None.

    There is no space inside the brackets, because a narrow terminal would break the line there.
    """
    if estimate is None or estimate.value is None:
        return ABSENT
    if estimate.low is None:
        return f"{percent(estimate)} [{TOO_FEW}]"
    value, low, high = estimate.percent
    return f"{value:.1f} [{interval_ends(low, high, separator)}]"


def interval_ends(low: float, high: float, separator: str = "\N{EN DASH}") -> str:
    """Return the ends of an interval in percent, such as "58.0–64.1". If both ends are equal after rounding to one
    decimal place, more decimals are shown.
    """
    places = _decimal_places(low, high)
    return f"{low:.{places}f}{separator}{high:.{places}f}"


def signed_number(value: float, decimals: int = 1) -> str:
    """Return a number with its sign for a sentence or a page, such as "+1.2" or "−0.3", with a real minus sign."""
    return with_minus_sign(value, decimals, "+")


def with_minus_sign(value: float, decimals: int = 1, sign: Literal["", "+"] = "") -> str:
    """Return a number with a real minus sign if it is negative."""
    return f"{value:{sign}z.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def signed_ends(low: float, high: float) -> str:
    """Return the ends of an interval of a difference in percentage points, such as "−1.1 to +7.1"."""
    places = _decimal_places(low, high)
    return f"{signed_number(low, places)} to {signed_number(high, places)}"


def stated_interval(low: float, high: float, sign: Literal["", "+"] = "", level: int = 95, places: int = 1) -> str:
    """Return an interval with its level for a sentence, such as "(95%: 8.6 to 21.1)".

    Args:
        sign: "+" for an interval of a signed difference, such as "(95%: −1.1 to +7.1)".
    """
    places = max(places, _decimal_places(low, high))
    return f"({level}%: {with_minus_sign(low, places, sign)} to {with_minus_sign(high, places, sign)})"


def _decimal_places(low: float, high: float) -> int:
    different = (places for places in range(1, 6) if f"{low:z.{places}f}" != f"{high:z.{places}f}")
    return next(different, 1)


def difference_cell(estimate: Estimate | None) -> str:
    """Return a difference of shares in percentage points with its interval, such as "+1.2 [-0.3,+2.7]"; a dash for
    None. Tables keep the hyphen, which other programs read as a minus.
    """
    if estimate is None or estimate.value is None:
        return ABSENT
    if estimate.low is None:
        return f"{100 * estimate.value:+z.1f} [{TOO_FEW}]"
    value, low, high = estimate.percent
    places = _decimal_places(low, high)
    return f"{value:+z.1f} [{low:+z.{places}f},{high:+z.{places}f}]"


def p_value(p: float | None) -> str:
    """Return a p value with three decimals: "<0.001" for smaller values, a dash for None."""
    return ABSENT if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def plain_cell(value: object) -> str:
    """Return a value as text: counts with commas, estimates in percent with their interval, a dash for None."""
    if value is None:
        return ABSENT
    if isinstance(value, Estimate):
        return percent_with_interval(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


FORMATS: Mapping[Format, Callable[[Any], str]] = {
    "plain": plain_cell,
    "percent": percent,
    "interval": percent_with_interval,
    "range": lambda estimate: percent_with_interval(estimate, ","),
    "difference": difference_cell,
    "p": p_value,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, the unit of its figures, and the format of its values."""

    title: str
    unit: str = ""
    format: Format = "plain"

    @property
    def heading(self) -> str:
        return f"{self.title}, {self.unit}" if self.unit else self.title

    def text(self, value: object) -> str:
        """Return a cell's value as text in the column's format. Values that are texts stay unchanged."""
        return value if isinstance(value, str) else FORMATS[self.format](value)


class ResultTable:
    """A table with a title, columns, rows of values, and notes. A column may be given as just its heading."""

    def __init__(
        self,
        title: str,
        columns: Sequence[Column | str],
        rows: Sequence[Sequence[object]],
        notes: Sequence[str] = (),
    ):
        self.title, self.notes = title, tuple(notes)
        self.columns = tuple(each if isinstance(each, Column) else Column(each) for each in columns)
        self.rows = [tuple(row) for row in rows]
        if wrong := next((row for row in self.rows if len(row) != len(self.columns)), None):
            raise ValueError(f"{len(self.columns)} columns and {len(wrong)} cells in table {title!r}")

    @property
    def headings(self) -> list[str]:
        return [column.heading for column in self.columns]

    def texts(self) -> list[list[str]]:
        """Return the rows with every cell as text."""
        return [[column.text(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]

    def text_columns(self) -> list[bool]:
        """Return whether each column holds words, and not figures."""
        rows = self.texts()
        return [any(row[place][:1].isalpha() for row in rows) for place in range(len(self.columns))]

    def as_rich(self) -> RenderableType:
        return rich_tables([self], self.notes)

    def as_latex(self) -> str:
        return latex_tables([self], self.notes)

    def as_markdown(self) -> str:
        """Return the table in Markdown, as GitHub reads it, with the title above and the notes below."""
        lines = [
            [each.replace("|", "\\|").replace("\n", " ") for each in row] for row in (self.headings, *self.texts())
        ]
        marks = ["---" if words or not place else "---:" for place, words in enumerate(self.text_columns())]
        rows = [f"| {' | '.join(line)} |" for line in (lines[0], marks, *lines[1:])]
        return "\n".join([f"**{self.title}**", "", *rows, "", *self.notes]).rstrip() + "\n"

    def as_html(self) -> str:
        """Return the table as HTML; words are on the left, figures on the right."""
        sides = [' class="left"' if place and words else "" for place, words in enumerate(self.text_columns())]
        head = "".join(
            f'<th scope="col"{side}>{escape(each)}</th>' for each, side in zip(self.headings, sides, strict=True)
        )
        lines = (
            "".join(f"<td{side}>{escape(cell)}</td>" for cell, side in zip(row, sides, strict=True))
            for row in self.texts()
        )
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        return (
            f'<div class="scroll"><table><caption>{escape(self.title)}</caption><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )

    def as_csv(self) -> str:
        """Return the values as CSV, with shares between 0 and 1. An estimate takes three columns: its value, low and
        high.
        """
        text = io.StringIO()
        write_csv(text, *self._records())
        return text.getvalue()

    def as_frame(self) -> pd.DataFrame:
        """Return the values as a DataFrame, with the columns of `as_csv` and the notes in `attrs`."""
        import pandas as pd

        columns, records = self._records()
        frame = pd.DataFrame.from_records(records, columns=columns)
        frame.attrs |= {"title": self.title, "notes": list(self.notes)}
        return frame

    def _records(self) -> tuple[list[str], list[dict[str, Any]]]:
        names: dict[str, None] = {}
        records = []
        for place, column in enumerate(self.columns):
            names[column.title] = None
            if any(isinstance(row[place], Estimate) for row in self.rows):
                names |= dict.fromkeys((f"{column.title} low", f"{column.title} high"))
        for row in self.rows:
            record: dict[str, Any] = {}
            for column, value in zip(self.columns, row, strict=True):
                if isinstance(value, Estimate):
                    record |= {f"{column.title} {end}": getattr(value, end) for end in ("low", "high")}
                    value = value.value
                record[column.title] = value
            records.append(record)
        return list(names), records


class Results(ABC):
    """The results of one analysis: tables with remarks, printed as text or LaTeX, and figures, written as
    JSON or CSV.
    """

    @abstractmethod
    def tables(self) -> list[ResultTable]:
        """Return the tables that people read."""

    @abstractmethod
    def remarks(self) -> list[str]:
        """Return the lines below the tables: conclusions, notes, the method."""

    @abstractmethod
    def figures_table(self) -> ResultTable:
        """Return the table for scripts: one figure or one group per row, with shares between 0 and 1."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), ensure_ascii=False, indent=2, allow_nan=False)

    def as_csv(self) -> str:
        return self.figures_table().as_csv()

    def as_latex(self) -> str:
        return latex_tables(self.tables(), self.remarks())

    def as_rich(self) -> RenderableType:
        return rich_tables(self.tables(), self.remarks())

    def as_markdown(self) -> str:
        return "\n".join([*(table.as_markdown() for table in self.tables()), *self.remarks(), ""])


def records_table(columns: Sequence[str], records: Sequence[Mapping[str, Any]]) -> ResultTable:
    """Return records as a table with the given columns. Missing fields give empty cells, and further fields are left
    out.
    """
    return ResultTable("", columns, [[record.get(column) for column in columns] for record in records])


# Terminal


def rich_tables(tables: Sequence[ResultTable], remarks: Sequence[str]) -> RenderableType:
    """Return the tables, with the remarks below them, for printing in a terminal with Rich."""
    from rich.console import Group
    from rich.text import Text

    result: list[RenderableType] = []
    for table in tables:
        result += [FittingTable(table), Text()]
    return Group(*result, *(Text(remark) for remark in remarks))


class FittingTable:
    """A table that fits the terminal's width without breaking numbers and words.

    Columns that do not fit are printed in further parts of the table, which repeat the first column.
    """

    def __init__(self, table: ResultTable) -> None:
        self.caption = table.title
        self.left = table.text_columns()
        self.headings = [
            heading.replace(" ", "\n") if number and len(heading) > LONG else heading
            for number, heading in enumerate(table.headings)
        ]
        self.rows = [[row[0], *(_INTERVAL.sub("\\1\n", cell) for cell in row[1:])] for row in table.texts()]
        self.widths = [self._width(column) for column in range(len(self.headings))]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        first, parts = self.columns_of_parts(options.max_width)
        for number, columns in enumerate(parts):
            if number:
                yield ""
            yield self._part_of_table(first, columns, number == 0)

    def columns_of_parts(self, width: int) -> tuple[int, list[list[int]]]:
        """Return the width of the first column, and for each part of the table the indexes of its other columns."""
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

    def _part_of_table(self, first: int, columns: Sequence[int], has_title: bool) -> RichTable:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable
        from rich.text import Text

        result = RichTable(
            title=Text(self.caption) if has_title and self.caption else None,
            title_justify="left",
            box=SIMPLE_HEAD,
            padding=(0, BETWEEN - 1, 0, 0),
            pad_edge=False,
            show_edge=False,
        )
        result.add_column(Text(self.headings[0]), width=first, overflow="fold")
        for column in columns:
            side: Literal["left", "right"] = "left" if self.left[column] else "right"
            result.add_column(Text(self.headings[column]), width=self.widths[column], justify=side)
        for row in self.rows:
            result.add_row(
                *(Text(row[column]) for column in (0, *columns))
            )  # plain Text, so that brackets are not read as markup
        return result


# LaTeX, for a paper that uses booktabs

_ESCAPED = str.maketrans({
    "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "_": "\\_",
    "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}", ">": "\\textgreater{}",
    ABSENT: "--", "\N{MINUS SIGN}": "$-$", "\N{LESS-THAN OR EQUAL TO}": "$\\leq$", "\N{MIDDLE DOT}": "$\\cdot$",
})  # fmt: skip
_SIGN = re.compile(r"(?<![\w)\]])-(?=[\d.])")
"""A hyphen that means minus: it stands before a digit, and not within a word or a range."""


def latex_tables(tables: Sequence[ResultTable], remarks: Sequence[str]) -> str:
    """Return the tables as LaTeX, each with a caption and a label, and the remarks as comments above the tables."""
    lines = ["% needs \\usepackage{booktabs}", *(f"% {' '.join(remark.split())}" for remark in remarks)]
    labels: set[str] = set()
    for table in tables:
        lines += [
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{latex_escaped(table.title)}}}",
            f"\\label{{{_latex_label(table.title, labels)}}}",
            f"\\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            "\\toprule",
            _latex_row(table.headings),
            "\\midrule",
            *map(_latex_row, table.texts()),
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            "",
        ]
    return "\n".join(lines)


def latex_escaped(text: str) -> str:
    """Return a cell's text with LaTeX's characters escaped and with real minus signs. Control characters become
    spaces."""
    clean = "".join(each if each.isprintable() else " " for each in text)
    return _SIGN.sub("\N{MINUS SIGN}", clean).translate(_ESCAPED)


def _latex_row(cells: Sequence[str]) -> str:
    # A bracket at the start of a row would be read as the optional argument of the line break before it.
    line = " & ".join(map(latex_escaped, cells))
    return f"{'{}' if line.startswith('[') else ''}{line} \\\\"


def _latex_label(caption: str, taken_names: set[str]) -> str:
    """Return a LaTeX label made from the caption's first words and different from the labels already used."""
    words = re.findall(r"[a-z0-9]+", caption.lower())[:6]
    label = base = f"tab:{'-'.join(words) or 'table'}"
    number = 2
    while label in taken_names:
        label, number = f"{base}-{number}", number + 1
    taken_names.add(label)
    return label
