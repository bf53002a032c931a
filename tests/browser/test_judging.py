"""Judging in a real browser: every key press labels the passage that was focused, whatever happens to the page or the
server.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from playwright.sync_api import expect

from blindspot.app import server
from blindspot.backend.core.runs import write_run
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue
from blindspot.db.records import Hits, Passage, Question
from blindspot.db.tags import Tags
from tests.browser.judging import PASSAGES, SAVED, labels, press, shown, sit_down
from tests.browser.servers import free_port, serving, showing
from tests.studies import make_study

KEYS = {"1": "positive", "2": "related", "3": "negative", "0": "unsure"}


def meant(question: int, count: int = PASSAGES) -> list[str]:
    """Return the label keys for the passages of a question, different for each question."""
    return ["1230"[(question * 7 + place * 3 + place // 4) % 4] for place in range(count)]


def judge_quickly(tab, study, questions):
    for n in range(questions):
        tab.wait_for_function("n => document.querySelector('.judge h1')?.textContent === `Where is thing ${n}?`", arg=n)
        press(tab, *meant(n), "Enter")
    tab.wait_for_selector(SAVED)
    expected = {
        (f"q{n:02}", f"p{(n + place) % PASSAGES}"): KEYS[key]
        for n in range(questions)
        for place, key in enumerate(meant(n))
    }
    assert labels(study) == expected
    events = list(Labels(study.labels_path).events())
    assert len(events) == questions * PASSAGES == len({event.gesture for event in events})
    assert [(event.question, event.passage) for event in events] == list(expected)


def test_sixty_presses_at_thirty_milliseconds(tab, desk):
    with showing(desk) as port:
        sit_down(tab, port)
        judge_quickly(tab, desk, 6)


@pytest.mark.slow
def test_six_hundred_presses_at_thirty_milliseconds(tab, desk):
    with showing(desk) as port:
        sit_down(tab, port)
        judge_quickly(tab, desk, 60)


def test_the_keys_that_are_needed(tab, desk):
    """Without a false negative: X, Enter. The first passage is a false negative: 1, X, Enter. A wrong key: Z."""
    with showing(desk) as port:
        sit_down(tab, port)
        press(tab, "x", "Enter")
        tab.wait_for_function("document.querySelector('.judge h1')?.textContent === 'Where is thing 1?'")
        press(tab, "1", "x", "Enter")
        tab.wait_for_function("document.querySelector('.judge h1')?.textContent === 'Where is thing 2?'")
        press(tab, "2", "z", "3")
        tab.wait_for_selector(SAVED)
        found = labels(desk)
        assert [found["q00", f"p{i}"] for i in range(PASSAGES)] == ["negative"] * PASSAGES
        assert [found["q01", f"p{(1 + i) % PASSAGES}"] for i in range(PASSAGES)] == ["positive"] + ["negative"] * 9
        assert {passage: label for (question, passage), label in found.items() if question == "q02"} == {
            "p2": "negative"
        }
        assert [batch.done for batch in Queue(desk.labels_path).batches()] == [2]


def test_undo_after_moving_on_and_after_a_reload(tab, desk):
    with showing(desk) as port:
        sit_down(tab, port)
        press(tab, "1", "x", "Enter", "2")
        tab.wait_for_selector(SAVED)
        tab.reload()
        tab.wait_for_selector(".judge .candidate.here")
        assert shown(tab) == "Where is thing 1?" and tab.locator(".judge .chip.related").count() == 1
        press(tab, "z", gap=100)
        assert tab.locator(".judge .chip:not(.none)").count() == 0
        press(tab, "z", gap=100)  # all labels of X on the previous question
        assert shown(tab) == "Where is thing 0?" and tab.locator(".judge .chip:not(.none)").count() == 1
        press(tab, "z", gap=100)
        tab.wait_for_selector(SAVED)
        assert labels(desk) == {} and [batch.done for batch in Queue(desk.labels_path).batches()] == [0]
        press(tab, "z")
        assert "nothing to undo" in tab.locator(".judge-message").inner_text()
        press(tab, "x", "Enter")
        tab.wait_for_selector(SAVED)
        assert set(labels(desk).values()) == {"negative"}


def test_a_server_that_goes_away_and_comes_back(tab, desk):
    with serving(desk) as port:
        sit_down(tab, port)
        press(tab, "1", "2")
        tab.wait_for_selector(SAVED)
    press(tab, "3", "0", "1")
    tab.wait_for_selector(".judge .status.unsaved")
    tab.wait_for_selector(".judge .banner:not([hidden])", timeout=15_000)
    assert "This browser keeps 3 unsaved actions" in tab.locator(".judge .banner").first.inner_text()
    assert len(labels(desk)) == 2
    with serving(desk, port):
        tab.wait_for_selector(SAVED, timeout=60_000)
        assert [labels(desk)["q00", f"p{i}"] for i in range(5)] == [
            "positive",
            "related",
            "negative",
            "unsure",
            "positive",
        ]
        press(tab, "x", "Enter")
        tab.wait_for_selector(SAVED)
        events = list(Labels(desk.labels_path).events())
        assert len(events) == PASSAGES and len(labels(desk)) == PASSAGES


PAUSING = """
import sqlite3, sys
from pathlib import Path
from blindspot.app import server_process
from blindspot.db.labels import Labels
from blindspot.db.queue import Queue

