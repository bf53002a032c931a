"""Fixtures: a real server over a small study with real indexes, and a real browser."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator

import pytest

from blindspot.app import server
from blindspot.backend.core.study import Study
from blindspot.db.queue import Candidate, Item, Queue
from blindspot.db.records import Passage, Question
from tests.app_pages import HOSTILE
from tests.browser.judging import PASSAGES
from tests.browser.servers import end_shared
from tests.indexes import bm25_of
from tests.studies import births, make_study, people, tiny_bert

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-sync",
    "--disable-component-update",
]
REDRAWN = ".stApp:is([data-test-script-state=running], [data-test-script-state=rerunRequested])"
"""A page that is being redrawn: elements of the last run stand beside the new ones, so nothing is clicked or read yet."""
SYSTEM_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(__file__.rsplit("/", 1)[0]):
            item.add_marker(pytest.mark.browser)
            if os.environ.get("CI"):  # on a busy machine a page may be slow; pytest's last line counts what ran twice
                item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def browser() -> Iterator:
    """A system Chromium, else Playwright's own; without either the test is skipped with a reason."""
    api = pytest.importorskip("playwright.sync_api", reason="no browser tests: playwright is not installed")
    api.expect.set_options(timeout=60_000)  # a busy machine draws slowly
    with api.sync_playwright() as playwright:
        path = next(filter(None, map(shutil.which, SYSTEM_BROWSERS)), None)
        try:
            started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        except api.Error as error:
            reason = str(error).strip().splitlines()[0]
            pytest.skip(f"no browser tests: no Chromium could be started ({path or 'none on the system'}; {reason})")
        yield started
        started.close()


@pytest.fixture(scope="session", autouse=True)
def shared_server() -> Iterator[None]:
    yield
    end_shared()


@pytest.fixture(scope="session")
def study(tmp_path_factory) -> Study:
    """60 people and a hostile passage; BM25, and a tiny random encoder, indexed and run over `dev` and `test`."""
    from blindspot.backend.core.settings import add_encoder
    from blindspot.backend.retrieval import dense
    from blindspot.backend.retrieval.retrieve import retrieve

    passages = [*people(), Passage("hostile", HOSTILE, f"{HOSTILE} was born in Oslo.")]
    hostile = Question(
        "hostile",
        f"Where was {HOSTILE} born?",
        ("Oslo",),
        "P19",
        HOSTILE,
        dataset="births",
        split="test",
        gold=("hostile",),
    )
    study = make_study(tmp_path_factory.mktemp("browser") / "people", passages, [*births(passages[:-1]), hostile])
    tiny_bert(study.folder / "models" / "tiny")
    add_encoder(
        study.settings_path,
        "tiny",
        {"model": str(study.folder / "models" / "tiny"), "pooling": "cls", "max_tokens": 64},
    )
    bm25_of(study)
    dense.build_index(study, "tiny", device="cpu")
    for split in ("dev", "test"):
        retrieve(study, "bm25", split=split, k=20)
        retrieve(study, "dense", encoder="tiny", split=split, k=20, device="cpu")
    return study


@pytest.fixture(scope="session")
def address(study: Study, tmp_path_factory) -> Iterator[str]:
    """The address of the app of this study."""
    with socket.socket() as probe:
        probe.bind((server.ADDRESS, 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    with open(log, "w") as output:
        process = subprocess.Popen(
            server.command(port), env=server.environment(study), stdout=output, stderr=subprocess.STDOUT, cwd=log.parent
        )
    try:
        server.wait_until_up(port, process)
        yield f"http://{server.ADDRESS}:{port}/"
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.fixture
def tab(browser) -> Iterator:
    """A fresh tab; an error thrown by the page's script fails the test."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.add_locator_handler(page.locator(REDRAWN), lambda: None)  # Playwright waits until it is gone
    thrown = []
    page.on("pageerror", lambda error: thrown.append(str(error)))
    yield page
    context.close()
    assert not thrown, thrown


@pytest.fixture
def desk(tmp_path):
    """60 questions of 10 candidates each, in one batch."""
    passages = [
        Passage(f"p{i}", f"Title {i}", f"Passage number {i} tells of town {i}. " + "More. " * 40)
        for i in range(PASSAGES)
    ]
    questions = [
        Question(
            f"q{i:02}",
            f"Where is thing {i}?",
            (f"town {i}",),
            "P19",
            f"thing {i}",
            dataset="toy",
            split="train",
            gold=(),
        )
        for i in range(60)
    ]
    study = make_study(tmp_path / "desk", passages, questions)
    items = [
        Item(q.id, tuple(Candidate(f"p{(n + i) % PASSAGES}", i, "alpha", i + 1, 9.0 - i) for i in range(PASSAGES)))
        for n, q in enumerate(questions)
    ]
    Queue(study.labels_path).add_batch("first", items, {})
    return study
