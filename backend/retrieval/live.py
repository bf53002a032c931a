"""One question, now: the only way in which the app asks a retriever. Indexes and encoders are held for the life of the process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from backend.manifest import read_manifest
from backend.retrieval.bm25 import BM25
from backend.retrieval.dense import Dense
from backend.retrieval.hybrid import Hybrid
from db.errors import Refused
from db.records import Hits

if TYPE_CHECKING:
    from backend.retrieval.retriever import Retriever
    from backend.study import Study

MAX_QUESTION = 2000  # characters; longer ones are no question, and Lucene's cost grows with their words

_open: dict[tuple, Retriever] = {}
_opening = threading.Lock()
_searching = threading.Lock()


def available(study: Study) -> list[str]:
    """The retrievers that can answer a question now: "bm25", each dense index, and "hybrid:NAME" for each pair."""
    indexes = study.parts("indexes")
    dense = [name for name, manifest in indexes.items() if manifest.get("kind") == "dense index"]
    sparse = ["bm25"] if "bm25" in indexes else []
    return [*sparse, *dense, *(f"hybrid:{name}" for name in dense if sparse)]


def search(study: Study, retriever: str, questions: Sequence[str], k: int) -> Hits:
    """Search with a retriever of `available`.

    Raises Missing when its index is not there, Refused for an empty or overlong question.
    """
    for question in questions:
        if not question.strip() or len(question) > MAX_QUESTION:
            raise Refused(f"a question must have between 1 and {MAX_QUESTION} characters")
    found = _retriever(study, retriever)
    with _searching:  # torch already uses every core for one question; two at once would only slow each other
        return found.search(questions, k)


def _retriever(study: Study, name: str) -> Retriever:
    parts = ("bm25", name.removeprefix("hybrid:")) if name.startswith("hybrid:") else (name,)
    made = tuple((read_manifest(study.path("indexes", part)) or {}).get("made") for part in parts)
    key = (study.folder, name, made, study.settings_path.stat().st_mtime_ns)
    with _opening:
        if key not in _open:
            for stale in [other for other in _open if other[:2] == key[:2]]:
                del _open[stale]
            _open[key] = _load(study, name)
        return _open[key]


def _load(study: Study, name: str) -> Retriever:
    if name == "bm25":
        return BM25(study)
    if name.startswith("hybrid:"):
        return Hybrid(study, name.removeprefix("hybrid:"))
    return Dense(study, name)
