"""A reader's answers on Compare and Question: figures, frames and scores for runs that were read, nothing for other
runs.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from blindspot.app.components.readings import _by_group
from blindspot.backend.core.manifest import write_manifest
from blindspot.backend.reader.examples import run_hash
from blindspot.backend.reader.reading import Reading
from blindspot.backend.reader.readings import measure_reading
from tests.app_pages import HOSTILE, Page, hand_made_study

DEPTH = 5


def keep_reading(study, run, reader, said):
    """A hand-made reading: `said` gives by row the selected column and the text read there; other passages read their
    first letter.
    """
    opened = study.run(run)
    rows = len(opened.question_ids)
    passages = study.corpus.passages(opened.hits.ordinals[:, :DEPTH].ravel().tolist())
    relevance, spans = np.zeros((rows, DEPTH), np.float32), np.tile(np.array([0, 1], np.int32), (rows, DEPTH, 1))
    for row, (column, text) in said.items():
        begin = passages[row * DEPTH + column].text.index(text)
        relevance[row, column], spans[row, column] = 2.0, (begin, begin + len(text))
    folder = opened.folder / f"answers-read.{reader}"
    folder.mkdir()
    for name, array in (("relevance", relevance), ("spans", spans), ("scores", np.ones_like(relevance)),
                        ("probabilities", np.full_like(relevance, 0.25))):  # fmt: skip
        np.save(folder / f"{name}.npy", array)
    write_manifest(folder, {"reader": reader, "run": run, "run_hash": run_hash(opened), "depth": DEPTH, "ks": [1, 5]})


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """alpha reads 0, 1, 2 (from rank 3), 6 right; beta 0, 3 (from rank 2); question 4's answer is read in part."""
    study = hand_made_study(tmp_path_factory.mktemp("readings") / "toy")
    keep_reading(
        study,
        "alpha",
        "tiny",
        {0: (0, "Ansver0"), 1: (0, "Ansver1"), 2: (2, "Ansver2"), 4: (1, "Ansver4, as all"), 6: (0, "Ansver6")},
    )
    keep_reading(study, "beta", "tiny", {0: (0, "Ansver0"), 3: (1, "Ansver3"), 6: (1, HOSTILE)})
    return study


def panel(page):
    found = re.findall(r'<div class="panel readings">.*?</table>.*?</table>.*?</p></div>', page.html, re.DOTALL)
    assert len(found) == 1
    return page.part(r'<div class="panel readings">.*?</table>.*?</table>.*?</p></div>')[0]


def test_compare_shows_exact_match_by_k_and_relation(study):
    shown = panel(Page(study.folder, "compare", a="alpha", b="beta", k=5))
    assert "Reader accuracy" in shown and "@1 @5" in shown and "7 questions." in shown
    made = measure_reading(study, Reading.open(study, "alpha", "tiny"))
    assert (made.exact[5].tolist(), made.exact[1].tolist()) == ([1, 1, 1, 0, 0, 0, 1], [1, 1, 0, 0, 0, 0, 1])
    assert (
        f"A alpha {100 * 3 / 7:.1f}" in shown and f"{100 * 4 / 7:.1f}" in shown and f"B beta {100 * 1 / 7:.1f}" in shown
    )
    assert (
        re.search(r"place of birth \(P19\) 3 100\.0 33\.3 A \+66\.7", shown) and "author (P50) 4 25.0 25.0 0.0" in shown
    )
    assert "bucket" not in shown


def test_exact_match_by_frequency(study):
    """As Compare shows it where no question has a relation."""
    made = {
        side: measure_reading(study, Reading.open(study, name, "tiny"))
        for side, name in (("a", "alpha"), ("b", "beta"))
    }
    shown = re.sub("<[^>]+>", " ", str(_by_group(made, 5, set(made["a"].row_of), "bucket")))
    assert "10-29 mentions 2 100.0 0.0" in " ".join(shown.split())


def test_compare_follows_the_filters_and_says_who_was_not_read(study):
    page = Page(study.folder, "compare", a="alpha", b="beta", relation="P19", k=5)
    assert "3 questions." in panel(page)
    alone = panel(Page(study.folder, "compare", a="alpha", b="short", k=15))
    assert (
        "B has no answers from this reader yet; run: blindspot read --run short --reader tiny" in alone
        and "3 questions." in alone
    )
    assert "author" not in alone and "A @5" in alone  # up to the depth of the reading


def test_nothing_is_shown_where_nothing_was_read(tmp_path):
    study = hand_made_study(tmp_path / "s")
    assert "Reader accuracy" not in Page(study.folder, "compare", a="alpha", b="beta").text
    assert "mark.read" not in Page(study.folder, "question", a="alpha", b="beta", question="q0").html


def test_question_frames_what_was_read(study):
    page = Page(study.folder, "question", a="alpha", b="beta", question="q2", k=5)
    (line_a, line_b) = page.part(r'<div><span class="run [ab]">[AB]</span> tiny reads.*?</div>')
    selected = 100 * np.exp(2) / (np.exp(2) + 4)
    assert (
        line_a == f"A tiny reads in the first 5: Ansver2 ✓ exact match from rank 3, selected {selected:.0f}% , span 25%"
    )
    assert "✗ no exact match, F1 0.00" in line_b
    card = re.search(r'<article[^>]*id="a-3".*?</article>', page.html, re.DOTALL)[0]
    assert (
        '<mark class="read" title="the reader&#x27;s answer"><mark class="answer">Ansver2</mark></mark>' in card
        and "⟦⟧ read" in card
    )
    assert (
        card.count('class="read"') == 1
        and 'class="read"' not in re.search(r'<article[^>]*id="b-3".*?</article>', page.html, re.DOTALL)[0]
    )
    first = Page(study.folder, "question", a="alpha", b="beta", question="q2", k=1)
    assert "A tiny reads in the first 1: N" in first.text


def test_data_never_becomes_markup(study):
    page = Page(study.folder, "question", a="alpha", b="beta", question="q6", k=5)
    assert f"B tiny reads in the first 5: {HOSTILE}" in page.text
    assert "<script" not in page.html and "<img" not in page.html


def test_another_reader_is_a_link_away(study):
    keep_reading(study, "alpha", "zeta", {0: (0, "Town 0")})
    page = Page(study.folder, "question", a="alpha", b="beta", question="q0", k=5)
    assert "A tiny reads in the first 5: Ansver0" in page.text and any("reader=zeta" in link for link in page.links())
    other = Page(study.folder, "question", a="alpha", b="beta", question="q0", k=5, reader="zeta")
    assert "A zeta reads in the first 5: Town 0" in other.text and "tiny reads" not in other.text
    assert "B has no answers from this reader" in panel_of_one(
        Page(study.folder, "compare", a="alpha", b="beta", reader="zeta")
    )


def panel_of_one(page):
    return page.part(r'<div class="panel readings">.*?</p></div>')[0]
