"""A lead's day by buttons alone: two annotators are invited, disagree, and the dispute is settled; labels and runs go out."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from blindspot.backend.core.runs import write_run
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue
from blindspot.db.records import Hits, Passage, Question
from tests.browser.test_judging import SAVED
from tests.browser.test_rights import open_to_others
from tests.studies import make_study

expect.set_options(timeout=60_000)

TITLES = ("Oslo", "Bergen")


@pytest.fixture
def team(tmp_path):
    """One question with two passages for two people, a run over it, and a lead."""
    passages = [Passage(title, title, f"{title} is a town in Norway.") for title in TITLES]
    question = Question("q0", "Where is the king?", ("Oslo",), dataset="toy", split="train")
    study = make_study(tmp_path / "team", passages, [question])
    hits = Hits(np.array([[0, 1]], dtype=np.int32), np.array([[2.0, 1.0]], dtype=np.float32))
    write_run(study, "alpha", ["q0"], hits, {"retriever": "bm25", "kind": "run"})
    shown = tuple(Candidate(title, number) for number, title in enumerate(TITLES))
    Queue(study.labels_path).add_batch("first", [Item("q0", shown, people_needed=2)], {"runs": ["alpha"]})
    return study


def invite(tab, name: str) -> str:
    """Add an annotator by the form on Team, and return the link that the page shows once."""
    tab.get_by_label("Name of a new person").fill(name)
    tab.get_by_role("button", name="Add and create link").click()
    expect(tab.locator(".st-key-team-link")).to_contain_text(f"Send this link to {name}")
    link = tab.locator(".st-key-team-link code").inner_text().strip()
    expect(tab.locator(".st-key-team-people .person-name", has_text=name)).to_be_visible()
    return link


def judge(browser, link: str, label: str) -> None:
    """Open a personal link in a browser of one's own, label both passages by mouse, and finish the question."""
    context = browser.new_context()
    try:
        tab = context.new_page()
        tab.goto(link)
        tab.locator(f".judge .candidate.here button.label.{label}").click()
        tab.locator(".judge-actions [data-action=rest]").click()
        tab.locator(".judge-actions [data-action=next]").click()
        expect(tab.locator(".judge h1")).to_have_text("You are done")
        expect(tab.locator(SAVED)).to_be_visible()
        tab.goto(link.partition("?")[0] + "team")
        expect(tab.locator(".empty")).to_contain_text("For leads only")
    finally:
        context.close()


def saved(tab, button) -> tuple[str, str]:
    with tab.expect_download() as download:
        button.click()
    with open(download.value.path(), encoding="utf-8") as file:
        return download.value.suggested_filename, file.read()


def test_invites_a_dispute_its_settlement_and_what_goes_out(tab, browser, team):
    secret = People(team.labels_path).invite("Lea", "lead")
    with open_to_others(team) as address:
        tab.goto(f"{address}/?invite={secret}")
        tab.get_by_role("link", name="Team", exact=True).click()
        links = {name: invite(tab, name) for name in ("Ann", "Ben")}
        judge(browser, links["Ann"], "positive")
        judge(browser, links["Ben"], "related")

        tab.get_by_role("link", name="Quality", exact=True).click()
        tab.get_by_role("link", name="Adjudicate: Where is the king?").click()
        expect(tab.locator(".judge .candidate")).to_have_count(1)
        tab.locator(".judge .candidate.here button.label.positive").click()
        tab.locator(".judge-actions [data-action=next]").click()
        expect(tab.locator(".judge h1")).to_have_text("Nothing to settle")
        expect(tab.locator(SAVED)).to_be_visible()
        settled = {pair.passage: (pair.label, pair.state) for pair in Labels(team.labels_path).consensus()}
        assert settled == {"Oslo": ("positive", "adjudicated"), "Bergen": ("negative", "agreed")}

        tab.get_by_role("link", name="Team", exact=True).click()
        expect(tab.locator(".agreement-words")).to_contain_text(
            "1 disagreement of two people: 1 positive against related"
        )
        expect(tab.locator(".team-progress tbody tr", has_text="Ann")).to_contain_text("2 on")
        tab.locator("summary", has_text="Download the labels").click()
        name, text = saved(tab, tab.get_by_role("button", name="Download", exact=True))
        assert name == "labels.jsonl" and text.count('"kind": "label"') + text.count('"kind":"label"') == 4
        revoke_and_pause(tab, team)

        tab.get_by_role("link", name="Home", exact=True).click()
        manage_the_run(tab, team)


def revoke_and_pause(tab, team) -> None:
    """Pause Ben and revoke his link by the buttons in his menu."""
    tab.locator(".st-key-menu-Ben").get_by_role("button").first.click()
    row = tab.locator(".st-key-pause-Ben")
    row.get_by_role("button", name="Pause").click()
    expect(row.get_by_role("button", name="Resume")).to_be_visible()
    tab.locator(".st-key-revoke-Ben").get_by_role("button").click()
    expect(tab.locator(".st-key-revoke-Ben")).to_have_count(0)
    ben = People(team.labels_path).get("Ben")
    assert ben.paused and not ben.invited


def manage_the_run(tab, team) -> None:
    """Download, tag and rename the run by buttons, after reading what was made from it."""
    expect(tab.get_by_test_id("stStatusWidget")).to_have_count(0)  # a click on a page that is still being drawn is lost
    tab.locator("summary", has_text="rename or delete").click()
    panel = tab.get_by_test_id("stExpander").filter(has_text="rename or delete")
    name, text = saved(tab, panel.locator(".st-key-download-run").get_by_role("button"))
    assert name == "alpha.trec" and text.splitlines()[0].split()[:3] == ["q0", "Q0", "Oslo"]
    panel.get_by_role("textbox", name="Keywords").fill("paper, before")
    panel.get_by_role("button", name="Save", exact=True).click()
    expect(tab.locator("table.runs .part-tag")).to_have_text(["before", "paper"])
    expect(panel).to_contain_text("batch first was made from it")
    panel.get_by_role("textbox", name="New name").fill("bm25-before")
    panel.get_by_role("button", name="Rename").click()
    expect(panel.locator(".notice.error")).to_contain_text("confirm if it should be renamed")
    expect(panel.get_by_role("textbox", name="New name")).to_have_value("bm25-before")
    panel.get_by_text("I am sure").click()
    panel.get_by_role("button", name="Rename").click()
    expect(tab.locator("table.runs")).to_contain_text("bm25-before")
    assert team.runs() == ["bm25-before"]
