"""A lead's day by buttons alone: five people are invited, two of them judge and disagree, the dispute is settled, the set is cleaned, and labels, sets and runs go out."""

from __future__ import annotations

import re
import time
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect

from blindspot.backend.core.runs import write_run
from blindspot.backend.training_sets.builder import build
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.records import Hits, Passage, Question
from tests.browser.judging import SAVED, press
from tests.browser.pages import COUNT_CLICKS
from tests.browser.servers import open_to_others
from tests.studies import make_study

QUESTIONS = 6
TEAM = ("Ann", "Ben", "Cem", "Dot", "Eva")


@pytest.fixture
def team(tmp_path):
    """Six training questions, each with a gold passage, a second one that answers too, and others; two runs over them, and
    the training set `raw` that takes all hits but the gold as negatives.
    """
    kinds = {
        "gold": "{0} was born in Town{0}.",
        "book": "The book says that {0} came from Town{0}.",
        "other": "{0} sang.",
    }
    passages = [
        Passage(f"{kind}{i}", f"{kind.title()} {i}", text.format(f"Person{i}"))
        for i in range(QUESTIONS)
        for kind, text in kinds.items()
    ]
    questions = [
        Question(
            f"q{i}", f"Where was Person{i} born?", (f"TownPerson{i}",), dataset="toy", split="train", gold=(f"gold{i}",)
        )
        for i in range(QUESTIONS)
    ]
    study = make_study(tmp_path / "team", passages, questions)
    ranks = [[3 * i, 3 * i + 1, 3 * i + 2, (3 * i + 5) % 18] for i in range(QUESTIONS)]
    hits = Hits(np.array(ranks, dtype=np.int32), np.array([[4.0, 3.0, 2.0, 1.0]] * QUESTIONS, dtype=np.float32))
    for name in ("ahead", "alpha"):
        about = {"retriever": "bm25", "kind": "run", "split": "train"}
        write_run(study, name, [question.id for question in questions], hits, about)
    build(study, "raw", ["alpha"])
    return study


def wait_until_drawn(tab) -> None:
    """Wait until the server has drawn the whole page: what is typed or clicked before that is lost."""
    expect(tab.get_by_test_id("stStatusWidget")).to_have_count(0)


def invite(tab, name: str) -> str:
    """Add an annotator by the form on Team, and return the link that the page shows once."""
    wait_until_drawn(tab)
    tab.get_by_label("Name of a new person").fill(name)
    tab.get_by_role("button", name="Add and create link").click()
    expect(tab.locator(".st-key-team-link")).to_contain_text(f"Send this link to {name}")
    link = tab.locator(".st-key-team-link code").inner_text().strip()
    expect(tab.locator(".st-key-team-people .person-name", has_text=name)).to_be_visible()
    return link


def create_batch(tab) -> None:
    """Fill the form's three fields, wait for the batch, and let two people judge each of its questions."""
    wait_until_drawn(tab)
    form = tab.get_by_test_id("stForm").filter(has_text="Runs to pool")
    form.get_by_role("textbox", name="Name").fill("first")
    expect(form).to_contain_text("alpha")
    form.get_by_role("spinbutton", name="Questions").fill("2")
    form.get_by_role("button", name="Create batch").click()
    tab.locator(".st-key-menu-batch-first").get_by_role("button").first.click(timeout=120_000)
    needed = tab.get_by_role("spinbutton", name="People per question").last
    needed.fill("2")
    needed.press("Enter")
    expect(needed).to_have_value("2")
    wait_until_drawn(tab)
    tab.keyboard.press("Escape")


def judge(browser, link: str, key: str) -> None:
    """Open a personal link in a browser of one's own, label the first passage of each question by `key` and the rest as
    negative, and see the end.
    """
    context = browser.new_context()
    try:
        tab = context.new_page()
        tab.set_default_timeout(60_000)
        tab.goto(link)
        judge_all(tab, key)
        tab.goto(link.partition("?")[0] + "team")
        expect(tab.locator(".judge h1")).to_have_text("You are done")
        assert urlsplit(tab.url).path == "/judge", "an annotator sees Judge alone"
    finally:
        context.close()


def judge_all(tab, key: str = "") -> None:
    """Label every question by keys until there is none."""
    tab.wait_for_selector(".judge .candidate.here")
    title = tab.locator(".judge h1")
    while (asked := title.inner_text()) != "You are done":
        press(tab, *key, "x", "Enter", gap=50)
        tab.wait_for_function("asked => document.querySelector('.judge h1')?.textContent !== asked", arg=asked)
    expect(tab.locator(SAVED)).to_be_visible()


