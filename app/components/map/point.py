"""An open point of the map: a question with its ranks and positives, or a passage, and its nearest neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blindspot.analysis.neighbours import Neighbours
from blindspot.app import url
from blindspot.app.components.map.data import MapPoints, first_hits, known_of, neighbours_of
from blindspot.app.components.map.link import Lines
from blindspot.app.components.map.parts import address
from blindspot.app.components.marks import notice, relation_label
from blindspot.app.markup import Html, div, join, link, span, tag
from blindspot.backend.maps.selection import PASSAGE
from blindspot.backend.maps.stored import Map
from blindspot.backend.text.answers import answer_spans
from blindspot.backend.text.number_words import quantity
from blindspot.backend.text.spans import excerpt_start
from blindspot.db.errors import BlindspotError

NEIGHBOURS = 10
QUESTIONS = 10  # in a list of a passage's
LINES = 10  # to the first hits of the open question, at most
EXCERPT, BEFORE = 75, 25  # characters of a passage in a list, and before the answer


@dataclass(frozen=True)
class OpenPoint:
    """The point whose id is in the address, by its number on the map. runs: those whose ranks are shown, the first with
    lines to its hits. view: index of the encoder that places the points.
    """

    map: Map
    points: MapPoints
    number: int
    runs: Sequence[str]
    k: int
    view: int

    @property
    def is_question(self) -> bool:
        return self.number < self.map.shown_questions

    @property
    def title(self) -> str:
        return self.points.titles[self.number] or "(no title)"

    @property
    def positives(self) -> np.ndarray:
        """The ordinals of a question's positives on the map; none for a passage. (m,) int64."""
        places = known_of(self.map).positives[self.number] if self.is_question else []
        return np.asarray(self.map.ordinals)[places]

    @property
    def asked_by(self) -> list[int]:
        """The numbers of the questions on the map whose positive a passage is; none for a question."""
        if self.is_question:
            return []
        found = known_of(self.map).questions_by_passage.get(self.number - self.map.shown_questions, ())
        return [number for number in found if number < self.map.shown_questions]

    @cached_property
    def retrieving(self) -> list[tuple[int, int]]:
        """The questions on the map for which the first run has a passage in its top k, as (rank, number), best rank first;
        none for a question.
        """
        if self.is_question or not self.runs:
            return []
        run, map = self.map.study.run(self.runs[0]), self.map
        numbers = {
            question.id: number for number, question in enumerate(known_of(map).questions[: map.shown_questions])
        }
        hits = np.asarray(run.hits.ordinals[:, : self.k])
        places = np.argwhere(hits == map.ordinals[self.number - map.shown_questions]).tolist()
        found = ((column + 1, numbers.get(run.question_ids[row])) for row, column in places)
        return sorted((rank, number) for rank, number in found if number is not None)

    def ranks(self) -> dict[int, int]:
        """Return the rank of each hit of the first run by its ordinal; none for a passage or a run without the question."""
        if not self.is_question or not self.runs:
            return {}
        run = self.map.study.run(self.runs[0])
        row = run.row(known_of(self.map).questions[self.number].id)
        found = [] if row is None else np.asarray(run.hits.ordinals[row]).tolist()
        return {ordinal: rank for rank, ordinal in enumerate(found, 1)}


def first_ranks_sentence(opened: OpenPoint) -> str:
    """Return the rank of the first relevant passage of a question in each run that can be measured on it; "" if in none."""
    said, study = [], opened.map.study
    for run in opened.runs:
        rank = first_hits(study, run).get(known_of(opened.map).questions[opened.number].id)
        if rank is not None:
            depth = study.run(run).hits.ordinals.shape[1]
            said.append(f"rank {rank:,} in {run}" if rank else f"not in the first {depth:,} of {run}")
    return f"First relevant passage: {', '.join(said)}." if said else ""


def passage_sentence(opened: OpenPoint) -> str:
    """Return for how many questions of the map a passage is a positive, and for how many the first run retrieves it."""
    asked_by = len(opened.asked_by)
    said = f"A positive, gold or judged, for {quantity(asked_by, 'question')}" if asked_by else "No question's positive"
    if not opened.runs:
        return f"{said}."
    found = len(opened.retrieving)
    return f"{said}; in {opened.runs[0]}'s top {opened.k} for {quantity(found, 'question') if found else 'none'}."


def lines_of(opened: OpenPoint) -> Lines:
    """Return the lines from a question to its positives and to the first hits of the run, or from a passage to the questions
    whose positive it is.
    """
    map, ids = opened.map, opened.points.ids
    if not opened.is_question:
        return Lines(tuple(ids[each] for each in opened.asked_by))
    where = _places(map)
    hits = [where.get(ordinal) for ordinal in list(opened.ranks())[: min(opened.k, LINES)]]
    return Lines(
        tuple(ids[map.shown_questions + place] for place in known_of(map).positives[opened.number]),
        tuple("" if place is None else ids[map.shown_questions + place] for place in hits),
    )


def _places(map: Map) -> dict[int, int]:
    return {ordinal: place for place, ordinal in enumerate(map.ordinals.tolist())}


