"""What stands around the picture: how far it can be trusted, the spread of groups, an opened point, a list of points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.accuracy import Estimate
from app import url
from app.components.map.data import MapPoints, neighbours_of
from app.components.marks import count, notice, relation_label
from app.components.tables import scrolling
from app.markup import Html, div, join, link, span, tag, term
from backend.maps import Map
from backend.maps.selection import PASSAGE, QUESTION
from backend.maps.spreads import ALL
from db.errors import BlindspotError

NEIGHBOURS = 10
FEW = 30
TRUST = (
    "Trustworthiness: 1 where no point that is near on the map is far in the original space; 0.5 or so for points strewn at random "
    "(Venna and Kaski 2001). 95% bootstrap interval over the measured points."
)
OVERLAP = (
    "Neighbour overlap: the share of a point's k true nearest neighbours that are also among its k nearest on the map."
)
SIMILARITY = (
    "Mean cosine of two different positives of the group: 1 is one spot, 0 is every direction. 95% jackknife interval."
)
NEAREST = "Mean cosine of a positive with the nearest other positive of the group. 95% bootstrap interval."
MARGIN = (
    "Of each question: the cosine with its own best positive less that with the best positive of other questions of the group, on "
    "average. Below 0, another question's positive stands above its own. 95% bootstrap interval over the questions."
)


def address(map: Map, **changes: Any) -> str:
    """This page with what is chosen on it, and some of it changed."""
    kept = {key: url.value(key) for key in ("by", "run", "k", "view", "cluster", "point", "selection", "list")}
    return url.href("map", {"map": map.name, **kept, **changes})


def quality_line(map: Map) -> Html:
    """Seed, parameters, trustworthiness, overlap: what stands beside every map."""
    manifest, asked = map.manifest, map.manifest["request"]
    if asked["method"] == "umap":
        method = f"UMAP, {asked['neighbours']} neighbours, least distance {asked['min_dist']:g}"
    else:
        method = f"t-SNE, perplexity {asked['perplexity']:g}"
    parts = []
    for encoder in manifest["encoders"]:
        quality = encoder["quality"]
        of = f" of {encoder['name']}" if len(manifest["encoders"]) > 1 else ""
        parts.append(
            div(
                span(term(f"trustworthiness{of}", TRUST), " ", _plain(quality["trustworthiness"], 3)),
                " · ",
                span(
                    term("neighbour overlap", OVERLAP),
                    " ",
                    _plain(quality["overlap"], 3),
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
    together = [] if len(manifest["encoders"]) == 1 else [tag("p", map.together, _left(manifest), cls="convention")]
    return div(
        *parts,
        *together,
        tag(
            "p",
            f"{method} on {asked['components']} principal components ({explained} of the variance), seed {asked['seed']}; "
            f"{count(map.drawn, 'question')} and {count(len(map.ordinals), 'passage')} ({sources}); "
            f"made {manifest['made'][:16].replace('T', ' ')} in {manifest['seconds']:,.0f} s. {manifest['determinism']}",
            cls="convention",
        ),
        tag(
            "p",
            "Read from a map who is near whom. Distances between far groups, the sizes of groups and the gaps between them mean "
            "nothing; the numbers here, the neighbours and the clusters are taken from the original space.",
            cls="convention",
        ),
        cls="map-quality",
    )


def _left(manifest: dict) -> str:
    left = manifest.get("left_after_turning")
    return (
        ""
        if left is None
        else (
            f" After turning, a point lies {left:.2f} times as far from its other place as points lie from their "
            "middle (root mean squares; 0: the encoders differ by a turn alone)."
        )
    )


def warnings(map: Map, drawn: int) -> Html:
    """What keeps the picture from being all there is."""
    said = []
    if drawn < len(map):
        said.append(
            notice(
                f"{len(map):,} points: {drawn:,} of them, drawn at random, can be chosen; all are in the grey density beneath."
            )
        )
    old = map.outdated()
    if old:
        said.append(
            notice(
                f"The index of {' and '.join(old)} was made again since this map: make the map again. Neighbours cannot be shown.",
                kind="warning",
            )
        )
    return join(*said)


def spread_table(map: Map) -> Html:
    """The spread of each group's positives, as numbers; for two encoders before, after and the difference."""
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
                tag("td", _figure(each, signed=number == 2), cls="change" if number == 2 else None)
                for number, each in enumerate(shown)
            ]
        few = first["positives"] < FEW
        group = "every relation" if row["group"] == ALL else relation_label(row["group"])
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
                title="fewer than 30 positives: too few to say much" if few else None,
            )
        )
    table = tag("table", tag("thead", tag("tr", *top), tag("tr", *heads)), tag("tbody", *lines), cls="figures spread")
    said = (
        "Cosines in the original space, all dimensions, whatever the encoder's own score. Positives are the gold passages on this map, "
        "as labels have corrected them when it was made. Groups of fewer than 30 are grey."
    )
    return div(
        tag("h2", "How widely each group is spread"), scrolling(table), tag("p", said, cls="convention"), cls="panel"
    )