def fails_while_there_is(file, method):
    def called(*arguments, **options):
        if file.exists():
            raise sqlite3.OperationalError("disk I/O error")
        return method(*arguments, **options)
    return called

Queue.leases_of = fails_while_there_is(Path(sys.argv[1]), Queue.leases_of)
Labels.add_all = fails_while_there_is(Path(sys.argv[1]), Labels.add_all)
server_process.main(sys.argv[2:])
"""


def test_a_study_that_pauses_does_not_break_the_page(tab, desk, tmp_path):
    """The disk fails for a while: one line, the question and the keys stay, and all is saved in the end without a
    reload."""
    pause = tmp_path / "pause"
    port = free_port()
    command = [sys.executable, "-c", PAUSING, str(pause), *server.command(port)[3:]]
    process = subprocess.Popen(command, env=server.environment(desk), stdout=subprocess.DEVNULL)
    try:
        server.wait_until_up(port, process)
        sit_down(tab, port)
        pause.touch()
        press(tab, "x", "Enter")
        tab.wait_for_selector("text=The study cannot be read or written now: disk I/O error. This page tries again")
        tab.wait_for_selector("text=logs/app.log in the study's folder")
        assert tab.locator(".judge .candidate.here").is_visible() and shown(tab) == "Where is thing 1?"
        press(tab, "1")
        assert tab.locator("text=encountered an error").count() == 0
        assert "disk I/O error" in (desk.folder / "logs" / "app.log").read_text()
        pause.unlink()
        tab.wait_for_selector(SAVED)
        tab.wait_for_selector("text=The study cannot be read or written now", state="detached")
        assert shown(tab) == "Where is thing 1?" and len(labels(desk)) == PASSAGES + 1
    finally:
        process.kill()
        process.wait()


FULL = """
import sqlite3, sys
from pathlib import Path
from blindspot.app import server_process
from blindspot.db import connection

begin = connection._begin_immediate

def begin_unless_full(opened):
    if Path(sys.argv[1]).exists():
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = "SQLITE_FULL"
        raise error
    begin(opened)