def point_panel(opened: OpenPoint) -> Html:
    """A question with its answers and positives, or a passage with its text; then its nearest neighbours."""
    map = opened.map
    if opened.is_question:
        question = known_of(map).questions[opened.number]
        pair = dict(zip("ab", opened.runs))
        kind = relation_label(question.relation)
        body = join(
            tag("p", f"Answers: {', '.join(question.answers) or 'none known'}"),
            tag(
                "p", link("Open the question", url.href(url.QUESTION, {"question": question.id, **pair, "k": opened.k}))
            )
            if len(opened.runs) < 2
            else "",  # otherwise it is the next step
        )
    else:
        passage = map.study.corpus.passage(int(map.ordinals[opened.number - map.shown_questions]))
        text, kind = tag("p", passage.text, cls="passage-text"), f"passage {passage.id}"
        body = join(text, _question_lists(opened))
    return div(
        div(tag("h2", opened.title), link("Close", address(map, point=None), cls="quiet"), cls="list-head"),
        tag("p", kind, cls="convention"),
        body,
        _near_passages(opened),
        cls="panel map-point",
    )


def _question_lists(opened: OpenPoint) -> Html:
    """The questions whose positive a passage is, and those for which the first run retrieves it."""
    asked_by = [(0, number) for number in opened.asked_by]
    heads = {f"Positive for {quantity(len(asked_by), 'question')} (solid lines)": asked_by}
    if opened.runs:
        found = opened.retrieving
        heads[f"In {opened.runs[0]}'s top {opened.k} for {quantity(len(found), 'question')}"] = found
    return join(*(join(tag("h3", head), _question_list(opened, listed)) for head, listed in heads.items() if listed))


def _question_list(opened: OpenPoint, listed: Sequence[tuple[int, int]]) -> Html:
    """Questions as links to their points, with the rank of the passage where it is one."""
    ids, questions = opened.points.ids, known_of(opened.map).questions
    lines = [
        tag(
            "li",
            span(f"rank {rank:,} ", cls="soft") if rank else "",
            link(questions[number].text, address(opened.map, point=ids[number])),
        )
        for rank, number in listed[:QUESTIONS]
    ]
    more = len(listed) - QUESTIONS
    return tag("ol", *lines, tag("li", f"and {more:,} more", cls="soft") if more > 0 else "", cls="map-list")


def _near_passages(opened: OpenPoint) -> Html:
    """A question's positives, and the nearest passages of all, with their similarities in the original space."""
    map, positives, ranks = opened.map, opened.positives, opened.ranks()
    try:
        nearest = neighbours_of(map, opened.number, NEIGHBOURS, opened.view)
        own = map.nearest_among(opened.number, positives, opened.view) if len(positives) else None
    except BlindspotError as error:
        return notice(str(error), kind="warning")
    encoder = map.manifest["encoders"][opened.view]
    measure = "cosine" if encoder["distance"] == "cosine" else "Euclidean distance"
    of = f", rank of {opened.runs[0]}" if ranks else ""
    how = f"{measure.capitalize()} in the original space of {encoder['name']}{of}; neighbours on the map may differ."
    lists = []
    if own is not None:
        if hit := list(ranks)[: opened.k][-1:]:
            last = map.nearest_among(opened.number, np.array(hit), opened.view)
            best, other = (abs(float(near.similarity[0][0])) for near in (own, last))
            rank = f"hit {ranks[hit[0]]:,} of {opened.runs[0]}"
            lists.append(tag("p", f"{measure.capitalize()} of the best positive {best:.3f}, of {rank} {other:.3f}."))
        heading = tag("h3", f"Positives, gold or judged ({len(positives):,}; solid lines)")
        lists += [heading, _passage_list(opened, own, ranks, frozenset())]
    hits = f"; dotted lines: the first {min(opened.k, LINES)} of {opened.runs[0]}" if ranks else ""
    among = f"Nearest of all {quantity(len(map.study.corpus), 'passage')}{hits}"
    lists += [tag("h3", among), _passage_list(opened, nearest, ranks, frozenset(positives.tolist()))]
    return div(*lists, tag("p", how, cls="convention"))


def _excerpt(text: str, answers: Sequence[str]) -> str:
    """Return some words of a text around its first answer, else its first words."""
    spans = answer_spans(text, answers) if answers else []
    start = excerpt_start(text, spans[0][0], BEFORE) if spans else 0
    return f"{'…' if start else ''}{text[start : start + EXCERPT]}…"


def _passage_list(opened: OpenPoint, near: Neighbours, ranks: Mapping[int, int], positives: frozenset[int]) -> Html:
    """Passages with their similarity and rank, and a mark on those that are positives."""
    where, lines = _places(opened.map), []
    answers = known_of(opened.map).questions[opened.number].answers if opened.is_question else ()
    ordinals = near.rows[0].tolist()
    for passage, ordinal, value in zip(
        opened.map.study.corpus.passages(ordinals), ordinals, near.similarity[0].tolist(), strict=True
    ):
        title, is_here = passage.title or "(no title)", ordinal in where
        lines.append(
            tag(
                "li",
                span(f"{abs(value):.3f}", cls="soft number"),
                span(f"rank {ranks[ordinal]:,} " if ordinal in ranks else "", cls="soft"),
                link(title, address(opened.map, point=PASSAGE + passage.id)) if is_here else title,
                span(" positive", cls="positive") if ordinal in positives else "",
                span(f" {_excerpt(passage.text, answers)}", cls="soft"),
                "" if is_here else span(" · not on this map", cls="soft"),
            )
        )
    return tag("ol", *lines, cls="map-list")
