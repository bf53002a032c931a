"""Search live questions of several people in common batches, with a bounded queue and a worker thread for
each index.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from blindspot.db.errors import BlindspotError
from blindspot.db.records import Hits

WINDOW = 0.005  # seconds that the first request of a batch waits for others
WAITING = 64  # requests in one worker's queue; the next one is refused
BATCH_SIZE = 256  # questions of one search


class Busy(BlindspotError):
    """Raised if too many requests are waiting."""


@dataclass(frozen=True, slots=True)
class BatchedHits:
    """Hits, the manifest hash of each index that was searched, and the retriever's settings."""

    hits: Hits
    indexes: dict[str, str]
    settings: dict


Search = Callable[[str, Sequence[str], int], BatchedHits]
"""Maps (retriever, questions, k) to hits."""


@dataclass(slots=True)
class _Request:
    retriever: str
    questions: list[str]
    k: int
    arrived: float
    answer: Future = field(default_factory=Future)


class Batcher:
    """Searches requests in batches on worker threads. Each request gets a future for the hits of its own questions.

    A batch contains requests for one retriever and one k, so the hits of a question do not depend on the other
    requests. (The last digit of a score may depend on them, because an encoder pads the texts of a batch to the same
    length.)

    Args:
        search: searches several questions. Each worker thread calls it for its own requests only.
        window: seconds that the first request of a batch waits for others.
        waiting: requests in one worker's queue; `ask` refuses the next one.
        on_batch: called with (retriever, requests, questions, seconds) after each batch.
    """

    def __init__(
        self,
        search: Search,
        window: float = WINDOW,
        waiting: int = WAITING,
        on_batch: Callable[[str, int, int, float], None] | None = None,
    ):
        self._search, self._on_batch = search, on_batch
        self._window, self._waiting = window, waiting
        self._queues: dict[str, deque[_Request]] = {}
        self._changed = threading.Condition()
        self._closed = False

    def submit(self, thread: str, retriever: str, questions: Sequence[str], k: int) -> Future:
        """Queue a request for the worker thread of that name. The caller should cancel the future if it no longer waits
        for the result. Raises Busy if the queue is full.
        """
        request = _Request(retriever, list(questions), k, time.monotonic())
        with self._changed:
            if self._closed:
                raise Busy("the service is closing")
            if thread not in self._queues:
                self._queues[thread] = deque()
                threading.Thread(target=self._run_worker, args=(thread,), name=f"search {thread}", daemon=True).start()
            queue = self._queues[thread]
            if len(queue) >= self._waiting:
                for cancelled in [other for other in queue if other.answer.cancelled()]:
                    queue.remove(cancelled)
            if len(queue) >= self._waiting:
                raise Busy(f"{len(queue)} requests are already waiting for {retriever}; ask again in a moment")
            queue.append(request)
            self._changed.notify_all()
        return request.answer

    def queue_lengths(self) -> dict[str, int]:
        """Return the number of requests in each worker's queue."""
        with self._changed:
            return {thread: len(queue) for thread, queue in self._queues.items()}

    def close(self) -> None:
        """Refuse further requests, and cancel waiting requests."""
        with self._changed:
            self._closed = True
            for queue in self._queues.values():
                for request in queue:
                    request.answer.cancel()
                queue.clear()
            self._changed.notify_all()

    def _run_worker(self, thread: str) -> None:
        while batch := self._next_batch(self._queues[thread]):
            started = time.monotonic()
            self._search_and_answer(batch)
            if self._on_batch is not None:
                count = sum(len(request.questions) for request in batch)
                self._on_batch(batch[0].retriever, len(batch), count, time.monotonic() - started)

    def _next_batch(self, queue: deque[_Request]) -> list[_Request]:
        """Wait for the oldest request, and return it with the requests that fit into its batch; [] after `close`."""
        with self._changed:
            while not self._closed:
                while queue and queue[0].answer.cancelled():
                    queue.popleft()
                if not queue:
                    self._changed.wait()
                    continue
                remaining = queue[0].arrived + self._window - time.monotonic()
                if remaining > 0 and sum(len(request.questions) for request in queue) < BATCH_SIZE:
                    self._changed.wait(remaining)
                elif batch := self._take_batch(queue):
                    return batch
        return []

    def _take_batch(self, queue: deque[_Request]) -> list[_Request]:
        first, room = queue[0], BATCH_SIZE
        batch: list[_Request] = []
        for request in list(queue):
            fits = (request.retriever, request.k) == (first.retriever, first.k) and (
                len(request.questions) <= room or not batch
            )
            if not fits:
                continue
            queue.remove(request)
            if request.answer.set_running_or_notify_cancel():
                batch.append(request)
                room -= len(request.questions)
        return batch

    def _search_and_answer(self, batch: list[_Request]) -> None:
        questions = [question for request in batch for question in request.questions]
        try:
            batched = self._search(batch[0].retriever, questions, batch[0].k)
        except Exception as error:
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
            else:  # one bad question must not fail other people's requests
                for request in batch:
                    self._search_and_answer([request])
            return
        row = 0
        for request in batch:
            rows = slice(row, row + len(request.questions))
            row = rows.stop
            request.answer.set_result(
                BatchedHits(
                    Hits(batched.hits.ordinals[rows], batched.hits.scores[rows]), batched.indexes, batched.settings
                )
            )