connection._begin_immediate = begin_unless_full
server_process.main(sys.argv[2:])
"""


def test_a_full_disk_leaves_the_question_on_the_page(tab, desk, tmp_path):
    """Nothing can be written, no lease either: the next questions stay, and all is saved when there is room again."""
    full = tmp_path / "full"
    port = free_port()
    command = [sys.executable, "-c", FULL, str(full), *server.command(port)[3:]]
    process = subprocess.Popen(command, env=server.environment(desk), stdout=subprocess.DEVNULL)
    try:
        server.wait_until_up(port, process)
        sit_down(tab, port)
        full.touch()
        press(tab, "x", "Enter")
        tab.wait_for_selector(".notice:has-text('the disk is full; make room')")
        assert tab.locator(".judge .candidate.here").is_visible() and shown(tab) == "Where is thing 1?"
        press(tab, "1", "x", "Enter", gap=200)
        assert shown(tab) == "Where is thing 2?" and labels(desk) == {}
        full.unlink()
        tab.wait_for_selector(SAVED)
        tab.wait_for_selector(".notice:has-text('the disk is full')", state="detached")
        assert shown(tab) == "Where is thing 2?" and len(labels(desk)) == 2 * PASSAGES
    finally:
        process.kill()
        process.wait()


def test_unsent_labels_outlive_a_page_that_is_closed(browser, desk):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    try:
        with serving(desk) as port:
            tab = context.new_page()
            sit_down(tab, port)
        press(tab, "1", "2", "3")
        tab.close(run_before_unload=False)
        assert labels(desk) == {}
        with serving(desk, port):
            tab = context.new_page()
            tab.goto(f"http://{server.ADDRESS}:{port}/judge")
            tab.wait_for_selector(".judge .candidate.here", timeout=30_000)
            tab.wait_for_selector(SAVED)
            assert [labels(desk)["q00", f"p{i}"] for i in range(3)] == ["positive", "related", "negative"]
            assert "Sending 3 unsaved actions" in tab.locator(".judge-message").inner_text()
    finally:
        context.close()


def test_what_the_store_refuses_is_said(tab, desk):
    with showing(desk) as port:
        sit_down(tab, port)
        place = "blindspot-outbox:"
        wrong = [
            {
                "id": "x" * 8,
                "kind": "label",
                "question": "q00",
                "batch": "first",
                "choices": [{"passage": "nowhere", "label": "positive"}],
                "guideline_version": "1",
                "blind": True,
            }
        ]
        tab.evaluate(
            """([place, wrong]) => {
            const key = Object.keys(localStorage).find((key) => key.startsWith("blindspot-place:")).replace("blindspot-place:", place);
            localStorage.setItem(`${key}:${"0".repeat(32)}`, wrong);
        }""",
            [place, json.dumps(wrong)],
        )
        tab.reload()
        tab.wait_for_selector(".judge .refused:not([hidden])")
        assert "'nowhere' is not among those of question 'q00'" in tab.locator(".judge .refused").inner_text()
        tab.get_by_role("button", name="Dismiss").click()
        assert tab.locator(".judge .refused").is_hidden() and labels(desk) == {}


def test_keys_can_be_changed_and_turned_off(tab, desk):
    with showing(desk) as port:
        sit_down(tab, port)
        press(tab, "?", gap=100)
        tab.get_by_role("button", name="Change the key for positive").click()
        press(tab, "q", gap=100)
        tab.get_by_role("button", name="Change the key for negative", exact=True).click()
        press(tab, "q", gap=100)
        assert "This key is already used" in tab.locator(".judge-help").inner_text()
        tab.get_by_role("button", name="Close").first.click()
        press(tab, "1", "q")
        tab.wait_for_selector(SAVED)
        assert labels(desk) == {("q00", "p0"): "positive"}
        press(tab, "?", gap=100)
        tab.get_by_label("use single-key shortcuts").uncheck()
        tab.get_by_role("button", name="Close").first.click()
        press(tab, "q", "3", "x")
        assert len(labels(desk)) == 1
        tab.locator(".candidate.here").get_by_role("button", name="related").click()
        tab.wait_for_selector(SAVED)
        assert labels(desk)["q00", "p1"] == "related"


def test_notes_bad_questions_and_leaving_one(tab, desk):
    with showing(desk) as port:
        sit_down(tab, port)
        press(tab, "n", gap=100)
        tab.keyboard.type("123 see page 4")  # typed into the note, not a label key
        press(tab, "Enter", "b", gap=100)
        tab.wait_for_function("document.querySelector('.judge h1')?.textContent === 'Where is thing 1?'")
        press(tab, "s", gap=100)
        tab.wait_for_function("document.querySelector('.judge h1')?.textContent === 'Where is thing 2?'")
        tab.wait_for_selector(SAVED)
        store = Labels(desk.labels_path)
        assert [(note.passage, note.note) for note in store.notes("q00")] == [("p0", "123 see page 4")]
        assert store.bad_questions() == {"q00": ["Ann"]} and labels(desk) == {}
        press(tab, "z", gap=100)
        assert shown(tab) == "Where is thing 1?", "the skip is undone first"
        press(tab, "z", gap=100)
        assert shown(tab) == "Where is thing 0?"
        tab.wait_for_selector(SAVED)
        assert store.bad_questions() == {}


def test_a_skip_is_undone_in_its_turn_also_after_a_reload(tab, desk):
    with showing(desk) as port:
        sit_down(tab, port)
        press(tab, "s", "1", "s", gap=100)
        assert shown(tab) == "Where is thing 2?"
        press(tab, "z", gap=200)
        assert shown(tab) == "Where is thing 1?" and "Undone: the skip" in tab.locator(".judge-message").inner_text()
        press(tab, "z", gap=200)
        assert "Undone: positive" in tab.locator(".judge-message").inner_text()
        tab.wait_for_selector(SAVED)
        assert labels(desk) == {}
        tab.reload()
        tab.wait_for_selector(".judge .candidate.here")
        press(tab, "z")
        tab.wait_for_selector(".judge h1:has-text('Where is thing 0?')")  # the server sends the question again
        tab.wait_for_selector(SAVED)
        press(tab, "z", gap=200)
        assert "There is nothing to undo" in tab.locator(".judge-message").inner_text()
        press(tab, "x", "Enter", gap=100)
        tab.wait_for_selector(SAVED)
        assert {question for question, _ in labels(desk)} == {"q00"} and len(labels(desk)) == PASSAGES


def test_guidelines_are_shown_as_text_and_never_as_markup(tab, desk):
    (desk.folder / "guidelines.md").write_text(
        "# Our rules\n\n1. *First*, **read**\n2. then `judge`\n   - inner\n\n| label | when |\n|---|---|\n| positive | always |\n\n"
        "> quoted [link](https://example.org/) and [bad](javascript:alert(1))\n\n<script>alert(1)</script>\n"
    )
    with showing(desk) as port:
        sit_down(tab, port)
        press(tab, "g", gap=200)
        dialog = tab.locator("dialog.judge-guidelines")
        said = dialog.inner_text()
        assert not {"*", "`", "|", "#"} & set(said) and "<script>alert(1)</script>" in said
        assert dialog.locator("h2").inner_text() == "Our rules" and dialog.locator("ol > li").count() == 2
        assert dialog.locator("li ul li").inner_text() == "inner" and dialog.locator("td").all_inner_texts() == [
            "positive",
            "always",
        ]
        assert [(a.inner_text(), a.get_attribute("href")) for a in dialog.locator("a").all()] == [
            ("link", "https://example.org/")
        ]


def test_two_people_do_not_get_the_same_question(browser, desk):
    with showing(desk) as port:
        contexts = [browser.new_context() for _ in range(2)]
        try:
            tabs = [context.new_page() for context in contexts]
            for tab, name in zip(tabs, ("Ann", "Ben"), strict=True):
                sit_down(tab, port, name)
            assert shown(tabs[0]) != shown(tabs[1])
        finally:
            for context in contexts:
                context.close()


def test_disputes_are_settled_by_key(tab, desk):
    store, people = Labels(desk.labels_path), People(desk.labels_path)
    for name, role in (("Ann", "annotator"), ("Ben", "annotator"), ("Ada", "adjudicator")):
        people.add(name, role)
    for name, label in (("Ann", "positive"), ("Ben", "negative")):
        for place in range(3):
            choice = Choice(f"p{place}", label if place else "related")
            store.add(name, LabelEvent(f"{name}{place}", "label", "q00", (choice,), batch="first"))
    with showing(desk) as port:
        tab.goto(f"http://{server.ADDRESS}:{port}/judge?adjudicate=1")
        tab.get_by_role("button", name="I am Ada").click()
        tab.wait_for_selector(".judge .candidate.here")
        said = tab.locator(".judge").inner_text()
        assert tab.locator(".judge .candidate").count() == 2 and "1 says positive, 1 says negative" in said
        assert "Ann" not in said and "Ben" not in said
        press(tab, "1", "2", "z", "3", "Enter")
        tab.wait_for_selector("text=Nothing to settle")
        tab.wait_for_selector(SAVED)
        settled = {pair.passage: (pair.label, pair.state) for pair in store.consensus(["q00"])}
        assert settled == {
            "p0": ("related", "agreed"),
            "p1": ("positive", "adjudicated"),
            "p2": ("negative", "adjudicated"),
        }


def test_the_question_page_takes_labels_too(tab, desk):
    hits = Hits(np.arange(PASSAGES, dtype=np.int32)[None], np.linspace(9, 1, PASSAGES, dtype=np.float32)[None])
    for name in ("alpha", "beta"):
        write_run(desk, name, ["q30"], hits, {"retriever": "bm25"})
    with showing(desk) as port:
        tab.goto(f"http://{server.ADDRESS}:{port}/question?a=alpha&b=beta")
        tab.get_by_role("link", name="Sign in").click()
        tab.get_by_label("Your name").fill("Ann")
        tab.get_by_role("button", name="Start").click()
        tab.wait_for_selector(".judge .candidate.here")
        tab.goto(f"http://{server.ADDRESS}:{port}/question?a=alpha&b=beta")
        tab.wait_for_selector(".on-question .judge-bar")
        tab.locator("#a-1").focus()
        press(tab, "1", "3", "j", "2", "z", gap=150)
        tab.wait_for_selector(".on-question .status:has-text('all saved')")
        assert labels(desk) == {("q30", "p0"): "positive", ("q30", "p1"): "negative"}
        assert {event.blind for event in Labels(desk.labels_path).events()} == {0}
        assert (
            tab.locator("#a-1 .my-label").inner_text()
            == tab.locator("#b-1 .my-label").inner_text()
            == "✓ you: positive"
        )
        tab.locator("#b-3").focus()
        buttons = tab.get_by_role("group", name="Label this passage")
        buttons.get_by_role("button", name="related").click()
        tab.wait_for_selector("#a-3 .my-label.related")
        expect(tab.locator("#b-4 .hit-labels")).to_be_visible()  # the next passage has the focus
        press(tab, "z")
        tab.wait_for_selector("#a-3 .my-label.related", state="detached")
        tab.wait_for_selector(".on-question .status:has-text('all saved')")
        tab.reload()
        tab.wait_for_selector("#a-2 .my-label.negative")
        assert "All labels: 2 passages" in tab.locator(".judged summary").text_content()
        field = tab.get_by_label("Tags")
        field.wait_for(state="attached")  # the page is shown whole
        press(tab, "t")
        expect(field).to_be_focused()  # the key opens the closed panel first
        words = ["wrong gold", "<b>odd</b>"]
        for number, word in enumerate(words, 1):  # the field keeps the focus after Enter
            field.press_sequentially(word)
            field.press("Enter")
            wait_for_tags(tab, desk, words[:number])
        shown = tab.locator(".st-key-question-tags")
        expect(shown).to_contain_text("wrong gold")
        expect(shown).to_contain_text("<b>odd</b>")
        field.press("Backspace")
        wait_for_tags(tab, desk, words[:1])
        field.press("Escape")
        assert field.evaluate("field => field !== document.activeElement")


def wait_for_tags(tab, desk, words: list[str]) -> None:
    for _ in range(100):
        if Tags(desk.labels_path).of_question("q30") == words:
            return
        tab.wait_for_timeout(100)
    raise AssertionError(f"q30 never had the tags {words}")


def test_a_personal_link_lets_one_in_until_it_is_revoked(browser, desk):
    people = People(desk.labels_path)
    secret = people.invite("Ben", "annotator")
    context = browser.new_context()
    try:
        with serving(desk, address="0.0.0.0") as port:
            tab = context.new_page()
            tab.goto(f"http://{server.ADDRESS}:{port}/")
            tab.wait_for_selector("text=Open the personal link")
            assert tab.locator("text=Study contents").count() == 0
            tab.goto(f"http://{server.ADDRESS}:{port}/judge?key={secret}")
            tab.wait_for_selector(".judge .candidate.here")
            assert secret not in tab.url and "Ben" in tab.locator("header.top").inner_text()
            tab.goto(f"http://{server.ADDRESS}:{port}/judge")
            tab.wait_for_selector(".judge .candidate.here")
            people.revoke("Ben")
            tab.reload()
            tab.wait_for_selector("text=Open the personal link")
            tab.goto(f"http://{server.ADDRESS}:{port}/judge?key={secret}")
            tab.wait_for_selector("text=not valid")
    finally:
        context.close()


def test_no_serious_fault_in_our_part_of_the_page(tab, desk):
    """Check with axe-core, without Streamlit's own elements."""
    from axe_playwright_python.sync_playwright import Axe

    with showing(desk) as port:
        sit_down(tab, port)
        press(tab, "1", "3", "n", gap=100)
        tab.wait_for_function("document.querySelector('.judge .unseen')?.innerText.includes('2 of 10')")
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            tab.wait_for_timeout(1000)  # Streamlit fades from one scheme to the other
            found = Axe().run(tab, context=".judge").response["violations"]
            grave = [
                (one["id"], [node["html"][:120] for node in one["nodes"]])
                for one in found
                if one["impact"] in ("serious", "critical")
            ]
            assert not grave
        assert tab.locator(".judge .unseen").get_attribute("aria-live") == "polite"
        assert tab.locator(".judge .unseen").inner_text().startswith("negative: Title 1. 2 of 10")


