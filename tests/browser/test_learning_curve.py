"""The live loop in a browser: labels by key, and the curve gets its point by itself."""

import time

import pytest
from playwright.sync_api import expect

from blindspot.backend.judging.batches import batch_of_pairs
from blindspot.backend.training.stored_curve_points import curve_points
from blindspot.db.labels import Labels
from tests.browser.test_judging import press, serving, sit_down
from tests.test_learning_curve import listed, ready

SECONDS = 120  # a loaded machine takes half a minute to load the libraries


@pytest.fixture
def study(tmp_path):
    """A batch of nine training questions, three passages each: 27 labels."""
    study = ready(tmp_path / "s")
    pairs = [(f"P19.train.{i}", p) for i in range(9) for p, _ in listed(study, f"P19.train.{i}")[:3]]
    batch_of_pairs(study, "first", pairs)
    return study


def test_the_25th_label_brings_a_point(tab, study):
    with serving(study) as port:
        sit_down(tab, port, "lea")
        assert tab.locator(".curve-plot").count() == 0
        for number in range(9):
            tab.wait_for_function(
                "n => document.querySelector('.judge h1')?.textContent.includes(n)", arg=f"urset{_person(number)} "
            )
            press(tab, "3", "1", "3", "Enter")
        deadline = time.monotonic() + SECONDS
        while not any(point.labels >= 25 for point in curve_points(study)) and time.monotonic() < deadline:
            time.sleep(0.5)
        reasons = [(point.reason, point.labels) for point in curve_points(study)]
        assert reasons[0] == ("start", 0) and reasons[1][1] in range(25, 28), reasons
        # Without a reload: the panel looks by itself.
        tab.wait_for_function(
            "() => [...document.querySelectorAll('.curve-below')].some(e => /2[5-7] judged pairs/.test(e.innerText))"
        )
        sentence = tab.locator(".curve-worked").first
        assert sentence.inner_text().startswith(f"Your last {curve_points(study)[-1].new_labels} labels changed ")
        sentence.get_by_role("link").first.click()
        tab.wait_for_selector("#changed-pairs")
        tab.go_back()
        tab.wait_for_selector(".curve-worked")
        tab.locator(".curve-worked").first.get_by_role("link").nth(1).click()
        tab.wait_for_url("**/compare?*curve-*")


def test_a_person_sees_what_five_labels_changed(tab, study):
    with serving(study) as port:
        sit_down(tab, port, "ann")
        tab.wait_for_selector(".judge h1")
        press(tab, "3", "1", "3", "Enter", "3", "1")
        deadline = time.monotonic() + SECONDS
        while len(Labels(study.labels_path).judgements()) < 5 and time.monotonic() < deadline:
            time.sleep(0.1)  # the browser sends labels by itself; the button counts what the store has
        expect(tab.get_by_test_id("stStatusWidget")).to_have_count(0)
        tab.get_by_role("button", name="What did my labels change?").click()
        tab.wait_for_function("() => document.body.innerText.includes('You gave 5 labels that teach.')")
        assert "too few labels to tell yet; about" in tab.locator("body").inner_text()


def _person(number: int) -> int:
    """The number in the name of the person whom a training question asks about: every third passage is about a town."""
    return number // 2 * 3 + number % 2
