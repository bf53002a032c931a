"""People's edits of a map's clusters: split, merge, rename, and add a note. Edits are stored as a list and can be
undone.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from blindspot.analysis import clusters
from blindspot.analysis.clusters import NOISE
from blindspot.analysis.projection import comparable_vectors, principal_components
from blindspot.backend.core.arrays import open_array
from blindspot.backend.core.manifest import read_json, write_json
from blindspot.backend.core.require_right import require
from blindspot.backend.maps.making import cluster_words
from blindspot.backend.maps.stored import Map
from blindspot.db.errors import BadInput, Missing, Refused

LONGEST_NAME, LONGEST_NOTE = 80, 4000
NO_CLUSTER = "in no cluster"
_FILE = "edits.json"


@dataclass(frozen=True)
class Clusters:
    """The clusters of a map after the first `edits` edits.

    Attributes:
        labels: (p,) int32, the cluster of each passage, -1 for none.
        words: characteristic words of each cluster.
        names: names that people gave.
        undoable, redoable: descriptions of the last edit and of the last undone edit, or None.
    """

    labels: np.ndarray
    words: dict[int, list[str]]
    names: dict[int, str] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)
    edits: int = 0
    undoable: str | None = None
    redoable: str | None = None

    @property
    def ids(self) -> list[int]:
        """Return cluster ids by decreasing size; clusters of equal size by id."""
        ids, sizes = np.unique(self.labels[self.labels != NOISE], return_counts=True)
        return [int(id) for id in ids[np.lexsort((ids, -sizes))]]

    def name(self, id: int) -> str:
        """Return the cluster's number together with the name that people gave it, or else its characteristic words. The
        number distinguishes clusters with equal names.
        """
        if id == NOISE:
            return NO_CLUSTER
        return f"{id + 1} · {self.names.get(id) or ', '.join(self.words.get(id, ())[:3]) or 'no characteristic words'}"

    def members(self, id: int) -> np.ndarray:
        """Return the positions of a cluster's passages in the map's `ordinals`. Raises Missing for an unknown
        cluster.
        """
        members = np.flatnonzero(self.labels == id)
        if not len(members):
            raise Missing(f"this map has no cluster {id + 1}")
        return members


def clusters_of(map: Map) -> Clusters:
    """Return the map's clusters with all edits applied. Raises BadInput for a damaged file."""
    clusters = Clusters(
        np.array(map._array("clusters.npy")),
        {int(id): words for id, words in read_json(map.folder / "words.json").items()},
    )
    log = _read_edits(map)
    try:
        for edit in log["edits"]:
            clusters = _apply_edit(clusters, edit)
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(
            f"is damaged ({error}); delete the file to restore the original clusters", map.folder / _FILE
        ) from error
    return Clusters(
        clusters.labels,
        clusters.words,
        clusters.names,
        clusters.notes,
        len(log["edits"]),
        _edit_words(log["edits"]),
        _edit_words(log["undone"]),
    )


def rename(map: Map, id: int, name: str, seen_version: int | None = None, actor: str | None = None) -> Clusters:
    """Give a cluster a name; an empty name restores the characteristic words. Raises Missing for an unknown cluster,
    and Refused if the edit is not allowed.
    """
    name = " ".join(name.split())
    if len(name) > LONGEST_NAME:
        raise Refused(f"a cluster's name may have at most {LONGEST_NAME} characters")
    return _write_edit(
        map,
        lambda clusters: clusters.members(id) is not None and {"kind": "rename", "cluster": id, "name": name},
        seen_version,
        actor,
    )


def note(map: Map, id: int, text: str, seen_version: int | None = None, actor: str | None = None) -> Clusters:
    """Write a note on a cluster, replacing the previous note. Raises Missing for an unknown cluster, and Refused if the
    edit is not allowed.
    """
    if len(text) > LONGEST_NOTE:
        raise Refused(f"a note may have at most {LONGEST_NOTE:,} characters")
    return _write_edit(
        map,
        lambda clusters: clusters.members(id) is not None and {"kind": "note", "cluster": id, "text": text.strip()},
        seen_version,
        actor,
    )


def merge(map: Map, ids: Sequence[int], seen_version: int | None = None, actor: str | None = None) -> Clusters:
    """Merge several clusters. The result keeps the number, name and note of the first one. Raises Missing for an
    unknown cluster, and Refused for fewer than two clusters.
    """
    ids = list(dict.fromkeys(ids))
    if len(ids) < 2:
        raise Refused("choose at least two clusters to merge")

    def edit(clusters: Clusters) -> dict:
        labels = clusters.labels.copy()
        for id in ids:
            clusters.members(id)
            labels[labels == id] = ids[0]
        return {
            "kind": "merge",
            "clusters": ids,
            "words": {str(ids[0]): cluster_words(map.study, map.ordinals, labels).get(ids[0], [])},
        }

    return _write_edit(map, edit, seen_version, actor)


