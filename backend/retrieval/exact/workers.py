"""Share blocks of rows among threads, each of which computes its own products.

If several threads compute one product together, they wait for each other at its end. With one core busy in another
process, two such threads took 80 times as long as one thread. Here each thread computes whole products and takes the
next block when it is free, so a slow core just processes fewer blocks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}
_opening = threading.Lock()


def threads() -> int:
    """Return the number of threads that torch may use in the calling thread."""
    import torch

    return torch.get_num_threads()


def run_in_threads(items: Iterable[T], work: Callable[[Iterable[T]], object], count: int) -> None:
    """Call `work` in `count` threads. Each thread gets an iterable over the shared items. The first error is raised
    here.

    If count is above 1, torch products inside `work` use one thread.
    """
    if count == 1:
        work(items)
        return
    shared = _SharedIterator(items)
    for done in [_pool(count).submit(_until_error, work, shared) for _ in range(count)]:
        done.result()


class _SharedIterator:
    """An iterator that several threads can share; `stop` ends it."""

    def __init__(self, items: Iterable):
        self._items, self._lock = iter(items), threading.Lock()

    def __iter__(self) -> _SharedIterator:
        return self

    def __next__(self):
        with self._lock:
            return next(self._items)

    def stop_workers(self) -> None:
        with self._lock:
            self._items = iter(())


def _until_error(work: Callable, shared_state: _SharedIterator) -> None:
    try:
        work(shared_state)
    except BaseException:
        shared_state.stop_workers()
        raise


def _pool(count: int) -> ThreadPoolExecutor:
    """Return this process's pool of `count` started threads.

    torch stores its number of threads partly per thread and partly per process. The new threads' setting is therefore
    undone for the process once all threads have started.
    """
    import torch

    with _opening:
        if (key := (os.getpid(), count)) not in _pools:
            before, started = torch.get_num_threads(), threading.Barrier(count + 1)
            pool = ThreadPoolExecutor(count, "search", lambda: torch.set_num_threads(1))
            for _ in range(count):
                pool.submit(started.wait)
            started.wait()
            torch.set_num_threads(before)
            _pools[key] = pool
        return _pools[key]