def test_nothing_of_a_study_is_run_as_markup(browser, tmp_path):
    from tests.app_pages import HOSTILE

    study = make_study(
        tmp_path / "hostile",
        [Passage("bad", HOSTILE, HOSTILE)],
        [Question("q", HOSTILE, (HOSTILE,), dataset="toy", split="train", gold=("bad",))],
    )
    Queue(study.labels_path).add_batch("first", [Item("q", (Candidate("bad", 0),))], {})
    shutil.copy(study.folder / "study.toml", tmp_path)
    context = browser.new_context()
    try:
        with showing(study) as port:
            tab = context.new_page()
            sit_down(tab, port, "<img src=x onerror='window.pwned=3'>")
            assert HOSTILE.split("<")[0] in shown(tab)
            assert (
                tab.evaluate("window.pwned") is None and tab.locator(".judge script, .judge img, .judge a").count() == 0
            )
    finally:
        context.close()


def test_a_key_right_after_a_dialog_closes_counts(tab, desk):
    """Until the browser draws the page again, the focus is still in the dialog that has just closed."""
    with showing(desk) as port:
        sit_down(tab, port)
        tab.evaluate(
            """() => {
                const dialog = document.querySelector("dialog.judge-guidelines");
                dialog.showModal();
                dialog.close();
                const key = new KeyboardEvent("keydown", { key: "1", bubbles: true, composed: true, cancelable: true });
                document.activeElement.dispatchEvent(key);
            }"""
        )
        tab.wait_for_selector(SAVED)
        assert list(labels(desk).values()) == ["positive"]


