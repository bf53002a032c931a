"""Threads that share out blocks of rows, each with products of its own.

Threads inside one product wait for one another at its end: where another process holds a core, two of them took 80 times as long
as one. Here each thread multiplies alone and takes the next block when it is free, so a slow core only takes fewer blocks.
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
    """As many as torch may use in the calling thread."""
    import torch

    return torch.get_num_threads()


def share_out(items: Iterable[T], work: Callable[[Iterable[T]], object], count: int) -> None:
    """Call `work` in `count` threads, each with an iterable that takes from the same items; the first error is raised here.

    Inside `work` a product of torch uses one thread, if count is above 1.
    """
    if count == 1:
        work(items)
        return
    shared = _Shared(items)
    for done in [_pool(count).submit(_until_error, work, shared) for _ in range(count)]:
        done.result()


class _Shared:
    """An iterator that several threads take from; `stop` empties it."""

    def __init__(self, items: Iterable):
        self._items, self._lock = iter(items), threading.Lock()

    def __iter__(self) -> _Shared:
        return self

    def __next__(self):
        with self._lock:
            return next(self._items)

    def stop(self) -> None:
        with self._lock:
            self._items = iter(())


def _until_error(work: Callable, shared: _Shared) -> None:
    try:
        work(shared)
    except BaseException:
        shared.stop()
        raise


def _pool(count: int) -> ThreadPoolExecutor:
    """The pool of `count` threads of this process, all of them started.

    torch's number of threads is partly the thread's and partly the process's: what the new threads set for themselves is taken
    back for everybody else once all have started.
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