def settle(tab) -> None:
    """Settle both disputes as positive, from Quality."""
    tab.get_by_role("link", name="Quality", exact=True).click()
    given = tab.locator("h1, p.lead").filter(has_text=re.compile("12 by 2 people.*; 2 passages to settle"))
    expect(given).to_be_visible()
    tab.get_by_role("link", name="Settle 2 passages", exact=True).click()
    for _ in range(2):
        tab.wait_for_selector(".judge .candidate.here")
        asked = tab.locator(".judge h1").inner_text()
        press(tab, "1", "Enter", gap=50)
        tab.wait_for_function("asked => document.querySelector('.judge h1')?.textContent !== asked", arg=asked)
    expect(tab.locator(".judge h1")).to_have_text("Nothing to settle")
    expect(tab.locator(SAVED)).to_be_visible()


def clean(tab) -> None:
    """From Judge to a set built with the labels."""
    tab.get_by_role("link", name="Next: clean a training set").click()
    expect(tab.get_by_role("button", name="Build raw-2 with these labels")).to_be_visible()
    wait_until_drawn(tab)
    tab.get_by_role("button", name="Build raw-2 with these labels").click()
    expect(tab.get_by_role("heading", name="raw-2 removes")).to_be_visible(timeout=240_000)
    wait_until_drawn(tab)


def downloaded(tab, button) -> tuple[str, Path]:
    """Return the name and the file that a button downloads."""
    with tab.expect_download() as download:
        button.click()
    return download.value.suggested_filename, Path(download.value.path())


def test_a_leads_day_by_buttons(tab, browser, team, capsys):
    tab.add_init_script(COUNT_CLICKS)
    began = time.monotonic()
    with open_to_others(team) as address:
        tab.goto(f"{address}/team?key={People(team.labels_path).invite('Lea', 'lead')}")
        wait_until_drawn(tab)
        assert tab.url == f"{address}/team"
        links = {name: invite(tab, name) for name in TEAM}
        assert links["Ann"].startswith(f"{address}/?key=")
        create_batch(tab)
        judge(browser, links["Ann"], "1")
        judge(browser, links["Ben"], "2")
        settle(tab)
        clean(tab)
        name, content = downloaded(tab, tab.get_by_role("button", name="Export "))
        assert name == "raw-2-sentence-transformers.zip" and zipfile.ZipFile(content).namelist()
        clicks, seconds = tab.evaluate("localStorage.getItem('clicks')"), time.monotonic() - began
        with capsys.disabled():
            print(f"\na lead's day: {clicks} clicks, {seconds:.0f} s with what two people judge")
        states = {
            pair.passage: pair.label for pair in Labels(team.labels_path).consensus() if pair.state == "adjudicated"
        }
        assert list(states.values()) == ["positive"] * 2

        tab.get_by_role("link", name="Team", exact=True).click()
        expect(tab.locator("p.lead")).to_have_attribute("title", re.compile("2 disagreements between two annotators"))
        expect(tab.locator(".team-progress tbody tr", has_text="Ann")).to_contain_text("6")
        tab.get_by_role("button", name="Download labels").click()
        name, content = downloaded(tab, tab.get_by_role("button", name="Download", exact=True))
        assert name == "labels.jsonl" and sum('"label"' in line for line in content.open()) >= 12
        wait_until_drawn(tab)
        revoke_and_pause(tab, team)
        tab.get_by_role("link", name="Home", exact=True).click()
        manage_the_run(tab, team)


def revoke_and_pause(tab, team) -> None:
    """Pause Ben and revoke his link by the buttons in his menu."""
    tab.locator(".st-key-menu-Ben").get_by_role("button").first.click()
    row = tab.locator(".st-key-pause-Ben")
    row.get_by_role("button", name="Pause").click()
    expect(row.get_by_role("button", name="Resume")).to_be_visible()
    tab.mouse.move(0, 0)  # the tooltip of the button lies over the next one
    tab.locator(".st-key-revoke-Ben").get_by_role("button").click()
    expect(tab.locator(".st-key-revoke-Ben")).to_have_count(0)
    ben = People(team.labels_path).get("Ben")
    assert ben.paused and not ben.invited


def manage_the_run(tab, team) -> None:
    """Download the run by a button, and delete it after reading what was made from it."""
    wait_until_drawn(tab)
    tab.locator("summary", has_text="or delete").click()
    panel = tab.get_by_test_id("stExpander").filter(has_text="or delete")
    name, content = downloaded(tab, panel.locator(".st-key-download-run").get_by_role("button"))
    assert name == "alpha.trec" and content.read_text().split()[:3] == ["q0", "Q0", "gold0"]
    expect(panel).to_contain_text("batch first was made from it")
    panel.get_by_role("button", name="Delete").click()
    expect(panel.locator(".notice.error")).to_contain_text("confirm if it should be deleted")
    panel.get_by_text("I am sure").click()
    panel.get_by_role("button", name="Delete").click()
    expect(tab.locator("table.runs")).not_to_contain_text("alpha")
    assert team.runs() == ["ahead"]
