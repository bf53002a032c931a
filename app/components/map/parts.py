"""What is shown around the map: its quality measures, warnings, and lists of points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blindspot.analysis.accuracy import Estimate
from blindspot.app import url
from blindspot.app.components.map.data import MapPoints
from blindspot.app.components.marks import notice
from blindspot.app.markup import Html, div, join, link, span, tag, term
from blindspot.backend.maps.stored import Map
from blindspot.backend.text.number_words import quantity

METHODS = {"umap": "UMAP", "tsne": "t-SNE"}
TRUST = (
    "Trustworthiness (Venna and Kaski 2001): 1 if all neighbours on the map are neighbours in the original space, "
    "about 0.5 for a random map. 95% interval over the measured points."
)
OVERLAP = (
    "Neighbour overlap: share of a point's k nearest neighbours in the original space that are also among its "
    "k nearest on the map."
)


def address(map: Map, **changes: Any) -> str:
    """Return the address of this page with some of its current choices changed."""
    kept = ("by", "run", "against", "k", "view", "cluster", "point", "list")
    return url.href(url.MAP, {"map": map.name, **{key: url.value(key) for key in kept}, **changes})


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
        chance = f" ({quality['by_chance']:.4f} by chance)"
        rows = f" at k = {quality['k']}, measured on {quality['rows']:,} of {quality['points']:,} points"
        parts.append(
            div(
                span(term(f"trustworthiness{of}", TRUST), " ", _estimate(quality["trustworthiness"])),
                " · ",
                span(term("neighbour overlap", OVERLAP), " ", _estimate(quality["overlap"]), chance),
                span(rows, cls="soft"),
            )
        )
    explained = " and ".join(f"{100 * share:.0f}%" for share in manifest["explained"])
    sources = ", ".join(f"{number:,} {name}" for name, number in manifest["sources"].items())
    if len(manifest["encoders"]) > 1:
        parts.append(tag("p", map.alignment_sentence, _residual(manifest), cls="convention"))
    return div(
        *parts,
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


def _estimate(estimate: dict) -> str:
    interval = Estimate(**estimate)
    return f"{interval.value:.3f} ({interval.low:.3f} to {interval.high:.3f})"


def _residual(manifest: dict) -> str:
    residual = manifest.get("left_after_turning")
    if residual is None:
        return ""
    return (
        f" After rotation, the distance between a point's two positions is {residual:.2f} times the distance of "
        "points from their mean (root mean squares; 0: the encoders differ by a rotation only)."
    )


def warnings(map: Map, shown_points: int) -> Html:
    """Warnings about points that are not drawn and indexes that have changed."""
    notices = []
    if shown_points < len(map):
        words = f"The map has {len(map):,} points. A random sample of {shown_points:,} is selectable; the grey density shows all."
        notices.append(notice(words))
    if old := map.outdated_indexes():
        changed = f"The index of {' and '.join(old)} has been rebuilt since this map was created."
        notices.append(notice(f"{changed} Create the map again to see nearest neighbours.", kind="warning"))
    return join(*notices)


def point_list(map: Map, points: MapPoints, selected_ids: Sequence[str], pages: int, page_size: int = 15) -> Html:
    """The selected points, from the first page up to and including page `pages`, with `page_size` points each."""
    shown = [points.number[id] for id in selected_ids[: pages * page_size] if id in points.number]
    lines = [
        tag(
            "li",
            span("question" if number < map.shown_questions else "passage", cls="kind"),
            link(points.titles[number] or "(no title)", address(map, point=points.ids[number])),
            span(f" {points.starts[number]}", cls="soft"),
        )
        for number in shown
    ]
    remaining = len(selected_ids) - len(shown)
    words = f"Show {min(remaining, page_size):,} more of {remaining:,}"
    more = link(words, address(map, list=pages + 1), data_focus="more-points") if remaining > 0 else ""
    return div(tag("ul", *lines, cls="map-list"), more)