def opened_point(map: Map, points: MapPoints, number: int, view: int) -> Html:
    """A question or passage with its true nearest neighbours."""
    id, where = points.ids[number], {ordinal: place for place, ordinal in enumerate(map.ordinals.tolist())}
    if id.startswith(QUESTION):
        question = map.study.questions.get(id[2:])
        body = join(
            tag("p", f"Answers: {', '.join(question.answers) or 'none known'}"),
            tag(
                "p",
                link(
                    "open the question",
                    url.href(url.QUESTION, {"question": question.id, "a": url.value("a"), "b": url.value("b")}),
                ),
            ),
        )
        kind = relation_label(question.relation)
    else:
        passage = map.study.corpus.passage(int(map.ordinals[number - map.drawn]))
        body, kind = tag("p", passage.text, cls="passage-text"), f"passage {passage.id}"
    head = div(
        tag("h2", points.titles[number] or "(no title)"),
        link("close", address(map, point=None), cls="quiet"),
        cls="list-head",
    )
    return div(
        head, tag("p", kind, cls="convention"), body, _neighbours(map, number, view, where), cls="panel map-point"
    )


def _neighbours(map: Map, number: int, view: int, where: dict[int, int]) -> Html:
    try:
        found = neighbours_of(map, number, NEIGHBOURS, view)
    except BlindspotError as error:
        return notice(str(error), kind="warning")
    lines = []
    for passage, ordinal, value in zip(
        map.study.corpus.passages(found.rows[0].tolist()), found.rows[0].tolist(), found.similarity[0].tolist()
    ):
        title = passage.title or "(no title)"
        shown = (
            link(title, address(map, point=PASSAGE + passage.id))
            if ordinal in where
            else span(title, title="not on this map")
        )
        lines.append(
            tag(
                "li",
                span(f"{abs(value):.3f}", cls="soft number"),
                shown,
                span(f" {passage.text[:70]}…", cls="soft"),
                "" if ordinal in where else span(" · not on this map", cls="soft"),
            )
        )
    encoder = map.manifest["encoders"][view]
    measure = "cosine" if encoder["distance"] == "cosine" else "Euclidean distance"
    return div(
        tag("h3", "Nearest in the original space"),
        tag(
            "p",
            f"By {encoder['name']}, {measure}, over all {len(map.study.corpus):,} passages; this is not who is near on the picture.",
            cls="convention",
        ),
        tag("ol", *lines, cls="map-list"),
    )


def point_list(map: Map, points: MapPoints, chosen: Sequence[str], pages: int, each: int = 15) -> Html:
    """The chosen points, `each` a page; all pages up to `pages` are shown."""
    shown = [points.number[id] for id in chosen[: pages * each] if id in points.number]
    lines = [
        tag(
            "li",
            span("question" if number < map.drawn else "passage", cls=f"kind {'q' if number < map.drawn else 'p'}"),
            link(points.titles[number] or "(no title)", address(map, point=points.ids[number])),
            span(f" {points.starts[number][:80]}", cls="soft"),
        )
        for number in shown
    ]
    left = len(chosen) - len(shown)
    more = (
        link(f"{min(left, each):,} more of {left:,}", address(map, list=pages + 1), data_focus="more-points")
        if left > 0
        else ""
    )
    return div(tag("ul", *lines, cls="map-list"), more)


def _figure(estimate: dict | None, signed: bool = False) -> Html:
    if estimate is None or estimate["value"] is None:
        return Html("–")
    low, high = estimate["low"], estimate["high"]
    form = "+.3f" if signed else ".3f"
    interval = "" if low is None else f"{low:{form}} to {high:{form}}"
    return span(
        f"{estimate['value']:{form}}",
        span(interval, cls="interval"),
        cls="figure",
        title=f"n = {estimate['n']:,}, {estimate['method']}",
    )


def _plain(estimate: dict, digits: int) -> str:
    found = Estimate(**estimate)
    return f"{found.value:.{digits}f} ({found.low:.{digits}f} to {found.high:.{digits}f})"
