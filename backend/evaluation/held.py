"""Results that several people ask for at once: each is made once, by whoever asks first, and the last ones are held."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any


class Held:
    """The last results of computations, by what they were made from. Threads may share it.

    Args:
        most: how many are held; then the one that was asked for longest ago goes.
    """

    def __init__(self, most: int):
        self._most, self._lock = most, threading.Lock()
        self._made: OrderedDict[Hashable, Future] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The result for `key`, made by `make` where it is not held; whoever asks meanwhile waits. An error is raised and not held."""
        with self._lock:
            future = self._made.get(key)
            mine = future is None
            if mine:
                future = self._made[key] = Future()
                while len(self._made) > self._most:
                    self._made.popitem(last=False)
            else:
                self._made.move_to_end(key)
        if not mine:
            return future.result()
        try:
            future.set_result(make())
        except BaseException as error:
            with self._lock:
                if self._made.get(key) is future:
                    del self._made[key]
            future.set_exception(error)
            raise
        return future.result()
