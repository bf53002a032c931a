"""The table of causes by intervention, for the terminal, files and the report."""

from __future__ import annotations

from typing import Any

from blindspot.backend.core.result_table import ResultTable
from blindspot.backend.interventions.batch import NONE, cause_counts
from blindspot.backend.interventions.edits import EDITS
from blindspot.backend.text.counting import counted

HEADINGS = ("cause", "edit", "misses", "smallest edit", "mends alone", "applies")


def cause_table(result: dict[str, Any]) -> ResultTable:
    """Return the table of a stored result: shares in percent with 95% Wilson intervals."""
    rows = [
        [
            each.cause.replace("_", " "),
            EDITS[each.edit].does if each.edit else None,
            round((each.smallest.value or 0) * each.smallest.n),
            each.smallest,
            None if each.cause == NONE else each.alone,
            None if each.cause == NONE else each.applies,
        ]
        for each in cause_counts(result)
    ]
    title = f"Causes of the misses of {result['run']} at {result['k']}, by intervention, %"
    return ResultTable(title, HEADINGS, rows, notes(result))


def notes(result: dict[str, Any]) -> list[str]:
    """Return how the table was made: which misses, and what counts as the cause."""
    where = f" in the slice {result['where']}" if result["where"] else ""
    found_by = f" that {result['found_by']} finds" if result["found_by"] else ""
    drawn = (
        f"{counted(result['missed'], 'miss', 'misses')}"
        if result["explained"] == result["missed"]
        else f"{result['explained']:,} of {counted(result['missed'], 'miss', 'misses')}, drawn with seed {result['seed']}"
    )
    return [
        f"n = {result['explained']:,}: {drawn}{found_by}{where}. A miss: no gold passage in the top {result['k']}.",
        "Smallest edit: the edit that changes the smallest share of the tokens of question and gold passage among those "
        "that bring the gold passage into the top k. Mends alone: it brings the gold passage there, smallest or not. "
        "Applies: there is something to edit. Intervals: 95%, Wilson.",
    ]
