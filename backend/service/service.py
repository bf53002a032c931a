"""What the service does, without HTTP: searches through the worker threads, counts, warms up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from backend.retrieval import indexes as held
from backend.retrieval.indexes import Indexes
from backend.service.batching import WAITING, WINDOW, Batcher, Busy, Found
from backend.service.metrics import Metrics, resident_bytes
from db.errors import BlindspotError, Missing

if TYPE_CHECKING:
    from backend.core.study import Study

WARMING = "Where was she born?"
SEARCHES = "blindspot_search_seconds"


class Service:
    """The retrievers of a study behind worker threads.

    Args:
        device: of the encoders and dense indexes, as `Dense` takes it.
        window, waiting: see `Batcher`.
    """

    def __init__(self, study: Study, device: str | None = None, window: float = WINDOW, waiting: int = WAITING):
        self.study, self.metrics, self.started = study, Metrics(), time.time()
        self._indexes = Indexes(study, device)
        self._batcher = Batcher(self._search, window, waiting, watch=self._watch)
        self.ready = threading.Event()
        self.failed: dict[str, str] = {}
        """Retrievers that could not be opened at the start, each with the reason."""

    def retrievers(self) -> dict[str, dict[str, str]]:
        """What can be asked now: retriever to the manifest hash of each of its indexes."""
        return {name: held.hashes(self.study, name) for name in held.names(self.study)}

    def ask(self, retriever: str, questions: Sequence[str], k: int) -> Future[Found]:
        """Raises Missing for a retriever that there is not, Busy when too many wait."""
        known = held.names(self.study)
        if retriever not in known:
            raise Missing(
                f"there is no retriever {retriever!r} here; there is {', '.join(known) or 'none, as nothing is indexed'}"
            )
        try:
            return self._batcher.ask(Indexes.one_thread(retriever), retriever, questions, k)
        except Busy:
            self.metrics.count(
                "blindspot_refused_total", "Requests refused because the queue was full.", retriever=retriever
            )
            raise

    def warm(self) -> None:
        """Ask every retriever once, so that its index and encoder are loaded before the first person asks; then be ready."""
        asked = {}
        for name in held.names(self.study):
            asked[name] = self._batcher.ask(Indexes.one_thread(name), name, [WARMING], 1)
        for name, future in asked.items():
            try:
                future.result()
            except BlindspotError as error:
                self.failed[name] = str(error)
            except Exception as error:
                self.failed[name] = f"{type(error).__name__}: {error}"
        self.ready.set()

    def close(self) -> None:
        self._batcher.close()

    def text_metrics(self) -> str:
        """Prometheus' page."""
        return self.metrics.text(self._now())

    def _now(self) -> Iterator[tuple[str, str, dict[str, str], float]]:
        yield "blindspot_ready", "Whether every index has been opened.", {}, float(self.ready.is_set())
        yield "blindspot_memory_bytes", "Resident memory of the process.", {}, float(resident_bytes())
        yield "process_cpu_seconds_total", "Processor time that the process has used.", {}, time.process_time()
        yield "blindspot_start_time_seconds", "When the service started, in Unix time.", {}, self.started
        for thread, count in self._batcher.waiting().items():
            yield (
                "blindspot_waiting_requests",
                "Requests that wait for a worker thread.",
                {"thread": thread},
                float(count),
            )

    def _search(self, retriever: str, questions: Sequence[str], k: int) -> Found:
        hits, opened = self._indexes.search(retriever, questions, k)
        if held.hashes(self.study, retriever) != opened.indexes:
            raise Missing(f"the index of {retriever} was made again while it was searched; ask once more")
        return Found(hits, opened.indexes, opened.retriever.settings)

    def _watch(self, retriever: str, requests: int, questions: int, seconds: float) -> None:
        self.metrics.count("blindspot_batches_total", "Searches of one or more requests together.", retriever=retriever)
        self.metrics.count(
            "blindspot_batched_requests_total", "Requests in these searches.", requests, retriever=retriever
        )
        self.metrics.count("blindspot_questions_total", "Questions searched.", questions, retriever=retriever)
        self.metrics.time(SEARCHES, "Seconds of a search of one batch, without waiting.", seconds, retriever=retriever)
