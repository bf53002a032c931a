"""Jobs in a browser: the queue, the cause of a failure, cancelling, a page that follows a job, and an Enter that starts
nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect

from blindspot.app import server
from blindspot.backend.core import jobs
from blindspot.backend.core.study import Study
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.retrieval.bm25 import build_index
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.jobs import Jobs
from tests.browser.servers import serving
from tests.counted_jobs import count_up, give_back, until, wait
from tests.indexes import bm25_of
from tests.studies import births, make_study, people

PATIENCE = 60_000  # ms


@pytest.fixture
def study(tmp_path, monkeypatch) -> Study:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    passages = people()
    return make_study(tmp_path / "queue", passages, births(passages))


def test_the_queue_is_followed_and_cancelled(study, tab):
    wait(study, jobs.submit(give_back, study, "unknown"))
    with serving(study) as port:
        first = jobs.submit(count_up, study)
        until(study, first, lambda job: job.state == "running")
        index = jobs.submit(build_index, study, threads=1)
        last = jobs.submit(count_up, study)
        tab.goto(f"http://{server.ADDRESS}:{port}/")
        panel = tab.locator(".st-key-jobs")

        def says(*parts):
            """Check that a job of the panel has all these parts."""
            line = panel.locator(".job")
            for part in parts:
                line = line.filter(has_text=part)
            expect(line.first).to_be_attached(timeout=PATIENCE)  # finished jobs are folded

        says("running", "test count")
        says("waiting", "index bm25", "waits for: test count")
        says("waiting", "test count", "waits for: test count and 1 more")
        says("failed", "test result", "KeyError: 'unknown'")
        panel.get_by_text("Log", exact=True).click()
        expect(panel).to_contain_text("Traceback (most recent call last)")
        if folder := os.environ.get("BLINDSPOT_SCREENSHOTS"):
            for width in (1400, 1000, 400):
                tab.set_viewport_size({"width": width, "height": 900})
                tab.wait_for_timeout(1500)
                tab.screenshot(path=f"{folder}/jobs-{width}.png", full_page=True)
            tab.set_viewport_size({"width": 1400, "height": 900})
        indexed = tab.locator(".holdings dd").filter(has_text="Lucene")
        expect(indexed).to_have_count(0)
        panel.get_by_role("button", name="Cancel").first.click()
        # The index is made while another job waits or runs, and the page shows it without a reload.
        expect(indexed).to_have_count(1, timeout=PATIENCE)  # the contents are folded
        says("cancelled", "test count")
        says("done", "index bm25")
        panel.locator("summary", has_text="finished job").click()
        expect(panel.locator(".job", has_text="index bm25").first).to_be_visible()
        assert jobs.status(study, first).state == "cancelled" and jobs.status(study, index).state == "done"
        assert jobs.status(study, last).unfinished
        panel.get_by_role("button", name="Cancel").first.click()
        expect(panel.get_by_role("button", name="Cancel")).to_have_count(0, timeout=PATIENCE)
        assert wait(study, last).state == "cancelled"


def test_enter_in_a_field_starts_nothing(study, tab):
    bm25_of(study)
    retrieve(study, "bm25", split="dev", k=10)
    with serving(study) as port:
        tab.goto(f"http://{server.ADDRESS}:{port}/judge")
        tab.get_by_label("Your name").or_(tab.get_by_label("New name")).fill("Lea")
        tab.get_by_role("button", name="Start").click()
        tab.get_by_role("link", name="Team", exact=True).click()
        name = tab.get_by_label("Name", exact=True)
        name.fill("by-enter")
        name.press("Enter")
        tab.wait_for_timeout(3000)
        assert Jobs(study.labels_path).recent() == []
        tab.get_by_role("button", name="Create batch").click()
        expect(tab.get_by_text("by-enter", exact=True).first).to_be_visible(timeout=PATIENCE)
        [job] = Jobs(study.labels_path).recent()
        assert (job.kind, job.arguments["name"], job.function) == (
            "make batch",
            "by-enter",
            f"{make_batch.__module__}:make_batch",
        )
