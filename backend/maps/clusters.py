"""The clusters of a map's passages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blindspot.analysis.clusters import NOISE
from blindspot.backend.core.manifest import read_json
from blindspot.backend.maps.stored import Map
from blindspot.db.errors import Missing

NO_CLUSTER = "in no cluster"


@dataclass(frozen=True)
class Clusters:
    """The clusters of a map.

    Attributes:
        labels: (p,) int32, the cluster of each passage, -1 for none.
        words: characteristic words of each cluster.
    """

    labels: np.ndarray
    words: dict[int, list[str]]

    @property
    def ids(self) -> list[int]:
        """Return cluster ids by decreasing size; clusters of equal size by id."""
        ids, sizes = np.unique(self.labels[self.labels != NOISE], return_counts=True)
        return [int(id) for id in ids[np.lexsort((ids, -sizes))]]

    def name(self, id: int) -> str:
        """Return the cluster's number together with its characteristic words. The number distinguishes clusters with equal
        words.
        """
        if id == NOISE:
            return NO_CLUSTER
        return f"{id + 1} · {', '.join(self.words.get(id, ())[:3]) or 'no characteristic words'}"

    def members(self, id: int) -> np.ndarray:
        """Return the positions of a cluster's passages in the map's `ordinals`. Raises Missing for an unknown
        cluster.
        """
        members = np.flatnonzero(self.labels == id)
        if not len(members):
            raise Missing(f"this map has no cluster {id + 1}")
        return members


def clusters_of(map: Map) -> Clusters:
    """Return the map's clusters."""
    words = read_json(map.folder / "words.json").items()
    return Clusters(np.array(map._array("clusters.npy")), {int(id): found for id, found in words})
