"""The retrieval service without its HTTP interface. It searches on worker threads, loads indexes in advance, and
collects metrics.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from blindspot.backend.retrieval import indexes
from blindspot.backend.retrieval.indexes import OpenRetrievers
from blindspot.backend.service.batching import WAITING, WINDOW, BatchedHits, Batcher, Busy
from blindspot.db.errors import BlindspotError, Missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from blindspot.backend.core.study import Study

WARMUP_QUESTION = "Where was she born?"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histograms' buckets."""

prometheus_client.disable_created_metrics()


class Service:
    """The retrievers of a study, searched on worker threads.

    Args:
        device: the device of encoders and dense indexes, as `Dense` takes it.
        window, waiting: see `Batcher`.
    """

    def __init__(self, study: Study, device: str | None = None, window: float = WINDOW, waiting: int = WAITING):
        self.study = study
        self._indexes = OpenRetrievers(study, device)
        self._batcher = Batcher(self._search, window, waiting, on_batch=self._count_batch)
        self.ready = threading.Event()
        self.failed: dict[str, str] = {}
        """Retrievers that could not be opened at the start, each with the reason."""
        self.metrics = Metrics(self.ready, self._batcher)

    def retrievers(self) -> dict[str, dict[str, str]]:
        """Return the retrievers that can be searched now: name to the manifest hash of each of its indexes."""
        return {name: indexes.manifest_hashes(self.study, name) for name in indexes.available_retrievers(self.study)}

    def submit_search(self, retriever: str, questions: Sequence[str], k: int) -> Future[BatchedHits]:
        """Search on a worker thread. Raises Missing for an unknown retriever, and Busy if too many requests are
        waiting.
        """
        known = indexes.available_retrievers(self.study)
        if retriever not in known:
            raise Missing(
                f"unknown retriever {retriever!r}; available: {', '.join(known) or 'none, because nothing is indexed'}"
            )
        try:
            return self._batcher.submit(self._indexes.thread_key(retriever), retriever, questions, k)
        except Busy:
            self.metrics.refused.labels(retriever).inc()
            raise

    def warm_up(self) -> None:
        """Search once with every retriever, so that indexes and encoders are loaded before the first request. Then mark
        the service as ready.
        """
        answers = {}
        for name in indexes.available_retrievers(self.study):
            try:
                answers[name] = self._batcher.submit(self._indexes.thread_key(name), name, [WARMUP_QUESTION], 1)
            except Busy:  # the service is closing
                return
        for name, answer in answers.items():
            try:
                answer.result()
            except BlindspotError as error:
                self.failed[name] = str(error)
            except Exception as error:
                self.failed[name] = f"{type(error).__name__}: {error}"
        self.ready.set()

    def close(self) -> None:
        """Stop accepting requests."""
        self._batcher.close()

    def _search(self, retriever: str, questions: Sequence[str], k: int) -> BatchedHits:
        hits, opened = self._indexes.search(retriever, questions, k)
        if indexes.manifest_hashes(self.study, retriever) != opened.indexes:
            raise Missing(f"the index of {retriever} was replaced during the search; ask once more")
        return BatchedHits(hits, opened.indexes, opened.retriever.settings)

    def _count_batch(self, retriever: str, requests: int, questions: int, seconds: float) -> None:
        self.metrics.batches.labels(retriever).inc()
        self.metrics.batched_requests.labels(retriever).inc(requests)
        self.metrics.questions.labels(retriever).inc(questions)
        self.metrics.search_seconds.labels(retriever).observe(seconds)


class Metrics:
    """Counters and durations of a service and its process, for Prometheus."""

    def __init__(self, ready: threading.Event, batcher: Batcher):
        self._registry = CollectorRegistry()
        labels = ["retriever"]

        def counter(name: str, description: str) -> Counter:
            return Counter(name, description, labels, registry=self._registry)

        def histogram(name: str, description: str) -> Histogram:
            return Histogram(name, description, labels, registry=self._registry, buckets=SECONDS)

        self.refused = counter("blindspot_refused", "Requests refused because the queue was full.")
        self.batches = counter("blindspot_batches", "Searches; each answers one or more requests.")
        self.batched_requests = counter("blindspot_batched_requests", "Requests answered by these searches.")
        self.questions = counter("blindspot_questions", "Questions searched.")
        self.search_seconds = histogram("blindspot_search_seconds", "Seconds of one search, without waiting.")
        self.answer_seconds = histogram(
            "blindspot_answer_seconds", "Seconds from a request to its answer, including the wait."
        )
        is_ready = Gauge("blindspot_ready", "1 once every index has been opened.", registry=self._registry)
        is_ready.set_function(lambda: float(ready.is_set()))
        self._registry.register(_WaitingRequests(batcher))
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return prometheus_client.generate_latest(self._registry)


class _WaitingRequests(Collector):
    """A metric: the current length of each worker thread's queue."""

    def __init__(self, batcher: Batcher):
        self._batcher = batcher

    def collect(self) -> Iterator[GaugeMetricFamily]:
        gauge = GaugeMetricFamily(
            "blindspot_waiting_requests", "Requests that wait for a worker thread.", labels=["thread"]
        )
        for thread, count in self._batcher.queue_lengths().items():
            gauge.add_metric([thread], count)
        yield gauge
