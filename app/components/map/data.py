"""Cached data of the Map page: the open map, the titles of its points, and what the study knows about them (relation,
labels, hits).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import streamlit as st

from blindspot.analysis.neighbours import Neighbours
from blindspot.app import study as opened_study
from blindspot.app.components.map.figure import hover_text
from blindspot.backend.core.study import Study
from blindspot.backend.maps.point_values import PointFacts, facts_of_points
from blindspot.backend.maps.selection import PASSAGE, QUESTION
from blindspot.backend.maps.stored import Map
from blindspot.db.question_table import ids_of

START = 80  # characters of a passage that lists and hovering show


@dataclass(frozen=True)
class MapPoints:
    """The points of a map: ids ("q:..." or "p:..."), titles, and the starts of their texts."""

    ids: list[str]
    titles: list[str]
    starts: list[str]

    @cached_property
    def hovers(self) -> list[str]:
        """What shows on hovering over each point. Of a passage with a title it is the title alone: the texts of 10,000
        passages are most of what a browser loads for a map.
        """
        points = zip(self.ids, self.titles, self.starts, strict=True)
        return [hover_text(title, start if id.startswith(QUESTION) or not title else "") for id, title, start in points]

    @cached_property
    def number(self) -> dict[str, int]:
        return {id: number for number, id in enumerate(self.ids)}


def open_map(study: Study, name: str) -> Map:
    """Open a map. Raises Missing, Refused."""
    folder = study.path("maps", name) / "manifest.json"
    return _map(study, str(study.folder), name, folder.stat().st_mtime_ns if folder.is_file() else None)


@st.cache_resource(max_entries=8, show_spinner=False)
def _map(_study: Study, folder: str, name: str, cache_version: int | None) -> Map:
    return Map.open(_study, name)


def points(map: Map) -> MapPoints:
    return _points(map, str(map.study.folder), map.name, map.manifest["made"])


@st.cache_resource(max_entries=4, show_spinner=False)
def _points(_map: Map, *key: object) -> MapPoints:
    questions = _map.study.questions.with_ids(_map.question_ids[: _map.shown_questions])
    passages = _map.study.corpus.passages(_map.ordinals.tolist())
    return MapPoints(
        [QUESTION + question.id for question in questions] + [PASSAGE + passage.id for passage in passages],
        [question.text for question in questions] + [passage.title for passage in passages],
        [", ".join(question.answers[:3]) for question in questions] + [passage.text[:START] for passage in passages],
    )


def known_of(map: Map) -> PointFacts:
    """Return what the study knows about the points; recomputed after new labels or imported questions."""
    labels = map.study.labels_path
    marks = tuple(path.stat().st_mtime_ns for path in (labels, labels.with_name(labels.name + "-wal")) if path.exists())
    return _known_kinds(map, str(map.study.folder), map.name, map.manifest["made"], marks)


@st.cache_resource(max_entries=4, show_spinner=False)
def _known_kinds(_map: Map, *key: object) -> PointFacts:
    return facts_of_points(_map)


def first_hits(study: Study, run: str) -> dict[str, int]:
    """Return the rank of the first relevant passage by question id, 0 for none, for the questions of the run that can
    be measured.
    """
    found = opened_study.measured(study, run, "answers", opened_study.rule_of_runs(study, run, run))
    return dict(zip(ids_of(found.questions), found.first_ranks.tolist(), strict=True))


def runs_over(map: Map) -> list[str]:
    """Return the runs that searched at least one question of the map, the map's own run first."""
    asked, own = set(map.question_ids), map.manifest["request"]["run"]
    found = [
        name for name in opened_study.runs(map.study) if asked & _searched_texts(map.study, str(map.study.folder), name)
    ]
    return sorted(found, key=lambda name: name != own)


@st.cache_resource(max_entries=32, show_spinner=False)
def _searched_texts(_study: Study, folder: str, name: str) -> frozenset[str]:
    return frozenset(_study.run(name).question_ids)


def neighbours_of(map: Map, point: int, count: int, encoder_view: int) -> Neighbours:
    """Return `Map.neighbours`, cached. Raises Missing, Refused."""
    return _neighbours(
        map, str(map.folder), map.manifest["made"], point, count, encoder_view, tuple(map.outdated_indexes())
    )


@st.cache_resource(max_entries=256, show_spinner=False)
def _neighbours(
    _map: Map,
    folder: str,
    fingerprint: str,
    point: int,
    count: int,
    encoder_view: int,
    outdated_encoders: tuple[str, ...],
) -> Neighbours:
    return _map.neighbours(point, count, encoder_view)
