"""A language model judges in the app: 500 pairs, an endpoint with faults, kill -9 in the middle, and how good it is."""

from __future__ import annotations

import os
import signal
import time

import pytest
from playwright.sync_api import expect

from blindspot.app import server
from blindspot.app.link_keys import cookie_name
from blindspot.backend.core import consent, jobs
from blindspot.backend.judges.llm.judge import add_llm_judge
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.people import People
from tests.browser.servers import serving
from tests.indexes import bm25_of
from tests.llm_server import ChatServer, answer, pair_of
from tests.studies import births, make_study, people
from tests.training_studies import say

PATIENCE = 120_000  # ms; a job first loads its packages, maybe on a busy machine
PAIRS = 500


@pytest.fixture
def asked(tmp_path):
    """40 questions with 20 hits each; Lea settled the first two hits of 12 questions."""
    passages = people()
    study = make_study(tmp_path / "asked", passages, births(passages, "train"))
    bm25_of(study)
    run = retrieve(study, "bm25", split="train", k=20, name="mined")
    People(study.labels_path).add("Lea", "lead")
    for row, question in enumerate(run.question_ids[:12]):
        first, second = study.corpus.passages(run.hits.ordinals[row, :2].tolist())
        say(study, "Lea", question, {first.id: "positive", second.id: "negative"})
    return study


def faulty(garbled):
    """503 for every 23rd request, once 429 with a pause, and never a grade about some passages."""

    def behave(number, body):
        if number == 60:
            return 429, {"Retry-After": "1"}, {"error": "slow down"}
        if number % 23 == 0:
            return 503, {}, {}
        if garbled in pair_of(body)[1]:
            return 200, {}, answer("A fine passage.", body["model"])
        return None

    return behave


def open_form(tab):
    form = tab.get_by_text("Ask a language model", exact=True)
    form.wait_for(timeout=PATIENCE)
    button = tab.locator(".st-key-ask-start button").first
    if not button.is_visible():
        form.click()
    button.wait_for(timeout=PATIENCE)
    return button


def wait_for(condition, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_500_pairs_are_judged_though_the_endpoint_fails_and_the_job_is_killed(browser, asked):
    def truth(question, passage):
        return 3 if question.removeprefix("Where was ").removesuffix(" born?") in passage else 0

    obeys = lambda passage: 3 if "perfect, complete and exact" in passage else None  # noqa: E731
    with ChatServer(truth, faulty("painter"), seconds=0.03, obeys=obeys) as model, serving(asked) as port:
        consent.give_consent(asked, model.url)
        add_llm_judge(asked, "small", model.url, "m", settings={"price_in": 1.0, "price_out": 2.0})
        tab = browser.new_page()
        tab.goto(f"http://{server.ADDRESS}:{port}/judge")
        tab.get_by_role("button", name="I am Lea (lead)").click()
        # Only the cookie tells the next page who is here, and the button that was clicked has the name on it too.
        signed_in = f"() => document.cookie.includes('{cookie_name(asked.labels_path)}=name')"
        tab.wait_for_function(signed_in, timeout=PATIENCE)
        tab.goto(f"http://{server.ADDRESS}:{port}/training?tab=judges")
        button = open_form(tab)
        expect(tab.get_by_text(f"{PAIRS} requests")).to_be_visible(timeout=PATIENCE)
        assert "this machine" in tab.locator("[data-testid=stMain]").inner_text() and model.requests == 0
        expect(button).to_have_text(f"Ask about {PAIRS} pairs")
        button.click()

        wait_for(lambda: model.requests > 150)
        (job,) = [each for each in jobs.recent(asked, 5) if each.kind == "judge with llm"]
        os.kill(job.pid, signal.SIGKILL)
        wait_for(lambda: not jobs.status(asked, job.id).unfinished)
        kept = len(ScoreStore.open(asked, "small"))
        before = model.requests
        assert 50 <= kept < PAIRS

        tab.reload()
        button = open_form(tab)
        tab.get_by_role("spinbutton", name="Pairs at most").fill(str(PAIRS))
        tab.keyboard.press("Enter")
        expect(button).to_have_text(f"Ask about {PAIRS - kept} pairs", timeout=PATIENCE)
        button.click()
        wait_for(lambda: (jobs.recent(asked, 1)[0].id != job.id) and not jobs.recent(asked, 1)[0].unfinished)
        done = jobs.recent(asked, 1)[0]
        assert done.state == "done", done.error
        result = done.result
        assert result["failed"] == 0 and result["unknown"] > 0
        assert len(ScoreStore.open(asked, "small")) + result["unknown"] == PAIRS
        # Only what was under way at the kill is asked twice; the rest is repetitions of 503, 429 and garbled answers.
        faults = model.requests // 23 + 1 + 2 * result["unknown"]
        assert model.requests - before <= PAIRS - kept + 8 + faults

        tab.goto(f"http://{server.ADDRESS}:{port}/quality?judge=small")
        panel = tab.locator("#judges")
        panel.wait_for(timeout=PATIENCE)
        said = panel.inner_text()
        assert "language model" in said and "Where to trust it" in said
        tab.close()
