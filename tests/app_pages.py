"""Helpers for tests of the app: a study with figures known by hand, and a page as a person gets it."""

from __future__ import annotations

import os
import re
from html import unescape
from pathlib import Path

import numpy as np
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.testing.v1 import AppTest

from blindspot.backend.core.runs import write_run
from blindspot.backend.core.study import Study
from blindspot.db.records import Hits, Passage, Question
from tests.studies import make_study

MAIN = Path(__file__).parents[1] / "app" / "main.py"
HOSTILE = "<script>window.pwned=1</script> <img src=x onerror='window.pwned=2'> **bold** [link](javascript:alert(1)) $\\frac{a}{b}$ :red[x]"

RANKS_A = (1, 1, 3, 0, 2, 0, 1)  # rank of each question's answer passage, 0 for none
RANKS_B = (1, 0, 1, 2, 0, 0, 2)  # at 5: both find 0, 2 and 6, only a 1 and 4, only b 3, neither 5
DEPTH = 15
FILLERS = 30


def hand_made_study(folder: Path) -> Study:
    """7 questions, runs `alpha` and `beta` over all of them, `short` over the first three.

    Only passage i contains the answer of question i. Question 4's gold is a passage without an answer, at rank 12 of
    alpha and nowhere in beta. Question 6, its answer and its passage are hostile text.
    """
    passages = [
        Passage(
            f"answer{i}",
            f"Town {i}",
            f"The answer here is Ansver{i}, as all of Town {i} knows. " + "More is told. " * 30,
        )
        for i in range(6)
    ]
    passages.append(Passage("answer6", HOSTILE, f"Before. {HOSTILE} Ansver6 & <b>after</b>."))
    passages += [Passage(f"filler{i}", f"Filler {i}", f"Nothing to see in number {i}.") for i in range(FILLERS)]
    questions = [
        Question(
            f"q{i}",
            f"Where is thing {i}?" if i < 6 else HOSTILE,
            (f"Ansver{i}",),
            "P19" if i < 3 else "P50",
            f"thing {i}",
            frequency=None if i == 5 else 10 * i,
            dataset="toy",
            split="dev" if i < 6 else "test",
            gold=("filler29",) if i == 4 else (f"answer{i}",),
        )
        for i in range(7)
    ]
    study = make_study(folder, passages, questions)
    for name, ranks, retriever in (
        ("alpha", RANKS_A, "bm25"),
        ("beta", RANKS_B, "tiny"),
        ("short", RANKS_A[:3], "bm25"),
    ):
        hits = _hits(ranks)
        if name == "alpha":
            hits.ordinals[4, 11] = 7 + 29
        write_run(
            study,
            name,
            [question.id for question in questions[: len(ranks)]],
            hits,
            {"retriever": retriever, "kind": "run" if retriever == "bm25" else "dense"},
        )
    return study


def _hits(ranks: tuple[int, ...]) -> Hits:
    """Return fillers 0 to 14 in order, with passage i at the rank of question i."""
    ordinals = np.tile(np.arange(7, 7 + DEPTH, dtype=np.int32), (len(ranks), 1))
    for row, rank in enumerate(ranks):
        if rank:
            ordinals[row, rank - 1] = row
    return Hits(ordinals, np.tile(np.linspace(9, 2, DEPTH, dtype=np.float32), (len(ranks), 1)))


class Page:
    """A page after one run of the script, with its address changed and run again on demand.

    `person` is one of the study's people; None is not signed in.
    """

    def __init__(self, folder: Path, page: str = "", person: str | None = None, /, **parameters: object):

        os.environ |= {"BLINDSPOT_STUDY": str(folder), "BLINDSPOT_SIGN_IN": "none"}
        self.app = AppTest.from_file(str(MAIN), default_timeout=60)
        # Otherwise each page looks for Streamlit components in the metadata of all installed packages.
        self.app._bidi_component_manager = BidiComponentManager()
        if person is not None:
            self.app.session_state["who-token"] = f"name:{person}"
        try:
            if page:
                self.app.switch_page(f"pages/{page}.py")
            for key, value in parameters.items():
                self.app.query_params[key] = str(value)
            self.app.run()
        finally:
            os.environ.pop("BLINDSPOT_STUDY")
            os.environ.pop("BLINDSPOT_SIGN_IN")
        assert not self.app.exception, self.app.exception

    @property
    def html(self) -> str:
        return "\n".join(element.proto.body for element in self.app.get("html"))

    @property
    def text(self) -> str:
        """Return the visible text."""
        return words(self.html)

    def part(self, pattern: str) -> list[str]:
        """Return the visible text of each part of the page that matches a regular expression."""
        return [words(found) for found in re.findall(pattern, self.html, re.DOTALL)]

    def next_step(self) -> tuple[str, str] | None:
        """Return the words and the address of the one next step of the path; None if there is none."""
        found = re.findall(r'<a href="([^"]*)"[^>]*class="next".*?</a>', self.html, re.DOTALL)
        assert len(found) <= 1
        return (self.part('<a [^>]*class="next".*?</a>')[0], unescape(found[0])) if found else None

    def links(self) -> list[str]:
        return [unescape(address) for address in re.findall(r'href="([^"]*)"', self.html)]


def words(html: str) -> str:
    """Return the text of a piece of markup. Marks are inside words, other elements between words."""
    html = re.sub(r"</?mark[^>]*>", "", html)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


LACKED = re.compile(
    r"\b(relations?|frequenc(?:y|ies)|mentions|buckets?|answer rule|rule:|with answers|none known|known answer|"
    r"(?:contains?|holds) an answer)\b",
    re.IGNORECASE,
)
"""What a page of a log or a training file must not speak of: answers, relations, frequencies."""


def lacked_words(page):
    """The places where a page speaks of answers, relations or frequencies."""
    kinds = ("selectbox", "radio", "checkbox", "button", "text_input", "expander")
    labels = " ".join(
        f"{each.label} {' '.join(getattr(each, 'options', ()))}" for kind in kinds for each in page.app.get(kind)
    )
    words = f"{page.text.split('/* ')[0]} {labels}"
    return [words[max(found.start() - 60, 0) : found.end() + 40] for found in LACKED.finditer(words)]


def sent_to_browser(page: Page) -> str:
    """Return everything that the page sends to the browser, including the judging component's data."""
    return "\n".join(str(element.proto) for element in page.app.main)  # messages, whatever their kind
