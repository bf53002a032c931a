"""Writes of labels under load: many annotators in several processes claim, label, undo and finish in one labels.db.

    python -m benchmarks.labels [--annotators 16] [--processes 4] [--rounds 2000] [--think 0 150] [--folder DIR]

A round of an annotator is four writes, each committed and synced to disk before the next: claim a question, label a
passage, undo the label, label all four passages and finish; one question in twenty is skipped instead. A write is timed
in the annotator's thread, so its time includes waiting for others. There are two parts: without a pause between writes
(the maximum load of the store; every figure includes waiting for 15 others), and with a pause of 150 ms before each
write, which is fast annotation. At the end the store is checked: it has every acknowledged id, and no question has too
many people.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.machine import machine
from blindspot.db.connection import connect
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue

PASSAGES = ("p0", "p1", "p2", "p3")
BATCH = "load"
NEEDED = 2


def prepare(path: Path, annotators: int, questions: int) -> list[str]:
    """Create a labels.db with people and one batch, and return the people's names."""
    from blindspot.db import schema
    from blindspot.db.questions import Questions
    from blindspot.db.records import Question

    schema.prepare(path)
    Questions(path).add([Question(f"q{i}", f"What is {i}?", split="train") for i in range(questions)])
    names = [f"annotator{i}" for i in range(annotators)]
    for name in names:
        People(path).add(name)
    shown = tuple(Candidate(passage, place, "bm25", place + 1, 1.0) for place, passage in enumerate(PASSAGES))
    Queue(path).add_batch(BATCH, [Item(f"q{i}", shown, people_needed=NEEDED) for i in range(questions)], {})
    return names


def start(
    path: Path, names: Sequence[str], processes: int, rounds: int, seed: int = 0, haste: float = 1.0, think: float = 0.0
) -> list[subprocess.Popen]:
    """Start the annotators as threads of several processes; each process writes `work.<its number>` beside the store.

    Args:
        rounds: rounds of each annotator.
        haste: speed of the stores' clock relative to real time.
        think: average seconds before a write.
    """
    shares = [names[i::processes] for i in range(processes)]
    command = [sys.executable, "-m", "benchmarks.labels", "--worker", str(path)]
    return [
        subprocess.Popen(
            [*command, ",".join(share), *map(str, (rounds, seed, haste, think, path.with_name(f"work.{number}")))],
            cwd=Path(__file__).parents[1],
            stderr=subprocess.PIPE,
        )
        for number, share in enumerate(shares)
        if share
    ]


def written(folder: Path) -> Iterator[tuple[str, float, list[str]]]:
    """Return the processes' reports: kind of write, seconds, acknowledged ids."""
    for file in sorted(folder.glob("work.*")):
        for line in file.read_bytes().decode().split("\n")[:-1]:  # what follows the last line end is half written
            kind, seconds, *ids = line.split("\t")
            yield kind, float(seconds), [id for id in ids if id]


def problems(path: Path, clock: Callable[[], float] = time.time) -> list[str]:
    """Return the problems of the store: damage, missing acknowledged ids, questions with too many people."""
    from blindspot.db.backup import check

    found = list(check(path).problems)
    acknowledged = {id for _, _, ids in written(path.parent) for id in ids}
    labels = Labels(path, read_only=True)
    if lost := acknowledged - labels.stored_ids(acknowledged):
        found.append(f"{len(lost)} acknowledged ids are not in the store, such as {min(lost)}")
    labels.close()
    return found + crowded(path, clock)


def crowded(path: Path, clock: Callable[[], float] = time.time) -> list[str]:
    """Return the questions with more people than they need. The stores may be in use."""
    connection = connect(path, read_only=True)
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM lease").fetchone()  # from here on, reads use one snapshot
        rows = connection.execute(
            "SELECT question, count(*) FROM lease WHERE (state = 'finished' AND surplus = 0) OR (state = 'held' AND "
            "expires > ?) GROUP BY question HAVING count(*) > ?",
            (clock(), NEEDED),
        ).fetchall()
        return [f"question {question} has {count} people; it needs {NEEDED}" for question, count in rows]
    finally:
        connection.close()


