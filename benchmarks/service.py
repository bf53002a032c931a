"""A live question through `blindspot serve`: BM25 and dense together, as on the Question page; for one person and for
several at once.

    python -m benchmarks.service --study DIR [--questions N] [--people N]

A service is started for the study, and this process sends requests over HTTP, as the app does. A question's time is
from the first request to the second answer, k = 100. Every question is sent once, so no answer comes from a cache. The
peer is the same retrievers in this process, without a service.
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from benchmarks.machine import machine
from blindspot.backend.core.children import child
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval import live
from blindspot.backend.retrieval.remote import use_backend

K = 100
TARGET = 0.150  # seconds, p95, on 2 cores and 100,000 passages
SECONDS_TO_LOAD = 300
COUNTED = BATCHES, REQUESTS, CPU = (
    "blindspot_batches_total",
    "blindspot_batched_requests_total",
    "process_cpu_seconds_total",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--study", help="a study with questions, a BM25 index and a dense one; default: made of the real data"
    )
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--people", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.study:
            study = Study.open(arguments.study)
        else:
            from benchmarks.study import real_study

            study = real_study(Path(folder) / "study")
        measure(study, arguments.questions, arguments.people)


def measure(study: Study, count: int, people: int) -> None:
    print(f"{machine()}; load before {os.getloadavg()[0]:.1f} processes on {os.cpu_count()} cores")
    pair = ["bm25", next(name for name in live.answering_retrievers(study) if name != "bm25" and ":" not in name)]
    texts = [question.text for question in study.questions.all()]
    drawn = np.random.default_rng(0).choice(len(texts), size=min(len(texts), 4 * count), replace=False)
    sets = [[texts[i] for i in part] for part in np.array_split(drawn, 4)]
    with running_service(study) as url:
        began = time.perf_counter()
        wait_until_ready(url)
        print(
            f"{' and '.join(pair)}, {len(study.corpus):,} passages, k={K}; everything was loaded "
            f"{time.perf_counter() - began:.1f} s after the service was started"
        )
        ways = {
            "one person": (asked_by, 1),
            f"{people} people in the same moment, then a pause": (asked_in_rounds, people),
            f"{people} people, each asking again at once": (asked_by, people),
        }
        for texts, (who, (way, asking)) in zip(sets, ways.items()):
            before = {name: metric(url, name) for name in COUNTED}
            seconds = way(lambda text: both(study, pair, text), texts, asking)
            used = {name: metric(url, name) - before[name] for name in COUNTED}
            say(who, seconds, TARGET)
            print(
                f"    {used[REQUESTS] / used[BATCHES]:.1f} requests searched together; processor time of the service "
                f"{1000 * used[CPU] / len(texts):.0f} ms a question"
            )
        print(f"  memory of the service {metric(url, 'process_resident_memory_bytes') / 2**20:,.0f} MiB")
    both(study, pair, "Where was she born?")
    say("peer: in this process, one person", asked_by(lambda text: both(study, pair, text), sets[3], 1))
    print(f"load after {os.getloadavg()[0]:.1f}")


@contextmanager
def running_service(study: Study) -> Iterator[str]:
    """Run `blindspot serve` during the `with` block, in which this process searches with it, and yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "blindspot.app.cli", "serve", "--study", str(study.folder), "--port", str(port)]
    use_backend(f"http://localhost:{port}")
    try:
        with child(command):
            yield f"http://localhost:{port}"
    finally:
        use_backend(None)


def both(study: Study, pair: Sequence[str], text: str) -> None:
    for name in pair:
        live.search(study, name, [text], K)


def asked_by(ask: Callable[[str], None], texts: Sequence[str], people: int) -> np.ndarray:
    """Return the seconds of each question; each person sends the next question after the last answer."""
    seconds: list[float] = []

    def person(own: Sequence[str]) -> None:
        for text in own:
            begun = time.perf_counter()
            ask(text)
            seconds.append(time.perf_counter() - begun)

    threads = [threading.Thread(target=person, args=(texts[i::people],)) for i in range(people)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(seconds) != len(texts):
        raise SystemExit(f"{len(texts) - len(seconds)} questions failed; see the messages above")
    return np.array(seconds)


def asked_in_rounds(ask: Callable[[str], None], texts: Sequence[str], people: int) -> np.ndarray:
    """Return the seconds of each question; all people send a question at the same moment, and the next when everybody
    has an answer.
    """
    return np.concatenate(
        [asked_by(ask, texts[i : i + people], people) for i in range(0, len(texts) - people + 1, people)]
    )


def say(who: str, seconds: np.ndarray, target: float | None = None) -> None:
    p50, p95 = np.quantile(seconds, [0.5, 0.95])
    judged = "" if target is None else f"; target p95 {1000 * target:.0f} ms: {'kept' if p95 <= target else 'missed'}"
    print(
        f"  {who}: p50 {1000 * p50:.0f} ms, p95 {1000 * p95:.0f} ms, longest {1000 * seconds.max():.0f} ms "
        f"(n={len(seconds)}){judged}"
    )


def wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + SECONDS_TO_LOAD
    while time.monotonic() < deadline:
        try:
            if get(url, "/health")[0] == 200:
                return
        except ConnectionError:  # it is still starting
            pass
        time.sleep(0.05)
    raise SystemExit(f"the service was not ready within {SECONDS_TO_LOAD} s")


def metric(url: str, name: str) -> float:
    """Return the sum of a metric over its labels."""
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", get(url, "/metrics")[1], re.M))


def get(url: str, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


if __name__ == "__main__":
    use_backend(None)
    main()
