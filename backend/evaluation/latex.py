r"""Tables in LaTeX, for a paper that uses booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence

Table = tuple[str, list[str], list[list[str]]]
"""A caption, the headings, and the rows of cells. The first column is text, the others are figures."""
ABSENT = "\N{EN DASH}"
"""Shown in place of a missing value."""

_ESCAPED = str.maketrans({
    "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "_": "\\_",
    "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}", ">": "\\textgreater{}",
    ABSENT: "--", "\N{MINUS SIGN}": "$-$", "\N{LESS-THAN OR EQUAL TO}": "$\\leq$", "\N{MIDDLE DOT}": "$\\cdot$",
})  # fmt: skip
_SIGN = re.compile(r"(?<![\w)\]])-(?=[\d.])")
"""A hyphen that means a minus: before a digit, and not within a word or a range."""


def latex_table(tables: Sequence[Table], remarks: Sequence[str]) -> str:
    """Return the tables as LaTeX, each with a caption and a label. The remarks are comments above them."""
    lines = ["% needs \\usepackage{booktabs}", *(f"% {' '.join(remark.split())}" for remark in remarks)]
    labels: set[str] = set()
    for caption, headings, rows in tables:
        lines += [
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{escaped(caption)}}}",
            f"\\label{{{_label(caption, labels)}}}",
            f"\\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}",
            "\\toprule",
            _row(headings),
            "\\midrule",
            *map(_row, rows),
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            "",
        ]
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Return a cell's text with LaTeX's characters escaped and with real minus signs. Control characters become
    spaces."""
    clean = "".join(each if each.isprintable() else " " for each in text)
    return _SIGN.sub("\N{MINUS SIGN}", clean).translate(_ESCAPED)


def _row(cells: Sequence[str]) -> str:
    # A bracket at the start of a row would be read as the optional argument of the line break before it.
    line = " & ".join(map(escaped, cells))
    return f"{'{}' if line.startswith('[') else ''}{line} \\\\"


def _label(caption: str, taken: set[str]) -> str:
    """Return a label from the caption's first words, distinct from those taken."""
    words = re.findall(r"[a-z0-9]+", caption.lower())[:6]
    label = base = f"tab:{'-'.join(words) or 'table'}"
    number = 2
    while label in taken:
        label, number = f"{base}-{number}", number + 1
    taken.add(label)
    return label
