"""Values that one run of a page's script reads only once, however many parts of the page need them.

Fragments run on their own, outside `one_run`; in a fragment every value is read anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar, cast

T = TypeVar("T")

_kept: ContextVar[dict[Hashable, object] | None] = ContextVar("kept", default=None)


@contextmanager
def one_run() -> Iterator[None]:
    """Keep the values until the end of the block."""
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def once_per_run(key: Hashable, load: Callable[[], T]) -> T:
    """Return the value of `load`, which is read once in a run of the script."""
    kept = _kept.get()
    if kept is None:
        return load()
    if key not in kept:
        kept[key] = load()
    return cast(T, kept[key])


def forget() -> None:
    """Forget the values, so that they are read again, for example after somebody signed in."""
    if (kept := _kept.get()) is not None:
        kept.clear()
