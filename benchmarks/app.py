"""The app at full size, 22,075 questions x 3 runs x 100 hits: the server time of each page for a lead, cold and again.

    python -m benchmarks.app [--questions 22075] [--passages 20000] [--study FOLDER]

Passages, questions and runs are generated, or those of a copy of --study. A time is that of one run of the page's script in
Streamlit's AppTest, with caches empty at first; the processor time is hardly changed by other work. "A fresh server" is a
real one, which Chromium (if installed) asks over its websocket. For many people at once see `benchmarks.twenty`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.machine import machine, spent
from blindspot.analysis.relations import RELATIONS
from blindspot.app.server import SIGN_IN
from blindspot.app.study import SECONDS_TO_READ
from blindspot.backend.core.study import ENVIRONMENT_VARIABLE
from blindspot.db.people import People
from blindspot.db.records import Hits, Passage, Question

K, RUNS, SEED = 100, {"bm25-dev": "bm25", "dense-dev": "encoder", "hybrid-dev": "hybrid"}, 0
FIRST_PAGE, NEXT_QUESTION = 2.0, 0.3  # target in seconds
AGAIN, NEXT_IN_BROWSER = 1.0, 0.2  # target of a page that was open before, and of the next question in the browser
LEAD = "Benchmark"
SIGN = {
    "home": 'class="figures runs',
    "compare": 'class="flips"',
    "question": 'class="lists"',
    "slices": "How this is counted",
}
WORDS = "river town bridge harbour school poet record station valley market island theatre museum castle forest garden".split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=22_075)
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--study", type=Path, metavar="FOLDER", help="measure on a copy of this study")
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        started, study = time.perf_counter(), Path(folder) / "study"
        if options.study is None:
            make_study(study, options.passages, options.questions)
            size = f"{options.passages:,} passages, {options.questions:,} questions, {len(RUNS)} runs of {K} hits"
        else:
            shutil.copytree(options.study, study, ignore=shutil.ignore_patterns("*.db-shm"))
            size = options.study.name
        print(f"{size}, made in {time.perf_counter() - started:.0f} s\n")
        os.environ |= {ENVIRONMENT_VARIABLE: str(study), SIGN_IN: "none"}
        print(f"{'':<66} {'ms':>8} {'processor':>10} {'aim':>7}")
        People(study / "labels.db").add(LEAD, "lead")
        browser = ((name, Taken(seconds, 0), aim) for name, seconds, aim in fresh_server(study))
        for name, taken, aim in chain(every_page(), browser):
            used = f"{1000 * taken.processor:,.0f}" if taken.processor else ""
            print(
                f"{name:<66} {1000 * taken.seconds:>8,.0f} {used:>10} {f'{1000 * aim:,.0f}' if aim else '':>7}",
                flush=True,
            )


def make_study(folder: Path, n_passages: int, n_questions: int) -> Path:
    from blindspot.backend.core.runs import write_run
    from blindspot.backend.core.study import Study
    from blindspot.db.corpus import CorpusWriter

    rng = np.random.default_rng(SEED)
    study = Study.create(folder, "benchmark")
    with CorpusWriter(folder / "corpus.db") as writer:
        writer.add(
            Passage(f"p{i}", f"Article {i // 5}", f"Name{i} stands here. " + " ".join(rng.choice(WORDS, 90)))
            for i in range(n_passages)
        )
        writer.finish("generated")
    relations = list(RELATIONS)
    answers = rng.integers(0, n_passages, n_questions)
    study.questions.add(
        Question(
            f"q{i}",
            f"Where is the {WORDS[i % len(WORDS)]} number {i}?",
            (f"Name{answers[i]}", f"Alias{i}"),
            relations[i % len(relations)],
            f"thing {i}",
            frequency=int(rng.integers(0, 500)),
            dataset="generated",
            split="dev",
            gold=(f"p{answers[i]}",),
        )
        for i in range(n_questions)
    )
    ids = [f"q{i}" for i in range(n_questions)]
    for name, retriever in RUNS.items():
        ordinals = rng.integers(0, n_passages, (n_questions, K)).astype(np.int32)
        ranks = rng.geometric(0.15, n_questions) - 1
        found = np.flatnonzero(ranks < K)
        ordinals[found, ranks[found]] = answers[found]
        scores = np.sort(rng.random((n_questions, K), dtype=np.float32))[:, ::-1]
        write_run(
            study, name, ids, Hits(ordinals, np.ascontiguousarray(scores)), {"retriever": retriever, "kind": "dense"}
        )
    return folder


class Taken(NamedTuple):
    """Wall-clock and processor seconds."""

    seconds: float
    processor: float


def every_page() -> Iterator[tuple[str, Taken, float | None]]:
    """Measure the script time of every page for the lead, cold and again, and that of the next question."""
    from blindspot.app.main import PAGES

    run = page_runner(LEAD)
    for title, page in PAGES.items():
        yield f"{title}, cold", run(None if page == "home" else page), FIRST_PAGE
        time.sleep(SECONDS_TO_READ)  # what the page prepares for the next one
        yield f"{title} again", _median(lambda i: run(), 5), AGAIN
    ids = [each.id for each in _questions()]
    run("question", question=ids[0])
    yield "Question, the next one", _median(lambda i: run(question=ids[i + 1]), min(11, len(ids) - 1)), NEXT_QUESTION


def _questions() -> list[Question]:
    from blindspot.backend.core.study import Study

    study = Study.open(Path(os.environ[ENVIRONMENT_VARIABLE]))
    run = study.run(next(iter(study.parts("runs"))))
    return study.questions.with_ids(run.question_ids[:12])


def page_runner(person: str) -> Callable[..., Taken]:
    """Return a function that runs a page of the app once. Streamlit is imported before the clock starts."""
    from streamlit.testing.v1 import AppTest

    where = ["home"]
    main = find_spec("blindspot.app.main")
    assert main is not None and main.origin is not None
    app = AppTest.from_file(main.origin, default_timeout=120)
    app.session_state["who-token"] = f"name:{person}"

    def run(page: str | None = None, **parameters: Any) -> Taken:
        if page:
            app.switch_page(f"pages/{page}.py")
            where.append(page)
        app.query_params.clear()
        app.query_params.update({key: str(value) for key, value in parameters.items()})
        taken = Taken(*spent(app.run))
        shown = "".join(element.proto.body for element in app.get("html"))
        assert not app.exception and SIGN.get(where[-1], "") in shown, app.exception
        return taken

    return run


def _median(run: Callable[[int], Taken], times: int = 11) -> Taken:
    return Taken(*(median(row) for row in zip(*(run(i) for i in range(times)), strict=True)))


def fresh_server(study: Path) -> Iterator[tuple[str, float, float | None]]:
    """Measure the time from the first request to a new server until Chromium shows the figures."""
    if find_spec("playwright") is None or not _browser():
        return
    with chromium() as tab, server_of(study) as address:
        yield (
            "a fresh server, Home in Chromium, from request to figures",
            until(tab, lambda: tab.goto(address), ".runs .figure"),
            FIRST_PAGE,
        )
        yield "  then Compare, by a click", until(tab, lambda: tab.click("a.button[href^='compare']"), ".flips"), None
        yield (
            "  then a question, by a click",
            until(tab, lambda: tab.locator(".questions a.question").first.click(), ".lists"),
            None,
        )
        steps = []
        for number in range(2, 13):
            tab.wait_for_timeout(200)
            here = f".position b:text-is('{number}')"
            steps.append(until(tab, lambda: tab.keyboard.press("n"), here))
        yield "  then the next question, by key, until the page shows it", median(steps), NEXT_IN_BROWSER


def _browser() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def chromium() -> Iterator[Any]:
    """An empty tab of Chromium."""
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox", "--disable-gpu", "--no-first-run"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_browser(), args=arguments)
        tab = browser.new_page()
        tab.goto("about:blank")
        yield tab
        browser.close()


def until(tab: Any, act: Callable[[], Any], selector: str) -> float:
    started = time.perf_counter()
    act()
    tab.wait_for_selector(selector)
    return time.perf_counter() - started


@contextmanager
def server_of(study: Path) -> Iterator[str]:
    """Start the app's server for a study: its address."""
    from benchmarks import twenty
    from blindspot.backend.core.study import Study

    with twenty.server_of(Study.open(study)) as (address, _):
        yield f"http://{address}/"


if __name__ == "__main__":
    main()
