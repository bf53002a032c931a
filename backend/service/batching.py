"""Live questions of several people, searched together: a bounded queue and one worker thread for each index."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from db.errors import BlindspotError
from db.records import Hits

WINDOW = 0.005  # seconds that the first question of a batch waits for others
WAITING = 64  # requests that wait for one worker; the next is refused
TOGETHER = 256  # questions searched at once


class Busy(BlindspotError):
    """Too many questions wait already."""


@dataclass(frozen=True, slots=True)
class BatchedHits:
    """Hits, the manifest hash of each index that gave them, and the retriever's settings."""

    hits: Hits
    indexes: dict[str, str]
    settings: dict


Search = Callable[[str, Sequence[str], int], BatchedHits]
"""(retriever, questions, k) to what was found."""


@dataclass(slots=True)
class _Asked:
    retriever: str
    questions: list[str]
    k: int
    arrived: float
    answer: Future = field(default_factory=Future)


class Batcher:
    """Hands questions to worker threads, and each asker a future of its own rows.

    Questions are searched together when they go to the same retriever with the same k, so that a question's hits do not
    hang on who else asks. (Its scores may in their last digit: an encoder pads the texts of a batch to one length.)

    Args:
        search: searches several questions; called by one thread of each name that `ask` is given.
        watch: told (retriever, requests, questions, seconds) after each batch.
    """

    def __init__(
        self,
        search: Search,
        window: float = WINDOW,
        waiting: int = WAITING,
        together: int = TOGETHER,
        watch: Callable[[str, int, int, float], None] | None = None,
    ):
        self._search, self._window, self._waiting, self._together, self._watch = (
            search,
            window,
            waiting,
            together,
            watch,
        )
        self._queues: dict[str, deque[_Asked]] = {}
        self._changed = threading.Condition()
        self._closed = False

    def ask(self, thread: str, retriever: str, questions: Sequence[str], k: int) -> Future:
        """A future of `BatchedHits`, on the worker thread named `thread`. Cancel it when nobody waits any more. Raises Busy."""
        asked = _Asked(retriever, list(questions), k, time.monotonic())
        with self._changed:
            if self._closed:
                raise Busy("the backend is closing")
            if thread not in self._queues:
                self._queues[thread] = deque()
                threading.Thread(target=self._work, args=(thread,), name=f"search {thread}", daemon=True).start()
            queue = self._queues[thread]
            if len(queue) >= self._waiting:
                for left in [other for other in queue if other.answer.cancelled()]:
                    queue.remove(left)
            if len(queue) >= self._waiting:
                raise Busy(f"{len(queue)} requests wait for {retriever} already; ask again in a moment")
            queue.append(asked)
            self._changed.notify_all()
        return asked.answer

    def waiting(self) -> dict[str, int]:
        """Requests in each worker's queue."""
        with self._changed:
            return {thread: len(queue) for thread, queue in self._queues.items()}

    def close(self) -> None:
        """Take no more; what waits is cancelled."""
        with self._changed:
            self._closed = True
            for queue in self._queues.values():
                for asked in queue:
                    asked.answer.cancel()
                queue.clear()
            self._changed.notify_all()

    def _work(self, thread: str) -> None:
        while batch := self._next(self._queues[thread]):
            started = time.monotonic()
            self._answer(batch)
            if self._watch is not None:
                count = sum(len(asked.questions) for asked in batch)
                self._watch(batch[0].retriever, len(batch), count, time.monotonic() - started)

    def _next(self, queue: deque[_Asked]) -> list[_Asked]:
        """The oldest request and those that can be searched with it; empty when closed."""
        with self._changed:
            while not self._closed:
                while queue and queue[0].answer.cancelled():
                    queue.popleft()
                if not queue:
                    self._changed.wait()
                elif (left := queue[0].arrived + self._window - time.monotonic()) > 0 and _count(
                    queue
                ) < self._together:
                    self._changed.wait(left)
                elif batch := self._taken(queue):
                    return batch
        return []

    def _taken(self, queue: deque[_Asked]) -> list[_Asked]:
        first, room, batch = queue[0], self._together, []
        for asked in list(queue):
            fits = (asked.retriever, asked.k) == (first.retriever, first.k) and (
                len(asked.questions) <= room or not batch
            )
            if not fits:
                continue
            queue.remove(asked)
            if asked.answer.set_running_or_notify_cancel():
                batch.append(asked)
                room -= len(asked.questions)
        return batch

    def _answer(self, batch: list[_Asked]) -> None:
        questions = [question for asked in batch for question in asked.questions]
        try:
            found = self._search(batch[0].retriever, questions, batch[0].k)
        except Exception as error:
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
            else:  # one person's question must not fail those of others
                for asked in batch:
                    self._answer([asked])
            return
        row = 0
        for asked in batch:
            rows = slice(row, row + len(asked.questions))
            row = rows.stop
            asked.answer.set_result(
                BatchedHits(Hits(found.hits.ordinals[rows], found.hits.scores[rows]), found.indexes, found.settings)
            )


def _count(queue: deque[_Asked]) -> int:
    return sum(len(asked.questions) for asked in queue)
