"""Compare's figures: accuracy at k, accuracy by relation, and the table of who finds what."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis import flips
from analysis.accuracy import found_by, proportion
from analysis.relations import GroupRow, group_table, relation_order
from app import url
from app.components.marks import WILSON, difference, dumbbell, figure, letter, percent, relation_label, success_head
from app.markup import Html, div, join, link, span, tag, term
from app.selection import Selection
from app.study import Comparison

KS = (1, 5, 20, 100)
RELATION_SORTS = ("difference", "relation", "n", "a", "b")


def cut_offs(depth: int, chosen: int) -> list[int]:
    """The k's to show: the usual ones the runs are deep enough for, and the one that is chosen."""
    return sorted({k for k in KS if k <= depth} | {chosen})


def accuracy_table(comparison: Comparison, selection: Selection, kept: np.ndarray) -> Html:
    """Success@k of both runs at the usual cut-offs; a click on a k chooses it for the whole page."""
    ks = cut_offs(comparison.depth, selection.k)
    success = {
        side: {k: proportion(found_by(first[kept], k)) for k in ks}
        for side, first in (("a", comparison.first_a), ("b", comparison.first_b))
    }
    heads = [tag("th", link(f"@{k}", selection.on_compare(k=k), data_focus=f"k{k}", title=f"Use k = {k} on this page",
                            aria_current="true" if k == selection.k else None),
                 cls="chosen" if k == selection.k else None, scope="col") for k in ks]  # fmt: skip
    lines = [
        tag(
            "tr",
            tag("th", letter(side), " ", name, scope="row"),
            *(tag("td", figure(success[side][k], inline=True), cls="chosen" if k == selection.k else None) for k in ks),
        )
        for side, name in (("a", selection.a), ("b", selection.b))
    ]
    ahead = [
        tag("td", difference(success["a"][k].value, success["b"][k].value), cls="chosen" if k == selection.k else None)
        for k in ks
    ]
    lines.append(
        tag(
            "tr",
            tag("th", term("ahead", "Difference in percentage points, and the run that is ahead"), scope="row"),
            *ahead,
            cls="sum",
        )
    )
    head = tag(
        "tr",
        tag(
            "th",
            term(
                "Success@k, %",
                f"Share of questions with a relevant passage among the first k. In small print the {WILSON}.",
            ),
            scope="col",
            cls="left",
        ),
        *heads,
    )
    return tag("table", tag("thead", head), tag("tbody", *lines), cls="figures accuracy")


def flip_table(comparison: Comparison, selection: Selection, kept: np.ndarray) -> Html:
    """Who finds a relevant passage within k: a two by two table whose cells open their questions."""
    table = flips.flip_table(comparison.first_a[kept], comparison.first_b[kept], selection.k)
    k = selection.k

    def cell(name: str, words: str) -> Html:
        number = getattr(table, name)
        share = number / table.n if table.n else 0.0
        chosen = selection.cell == name
        inside = join(
            span(f"{number:,}", cls="number"),
            span(f"{percent(share)}%", cls="share"),
            span(words, cls="words"),
            span(cls="bar", style=f"width:{100 * share:.1f}%"),
        )
        return tag(
            "td",
            link(
                inside,
                selection.on_compare(cell="all" if chosen else name, sort=""),
                data_focus=f"cell-{name}",
                aria_current="true" if chosen else None,
                title="Show all questions again" if chosen else f"Show these {number:,} questions",
            ),
            cls=f"cell {name}" + (" chosen" if chosen else ""),
        )

    head = tag(
        "tr",
        tag("td", cls="corner"),
        tag("th", letter("b"), f" finds at {k}", scope="col"),
        tag("th", letter("b"), " misses", scope="col"),
    )
    lines = (
        tag(
            "tr",
            tag("th", letter("a"), f" finds at {k}", scope="row"),
            cell("both", "both find"),
            cell("only_a", "only A finds"),
        ),
        tag(
            "tr",
            tag("th", letter("a"), " misses", scope="row"),
            cell("only_b", "only B finds"),
            cell("neither", "neither finds"),
        ),
    )
    return tag("table", tag("thead", head), tag("tbody", *lines), cls="flips")


