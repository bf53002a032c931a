"""Many people at once, and killed processes: no lock error, no question with too many people, no acknowledged label
lost.

The small versions take seconds; the versions marked slow (`make soak`) have the full size.
"""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from benchmarks.labels import NEEDED, crowded, prepare, problems, start, written
from blindspot.db.connection import connect
from blindspot.db.queue import Queue


def judged_by_all(folder, rounds, haste=1.0):
    """Let 16 annotators in 4 processes do this many rounds, check all invariants, and return the counts of writes."""
    path = folder / "labels.db"
    names = prepare(path, 16, rounds // NEEDED + 32)
    processes = start(path, names, 4, rounds // 16, haste=haste)
    while any(process.poll() is None for process in processes):
        assert crowded(path, lambda: time.time() * haste) == []
        time.sleep(0.05)
    for process in processes:
        said = process.communicate()[1].decode()
        assert process.returncode == 0, said
    assert problems(path, lambda: time.time() * haste) == []
    counts = Counter(kind for kind, *_ in written(folder))
    connection = connect(path, read_only=True)
    events = dict(connection.execute("SELECT kind, count(*) FROM label_event GROUP BY kind"))
    assert events == {"label": counts["label"] + 4 * counts["label and finish"], "undo": counts["undo"]}, (
        "nothing is lost or doubled"
    )
    done = connection.execute("SELECT count(*) FROM lease WHERE state = 'finished'").fetchone()[0]
    assert done == counts["label and finish"] and counts["claim"] >= rounds * 0.99
    return counts


def test_sixteen_at_once(tmp_path):
    judged_by_all(tmp_path, 320)


def test_sixteen_at_once_while_leases_lapse(tmp_path):
    """With a clock 9,000 times as fast a lease lasts a tenth of a second, and many lapse while their holders wait to
    write."""
    judged_by_all(tmp_path, 320, haste=9000.0)
    lapsed = (
        Queue(tmp_path / "labels.db")
        .connection.execute("SELECT count(*) FROM lease WHERE surplus = 1 OR expires = 0")
        .fetchone()[0]
    )
    assert lapsed > 0, "no lease lapsed: the test shows nothing"


@pytest.mark.slow
def test_sixteen_do_twenty_thousand_rounds(tmp_path):
    counts = judged_by_all(tmp_path, 20_000)
    assert min(counts["claim"], counts["label"] + counts["label and finish"]) >= 20_000 and counts["undo"] > 18_000


def killed(folder, times, seed=0):
    """kill -9 all processes during their work, repeatedly, on one store; each time, check every acknowledged label."""
    path, chance, before = folder / "labels.db", random.Random(seed), 0
    names = prepare(path, 16, 400 * times)
    for number in range(times):
        processes = start(path, names, 4, 1_000_000, seed=number)
        try:
            deadline = time.monotonic() + 600  # four processes start, on a machine that may be busy
            while sum(1 for _ in written(folder)) < before + 40 and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(chance.uniform(0, 0.3))
            ended = [process for process in processes if process.poll() is not None]
        finally:
            for process in processes:
                process.kill()
        said = [process.communicate()[1].decode() for process in processes]
        assert not ended, said
        assert problems(path) == []
        now = sum(1 for _ in written(folder))
        assert now >= before + 40
        before = now
    assert connect(path).execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    return before


def test_killed_in_the_middle_three_times(tmp_path):
    killed(tmp_path, 3)


@pytest.mark.slow
def test_killed_in_the_middle_fifty_times(tmp_path):
    killed(tmp_path, 50)
