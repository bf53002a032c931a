"""The selection and order of a comparison's questions, read from the address by Compare, Slices and Question."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from blindspot.analysis import flips
from blindspot.app import url
from blindspot.app.study import Comparison
from blindspot.backend.evaluation.measures import MEASURES, SUCCESS
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.evaluation.slices import Facts

PER_PAGE = 25
CELLS = ("all", *flips.CELLS)
SORTS = {
    "order": "the order of import",
    "a": "first hit of A",
    "b": "first hit of B",
    "contrast": "contrast",
    "frequency": "frequency of the subject",
    "overlap": "overlap of the two lists",
}
FALLS_FIRST = frozenset({"contrast", "frequency"})  # sorted from the highest down when first clicked


@dataclass(frozen=True)
class Selection:
    """The selection in the address. `rule` follows from the runs. `sort` is a key of SORTS, with a leading "-" for the
    reverse order. `more` names further runs to show beside A and B, separated by commas. `causes` is "1" where the panel of
    the causes of misses is open; it opens on demand, because it takes a moment.
    """

    a: str
    b: str
    k: int = HEADLINE_K
    relevance: str = "answers"
    rule: str = "dpr"
    cell: str = "all"
    relation: str = ""
    set: str = ""
    bucket: str = ""
    slice: str = ""
    text: str = ""
    sort: str = ""
    page: int = 1
    measure: str = SUCCESS.name
    more: str = ""
    causes: str = ""

    def parameters(self, **changes: Any) -> dict[str, Any]:
        """Return the query parameters, leaving out those at their defaults."""
        changed = replace(self, **changes) if changes else self
        values = {name: getattr(changed, name) for name in _DEFAULTS}
        return {name: value for name, value in values.items() if value != _DEFAULTS[name]}

    def on_compare(self, **changes: Any) -> str:
        """Return the address of Compare with this selection, at the first page."""
        return url.href(url.COMPARE, self.parameters(**{"page": 1, **changes}))

    def on_question(self, question_id: str, **more: Any) -> str:
        return url.href(url.QUESTION, {"question": question_id, **self.parameters(page=1), **more})

    @property
    def order(self) -> tuple[str, bool]:
        """Return (key of SORTS, is descending). The default order is by contrast; for cells without contrast, the order
        of import.
        """
        if not self.sort:
            return ("contrast", True) if self.cell in ("all", "only_a", "only_b") else ("order", False)
        key = self.sort.removeprefix("-")
        return key, (key in FALLS_FIRST) != self.sort.startswith("-")

    def toggled(self, key: str) -> str:
        """Return the value of `sort` after a click on a column head."""
        now, falling = self.order
        if now != key:
            return key
        other = not falling
        return key if other == (key in FALLS_FIRST) else f"-{key}"


_DEFAULTS = {field.name: field.default for field in fields(Selection) if field.name != "rule"}
"""The query parameters with their defaults. `rule` follows from the runs."""


def offered_measures(kind: str) -> list[str]:
    """Return the names of the measures that Compare can show with this relevance."""
    return [measure.name for measure in MEASURES if kind != "answers" or not measure.needs_all]


def read_selection(run_a: str, run_b: str, depth: int, rule: str = "dpr", kind: str = "answers") -> Selection:
    """Read the selection from the address. Invalid values count as missing.

    Args:
        kind: the relevance in use; it decides which measures there are.
    """
    sorts = tuple(prefix + key for key in SORTS for prefix in ("", "-"))
    return Selection(
        run_a,
        run_b,
        k=url.number("k", min(HEADLINE_K, depth), 1, depth),
        relevance=url.one_of("relevance", ("answers", "gold"), "answers"),
        rule=rule,
        cell=url.one_of("cell", CELLS, "all"),
        relation=url.value("relation"),
        set=url.value("set"),
        bucket=url.value("bucket"),
        slice=url.value("slice"),
        text=url.value("text"),
        sort=url.one_of("sort", sorts, ""),
        page=url.number("page", 1),
        measure=url.one_of("measure", offered_measures(kind), SUCCESS.name),
        more=url.value("more"),
        causes=url.one_of("causes", ("", "1"), ""),
    )


def filtered(comparison: Comparison, selection: Selection) -> np.ndarray:
    """Return the rows that pass all filters except the cell of the two-by-two table, (q,) bool. Raises BadInput or
    Missing for an invalid slice.
    """
    mask = np.ones(len(comparison), dtype=bool)
    if selection.relation:
        mask &= comparison.relations == selection.relation
    if selection.set:
        mask &= comparison.sets == selection.set
    if selection.bucket:
        mask &= comparison.buckets == selection.bucket
    if selection.slice:
        mask &= Facts(comparison, selection.k).mask(selection.slice)
    if selection.text.strip():
        wanted = selection.text.casefold().split()
        words, rows = comparison.searchable_text, np.flatnonzero(mask).tolist()
        for word in wanted:
            rows = [row for row in rows if word in words[row]]
        mask = np.zeros(len(comparison), dtype=bool)
        mask[rows] = True
    return mask


def rows(comparison: Comparison, selection: Selection, subset: np.ndarray | None = None) -> np.ndarray:
    """Return the selected rows in the selected order, (m,) int64."""
    subset = filtered(comparison, selection) if subset is None else subset
    if selection.cell != "all":
        codes = flips.flip_cells(comparison.first_ranks_a, comparison.first_ranks_b, selection.k)
        subset = subset & (codes == flips.CELLS.index(selection.cell))
    chosen = np.flatnonzero(subset)
    key, falling = selection.order
    values = _sort_values(comparison, key)
    if values is None:
        return chosen[::-1] if falling else chosen
    values = values[chosen]
    unknown = ~np.isfinite(values)
    values = np.where(unknown, np.inf, -values if falling else values)  # unknown values come last in both directions
    turns = _turns(values, comparison.columns.relation.codes[chosen]) if key == "contrast" else np.zeros(len(values))
    return chosen[np.lexsort((turns, values))]


def _turns(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return how many earlier rows have the same value and group as each row, (m,) int64. Many questions have the same
    contrast; sorted by these turns as well, they come from all relations and not from the first one alone.
    """
    order = np.lexsort((groups, values))
    starts = np.zeros(len(order), dtype=bool)
    starts[:1] = True
    for each in (values[order], groups[order]):
        starts[1:] |= each[1:] != each[:-1]
    places = np.arange(len(order))
    turns = np.empty(len(order), dtype=np.int64)
    turns[order] = places - np.maximum.accumulate(np.where(starts, places, 0))
    return turns


def _sort_values(comparison: Comparison, key: str) -> np.ndarray | None:
    if key in ("a", "b"):
        first = comparison.first_ranks_a if key == "a" else comparison.first_ranks_b
        return np.where(first > 0, first, np.nan)
    if key == "contrast":
        return np.abs(comparison.contrast)
    if key == "overlap":
        return comparison.overlap
    if key == "frequency":
        return np.where(comparison.frequency >= 0, comparison.frequency, np.nan)
    return None