def work(path: Path, names: Sequence[str], rounds: int, seed: int, haste: float, think: float, out: Path) -> None:
    """Run one process with a thread for each annotator. The threads share the stores as the app's sessions do."""
    clock = time.time if haste == 1 else lambda: time.time() * haste
    labels, queue = Labels(path, clock=clock), Queue(path, clock=clock)
    handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    faults: list[BaseException] = []

    def one(name: str) -> None:
        try:
            annotate(labels, queue, name, rounds, seed, think, handle)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=one, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]


def annotate(labels: Labels, queue: Queue, name: str, rounds: int, seed: int, think: float, handle: int) -> None:
    chance = random.Random(f"{name} {seed}")

    def timed(kind: str, write: Callable[[], list], outbox: Sequence[dict] = ()) -> list:
        if think:
            time.sleep(chance.uniform(0, 2 * think))
        began = time.perf_counter()
        result = write()
        seconds = time.perf_counter() - began
        if outbox and not all(receipt.is_in_store for receipt in result):
            raise AssertionError(f"{name}: {result}")
        os.write(handle, "\t".join([kind, repr(seconds), *(each["id"] for each in outbox)]).encode() + b"\n")
        return result

    def take(kind: str, *outbox: dict) -> None:
        timed(kind, lambda: labels.add_all(name, outbox), outbox)

    for _ in range(rounds):
        held = timed("claim", lambda: queue.claim(name, 1))
        if not held:
            return
        about = {"question": held[0].question, "batch": BATCH}

        def gesture(kind: str, **more: object) -> dict:
            return {"id": f"{chance.getrandbits(96):024x}", "kind": kind, **about, **more}  # noqa: B023

        if chance.random() < 0.05:
            take("skip", gesture("skip"))
            continue
        first = gesture("label", choices=[{"passage": "p0", "label": "positive"}])
        take("label", first)
        take("undo", {key: value for key, value in gesture("undo", undoes=first["id"]).items() if key != "batch"})
        rest = gesture("label", choices=[{"passage": passage, "label": "negative"} for passage in PASSAGES])
        take("label and finish", rest, gesture("finish"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--annotators", type=int, default=16)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2000, help="of all annotators together")
    parser.add_argument("--folder", type=Path, help="folder of the store (default: the folder for temporary files)")
    parser.add_argument(
        "--think", type=float, nargs="+", default=[0, 150], metavar="MS", help="average milliseconds before a write"
    )
    options = parser.parse_args()
    print(f"{machine()}\n{options.annotators} annotators in {options.processes} processes")
    for think in options.think:
        rounds = options.rounds if not think else options.rounds // 4
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            path = Path(folder) / "labels.db"
            names = prepare(
                path, options.annotators, rounds // min(NEEDED, options.annotators) + 2 * options.annotators
            )
            began = time.perf_counter()
            for process in start(path, names, options.processes, rounds // options.annotators, think=think / 1000):
                _, said = process.communicate()
                if process.returncode:
                    raise SystemExit(said.decode())
            show(path, think, time.perf_counter() - began)


def show(path: Path, think: float, seconds: float) -> None:
    times: dict[str, list[float]] = defaultdict(list)
    for kind, taken, _ in written(path.parent):
        times[kind].append(taken)
    every = [each for row in times.values() for each in row]
    pace = f"after {think:g} ms of thought" if think else "at once"
    print(f"\nEach write {pace}: {len(every):,} writes in {seconds:.1f} s, {len(every) / seconds:,.0f} a second")
    print(f"{'write':<20}{'n':>9}{'p50 ms':>10}{'p99 ms':>10}{'max ms':>10}")
    for kind, row in [*times.items(), ("all", every)]:
        p50, p99 = np.percentile(np.array(row) * 1000, [50, 99])
        print(f"{kind:<20}{len(row):>9,}{p50:>10.1f}{p99:>10.1f}{max(row) * 1000:>10.1f}")
    found = problems(path)
    print(
        "; ".join(found) or "sound: the store has every acknowledged id, and no question has more people than it needs"
    )
    if found:
        raise SystemExit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(
            Path(sys.argv[2]),
            sys.argv[3].split(","),
            int(sys.argv[4]),
            int(sys.argv[5]),
            float(sys.argv[6]),
            float(sys.argv[7]),
            Path(sys.argv[8]),
        )
    else:
        main()
