"""Compare's figures: accuracy at k, accuracy by relation, and the table of who finds what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from analysis import flips
from analysis.accuracy import found_by, proportion
from analysis.buckets import FEW, bucket_order
from analysis.relations import relation_order
from analysis.significance import Difference
from app import url
from app.components.marks import WILSON, figure, letter, percent, relation_label, success_head
from app.markup import Html, div, join, link, span, tag, term
from app.selection import Selection
from app.study import Comparison
from backend.evaluation.comparison import KS, SURE, PairedFigures, by_group, conclusion, overall, p_words
from backend.evaluation.slices import CHOSEN_BY_RESULTS, by_results


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
    rows = None if kept.all() else kept
    figures = overall(comparison, ks, rows)
    ahead = [tag("td", gain(figures.at[k].difference), cls="chosen" if k == selection.k else None) for k in ks]
    lines.append(tag("tr", tag("th", term("ahead", GAIN), scope="row"), *ahead, cls="sum"))
    if figures.macro and figures.macro[ks[0]].a.n_groups > 1:
        cells = [tag("td", gain(figures.macro[k].difference), cls="chosen" if k == selection.k else None) for k in ks]
        lines.append(tag("tr", tag("th", term("macro", MACRO), scope="row"), *cells))
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


def concluded(comparison: Comparison, selection: Selection, kept: np.ndarray) -> str:
    """Return the sentence on what may be concluded at the chosen k, with the p value of `accuracy_table`."""
    if by_results(selection.slice):
        return CHOSEN_BY_RESULTS
    figures = overall(comparison, cut_offs(comparison.depth, selection.k), None if kept.all() else kept)
    return conclusion(figures.at[selection.k], comparison.a.name, comparison.b.name, figures.tests)


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


def group_table(comparison: Comparison, selection: Selection, kept: np.ndarray, by: str) -> Html:
    """Success@k, difference and flips by relation or bucket, sorted by any column; a click on a group filters by it, on a count
    opens its questions."""
    sort = url.one_of("by", [p + key for key in GROUP_SORTS for p in ("", "-")], DEFAULT_SORT[by])
    members = {name: rows[kept[rows]] for name, rows in comparison.groups(by).items()}
    if by == "relation":
        members[""] = np.flatnonzero(kept & (comparison.relations == ""))
    found = by_group(comparison, selection.k, members)
    order = _sorted(found, sort, relation_order if by == "relation" else bucket_order)

    def head(key: str, words: object, **more: object) -> Html:
        chosen = sort.removeprefix("-") == key
        arrow = span(" ↓" if sort == key else " ↑", cls="arrow") if chosen else ""
        address = url.href(
            url.COMPARE, selection.parameters(page=1) | _grouping(by) | {"by": f"-{key}" if sort == key else key}
        )
        return tag(
            "th",
            link(join(words, arrow), address, data_focus=f"by-{key}"),
            aria_sort=("descending" if sort == key else "ascending") if chosen else None,
            scope="col",
            **more,
        )

    heads = (
        head("group", by, cls="left"),
        head("n", "n", title=f"Questions of this {by}"),
        head("a", join(letter("a"), f" @{selection.k}")),
        head("b", join(letter("b"), f" @{selection.k}")),
        head("difference", "ahead", title=GAIN),
        head("p", "p", title=HOLM),
        *(head(key, words, title=f"Questions that {said}") for key, (words, said) in FLIP_HEADS.items()),
    )
    lines = [_group_line(name, found[name], selection, by, sort) for name in order]
    return tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *lines), cls="figures groups")


GROUP_SORTS = ("difference", "group", "n", "a", "b", "p", *flips.CELLS)
DEFAULT_SORT = {"relation": "difference", "bucket": "-group"}
FLIP_HEADS = {
    "both": ("both", "both find"),
    "only_a": (join("only ", letter("a")), "only A finds"),
    "only_b": (join("only ", letter("b")), "only B finds"),
    "neither": ("none", "neither finds"),
}
GAIN = (
    "Difference in percentage points, and the run that is ahead. In small print the paired 95% bootstrap interval of A less B. "
    "Faint: p of the paired sign-flip test is above 0.05, no difference is established. "
    "Holm's method adjusts p for all differences of the table, unless the text says that p is not adjusted."
)
MACRO = "The difference of the averages over relations, each relation counting the same; its interval draws questions within each relation."
HOLM = "p of the paired sign-flip test, adjusted by Holm's method for the number of rows"


def _grouping(by: str) -> dict[str, str]:
    return {} if by == "relation" else {"groups": by}


def gain(difference: Difference) -> Html:
    """A difference with the run that is ahead, its interval and its p value."""
    estimate = difference.estimate
    if estimate.value is None:
        return Html("–")
    p = difference.p_shown
    adjusted = "not adjusted" if difference.p_adjusted is None else "adjusted by Holm's method"
    interval = f"{100 * estimate.low:+.1f} to {100 * estimate.high:+.1f}"
    said = (
        f"A − B: {100 * estimate.value:+.1f} points, {interval}, {p_words(p)} ({adjusted}), n = {estimate.n:,}. {GAIN}"
    )
    points = 100 * estimate.value
    ahead = "" if abs(points) < 0.05 else letter("a" if points > 0 else "b")
    words = "0.0" if abs(points) < 0.05 else f"+{abs(points):.1f}"
    shown = interval  # as the run that is ahead sees it
    if points <= -0.05:
        shown = f"{0.0 - 100 * estimate.high:+.1f} to {0.0 - 100 * estimate.low:+.1f}"
    return span(
        ahead, words, span(shown, cls="interval"), title=said, cls="figure difference" + (" unsure" if p > SURE else "")
    )


def _group_line(name: str, both: PairedFigures, selection: Selection, by: str, sort: str) -> Html:
    now = selection.relation if by == "relation" else selection.bucket
    chosen = now == name and name != ""
    more = _grouping(by) | {"by": sort if sort != DEFAULT_SORT[by] else ""}

    def opened(words: object, cell: str, value: str, focus: str, title: str, **attributes: object) -> Html:
        address = url.href(url.COMPARE, selection.parameters(page=1, cell=cell, **{by: value}) | more)
        return link(words, address, data_focus=f"{focus}-{name}", title=title, **attributes)

    label = relation_label(name) if by == "relation" else name
    title = f"Show every {by} again" if chosen else f"Show only this {by}'s questions"
    head = (
        opened(label, selection.cell, "" if chosen else name, by, title, aria_current="true" if chosen else None)
        if name
        else label
    )
    p = both.difference.p_shown

    def counted(cell: str) -> Html:
        count = getattr(both.flips, cell)
        if not count or not name:
            return Html(f"{count:,}")
        return opened(
            f"{count:,}",
            cell,
            name,
            f"flip-{cell}",
            f"Show the {count:,} questions of {label} that {FLIP_HEADS[cell][1]}",
        )

    return tag(
        "tr",
        tag("th", head, scope="row"),
        tag("td", f"{both.n:,}"),
        tag("td", figure(both.a)),
        tag("td", figure(both.b)),
        tag("td", gain(both.difference)),
        tag("td", "<0.001" if p < 0.001 else f"{p:.3f}", cls="soft"),
        *(
            tag("td", counted(cell), cls=f"flip {cell}" + (" chosen" if chosen and selection.cell == cell else ""))
            for cell in flips.CELLS
        ),
        cls=" ".join(each for each in ("chosen" if chosen else "", "few" if both.n < FEW else "") if each) or None,
    )


def _sorted(found: Mapping[str, PairedFigures], sort: str, order: Callable[[str], Any]) -> list[str]:
    names, key = sorted(found, key=order), sort.removeprefix("-")
    keys: dict[str, Callable[[str], Any]] = {
        "group": order,
        "n": lambda name: found[name].n,
        "a": lambda name: found[name].a.value,
        "b": lambda name: found[name].b.value,
        "difference": lambda name: found[name].difference.estimate.value,
        "p": lambda name: found[name].difference.p_adjusted,
        **{cell: lambda name, cell=cell: getattr(found[name].flips, cell) for cell in flips.CELLS},
    }
    return sorted(names, key=keys[key], reverse=not sort.startswith("-"))


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