def test_the_first_visit_explains_the_labels_and_the_progress_is_ones_own(tab, desk):
    """The task stands on the page; the labels are explained until the person has judged; then her own count is shown."""
    with showing(desk) as port:
        sit_down(tab, port)
        assert (
            tab.locator(".judge .task").inner_text()
            == "Does each passage, read on its own with its title, answer the question?"
        )
        assert tab.locator(".candidate.here .meaning").count() == 4, "beside the buttons at the first visit"
        tab.locator(".judge-actions .more").click()
        tab.locator(".judge-actions [data-action=guidelines]").click()
        assert tab.locator("dialog.judge-guidelines h1, dialog.judge-guidelines h2").first.is_visible()
        tab.keyboard.press("Escape")
        tab.wait_for_selector("dialog.judge-guidelines", state="hidden")
        press(tab, "x", "Enter")
        tab.wait_for_selector(".progress-words:has-text('You: 1 of 60 questions of batch first')")
        tab.reload()
        tab.wait_for_selector(".judge .labels")
        assert tab.locator(".judge .meaning").count() == 0, "gone once a passage has been judged"


def test_a_phone_has_a_bar_for_the_thumb_and_no_key_hints(browser, desk):
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(viewport={"width": 400, "height": 740}, has_touch=True, is_mobile=True)
    try:
        tab = context.new_page()
        with showing(desk) as port:
            sit_down(tab, port)
            bar = tab.locator(".judge-actions")
            seen = tab.locator(".judge button:visible")
            assert {button.bounding_box()["height"] >= 44 for button in seen.all()} == {True}
            assert tab.locator(".judge kbd:visible").count() == 0
            box = bar.bounding_box()
            assert box["y"] + box["height"] <= 740, "the bar is in the window, however long the passage"
            assert tab.locator(".candidate.here .meaning:visible").count() == 4
            bar.get_by_role("button", name="positive").tap()
            bar.get_by_role("button", name="Next").tap()
            assert tab.locator(".judge-message").inner_text() == (
                "9 not judged. More, Rest negative: label them negative. Next again: leave them unlabelled"
            )
            place = tab.locator(".judge-message").bounding_box()
            assert place["y"] + place["height"] <= bar.bounding_box()["y"] < 740, "the message is in the window too"
            found = Axe().run(tab, context=".judge").response["violations"]
            assert not [one["id"] for one in found if one["impact"] in ("serious", "critical")]
            assert not bar.get_by_role("button", name="Rest negative").is_visible(), "not beside the labels, for a slip"
            bar.get_by_role("button", name="More").tap()
            bar.get_by_role("button", name="Rest negative").tap()
            bar.get_by_role("button", name="More").tap()
            assert not bar.get_by_role("button", name="Rest negative").is_visible()
            bar.get_by_role("button", name="Next").tap()
            tab.wait_for_selector(SAVED)
            assert labels(desk) == {("q00", f"p{i}"): "negative" if i else "positive" for i in range(PASSAGES)}
            assert shown(tab) == "Where is thing 1?"
            assert tab.locator(".judge .meaning").count() == 0, "gone after the first label"
            bar.get_by_role("button", name="Skip").tap()
            assert shown(tab) == "Where is thing 2?"
            bar.get_by_role("button", name="Undo").tap()
            assert shown(tab) == "Where is thing 1?"
    finally:
        context.close()
