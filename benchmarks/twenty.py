"""Twenty people in one app at once: the wait for the next question, for a label and for Compare, and the memory of the
server.

    python -m benchmarks.twenty [--study DIR] [--people 20] [--think 5] [--seconds 20]

A server of the app is started on 127.0.0.1 over a copy of the study (made of the real data without --study). Each
person is a separate session over Streamlit's websocket (`benchmarks.tab`), in this process, on the same cores. An
action is timed from sending it to the end of the page's script, with every byte of the page read; a label until its
receipt arrives, after the label is synced to disk. The time excludes rendering in the browser. Before each action a
person pauses for --think seconds, plus or minus 50%.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from urllib.parse import quote

import numpy as np

from benchmarks.machine import machine
from benchmarks.tab import Component, Shown, Tab
from blindspot.backend.core.study import Study

ADDRESS = "127.0.0.1"
BATCH, QUESTIONS = "together", 400
AIMS = {"question": 0.200, "label": 0.150, "compare": 0.250}
"""Seconds at the 95th percentile."""
SIGNS = {"": "<header", "question": 'class="lists"', "compare": 'class="flips"'}
KS, CELLS, SORTS = (
    (1, 5, 20, 100),
    ("all", "both", "only_a", "only_b", "neither"),
    ("", "contrast", "frequency", "a", "b"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--study", type=Path, help="a study with at least two runs over the same questions; it is copied"
    )
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--think", type=float, default=5.0, help="seconds before an action")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of each part")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = _study(arguments.study, Path(folder) / "study")
        together(study, arguments.people, arguments.think, arguments.seconds)


def _study(given: Path | None, folder: Path) -> Study:
    if given is not None:
        shutil.copytree(given, folder)
        return Study.open(folder)
    from benchmarks.study import study_with_runs

    return study_with_runs(folder)


@dataclass
class Person:
    """A person at work. `waited`: seconds of each action, by its name."""

    name: str
    tab: Tab
    asked: Sequence[str]
    runs: tuple[str, str]
    relations: Sequence[str]
    chance: random.Random
    attempt: int = 0
    waited: dict[str, list[float]] = field(default_factory=dict)
    judged: Shown | None = None

    def question(self) -> None:
        """Open another question of the list."""
        a, b = self.runs
        asked = self.chance.choice(self.asked)
        self._timed("question", lambda: self.tab.go("question", question=asked, a=a, b=b), "question")

    def compare(self) -> None:
        """Open Compare with another cut-off, cell, relation or order."""
        a, b = self.runs
        changes = {"k": self.chance.choice(KS)}
        key, values = self.chance.choice(
            [("cell", CELLS), ("relation", self.relations), ("sort", SORTS), ("page", (1, 2, 3))]
        )
        changes[key] = self.chance.choice(values)
        self._timed("compare", lambda: self.tab.go("compare", a=a, b=b, **changes), "compare")

    def label(self) -> None:
        """Label the next passage of the current question; after the last passage, press Enter."""
        if self.judged is None:
            self.judged = self.tab.go("judge")
        component = self.judged.components["judge"]
        card, passage = _next(component.data)
        if card is None:
            raise SystemExit(f"{self.name} has nothing left to judge; use a smaller --seconds")
        about = {"question": card["question"], "batch": card["batch"]}
        labelled = {
            "kind": "label",
            "choices": [{"passage": passage, "label": self.chance.choice(("positive", "negative"))}],
            "blind": True,
            "guideline_version": component.data["guideline"],
            "milliseconds": 1000,
            **about,
        }
        last = len(card["given"]) + 1 == len(card["candidates"])
        sent = [labelled, {"kind": "finish", **about}] if last else [labelled]
        self._timed("label", lambda: self._send(component, sent))

    def _send(self, component: Component, gestures: Sequence[dict]) -> Shown:
        self.attempt += 1
        entries = [
            {"id": f"{self.chance.getrandbits(96):024x}", "client_time": time.time(), **gesture} for gesture in gestures
        ]
        shown = self.tab.send(component, {"outbox": {"attempt": self.attempt, "entries": entries, "want": 4}})
        states = {receipt["id"]: receipt["state"] for receipt in shown.components["judge"].data["receipts"]}
        if any(states.get(entry["id"]) != "stored" for entry in entries):
            raise RuntimeError(f"{self.name}: a label was not stored: {shown.components['judge'].data['receipts']}")
        self.judged = shown
        return shown

    def _timed(self, name: str, act: Callable[[], Shown], page: str | None = None) -> None:
        began = time.perf_counter()
        shown = act()
        self.waited.setdefault(name, []).append(time.perf_counter() - began)
        if page is not None:
            self.judged = None
            if SIGNS[page] not in shown.html:
                raise RuntimeError(f"{self.name}: {page} does not show what it should: {shown.html[-300:]}")

    def mixed(self) -> None:
        """Half labels, a third questions, the rest Compare."""
        self.chance.choices([self.label, self.question, self.compare], [3, 2, 1])[0]()


def _next(data: dict) -> tuple[dict | None, str]:
    """Return the current question and its first passage without a label."""
    cards = {card["key"]: card for card in data["cards"]}
    for key in data["order"]:
        for one in cards[key]["candidates"]:
            if one["passage"] not in cards[key]["given"]:
                return cards[key], one["passage"]
    return None, ""


def _pair(study: Study) -> tuple[str, str]:
    """Return the oldest two runs over the same questions."""
    for a, b in combinations(study.parts("runs"), 2):
        if study.run(a).question_ids == study.run(b).question_ids:
            return a, b
    raise SystemExit(f"{study.folder} has no two runs over the same questions; make them with 'blindspot retrieve'")


def together(study: Study, people: int, think: float, seconds: float) -> None:
    from blindspot.app import who
    from blindspot.backend.judging.batches import make_batch
    from blindspot.db.people import People

    runs = _pair(study)
    questions = study.run(runs[0]).question_ids
    relations = sorted({question.relation or "" for question in study.questions.with_ids(questions)})
    names = [f"person{i}" for i in range(people)]
    for name in names:
        People(study.labels_path).add(name)
    # Nobody may read a question before judging it, so some questions are for reading and the others for judging.
    to_read = questions[::5]
    to_judge = [question for question in questions if question not in set(to_read)]
    make_batch(study, BATCH, runs, size=min(QUESTIONS, len(to_judge)), slice=to_judge, people_needed=2)
    print(f"{machine()}; load before {os.getloadavg()[0]:.1f} processes")
    print(
        f"{len(study.corpus):,} passages, runs {runs[0]} and {runs[1]} of {len(questions):,} questions, {people} "
        f"people, {think:g} s of thought before an act, {seconds:g} s a part"
    )
    with server_of(study) as (address, process):
        at_work = []

        def come(name: str, number: int) -> None:
            cookie = f"{who.cookie_name(study.labels_path)}={quote('name:' + name, safe='')}"
            began = time.perf_counter()
            person = Person(name, Tab(address, cookie), to_read, runs, relations, random.Random(number))
            if name not in person.tab.go("", a=runs[0], b=runs[1]).html:
                raise RuntimeError(f"{name} is not signed in")
            person.waited["first page"] = [time.perf_counter() - began]
            at_work.append(person)

        memory = {"before anybody came": _memory(process)}
        come(names[0], 0)
        first = at_work[0]
        for _ in range(5):
            first.question(), first.label(), first.compare()
        memory["one person has seen all three pages"] = _memory(process)
        first.waited = {key: first.waited[key] for key in ("first page",)}
        _part("one person alone", [first], lambda person: person.mixed(), min(think, 0.5), seconds / 2, process)
        _in_threads([lambda name=name, number=number: come(name, number) for number, name in enumerate(names[1:], 1)])
        _say(
            "the others come in the same moment",
            {"first page": [t for person in at_work[1:] for t in person.waited["first page"]]},
        )
        memory[f"{people} people are there"] = _memory(process)
        for what, act in (
            ("all go from question to question", Person.question),
            ("all label", Person.label),
            ("all change Compare", Person.compare),
            ("labels, questions, Compare as 3 : 2 : 1", Person.mixed),
        ):
            _part(what, at_work, act, think, seconds, process)
        memory["at the end"] = _memory(process)
        for person in at_work:
            person.tab.close()
    print("Memory of the server: " + "; ".join(f"{when} {size:,.0f} MiB" for when, size in memory.items()))


def _part(
    what: str, people: Sequence[Person], act: Callable[[Person], None], think: float, seconds: float, process
) -> None:
    """Let everybody repeat an action for this many seconds."""
    for person in people:
        person.waited = {}
    ends, used = time.monotonic() + seconds, _used(process)

    def work(person: Person) -> None:
        time.sleep(think * person.chance.random())
        while time.monotonic() < ends:
            act(person)
            time.sleep(think * person.chance.uniform(0.5, 1.5))

    _in_threads([lambda person=person: work(person) for person in people])
    waited: dict[str, list[float]] = {}
    for person in people:
        for name, row in person.waited.items():
            waited.setdefault(name, []).extend(row)
    count = sum(map(len, waited.values()))
    used = _used(process) - used
    _say(
        f"{what}: {count / seconds:.1f} acts a second, processor time of the server {1000 * used / count:.0f} ms an "
        "act",
        waited,
    )


def _in_threads(works: Sequence[Callable[[], None]]) -> None:
    """Run all functions in threads at once; the first error is raised here."""
    with ThreadPoolExecutor(len(works)) as pool:
        for started in [pool.submit(work) for work in works]:
            started.result()


def _say(what: str, waited: dict[str, list[float]]) -> None:
    print(f"\n{what}\n  {'act':<12}{'n':>6}{'p50 ms':>9}{'p95 ms':>9}{'longest':>9}")
    for name, row in waited.items():
        p50, p95 = np.percentile(np.array(row) * 1000, [50, 95])
        aim = (
            ""
            if name not in AIMS
            else f"   aim of p95 {1000 * AIMS[name]:.0f}: {'met' if p95 <= 1000 * AIMS[name] else 'not met'}"
        )
        print(f"  {name:<12}{len(row):>6,}{p50:>9,.0f}{p95:>9,.0f}{1000 * max(row):>9,.0f}{aim}", flush=True)


def _memory(process) -> float:
    """Return the resident memory in MiB."""
    import psutil

    return psutil.Process(process.pid).memory_info().rss / (1 << 20)


def _used(process) -> float:
    """Return the processor time so far in seconds."""
    import psutil

    times = psutil.Process(process.pid).cpu_times()
    return times.user + times.system


@contextmanager
def server_of(study: Study) -> Iterator[tuple[str, subprocess.Popen]]:
    """Start the app's server for a study as `blindspot open` does: its address and its process."""
    from blindspot.app import server

    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(server.command(port, ADDRESS), env=server.environment(study), stdout=log, stderr=log)
        try:
            server.wait_until_up(port, process)
            yield f"{ADDRESS}:{port}", process
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