def relation_table(comparison: Comparison, selection: Selection, kept: np.ndarray) -> Html:
    """Success@k by relation, sorted by any column; a click on a relation filters by it."""
    k, by = selection.k, url.one_of("by", [p + key for key in RELATION_SORTS for p in ("", "-")], "difference")
    rows = _sorted(
        group_table(
            {"a": comparison.first_a[kept], "b": comparison.first_b[kept]}, comparison.relations[kept].tolist(), (k,)
        ),
        k,
        by,
    )

    def head(key: str, words: object, **more: object) -> Html:
        falling = by == key
        other = f"-{key}" if falling else key
        chosen = by.removeprefix("-") == key
        arrow = span(" ↓" if falling else " ↑", cls="arrow") if chosen else ""
        return tag(
            "th",
            link(
                join(words, arrow),
                url.href(url.COMPARE, selection.parameters(page=1) | {"by": other}),
                data_focus=f"by-{key}",
            ),
            aria_sort=("descending" if falling else "ascending") if chosen else None,
            scope="col",
            **more,
        )

    heads = (
        head("relation", "relation", cls="left"),
        head("n", "n", title="Questions of this relation"),
        head("a", join(letter("a"), f" @{k}")),
        head("b", join(letter("b"), f" @{k}")),
        head("difference", "ahead", title="Percentage points, and the run that is ahead"),
        tag(
            "th",
            span("0", cls="zero"),
            span("100", cls="hundred"),
            cls="scale",
            scope="col",
            title=f"Success@{k} in per cent: a square is A, a dot is B, the thin lines are 95% Wilson intervals",
        ),
    )
    lines = [_relation_line(row, selection, by) for row in rows]
    return tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *lines), cls="figures relations")


def _relation_line(row: GroupRow, selection: Selection, by: str) -> Html:
    a, b = row.success["a"][selection.k], row.success["b"][selection.k]
    chosen = selection.relation == row.group and row.group != ""
    address = url.href(
        url.COMPARE,
        selection.parameters(page=1, relation="" if chosen else row.group) | {"by": by if by != "difference" else ""},
    )
    name = (
        link(
            relation_label(row.group),
            address,
            data_focus=f"relation-{row.group}",
            aria_current="true" if chosen else None,
            title="Show every relation again" if chosen else "Show only this relation's questions",
        )
        if row.group
        else relation_label(None)
    )
    return tag(
        "tr",
        tag("th", name, scope="row"),
        tag("td", f"{row.n:,}"),
        tag("td", figure(a)),
        tag("td", figure(b)),
        tag("td", difference(a.value, b.value)),
        tag("td", dumbbell(a, b), cls="scale"),
        cls="chosen" if chosen else None,
    )


def _sorted(rows: Sequence[GroupRow], k: int, by: str) -> list[GroupRow]:
    key = by.removeprefix("-")
    rows = sorted(rows, key=lambda row: relation_order(row.group))
    if key == "relation":
        return sorted(rows, key=lambda row: relation_label(row.group), reverse=by.startswith("-"))
    keys = {
        "n": lambda row: row.n,
        "a": lambda row: row.success["a"][k].value,
        "b": lambda row: row.success["b"][k].value,
        "difference": lambda row: row.success["a"][k].value - row.success["b"][k].value,
    }
    return sorted(rows, key=keys[key], reverse=not by.startswith("-"))


def run_figures(first: np.ndarray, depth: int) -> list[Html]:
    """A run's Success@k cells, for Home."""
    return [
        tag(
            "td",
            figure(proportion(found_by(first, k)), inline=True) if k <= depth else "–",
            title=None if k <= depth else f"the run keeps {depth} hits",
        )
        for k in KS
    ]


def success_heads() -> list[Html]:
    return [tag("th", success_head(k), scope="col") for k in KS]


def scrolling(table: Html) -> Html:
    """A table that scrolls by itself where the window is narrow."""
    return div(table, cls="scrolling")
