"""Entity lookup: the passages whose title the question mentions, a baseline for questions about entities.

A title matches if its words (DPR's tokens, case ignored) follow one another in the question. "Rome (film)" also matches
"Rome", after the passages whose whole title matches. The longest title comes first; a title inside a longer matching
title does not count. The passages of a title are ordered by row, so an article's first passage comes first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.core.arrays import open_array
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import read_manifest, whole_folder, write_manifest
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.retriever import RETRIEVERS, NoOptions, RetrieverKind, refuse_other_index, top_k
from blindspot.backend.text.answers import STOP_WORDS, nfd, tokens
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Hits

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

NAME = "titles"
KIND = "title index"
LONGEST = 16  # words of the longest title that a question is searched for
PARTIAL = 0.5  # subtracted from the score of a title that matches without its part in brackets
IN_BRACKETS = re.compile(r"\s*\([^()]*\)\s*$")
PASSAGES_PER_REPORT = 50_000


@job("index titles")
def build_index(study: Study, progress: Progress | None = None) -> dict:
    """Index the passages' titles and return the manifest. Raises Refused while another process builds the index."""
    corpus, started = study.corpus, time.monotonic()
    refuse_other_index(study, NAME, KIND)
    hashes: list[int] = []
    rows: list[int] = []
    partial: list[bool] = []
    with study.building(f"indexes/{NAME}"), whole_folder(study.path("indexes", NAME)) as building:
        for row, passage in enumerate(corpus.scan()):
            if progress is not None and row % PASSAGES_PER_REPORT == 0:
                progress(row, len(corpus), "reading titles")
            for is_partial, title in enumerate(dict.fromkeys((passage.title, IN_BRACKETS.sub("", passage.title)))):
                words = _words(title)
                if len(words) <= LONGEST and any(word[0].isalnum() and word not in STOP_WORDS for word in words):
                    hashes.append(_hash(words))
                    rows.append(row)
                    partial.append(bool(is_partial))
        keys = np.array(hashes, dtype=np.uint64)
        order = np.argsort(keys, kind="stable")  # rows of one title stay ascending
        np.save(building / "hashes.npy", keys[order])
        np.save(building / "rows.npy", np.array(rows, dtype=np.int32)[order])
        np.save(building / "partial.npy", np.array(partial, dtype=bool)[order])
        return write_manifest(
            building,
            {
                "kind": KIND,
                "passages": len(corpus),
                "corpus": corpus.digest,
                "titles": len(np.unique(keys)),
                "seconds": round(time.monotonic() - started, 1),
            },
        )


def _words(text: str) -> list[str]:
    return [word.lower() for word in tokens(nfd(text))]


def _hash(words: Sequence[str]) -> int:
    return int.from_bytes(blake2b(" ".join(words).encode(), digest_size=8).digest(), "little")


class TitleLookup:
    """Search by title. Raises Missing without an index, Refused if the index was made over other passages."""

    name = NAME

    def __init__(self, study: Study):
        folder = study.path("indexes", NAME)
        manifest = read_manifest(folder)
        if manifest is None or manifest["kind"] != KIND:
            raise Missing("no index of titles yet; run 'blindspot index titles'")
        if manifest["corpus"] != study.corpus.digest:
            raise Refused("the index of titles was made over other passages; run 'blindspot index titles' again")
        self.settings: dict[str, Any] = {"retriever": NAME, "titles": manifest["titles"]}
        again = "run 'blindspot index titles' again"
        self._hashes, self._rows, self._partial = (
            open_array(folder / f"{part}.npy", again) for part in ("hashes", "rows", "partial")
        )

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        """Return the k best passages of each question; a question that mentions no title has no hits.

        The score is the number of words of the longest matching title, less 0.5 for a match without the part in
        brackets.
        """
        ordinals = np.full((len(questions), k), -1, np.int32)
        scores = np.full((len(questions), k), -np.inf, np.float32)
        for i, question in enumerate(questions):
            found, values = self._matches(question)
            if len(found):
                best = top_k(found[None], values[None], k)
                ordinals[i], scores[i] = best.ordinals[0], best.scores[0]
            if progress is not None and i % 1000 == 0:
                progress(i, len(questions), "looking up titles")
        return Hits(ordinals, scores)

    def _matches(self, question: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows and scores of the passages whose title the question mentions, each row once."""
        words = _words(question)
        covered = np.zeros(len(words), dtype=bool)
        best: dict[int, float] = {}
        for length in range(min(LONGEST, len(words)), 0, -1):
            starts = [s for s in range(len(words) - length + 1) if not covered[s : s + length].all()]
            keys = np.array([_hash(words[start : start + length]) for start in starts], dtype=np.uint64)
            lows, highs = np.searchsorted(self._hashes, keys), np.searchsorted(self._hashes, keys, side="right")
            for start, low, high in zip(starts, lows.tolist(), highs.tolist(), strict=True):
                if low == high:
                    continue
                covered[start : start + length] = True
                for row, is_partial in zip(
                    self._rows[low:high].tolist(), self._partial[low:high].tolist(), strict=True
                ):
                    best[row] = max(best.get(row, 0.0), length - PARTIAL * is_partial)
        return np.array(list(best), dtype=np.int32), np.array(list(best.values()), dtype=np.float32)


class TitlesKind(RetrieverKind):
    name, title = NAME, "entity lookup"
    help = "passages whose title the question mentions"
    lexical = True

    def available(self, study: Study) -> list[str]:
        manifest = study.parts("indexes").get(NAME)
        return [NAME] if manifest is not None and manifest["kind"] == KIND else []

    def open(
        self, study: Study, options: NoOptions, device: str | None = None, part: Callable[[str], Any] | None = None
    ) -> TitleLookup:
        return TitleLookup(study)

    def parts(self, name: str) -> tuple[str, ...]:
        return (NAME,)

    def label(self, name: str) -> str:
        return "entity lookup"

    def describe(self, manifest: Mapping[str, Any]) -> str:
        return "entity lookup by title"


RETRIEVERS.register(TitlesKind())
