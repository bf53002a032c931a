"""People in a real browser: a link opened, used and revoked in an open tab, a pause, a demotion, and "change"."""

from __future__ import annotations

import pytest

from blindspot.app import server
from blindspot.app.link_keys import session_cookie
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from tests.browser.judging import SAVED, press, sit_down
from tests.browser.servers import open_to_others, showing

SIGN_IN = "text=Open the personal link"


@pytest.fixture
def people(desk):
    return People(desk.labels_path)


def stored(study) -> int:
    return len(list(Labels(study.labels_path).events()))


def press_together(tab, *keys):
    """Press keys in one turn of the page, so no answer of the server can come between them."""
    tab.evaluate(
        """keys => keys.forEach(key => {
            const at = document.activeElement || document.body;
            at.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
            at.dispatchEvent(new KeyboardEvent("keyup", {key, bubbles: true}));
        })""",
        list(keys),
    )


def test_a_link_is_opened_used_and_revoked_in_an_open_tab(tab, desk, people):
    secret = people.invite("Ben", "annotator")
    with open_to_others(desk) as address:
        tab.goto(f"{address}/judge")
        tab.wait_for_selector(SIGN_IN)
        assert "desk" not in tab.title() and desk.settings.name not in tab.content()
        tab.goto(f"{address}/judge?key={secret}")
        tab.wait_for_selector(".judge .candidate.here")
        assert tab.url == f"{address}/judge" and desk.settings.name in tab.title()
        (cookie,) = [one for one in tab.context.cookies() if one["name"] == session_cookie(desk.labels_path)]
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and secret not in str(tab.context.cookies())
        assert secret not in tab.evaluate("document.cookie + JSON.stringify({...localStorage, ...sessionStorage})")
        assert cookie["value"] not in tab.evaluate("document.cookie")
        press(tab, "1", "2", "3", gap=100)
        tab.wait_for_selector(SAVED)
        assert stored(desk) == 3
        people.revoke("Ben")
        press_together(tab, "1", "2", "3", "0")  # before the first answer removes the keys
        tab.wait_for_selector(SIGN_IN)
        assert stored(desk) == 3 and tab.locator(".judge").count() == 0
        tab.reload()
        tab.wait_for_selector(SIGN_IN)
        tab.goto(f"{address}/judge?key={secret}")
        tab.wait_for_selector("text=This personal link is not valid")
        assert secret not in tab.url
        # With a new link, the same browser still has the unsaved labels.
        tab.goto(f"{address}/judge?key={people.invite('Ben')}")
        tab.wait_for_selector(".judge .candidate.here")
        tab.wait_for_selector(SAVED)
        assert stored(desk) == 7
        tab.go_back()
        tab.wait_for_timeout(500)
        assert "key" not in tab.url


def test_change_asks_first_and_the_link_works_again(tab, desk, people):
    secret = people.invite("Ben", "annotator")
    with open_to_others(desk) as address:
        tab.goto(f"{address}/judge?key={secret}")
        tab.wait_for_selector(".judge .candidate.here")
        tab.get_by_role("link", name="change").click()
        tab.wait_for_selector("text=You are Ben.")
        tab.get_by_role("link", name="Stay").click()
        tab.wait_for_selector(".judge .candidate.here")
        tab.reload()
        tab.wait_for_selector(".judge .candidate.here")
        tab.get_by_role("link", name="change").click()
        tab.get_by_role("button", name="Sign out").click()
        tab.wait_for_selector(SIGN_IN)
        tab.goto(f"{address}/judge")
        tab.wait_for_selector(SIGN_IN)
        tab.goto(f"{address}/judge?key={secret}")
        tab.wait_for_selector(".judge .candidate.here")
        press(tab, "1", gap=100)
        tab.wait_for_selector(SAVED)
        assert stored(desk) == 1


def test_change_asks_first_on_this_machine_too(tab, desk):
    with showing(desk) as port:
        sit_down(tab, port, "Ann")
        tab.get_by_role("link", name="change").click()
        tab.wait_for_selector("text=Sign in as somebody else?")
        tab.reload()
        tab.wait_for_selector("text=You are Ann.")
        tab.get_by_role("button", name="Sign out").click()
        tab.wait_for_selector("text=Who are you?")
        tab.get_by_role("button", name="I am Ann").click()
        tab.wait_for_selector(".judge .candidate.here")


def test_a_pause_and_a_demotion_count_at_once_in_an_open_tab(tab, desk, people):
    people.add("Lea", "lead")
    labels = Labels(desk.labels_path, passages=desk.corpus.ordinals)
    for name in ("Cid", "Dot"):
        people.add(name)
        label = {"Cid": "positive", "Dot": "negative"}[name]
        labels.add(name, LabelEvent(f"{name}-1", "label", "q40", (Choice("p1", label),)))
    with showing(desk) as port:
        people.add("Ada", "adjudicator")
        tab.goto(f"http://{server.ADDRESS}:{port}/judge")
        tab.get_by_role("button", name="I am Ada").click()
        tab.wait_for_selector(".judge .candidate.here")
        tab.goto(f"http://{server.ADDRESS}:{port}/judge?adjudicate=1")
        tab.wait_for_selector("text=1 says positive")
        people.set_role("Ada", "annotator", actor="Lea")
        press(tab, "1", gap=100)
        tab.wait_for_function("() => !document.body.innerText.includes('says positive')")
        tab.wait_for_selector("header.top:has-text('annotator')")
        assert not [event for event in labels.events() if event.annotator == "Ada"]
        tab.goto(f"http://{server.ADDRESS}:{port}/judge")
        tab.wait_for_selector(".judge .candidate.here")
        tab.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
        people.pause("Ada", actor="Lea")
        press(tab, "3", gap=100)
        tab.wait_for_selector("text=A lead has paused Ada")
        tab.wait_for_function("() => !document.querySelector('.judge .candidate')")
        taken = len([event for event in labels.events() if event.annotator == "Ada"])
        assert taken == 1, "it was on its way"
        press(tab, "1", "2", "3", "x", gap=100)
        tab.wait_for_timeout(500)
        assert len([event for event in labels.events() if event.annotator == "Ada"]) == taken
