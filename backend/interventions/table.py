"""The table of causes by intervention, for the terminal, files and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blindspot.backend.evaluation.latex import Table
from blindspot.backend.interventions.batch import cause_counts
from blindspot.backend.interventions.edits import EDITS
from blindspot.backend.text.counting import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from blindspot.analysis.accuracy import Estimate

HEADINGS = ("cause", "edit", "named", "named, %", "gold", "placebo", "difference, points", "applies")


def cause_table(result: dict[str, Any]) -> Table:
    """Return the table of a stored result: shares in percent with 95% intervals."""
    rows = [
        [
            each.cause.replace("_", " "),
            EDITS[each.edit].does if each.edit else "–",
            f"{round((each.named.value or 0) * each.named.n):,}",
            _percent(each.named),
            _percent(each.gold),
            _percent(each.placebo),
            _percent(each.difference, "+"),
            _percent(each.applies),
        ]
        for each in cause_counts(result)
    ]
    return f"Causes of the misses of {result['run']} at {result['k']}, by intervention, %", list(HEADINGS), rows


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
        f"Gold: of the questions to which the edit applies, the share whose gold passage it brings into the top "
        f"{result['k']}. Placebo: the share of random passages without the answer that the same edit brings there. "
        "Difference: gold minus placebo, paired by question. Intervals: 95%; Wilson for named, gold and applies, else "
        "bootstrap over questions.",
        _named_note(result),
    ]


def as_rich(result: dict[str, Any]) -> RenderableType:
    from blindspot.backend.evaluation.terminal_tables import rich_tables

    return rich_tables([cause_table(result)], notes(result))


def _named_note(result: dict[str, Any]) -> str:
    count = result.get("placebos")
    if count is None:
        return "An older version computed this without placebos and named the smallest edit alone: run `blindspot why` again."
    return (
        "Named: the edit brings the gold passage into the top k, and closer to the question than every one of "
        f"{counted(count, 'placebo')} of this question (above the {100 * count / (count + 1):.0f}% quantile of what "
        "placebos reach). A miss may have several named causes."
    )


def _percent(figure: Estimate, sign: str = "") -> str:
    if figure.value is None:
        return "–"
    value, low, high = figure.percent
    return f"{value:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"
