"""Twenty questions judged from a personal link: once by keys alone and once by mouse alone.

Both people take a break (a reload), make a mistake (undo), skip a question and change an earlier answer.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue
from blindspot.db.records import Passage, Question
from tests.browser.judging import SAVED, labels
from tests.browser.servers import open_to_others
from tests.studies import make_study

QUESTIONS, PASSAGES = 20, 4
SKIPPED, MISTAKEN, BREAK, REGRETTED = 2, 5, 9, 4


@pytest.fixture
def team(tmp_path):
    """A batch of twenty questions with four passages each, which two people judge."""
    passages = [Passage(f"p{i}", f"Title {i}", f"Passage {i} tells of town {i}.") for i in range(PASSAGES)]
    questions = [
        Question(f"q{i:02}", f"Where is thing {i}?", (f"town {i}",), dataset="toy", split="train")
        for i in range(QUESTIONS)
    ]
    study = make_study(tmp_path / "team", passages, questions)
    shown = tuple(Candidate(f"p{i}", i, "alpha", i + 1, 9.0 - i) for i in range(PASSAGES))
    Queue(study.labels_path).add_batch("twenty", [Item(q.id, shown, people_needed=2) for q in questions], {})
    return study


def expected() -> dict[tuple[str, str], str]:
    """The labels that both people mean: the first passage of each question is positive, the regretted one related."""
    meant = {
        (f"q{n:02}", f"p{place}"): "negative" if place else "positive"
        for n in range(QUESTIONS)
        for place in range(PASSAGES)
    }
    return meant | {(f"q{REGRETTED:02}", "p0"): "related"}


class Keys:
    """A person who uses the keyboard alone."""

    def __init__(self, tab):
        self.tab = tab

    def do(self, *names: str) -> None:
        keys = {
            "positive": "1",
            "related": "2",
            "negative": "3",
            "rest": "x",
            "next": "Enter",
            "undo": "z",
            "skip": "s",
        }
        for name in names:
            self.tab.keyboard.press(keys[name])
            self.tab.wait_for_timeout(20)

    def open_answer(self, words: str) -> None:
        self.tab.keyboard.press("a")
        row = self.tab.locator(".judge-answers li button", has_text=words)
        expect(row).to_be_visible()
        while not row.evaluate("row => row === document.activeElement"):
            self.tab.keyboard.press("Tab")
        self.tab.keyboard.press("Enter")


class Mouse:
    """A person who uses the mouse alone."""

    def __init__(self, tab):
        self.tab = tab

    def do(self, *names: str) -> None:
        for name in names:
            if name in ("positive", "related", "negative"):
                self.tab.locator(f".judge .candidate.here button.label.{name}").click()
            else:
                self.action(name).click()

    def action(self, name: str):
        """The button of an action, after a click on "More" if it is there."""
        button = self.tab.locator(f".judge-actions [data-action={name}]")
        if not button.is_visible():
            self.tab.locator(".judge-actions .more").click()
        return button

    def open_answer(self, words: str) -> None:
        self.action("answers").click()
        self.tab.locator(".judge-answers li button", has_text=words).click()


def judge_twenty(tab, person: Keys | Mouse, saw: Callable[[int], None]) -> None:
    for n in [*(n for n in range(QUESTIONS) if n != SKIPPED), SKIPPED]:
        at(tab, n)
        if n == SKIPPED + 1:
            saw(n)
        if n == MISTAKEN:
            person.do("negative", "undo")
        if n == BREAK:
            person.do("positive")
            expect(tab.locator(SAVED)).to_be_visible()
            tab.reload()
            at(tab, n)
            expect(tab.locator(".judge .chip.positive")).to_have_count(1)
            person.do("rest", "next")
            change_of_mind(tab, person)
            continue
        person.do("positive", "rest", "next")
        if n == SKIPPED - 1:
            at(tab, SKIPPED)
            person.do("skip")


def change_of_mind(tab, person: Keys | Mouse) -> None:
    """Go back to an answered question, change one label, and return to the open question."""
    person.open_answer(f"Where is thing {REGRETTED}?")
    at(tab, REGRETTED)
    expect(tab.locator(".judge .notice-line")).to_contain_text("You finished this question")
    person.do("related")
    expect(tab.locator(".judge .chip.related")).to_have_count(1)
    person.do("next")
    at(tab, BREAK + 1)


def at(tab, number: int) -> None:
    expect(tab.locator(".judge h1")).to_have_text(f"Where is thing {number}?")


@pytest.mark.parametrize("kind", [Keys, pytest.param(Mouse, marks=pytest.mark.slow)])
def test_twenty_questions_from_a_link_with_a_break_a_mistake_and_a_change_of_mind(tab, team, kind):
    secret = People(team.labels_path).invite("Ann", "annotator")
    with open_to_others(team) as address:
        tab.goto(f"{address}/?key={secret}")
        at(tab, 0)
        assert tab.url == f"{address}/judge", "the link opens her first question"
        expect(tab.locator(".progress-words")).to_have_text("You: 0 of 20 questions of batch twenty")
        judge_twenty(
            tab,
            kind(tab),
            lambda n: expect(tab.locator(".progress-words")).to_have_text(
                f"You: {n - 1} of 20 questions of batch twenty"
            ),
        )
        expect(tab.locator(".judge h1")).to_have_text("You are done")
        expect(tab.locator(".judge-head")).to_contain_text("You judged 20 questions. Thank you.")
        expect(tab.locator(SAVED)).to_be_visible()
    assert labels(team) == expected()
    events = list(Labels(team.labels_path).events())
    changed = [event for event in events if (event.question, event.label) == (f"q{REGRETTED:02}", "related")]
    assert len(events) == QUESTIONS * PASSAGES + 3, "one undone label, its undo, and the changed one"
    assert [event.blind for event in changed] == [0] and sum(not event.blind for event in events) == 1
    assert Queue(team.labels_path).finished_counts("Ann") == {"twenty": QUESTIONS}
