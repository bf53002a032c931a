"""Format the causes found by intervention as a table for the terminal, files and the report."""

from __future__ import annotations

from typing import Any

from blindspot.backend.core.result_table import Column, ResultTable
from blindspot.backend.core.units import count_with_units
from blindspot.backend.interventions.batch import cause_counts
from blindspot.backend.interventions.edits import EDITS
from blindspot.backend.interventions.explaining import FEWEST_CONTROLS, SHARE_BEATEN
from blindspot.backend.text.number_words import quantity

COLUMNS = (
    "cause",
    "edit",
    "named",
    Column("named", "%", "interval"),
    Column("gold", "%", "interval"),
    Column("placebo", "%", "interval"),
    Column("difference", "points", "difference"),
    Column("applies", "%", "interval"),
)


def cause_table(result: dict[str, Any]) -> ResultTable:
    """Return the table of a stored result, with shares in percent and 95% intervals."""
    rows = [
        [
            each.cause.replace("_", " "),
            EDITS[each.edit].description if each.edit else None,
            round((each.named.value or 0) * each.named.n),
            each.named,
            each.gold,
            each.placebo,
            each.difference,
            each.applies,
        ]
        for each in cause_counts(result)
    ]
    title = f"Causes of the misses of {result['run']} at {result['k']}, by intervention"
    return ResultTable(title, COLUMNS, rows, notes(result))


def notes(result: dict[str, Any]) -> list[str]:
    """Return notes on how the table was computed: which misses were explained, and what counts as a cause."""
    where = f" in the slice {result['where']}" if result["where"] else ""
    found_by = f" that {result['found_by']} finds" if result["found_by"] else ""
    drawn = (
        f"{quantity(result['missed'], 'miss', 'misses')}"
        if result["explained"] == result["missed"]
        else f"{result['explained']:,} of {quantity(result['missed'], 'miss', 'misses')}, drawn with seed {result['seed']}"
    )
    units = result.get("units")
    asked = count_with_units(result["explained"], units and len(set(units)), result.get("unit"))
    return [
        f"n = {asked}: {drawn}{found_by}{where}. A miss: no gold passage in the top {result['k']}; "
        "`misses` and Compare count by answers, unless they are told to count by gold.",
        f"Gold: of the questions to which the edit applies, the share whose gold passage it brings into the top "
        f"{result['k']}. Placebo: the share of random passages without the answer that the same edit brings into the top k. "
        "Difference: gold minus placebo, paired by question. Intervals are at 95%, by the study's unit of observation.",
        _named_note(result),
    ]


def _named_note(result: dict[str, Any]) -> str:
    count = result.get("placebos")
    if count is None:
        return "This was computed by an older version, which used no placebos and named only the smallest edit: run `blindspot why` again."
    return (
        "Named: the edit brings the gold passage into the top k, and closer to the question than at least "
        f"{SHARE_BEATEN:.0%} of {quantity(count, 'placebo')} of this question. A miss may have several named causes. If no single edit is enough, but two together are, both are named. {_doubt_note(result)}"
    )


def _doubt_note(result: dict[str, Any]) -> str:
    doubted, found = result.get("doubted_controls", (0, 0))
    rule = (
        "Doubtful gold: without the answer, the sentence with the answer is closer to the question than fewer than "
        f"{SHARE_BEATEN:.0%} of the passage's other sentences and those of placebos, the subject named in each."
    )
    if result.get("can_doubt", True):
        return rule + (f" It doubts {doubted:,} of {found:,} questions that the encoder finds." if found else "")
    if found < FEWEST_CONTROLS:
        return (
            f"Doubtful gold is not tried: its control needs {FEWEST_CONTROLS} questions that the encoder finds, and "
            f"{found:,} of those drawn are found."
        )
    return (
        f"Doubtful gold is not named: its rule doubts {doubted:,} of {found:,} questions that the encoder finds, and at most "
        f"{1 - SHARE_BEATEN:.0%} may be. Only judging can decide this: use a gold check on Compare or Training."
    )
