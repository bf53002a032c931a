"""A newcomer's way through the demo, in a real browser."""

from __future__ import annotations

import shutil

import pytest

from blindspot.app import server
from blindspot.backend.core.study import Study
from blindspot.db.labels import Labels
from blindspot.db.queue import Queue
from tests.browser.judging import SAVED, press
from tests.browser.servers import showing

WIDTHS = (1400, 1000, 400)


@pytest.fixture
def own(small_demo, tmp_path):
    shutil.copytree(small_demo.folder, tmp_path / "demo")
    return Study.open(tmp_path / "demo")


def test_from_home_to_five_judged_passages(tab, own):
    with showing(own) as port:
        tab.goto(f"http://{server.ADDRESS}:{port}/")
        tab.get_by_role("link", name="Compare the runs", exact=True).click()
        tab.wait_for_selector(".flips")
        tab.get_by_role("link", name="Next: look at questions").click()
        tab.wait_for_selector(".lists")
        tab.get_by_role("link", name="Next: judge passages").click()
        tab.get_by_label("Your name").fill("Kim")
        tab.get_by_role("button", name="Start").click()
        for left in range(5, 0, -1):
            tab.locator(".judge .candidate.here").wait_for()
            title = tab.locator(".judge h1").inner_text()
            press(tab, "1", "Enter", gap=100)
            if left > 1:
                tab.wait_for_function("t => document.querySelector('.judge h1')?.textContent !== t", arg=title)
        tab.wait_for_selector(SAVED, state="attached")
        tab.wait_for_function("!document.querySelector('.judge .candidate.here')")
        (yours,) = [batch for batch in Queue(own.labels_path).batches() if batch.name == "five-for-you"]
        assert yours.done == 5
        assert sum(label.annotator == "Kim" for label in Labels(own.labels_path).judgements()) == 5
        tab.get_by_role("link", name="Next: clean a training set").click()
        tab.locator("#changes").wait_for()


def test_home_needs_no_scrolling_sideways(tab, small_demo):
    """But at 400 pixels the menu does: it is one line with the current page in view. The figures of a run with a long name
    stay in view too."""
    with showing(small_demo) as port:
        tab.goto(f"http://{server.ADDRESS}:{port}/")
        tab.locator("table.runs").first.wait_for()
        for width in WIDTHS:
            tab.set_viewport_size({"width": width, "height": 900})
            tab.wait_for_timeout(200)  # the menu scrolls in the next frame
            wide = tab.evaluate("""[...document.querySelectorAll('[data-testid=stMain] *')].filter(each => each.scrollWidth > each.clientWidth + 1
                && ['auto', 'scroll'].includes(getComputedStyle(each).overflowX) && each.checkVisibility() && !each.matches('.top nav'))
                .map(each => each.className)""")
            assert wide == []
            lines = tab.evaluate(
                "new Set([...document.querySelectorAll('.top nav a')].map(each => each.offsetTop)).size"
            )
            assert lines <= (2 if width == 1000 else 1)
            here = tab.locator(".top nav a.here").bounding_box()
            assert here is not None and here["x"] >= 0 and here["x"] + here["width"] <= width
            figures = tab.locator("table.runs tbody tr").first.locator(".figure")
            boxes = [figures.nth(number).bounding_box() for number in range(3)]
            assert all(box is not None and box["x"] + box["width"] <= width for box in boxes)