def split(
    map: Map, id: int, part_count: int = 2, seed: int = 0, seen_version: int | None = None, actor: str | None = None
) -> Clusters:
    """Split a cluster with k-means on the original vectors. The largest part keeps the number. Raises Missing for an
    unknown cluster, and Refused if it cannot be split.
    """

    def edit(now: Clusters) -> dict:
        members = now.members(id)
        if not 2 <= part_count <= min(len(members), 50):
            raise Refused(
                f"a cluster of {len(members):,} passages can be split into 2 to {min(len(members), 50)} parts, not "
                f"{part_count}"
            )
        pieces = clusters.cluster(_components(map, members), "kmeans", count=part_count, seed=seed)
        free = _next_number(now, _read_edits(map)["edits"])
        new = [id, *range(free, free + int(pieces.max()))]
        labels = now.labels.copy()
        labels[members] = np.array(new)[pieces]
        words = cluster_words(map.study, map.ordinals, labels)
        return {
            "kind": "split",
            "cluster": id,
            "new": new,
            "parts": pieces.tolist(),
            "words": {str(each): words.get(each, []) for each in new},
        }

    return _write_edit(map, edit, seen_version, actor)


def undo(map: Map, seen_version: int | None = None, actor: str | None = None) -> Clusters:
    """Undo the last edit. Raises Refused if there is none."""
    return _move_edit(map, "edits", "undone", "nothing to undo", seen_version, actor)


def redo(map: Map, seen_version: int | None = None, actor: str | None = None) -> Clusters:
    """Redo the last undone edit. Raises Refused if there is none, or if another edit was made since."""
    return _move_edit(map, "undone", "edits", "nothing to redo", seen_version, actor)


def _components(map: Map, members: np.ndarray) -> np.ndarray:
    encoder = map.manifest["encoders"][0]
    if encoder["name"] in map.outdated_indexes():
        raise Refused(f"the index {encoder['name']!r} has changed since this map was made; make the map again")
    vectors = open_array(map.study.path("indexes", encoder["name"]) / "embeddings.npy", "index the passages again")
    similarity = "l2" if encoder["distance"] == "euclidean" else "cosine"
    return principal_components(
        comparable_vectors(vectors[map.ordinals[members]], similarity), map.manifest["request"]["components"]
    ).values


def _next_number(clusters: Clusters, edits: Sequence[Mapping]) -> int:
    """Return a number that no cluster has now or had before."""
    used = [
        int(clusters.labels.max(initial=-1)),
        *clusters.words,
        *(id for edit in edits for id in edit.get("new", edit.get("clusters", ()))),
    ]
    return max(used) + 1


def _apply_edit(clusters: Clusters, edit: Mapping[str, Any]) -> Clusters:
    labels, words, names, notes = clusters.labels, dict(clusters.words), dict(clusters.names), dict(clusters.notes)
    kind = edit["kind"]
    if kind == "rename":
        names[edit["cluster"]] = edit["name"]
    elif kind == "note":
        notes[edit["cluster"]] = edit["text"]
    else:
        labels = labels.copy()
        if kind == "merge":
            labels[np.isin(labels, edit["clusters"])] = edit["clusters"][0]
        elif kind == "split":
            labels[labels == edit["cluster"]] = np.array(edit["new"])[np.array(edit["parts"])]
        else:
            raise ValueError(f"unknown edit {kind!r}")
        words.update((int(id), found) for id, found in edit["words"].items())
    return Clusters(labels, words, names, notes)


def _edit_words(edits: Sequence[Mapping]) -> str | None:
    """Describe the last edit, as in "split of cluster 3"."""
    if not edits:
        return None
    edit = edits[-1]
    if edit["kind"] == "merge":
        return f"merge of clusters {', '.join(str(id + 1) for id in edit['clusters'])}"
    return f"{edit['kind']} of cluster {edit['cluster'] + 1}"


def _write_edit(map: Map, make_edit, seen_version: int | None, actor: str | None) -> Clusters:
    require(map.study, actor, "edit maps")
    with _lock_edits(map):
        now, log = clusters_of(map), _read_edits(map)
        _refuse_stale(now, seen_version)
        log["edits"].append({**make_edit(now), "by": actor, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
        log["undone"] = []
        write_json(map.folder / _FILE, log)
        return clusters_of(map)


def _move_edit(
    map: Map, source: str, target: str, empty_message: str, seen_version: int | None, actor: str | None
) -> Clusters:
    require(map.study, actor, "edit maps")
    with _lock_edits(map):
        log = _read_edits(map)
        _refuse_stale(clusters_of(map), seen_version)
        if not log[source]:
            raise Refused(empty_message)
        log[target].append(log[source].pop())
        write_json(map.folder / _FILE, log)
        return clusters_of(map)


def _refuse_stale(clusters: Clusters, seen_version: int | None) -> None:
    if seen_version is not None and seen_version != clusters.edits:
        raise Refused(
            "somebody else has changed the clusters of this map in the meantime; look at the clusters and "
            "repeat your edit"
        )


def _read_edits(map: Map) -> dict[str, list]:
    path = map.folder / _FILE
    if not path.is_file():
        return {"edits": [], "undone": []}
    log = read_json(path)
    if not isinstance(log, dict) or not all(isinstance(log.get(key), list) for key in ("edits", "undone")):
        raise BadInput("is damaged; delete the file to restore the original clusters", path)
    return log


@contextmanager
def _lock_edits(map: Map) -> Iterator[None]:
    """Lock a map's clusters during an edit; other editors wait."""
    file = os.open(map.folder / ".edits.lock", os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
