"""Words of 10,000 letters and names of 2,000 characters do not widen a page."""

from __future__ import annotations

import numpy as np
import pytest

from blindspot.app import server
from blindspot.backend.core.runs import write_run
from blindspot.db.records import Hits, Passage, Question
from tests.browser.servers import showing
from tests.studies import make_study

WORD, NAME = "w" * 10_000, "n" * 2_000
PAGES = ("", "compare", "relations", "slices", "question?q=q0", "judge", "quality", "training", "map")
WIDER = """() => {
  const wide = [document.scrollingElement, document.querySelector('[data-testid=stMain]')]
    .some(each => each && each.scrollWidth > each.clientWidth + 1);
  if (!wide) return [];
  const edge = document.documentElement.clientWidth;
  return [...document.querySelectorAll('[data-testid=stMain] *')]
    .filter(each => each.getBoundingClientRect().right > edge + 1)
    .filter(each => ![...each.children].some(child => child.getBoundingClientRect().right > edge + 1))
    .map(each => each.tagName + '.' + each.className + ' < ' + each.parentElement.className).slice(0, 6);
}"""


@pytest.fixture(scope="module")
def long_address(tmp_path_factory):
    passages = [Passage(str(n), NAME, f"{WORD} Oslo {n}") for n in range(4)]
    questions = [
        Question(
            f"q{n}",
            f"Where {WORD} {n}?",
            ("Oslo", NAME),
            relation=NAME if n < 2 else "P19",
            subject=NAME,
            dataset=NAME[:200],
            split="dev",
            gold=("1",),
        )
        for n in range(4)
    ]
    study = make_study(tmp_path_factory.mktemp("long") / "s", passages, questions)
    text = study.settings_path.read_text(encoding="utf-8").splitlines()
    study.settings_path.write_text(
        "\n".join(f'name = "{NAME}"' if line.startswith("name =") else line for line in text), encoding="utf-8"
    )
    for name, order in (("a" * 64, [0, 1, 2]), ("b" * 64, [2, 1, 0])):
        hits = Hits(np.array([order] * 4, np.int32), np.array([[3, 2, 1]] * 4, np.float32))
        write_run(study, name, [f"q{n}" for n in range(4)], hits, {"retriever": "imported"})
    with showing(study) as port:
        yield f"http://{server.ADDRESS}:{port}/"


def test_no_page_is_wider_than_its_window(browser, long_address):
    context = browser.new_context()
    try:
        tab = context.new_page()
        tab.set_default_timeout(60_000)
        wider = {}
        for page in PAGES:
            tab.set_viewport_size({"width": 1400, "height": 900})
            tab.goto(long_address + page)
            tab.wait_for_selector("header.top")
            tab.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
            for width in (1400, 400):
                tab.set_viewport_size({"width": width, "height": 900})
                tab.wait_for_timeout(200)
                if found := tab.evaluate(WIDER):
                    wider[page, width] = found
        assert not wider
    finally:
        context.close()
