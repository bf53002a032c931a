"""What is shown around the map: its quality measures, the spread of groups, an open point, and lists of points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from blindspot.analysis.accuracy import Estimate
from blindspot.app import url
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.map.data import MapPoints
from blindspot.app.components.marks import notice, relation_label
from blindspot.app.markup import Html, div, join, link, span, tag, term
from blindspot.backend.core.result_table import with_minus_sign
from blindspot.backend.maps.spreads import ALL
from blindspot.backend.maps.stored import Map
from blindspot.backend.text.number_words import quantity

FEW = 30
TRUST = (
    "Trustworthiness (Venna and Kaski 2001): 1 if all neighbours on the map are neighbours in the original space, "
    "about 0.5 for a random map. 95% interval over the measured points."
)
OVERLAP = (
    "Neighbour overlap: share of a point's k nearest neighbours in the original space that are also among its "
    "k nearest on the map."
)
SIMILARITY = (
    "Mean cosine between two different positives of the group: 1 for identical directions, about 0 for "
    "random ones. 95% jackknife interval."
)
NEAREST = "Mean cosine between a positive and the nearest other positive of the group. 95% t interval."
MARGIN = (
    "Mean over questions of the cosine with the question's own best positive minus the cosine with the best positive "
    "of another question of the group. Below 0, another question's positive is closer. 95% t interval over "
    "questions."
)


def address(map: Map, **changes: Any) -> str:
    """Return the address of this page with some of its current choices changed."""
    return url.href(url.MAP, parameters(map, **changes))


def parameters(map: Map, **changes: Any) -> dict[str, Any]:
    """Return the parameters of `address`."""
    kept = ("by", "run", "against", "k", "view", "order", "group", "cluster", "point", "selection", "list")
    return {"map": map.name, **{key: url.value(key) for key in kept}, **changes}


def quality_line(map: Map) -> Html:
    """The quality measures and parameters of a map."""
    manifest, settings = map.manifest, map.manifest["request"]
    if settings["method"] == "umap":
        method = f"UMAP, {settings['neighbours']} neighbours, minimum distance {settings['min_dist']:g}"
    else:
        method = f"t-SNE, perplexity {settings['perplexity']:g}"
    parts = []
    for encoder in manifest["encoders"]:
        quality = encoder["quality"]
        of = f" of {encoder['name']}" if len(manifest["encoders"]) > 1 else ""
        parts.append(
            div(
                span(term(f"trustworthiness{of}", TRUST), " ", _plain_estimate(quality["trustworthiness"], 3)),
                " · ",
                span(
                    term("neighbour overlap", OVERLAP),
                    " ",
                    _plain_estimate(quality["overlap"], 3),
                    f" ({quality['by_chance']:.4f} by chance)",
                ),
                span(
                    f" at k = {quality['k']}, measured on {quality['rows']:,} of {quality['points']:,} points",
                    cls="soft",
                ),
            )
        )
    explained = " and ".join(f"{100 * share:.0f}%" for share in manifest["explained"])
    sources = ", ".join(f"{number:,} {name}" for name, number in manifest["sources"].items())
    together = (
        []
        if len(manifest["encoders"]) == 1
        else [tag("p", map.alignment_sentence, _residual(manifest), cls="convention")]
    )
    return div(
        *parts,
        *together,
        tag(
            "p",
            f"{method} on {settings['components']} principal components ({explained} of the variance), seed "
            f"{settings['seed']}; {quantity(map.shown_questions, 'question')} and {quantity(len(map.ordinals), 'passage')} "
            f"({sources}); created {manifest['made'][:16].replace('T', ' ')} in {manifest['seconds']:,.0f} s. "
            f"{manifest['determinism']}",
            cls="convention",
        ),
        tag(
            "p",
            "Only closeness on the map has a meaning. Distances between groups, the sizes of groups and the gaps between them have no meaning. All figures, neighbours and clusters are computed in the original space.",
            cls="convention",
        ),
        cls="map-quality",
    )


def _residual(manifest: dict) -> str:
    residual = manifest.get("left_after_turning")
    return (
        ""
        if residual is None
        else (
            f" After rotation, the distance between a point's two positions is {residual:.2f} times the distance of "
            "points from their mean (root mean squares; 0: the encoders differ by a rotation only)."
        )
    )


def warnings(map: Map, shown_points: int) -> Html:
    """Warnings about points that are not drawn and indexes that have changed."""
    notices = []
    if shown_points < len(map):
        notices.append(
            notice(
                f"The map has {len(map):,} points. A random sample of {shown_points:,} is selectable; the grey density "
                "shows all."
            )
        )
    old = map.outdated_indexes()
    if old:
        notices.append(
            notice(
                f"The index of {' and '.join(old)} has been rebuilt since this map was created. Create the map again to see nearest neighbours.",
                kind="warning",
            )
        )
    return join(*notices)


def spread_table(map: Map) -> Html:
    """The spread of each group's positives; for two encoders before, after and the difference."""
    rows = map.spread
    if not rows:
        return Html("")
    two = "before" in rows[0]
    names = map.encoders
    columns = [
        ("similarity", "mean cosine", SIMILARITY),
        ("nearest", "nearest other", NEAREST),
        ("margin", "margin", MARGIN),
    ]
    top = [tag("th", "", scope="col"), tag("th", "", scope="col")]
    heads = [tag("th", "positives of", scope="col", cls="left"), tag("th", "n", scope="col")]
    for _, words, explained in columns:
        top.append(tag("th", term(words, explained), scope="colgroup", colspan="3" if two else "1", cls="group"))
        heads += (
            [tag("th", word, scope="col") for word in (names[0], names[1], "change")]
            if two
            else [tag("th", names[0], scope="col")]
        )
    lines = []
    for row in rows:
        first = row["before"] if two else row
        cells = []
        for key, _, _ in columns:
            shown = (first[key], row["after"][key], row[key]) if two else (first[key],)
            cells += [
                tag("td", _estimate_text(each, is_difference=number == 2), cls="change" if number == 2 else None)
                for number, each in enumerate(shown)
            ]
        few = first["positives"] < FEW
        group = "all relations" if row["group"] == ALL else relation_label(row["group"])
        lines.append(
            tag(
                "tr",
                tag("th", group, scope="row"),
                tag(
                    "td",
                    f"{first['positives']:,}",
                    title=f"{first['positives']:,} positives, {first['questions']:,} questions",
                ),
                *cells,
                cls="few" if few else None,
                title=f"fewer than {FEW} positives" if few else None,
            )
        )
    table = tag("table", tag("thead", tag("tr", *top), tag("tr", *heads)), tag("tbody", *lines), cls="figures spread")
    message = (
        "Cosines in the original space, for every kind of encoder score. Positives are the gold passages on this "
        "map, corrected by the labels at its creation."
    )
    return div(
        tag("h2", "Spread of each group"),
        scrolling(table, f"fewer than {FEW} positives"),
        tag("p", message, cls="convention"),
        cls="panel",
    )


