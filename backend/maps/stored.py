"""A stored map: the ids of its points, their coordinates, and the quality of the projection. Neighbours are searched
among the original vectors, not on the map.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np

from blindspot.analysis.neighbours import Neighbours, Similarity, nearest_rows
from blindspot.backend.core.arrays import open_array
from blindspot.backend.core.manifest import read_json
from blindspot.backend.core.study import Study
from blindspot.db.errors import Missing, Refused

SINGLE, ALIGNED, MATCHED = "single", "aligned", "matched"
ALIGNMENT_SENTENCES = {
    SINGLE: "One encoder.",
    ALIGNED: "The map shows both encoders. The second encoder's vectors were rotated onto the first's (orthogonal "
    "Procrustes, which preserves every cosine), then all points were projected together. You can compare "
    "the two positions of a point.",
    MATCHED: "Two maps. The encoders have different dimensions, so each is projected alone; the second projection "
    "starts from the positions of the first. Compare which points are neighbours, not the positions of "
    "points.",
}


class Map:
    """A finished map. Points are numbered: first the questions shown as points, then the passages.

    Attributes:
        question_ids: of the map's questions, shown or not.
        ordinals: (p,) int32, the rows of its passages, ascending.
    """

    def __init__(self, study: Study, folder: Path, manifest: dict):
        self.study, self.folder, self.name, self.manifest = study, folder, folder.name, manifest

    @classmethod
    def open(cls, study: Study, name: str) -> Map:
        """Open a map. Raises Missing for an absent or unfinished map, and Refused for a map of another collection."""
        manifest = study.finished_manifest("maps", name, "map", "map new", "make the map again")
        return cls(study, study.path("maps", name), manifest)

    def __len__(self) -> int:
        return self.shown_questions + len(self.ordinals)

    @property
    def encoders(self) -> list[str]:
        return [encoder["name"] for encoder in self.manifest["encoders"]]

    @property
    def shown_questions(self) -> int:
        """The number of questions shown as points."""
        return self.manifest["question_points"]

    @property
    def alignment_sentence(self) -> str:
        """A sentence on how the positions under the two encoders can be compared."""
        return ALIGNMENT_SENTENCES[self.manifest["together"]]

    @cached_property
    def question_ids(self) -> list[str]:
        return read_json(self.folder / "questions.json")

    @cached_property
    def ordinals(self) -> np.ndarray:
        return self._array("ordinals.npy")

    def coordinates(self, encoder: int = 0) -> np.ndarray:
        """Return the coordinates of all points under one encoder, (points, 2) float32. The two, which have no meaning of
        their own, change places in a map that is higher than wide, because windows are wide.
        """
        found = self._array(f"coordinates.{encoder}.npy")
        return found[:, ::-1] if self._is_tall else found

    def question_vectors(self, encoder: int = 0) -> np.ndarray:
        """Return the vectors of the shown questions under one encoder, (shown_questions, d), not necessarily of unit
        length.
        """
        return self._array(f"questions.{encoder}.npy")

    @cached_property
    def _is_tall(self) -> bool:
        width, height = np.ptp(self._array("coordinates.0.npy"), axis=0)
        return bool(height > width)

    def outdated_indexes(self) -> list[str]:
        """Return the encoders whose index was rebuilt or deleted since the map was made."""
        indexes = self.study.parts("indexes")

        def index_made(encoder: str) -> str | None:
            return indexes[encoder].get("made") if encoder in indexes else None

        return [each["name"] for each in self.manifest["encoders"] if index_made(each["name"]) != each["index_made"]]

    def neighbours(self, point: int, k: int = 10, encoder: int = 0) -> Neighbours:
        """Return the passages of the whole collection whose vectors are nearest to a point's vector, without the point
        itself.

        Raises Missing if the encoder's index was deleted, and Refused if it was rebuilt since the map was made.
        """
        vectors, similarity = self._index_vectors(encoder)
        query, ordinal = self._vector(point, vectors, encoder)
        if ordinal is None:
            return nearest_rows(query, vectors, min(k, len(vectors)), similarity)
        excluded = np.array([ordinal])
        return nearest_rows(query, vectors, min(k, len(vectors) - 1), similarity, excluded_rows=excluded)

    def _index_vectors(self, encoder: int) -> tuple[np.ndarray, Similarity]:
        each = self.manifest["encoders"][encoder]
        if each["name"] in self.outdated_indexes():
            raise Refused(f"the index {each['name']!r} has changed since this map was made; make the map again")
        vectors = open_array(self.study.path("indexes", each["name"]) / "embeddings.npy", "index the passages again")
        return vectors, "l2" if each["distance"] == "euclidean" else "cosine"

    def _vector(self, point: int, vectors: np.ndarray, encoder: int) -> tuple[np.ndarray, int | None]:
        """Return a point's vector, (1, d), and of a passage its ordinal."""
        if point < self.shown_questions:
            return self.question_vectors(encoder)[point : point + 1], None
        ordinal = int(self.ordinals[point - self.shown_questions])
        return vectors[ordinal : ordinal + 1], ordinal

    def _array(self, name: str) -> np.ndarray:
        path = self.folder / name
        if not path.exists():
            raise Missing(f"{path} is missing; make the map {self.name!r} again")
        return open_array(path, "delete the map and make it again")


def maps_of(study: Study) -> dict[str, dict]:
    """Return the finished maps over this study's passages: name to manifest, oldest first."""
    if not study.has_corpus:
        return {}
    return {
        name: manifest
        for name, manifest in study.parts("maps").items()
        if manifest.get("corpus") == study.corpus.digest
    }
