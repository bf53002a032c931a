"""Open the retrievers of a study and keep them open. Each is opened once, so a hybrid shares the encoder and the
indexes of its parts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blindspot.backend.core.extras import first_missing
from blindspot.backend.core.manifest import MANIFEST, file_sha256
from blindspot.backend.retrieval.retriever import RETRIEVERS, RetrieverKind, kind_of
from blindspot.db.errors import Missing
from blindspot.db.records import Hits

if TYPE_CHECKING:
    from blindspot.backend.core.settings import Settings
    from blindspot.backend.core.study import Study
    from blindspot.backend.retrieval.retriever import Retriever


@dataclass(frozen=True, slots=True)
class OpenedRetriever:
    """An open retriever, with the SHA-256 of the manifest of each index that it searches, by the index's name."""

    retriever: Retriever
    indexes: dict[str, str]


def available_retrievers(study: Study) -> list[str]:
    """Return the names of the retrievers that the study can open now, for all kinds whose packages are installed:
    "bm25", each dense index, "hybrid:NAME", ...
    """
    return [name for kind in RETRIEVERS if not first_missing(kind.extras) for name in kind.available(study)]


def has_retrievers(study: Study) -> bool:
    """Return whether `available_retrievers` is not empty, without listing all retrievers."""
    return any(kind.available(study) for kind in RETRIEVERS if not first_missing(kind.extras))


def index_names(study: Study, name: str) -> tuple[str, ...]:
    """Return the indexes that a retriever of `available_retrievers` searches."""
    kind = kind_of(name)
    return () if kind is None else kind.parts_in(study, name)


def manifest_hashes(study: Study, name: str) -> dict[str, str]:
    """Return the SHA-256 of the manifest of each finished index that the retriever `name` searches. The hashes
    distinguish a rebuilt index from the old one with the same name.
    """
    files = {part: study.path("indexes", part, MANIFEST) for part in index_names(study, name)}
    return {part: file_sha256(path) for part, path in files.items() if path.is_file()}


class OpenRetrievers:
    """A store of open retrievers by name. A retriever is opened again if its index or its settings have changed.

    Several threads may call `search`, but only one thread at a time may search a dense index; `thread_key` names that
    thread.
    """

    def __init__(self, study: Study, device: str | None = None):
        self.study, self.device = study, device
        self._held: dict[str, tuple[tuple, OpenedRetriever]] = {}
        self._opening = threading.Lock()
        self._loaded: dict[str, OpenedRetriever] = {}
        # the first search loads an encoder, and the libraries must not load in two threads at once
        self._loading = threading.Lock()
        self._settings: tuple[int, Settings] | None = None

    def thread_key(self, name: str) -> str:
        """Return a key for the thread of a retriever. Retrievers with the same key share an encoder and must be
        searched in the same thread.
        """
        return (index_names(self.study, name) or (name,))[-1]

    def open(self, name: str) -> OpenedRetriever:
        """Open a retriever. Raises Missing if there is no index, and Refused if the index was made over
        other passages.
        """
        with self._opening:
            return self._open(name)

    def search(self, name: str, questions: Sequence[str], k: int) -> tuple[Hits, OpenedRetriever]:
        """Search with the open retriever. On a CPU, dense retrieval uses half of the cores, so that the rest remains
        for BM25 and the app.
        """
        opened = self.open(name)
        kind = kind_of(name)
        if kind is None or not kind.uses_torch:
            return opened.retriever.search(questions, k), opened
        with nullcontext() if self._loaded.get(name) is opened else self._loading, _half_the_cores():
            hits = opened.retriever.search(questions, k)
        self._loaded[name] = opened
        return hits, opened

    def _open(self, name: str) -> OpenedRetriever:
        stamp = self._version_key(name)
        cached = self._held.get(name)
        if cached is None or cached[0] != stamp:
            for stale in [other for other in self._held if other == name or name in index_names(self.study, other)]:
                # close the old retriever before opening the new one: a GPU's memory would not hold both
                del self._held[stale]
                self._loaded.pop(stale, None)
            manifests = manifest_hashes(self.study, name)
            cached = stamp, OpenedRetriever(self._load(name), manifests)
            if self._version_key(name) != stamp:
                raise Missing(f"the index of {name} is being rebuilt; try again when it is done")
            self._held[name] = cached
        return cached[1]

    def _load(self, name: str) -> Retriever:
        kind = self._kind(name)
        return kind.open(self.study, kind.options(**kind.options_of(name)), self.device, self._open_retriever)

    def _open_retriever(self, name: str) -> Retriever:
        return self._open(name).retriever

    def _version_key(self, name: str) -> tuple:
        """Return a value that changes when the retriever's files or settings change."""
        kind = self._kind(name)
        stats = [path.stat() if path.is_file() else None for path in kind.files(self.study, name)]
        return (
            kind.settings_of(self._read_settings(), name),
            tuple(None if stat is None else (stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats),
        )

    def _kind(self, name: str) -> RetrieverKind:
        kind = kind_of(name)
        if kind is None:
            raise Missing(f"unknown retriever {name!r}; known kinds: {', '.join(RETRIEVERS.names())}")
        return kind

    def _read_settings(self) -> Settings:
        changed = self.study.settings_path.stat().st_mtime_ns
        if self._settings is None or self._settings[0] != changed:
            self._settings = changed, self.study.settings
        return self._settings[1]


@contextmanager
def _half_the_cores() -> Iterator[None]:
    """Limit PyTorch to half of the cores. Its threads wait for each other, so all of them are slowed down if another
    process uses one of their cores.
    """
    if first_missing(("dense",)):  # such as an opened search engine, which needs no PyTorch
        yield
        return
    import torch

    before = torch.get_num_threads()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, min(before, (os.cpu_count() or 1) // 2)))
    try:
        yield
    finally:
        torch.set_num_threads(before)