def point_list(map: Map, points: MapPoints, selected_ids: Sequence[str], pages: int, page_size: int = 15) -> Html:
    """The selected points, from the first page up to and including page `pages`, with `page_size` points each."""
    shown = [points.number[id] for id in selected_ids[: pages * page_size] if id in points.number]
    lines = [
        tag(
            "li",
            span(
                "question" if number < map.shown_questions else "passage",
                cls=f"kind {'q' if number < map.shown_questions else 'p'}",
            ),
            link(points.titles[number] or "(no title)", address(map, point=points.ids[number])),
            span(f" {points.starts[number]}", cls="soft"),
        )
        for number in shown
    ]
    remaining = len(selected_ids) - len(shown)
    more = (
        link(
            f"Show {min(remaining, page_size):,} more of {remaining:,}",
            address(map, list=pages + 1),
            data_focus="more-points",
        )
        if remaining > 0
        else ""
    )
    return div(tag("ul", *lines, cls="map-list"), more)


def _estimate_text(estimate: dict | None, is_difference: bool = False) -> Html:
    if estimate is None or estimate["value"] is None:
        return Html("–")
    low, high = estimate["low"], estimate["high"]
    sign: Literal["", "+"] = "+" if is_difference else ""
    interval = "" if low is None else f"{with_minus_sign(low, 3, sign)} to {with_minus_sign(high, 3, sign)}"
    return span(
        with_minus_sign(estimate["value"], 3, sign),
        span(interval, cls="interval"),
        cls="figure",
        title=f"n = {estimate['n']:,}, {estimate['method']}",
    )


def _plain_estimate(estimate: dict, digits: int) -> str:
    interval = Estimate(**estimate)
    return f"{interval.value:.{digits}f} ({interval.low:.{digits}f} to {interval.high:.{digits}f})"
