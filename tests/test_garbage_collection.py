"""Collections in the app's server visit only new objects, and in time all garbage is freed."""

import gc
import weakref

import pytest

from blindspot.app import garbage_collection, server_process
from blindspot.app.garbage_collection import (
    LARGEST_SHARE,
    LONG_SECONDS,
    SECONDS_BETWEEN,
    ShortCollections,
    keep_collections_short,
)

WHOLE = {"generation": 2, "collected": 0, "uncollectable": 0}


class Node:
    """An object in a cycle."""

    def __init__(self):
        self.me = self


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    """The clock of an installed callback. Whatever was installed before comes back afterwards."""
    before, clock = list(gc.callbacks), Clock()
    gc.callbacks[:] = [ShortCollections(clock)]
    yield clock
    gc.callbacks[:] = before
    gc.unfreeze()


def test_collections_visit_only_new_objects(clock):
    """After a whole collection, and after a long one, whose survivors are set aside."""
    kept = [Node() for _ in range(20_000)]
    for _ in range(3):  # the first is whole, the others are not
        gc.collect(2)
        assert len(gc.get_objects()) < 2_000, "gc.get_objects() lists what the next collection visits"
    assert gc.get_freeze_count() > len(kept)
    more = [Node() for _ in range(20_000)]
    gc.callbacks.insert(0, lambda phase, info: setattr(clock, "now", clock.now + (phase == "stop") * 2 * LONG_SECONDS))
    gc.collect(2)
    assert len(gc.get_objects()) < 2_000 and len(more) == 20_000


def test_garbage_is_freed(clock):
    """That of one run at its end, or at the next; that of objects set aside by the next whole collection."""
    aside = Node()
    gone = weakref.ref(aside)
    gc.collect(2)
    for runs in (0, 1):  # a page's objects outlive the collection at the end of its run
        node = Node()
        new = weakref.ref(node)
        for _ in range(runs):
            gc.collect(2)
        del node
        gc.collect(2)
        assert new() is None
    del aside
    clock.now += SECONDS_BETWEEN / 2
    gc.collect(2)
    assert gone() is not None
    clock.now += SECONDS_BETWEEN
    gc.collect(2)
    assert gone() is None


def test_whole_collections_take_a_small_share_of_the_time_and_young_ones_are_left_alone(monkeypatch):
    clock, whole, frozen = Clock(), [], []
    monkeypatch.setattr(garbage_collection.gc, "unfreeze", lambda: whole.append(clock.now))
    monkeypatch.setattr(garbage_collection.gc, "freeze", lambda: frozen.append(clock.now))
    callback = ShortCollections(clock)
    for phase in ("start", "stop"):
        callback(phase, {**WHOLE, "generation": 1})
    assert whole == frozen == []
    for _ in range(10_000):
        started = len(whole)
        callback("start", WHOLE)
        clock.now += 2.0 if len(whole) > started else 0.01  # seconds that a collection takes
        callback("stop", WHOLE)
        clock.now += 1.0
    assert len(whole) > 10
    assert len(whole) * 2.0 <= LARGEST_SHARE * (clock.now - 1000.0) + 2.0


def test_the_server_installs_it_once(clock, monkeypatch, tmp_path):
    gc.callbacks.clear()
    monkeypatch.setenv("BLINDSPOT_STUDY", str(tmp_path))
    monkeypatch.setattr("blindspot.app.log.start_log", lambda folder: None)
    seen = []
    monkeypatch.setattr(server_process, "host", lambda *where: seen.append(list(gc.callbacks)))
    server_process.main(["--port", "1", "--address", "127.0.0.1"])
    keep_collections_short()
    assert [*map(type, seen[0])] == [*map(type, gc.callbacks)] == [ShortCollections]
