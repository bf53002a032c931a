"""From a checked training file to the cleaned one in a browser: three pairs judged by keys, the rate, the file."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect

from blindspot.app import server
from blindspot.backend.checking.check import check, open_check
from blindspot.backend.checking.jobs import cleaned_file, cleaned_paths
from blindspot.backend.checking.pairs import negative_pairs
from blindspot.backend.core.made_from import is_check
from blindspot.backend.core.study import Study
from blindspot.db.people import People
from tests.browser.servers import showing
from tests.checks import judge, rows
from tests.training_files import mined as mine
from tests.training_files import pairs, saved

PATIENCE = 60_000  # ms


@pytest.fixture
def mined(tmp_path) -> Path:
    """24 questions with three negatives each and their scores, mined by sentence-transformers."""
    return saved(mine("n-tuple", scores=True), "jsonl", tmp_path)


def begin_judging(tab):
    """Sign in as Ann from the page Check."""
    tab.get_by_role("link", name="Judge the first pair").click()
    tab.get_by_label("Your name").or_(tab.get_by_label("New name")).fill("Ann")
    tab.get_by_role("button", name="Start").click()
    tab.wait_for_selector(".judge .candidate.here")


def judge_question(tab, key):
    """Judge the first passage of a question by a key, and the others negative; a question may have several drawn pairs."""
    before = tab.locator(".judge h1").inner_text()
    for _ in range(tab.locator(".judge .candidate").count()):
        tab.keyboard.press(key)
        key = "3"
    tab.keyboard.press("Enter")
    expect(tab.locator(".judge h1")).not_to_have_text(before)


def judge_three(tab):
    """Judge the pairs of three questions by keys, the first one false."""
    begin_judging(tab)
    expect(tab.locator(".judge")).not_to_contain_text("No known answer")
    expect(tab.locator(".judge")).not_to_contain_text("untitled")
    asked = re.compile(r"^Does (each|this) passage, read on its own, answer the question\?$")
    expect(tab.locator(".judge .task")).to_have_text(asked)
    for key in "133":
        judge_question(tab, key)
    expect(tab.locator(".judge .status")).to_contain_text("all saved", timeout=PATIENCE)


def test_from_the_check_to_the_cleaned_file(mined, tab):
    found = check(mined)
    found.draw()
    with showing(found.study) as port:
        tab.goto(f"http://{server.ADDRESS}:{port}/check")
        judge_three(tab)
        tab.get_by_role("link", name="Check", exact=True).click()
        rate, labels = open_check(found.study).rate(), open_check(found.study).labels
        assert rate.judged >= 3 and list(labels.values()).count("positive") == 1
        said = f"of {rate.judged} judged pairs"
        expect(tab.get_by_role("heading", level=1)).to_contain_text(said, timeout=PATIENCE)
        tab.wait_for_selector(".st-key-trace .js-plotly-plot")
        tab.get_by_role("link", name="stop here and write the file").click()
        write = tab.get_by_role("button", name="Write the cleaned file")
        expect(write).to_have_count(1)  # the page has the button of before too, until it is drawn
        write.click()
        expect(tab.locator(".st-key-file")).to_contain_text("Written:", timeout=PATIENCE)
        with tab.expect_download() as download:
            tab.get_by_role("button", name="Download the file").click()
        content = Path(download.value.path()).read_bytes()
    written = cleaned_file(found.study)
    assert (written.relabelled, written.judged) == (1, rate.judged)
    assert content == next(cleaned_paths(found.study, written)).read_bytes()
    assert len(content.splitlines()) == written.rows == len(pairs()) + 1, "a row with the new positive"


def test_the_end_of_judging_leads_to_the_rate(mined, tab):
    found = check(mined)
    drawn = found.draw(2)
    with showing(found.study) as port:
        tab.goto(f"http://{server.ADDRESS}:{port}/check")
        begin_judging(tab)
        for _ in set(negative_pairs(found.checked_study.occurrences).question[drawn.draws].tolist()):
            judge_question(tab, "3")
        expect(tab.locator(".judge h1")).to_have_text("You are done", timeout=PATIENCE)
        expect(tab.locator(".judge")).to_contain_text("The page Check shows the rate and the rule")
        tab.get_by_role("link", name="Next: see the rate and the rule").click()
        expect(tab.get_by_role("heading", level=1)).to_contain_text("of 2 judged pairs", timeout=PATIENCE)


def test_every_column_of_the_rules_is_seen_on_a_phone(tab, tmp_path):
    (tmp_path / "mined.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows()))
    found = check(tmp_path / "mined.jsonl", tmp_path / "study")
    found.draw(150)
    People(found.study.labels_path).add("Ann", "lead")
    judge(found.study, 150)
    tab.set_viewport_size({"width": 400, "height": 800})
    with showing(found.study) as port:
        tab.goto(f"http://{server.ADDRESS}:{port}/judge")
        tab.get_by_role("button", name="I am Ann").click()
        expect(tab.get_by_role("button", name="I am Ann")).not_to_be_visible(timeout=PATIENCE)
        tab.goto(f"http://{server.ADDRESS}:{port}/check?step=rule")
        table = tab.locator(".st-key-rules .scrolling").first
        expect(table).to_contain_text("emptied", timeout=PATIENCE)
        assert table.evaluate("box => box.scrollWidth - box.clientWidth") == 0
        names = table.locator("tbody th")
        assert not any(names.evaluate_all("cells => cells.map(cell => cell.scrollWidth - cell.clientWidth)")), (
            "all is read"
        )


def test_a_file_is_dropped_on_an_empty_study(mined, tab, tmp_path):
    study = Study.create(tmp_path / "empty")
    large = shutil.copyfile(mined, tmp_path / "large.jsonl")
    with open(large, "ab") as out:  # above the limit of other requests
        out.write(b"\n" * (3 << 20))
    (tmp_path / "no.jsonl").write_text('{"some": 1}\n')
    with showing(study) as port:
        tab.goto(f"http://{server.ADDRESS}:{port}/")
        tab.locator("input[type=file]").set_input_files(tmp_path / "no.jsonl")
        expect(tab.locator(".notice.error")).to_contain_text("no training data of a known form", timeout=PATIENCE)
        tab.locator("input[type=file]").set_input_files(large)
        expect(tab.get_by_role("link", name="See the check")).to_be_visible(timeout=PATIENCE)
        tab.get_by_role("link", name="See the check").click()
        expect(tab.get_by_role("link", name="Judge the first pair")).to_be_visible(timeout=PATIENCE)
    assert is_check(study) and [path.name for path in (study.folder / "uploads").glob("large*")] == ["large.jsonl"]
