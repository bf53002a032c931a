"""An open point of the map: a question with its answers, or a passage with its text, and its nearest neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from blindspot.app import url
from blindspot.app.components.map.data import START, MapPoints, known_of, neighbours_of
from blindspot.app.components.map.parts import address
from blindspot.app.components.marks import notice, relation_label
from blindspot.app.markup import Html, div, join, link, span, tag
from blindspot.backend.maps.selection import PASSAGE
from blindspot.backend.maps.stored import Map
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BlindspotError

NEIGHBOURS = 10


def point_panel(map: Map, points: MapPoints, number: int, runs: Sequence[str], k: int, view: int) -> Html:
    """A question with its answers, or a passage with its text; then its nearest neighbours.

    Args:
        number: of the point. runs: at most two, in which Question shows the question. view: index of the encoder.
    """
    if number < map.shown_questions:
        question = known_of(map).questions[number]
        there = url.href(url.QUESTION, {"question": question.id, **dict(zip("ab", runs)), "k": k})
        kind = relation_label(question.relation)
        answers = tag("p", f"Answers: {', '.join(question.answers) or 'none known'}")
        body = join(answers, tag("p", link("Open the question", there)))
    else:
        passage = map.study.corpus.passage(int(map.ordinals[number - map.shown_questions]))
        kind, body = f"passage {passage.id}", tag("p", passage.text, cls="passage-text")
    title = tag("h2", points.titles[number] or "(no title)")
    return div(
        div(title, link("Close", address(map, point=None), cls="quiet"), cls="list-head"),
        tag("p", kind, cls="convention"),
        body,
        _nearest(map, number, view),
        cls="panel map-point",
    )


def _nearest(map: Map, number: int, view: int) -> Html:
    """The nearest passages of all, with their similarities in the original space."""
    try:
        near = neighbours_of(map, number, NEIGHBOURS, view)
    except BlindspotError as error:
        return notice(str(error), kind="warning")
    encoder, on_map = map.manifest["encoders"][view], set(map.ordinals.tolist())
    measure = "Cosine" if encoder["distance"] == "cosine" else "Euclidean distance"
    ordinals, lines = near.rows[0].tolist(), []
    for passage, ordinal, value in zip(
        map.study.corpus.passages(ordinals), ordinals, near.similarity[0].tolist(), strict=True
    ):
        title, is_here = passage.title or "(no title)", ordinal in on_map
        lines.append(
            tag(
                "li",
                span(f"{abs(value):.3f}", cls="soft number"),
                link(title, address(map, point=PASSAGE + passage.id)) if is_here else title,
                span(f" {passage.text[:START]}{'' if is_here else ' · not on this map'}", cls="soft"),
            )
        )
    return div(
        tag("h3", f"Nearest of all {quantity(len(map.study.corpus), 'passage')}"),
        tag("ol", *lines, cls="map-list"),
        tag(
            "p",
            f"{measure} in the original space of {encoder['name']}; neighbours on the map may differ.",
            cls="convention",
        ),
    )
