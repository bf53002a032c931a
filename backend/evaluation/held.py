"""A cache for results that several threads may request at the same time. The first thread computes a result, and the
other threads wait for it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any


class ResultCache:
    """A cache of the most recently used results, by key. Threads may share it.

    Args:
        limit: number of results to keep; beyond it the least recently used result is dropped.
    """

    def __init__(self, limit: int):
        self._limit, self._lock = limit, threading.Lock()
        self._results: OrderedDict[Hashable, Future[Any]] = OrderedDict()

    def get_or_make(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the result for `key`, computing it with `make` if it is not cached. Errors of `make` are raised and
        not cached.
        """
        with self._lock:
            cached = self._results.get(key)
            if cached is None:
                future: Future[Any] = Future()
                self._results[key] = future
                while len(self._results) > self._limit:
                    self._results.popitem(last=False)
            else:
                self._results.move_to_end(key)
        if cached is not None:
            return cached.result()
        try:
            future.set_result(make())
        except BaseException as error:
            with self._lock:
                if self._results.get(key) is future:
                    del self._results[key]
            future.set_exception(error)
            raise
        return future.result()
