"""Which questions of a comparison are looked at, and in which order: read from the address, used by Compare and Question."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from analysis import flips
from app import url
from app.study import Comparison
from backend.evaluation.slices import Facts

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
    """What the address asks for; `rule` follows from the runs. `sort` is a key of SORTS, with "-" before it for the other direction."""

    a: str
    b: str
    k: int = 5
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

    def parameters(self, **changes: Any) -> dict[str, Any]:
        """As query parameters, those that are at their default left out."""
        changed = replace(self, **changes)
        defaults = {field.name: field.default for field in fields(Selection)}
        return {key: value for key, value in asdict(changed).items() if key != "rule" and value != defaults[key]}

    def on_compare(self, **changes: Any) -> str:
        """The address of Compare with this selection; a change of the selection starts at the first page."""
        return url.href(url.COMPARE, self.parameters(**{"page": 1, **changes}))

    def on_question(self, question_id: str, **more: Any) -> str:
        return url.href(url.QUESTION, {"question": question_id, **self.parameters(page=1), **more})

    @property
    def order(self) -> tuple[str, bool]:
        """(key of SORTS, falling). Nothing said: the sharpest contrast first, or the order of import where there is none."""
        if not self.sort:
            return ("contrast", True) if self.cell in ("all", "only_a", "only_b") else ("order", False)
        key = self.sort.removeprefix("-")
        return key, (key in FALLS_FIRST) != self.sort.startswith("-")

    def toggled(self, key: str) -> str:
        """The `sort` that a click on a column head asks for."""
        now, falling = self.order
        if now != key:
            return key
        other = not falling
        return key if other == (key in FALLS_FIRST) else f"-{key}"


def read(a: str, b: str, depth: int, rule: str = "dpr") -> Selection:
    """The selection in the address. What makes no sense there is as if it were not there."""
    sorts = tuple(prefix + key for key in SORTS for prefix in ("", "-"))
    return Selection(
        a, b,
        k=url.number("k", min(5, depth), 1, depth),
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
    )  # fmt: skip


def filtered(comparison: Comparison, selection: Selection) -> np.ndarray:
    """(q,) bool: rows that pass the filters other than the cell. Raises BadInput or Missing for a slice that cannot be."""
    kept = np.ones(len(comparison), dtype=bool)
    if selection.relation:
        kept &= comparison.relations == selection.relation
    if selection.set:
        kept &= comparison.sets == selection.set
    if selection.bucket:
        kept &= comparison.buckets == selection.bucket
    if selection.slice:
        kept &= Facts(comparison, selection.k).mask(selection.slice)
    if selection.text.strip():
        wanted = selection.text.casefold().split()
        kept &= np.fromiter(
            (all(word in words for word in wanted) for words in comparison.words), bool, len(comparison)
        )
    return kept


def rows(comparison: Comparison, selection: Selection, kept: np.ndarray | None = None) -> np.ndarray:
    """The chosen rows in the chosen order. (m,) int64."""
    kept = filtered(comparison, selection) if kept is None else kept
    if selection.cell != "all":
        codes = flips.cells(comparison.first_a, comparison.first_b, selection.k)
        kept = kept & (codes == flips.CELLS.index(selection.cell))
    chosen = np.flatnonzero(kept)
    key, falling = selection.order
    values = _sort_values(comparison, key)
    if values is None:
        return chosen[::-1] if falling else chosen
    values = values[chosen]
    unknown = ~np.isfinite(values)
    values = np.where(unknown, np.inf, -values if falling else values)  # whatever the direction, the unknown comes last
    return chosen[np.argsort(values, kind="stable")]


def _sort_values(comparison: Comparison, key: str) -> np.ndarray | None:
    if key in ("a", "b"):
        first = comparison.first_a if key == "a" else comparison.first_b
        return np.where(first > 0, first, np.nan)
    if key == "contrast":
        return np.abs(comparison.contrast)
    if key == "overlap":
        return comparison.overlap
    if key == "frequency":
        return np.where(comparison.frequency >= 0, comparison.frequency, np.nan)
    return None
