from __future__ import annotations

import json
import re
from html import unescape

import numpy as np
import pytest

from blindspot.backend.core.runs import write_run
from blindspot.db.records import Hits, Passage, Question
from tests.app_pages import HOSTILE, Page, hand_made_study
from tests.studies import births, make_study, people


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return hand_made_study(tmp_path_factory.mktemp("question") / "toy")


def read(study, question: str, **parameters) -> Page:
    return Page(study.folder, "question", **({"a": "alpha", "b": "beta", "question": question} | parameters))


def card(page: Page, place: str) -> str:
    """Return the visible text of the card of rank "a-1", "b-12", ..."""
    found = page.part(rf'<article[^>]*id="{place}".*?</article>')
    assert len(found) == 1, place
    return found[0]


def test_both_lists_with_rank_score_title_and_marks(study):
    page = read(study, "q2")
    assert "Where is thing 2?" in page.part("<h1>.*?</h1>")
    assert card(page, "a-3").startswith("3 Town 2 ✓ answer ★ gold B 1 8.0 "), (
        "each score of a list has the same decimals"
    )
    assert card(page, "b-1").startswith("1 Town 2 ✓ answer ★ gold A 3 9.0 ")
    assert '<mark class="answer">Ansver2</mark>' in page.html
    assert "relation place of birth (P19)" in page.text and "frequency 20" in page.text
    assert len(re.findall("<article", page.html)) == 20


def test_the_legend_names_only_the_marks_that_are_shown(study):
    page = read(study, "q2")
    legend = page.part('<div class="legend">.*?</div>')[0]
    assert "answer" in legend and "passage in both lists, contains an answer" in legend
    assert ("word of the question" in legend) == ('<mark class="word"' in page.html)
    assert "similar name" not in legend and '<mark class="near"' not in page.html
    beside = set(re.findall(r'data-side="a" data-passage="(.*?)"', page.html)) & set(
        re.findall(r'data-side="b" data-passage="(.*?)"', page.html)
    )
    without = [card for card in re.findall(r"<article.*?>", page.html) if '"hit"' in card]
    is_shown = any(f'data-passage="{each}"' in card for each in beside for card in without)
    assert ("passage in both lists, no answer" in legend) == is_shown


def test_a_narrow_window_begins_with_the_run_that_misses(study):
    assert '<details class="list-tabs">' in read(study, "q2", k=1).html, "alpha, in list A, misses it"
    assert '<details class="list-tabs" open>' in read(study, "q2", a="beta", b="alpha", k=1).html
    assert '<details class="list-tabs">' in read(study, "q2", a="beta", b="alpha", k=5).html, "both find it"


def test_the_finding_is_directly_below_the_title(study):
    page = read(study, "q2")
    assert "</h1><p" in page.html, "nothing between the question and what is found of it"
    both = "alpha has a passage containing the answer at rank 3; beta has one at rank 1."
    assert both in page.text and "first relevant" not in page.text, "the ranks stand in one place"
    first = "alpha has no passage containing the answer in its first 15; beta has "
    assert first in "".join(read(study, f"q{number}").text for number in range(8))


def test_gold_is_shown_wherever_it_ranks(study):
    page = read(study, "q4")
    assert "★ gold doubtful Filler 29 A rank 12 B not in the top 15" in page.text, "it never mentions the subject"
    assert card(page, "a-12").startswith("12 Filler 29 ★ gold B –")
    assert "1 more" in page.text, "rank 11 is left out between 10 and the gold at 12"


def test_more_of_the_lists(study):
    page = read(study, "q0", show=15)
    assert len(re.findall("<article", page.html)) == 30
    assert "show=20" in " ".join(read(study, "q0").links())


def test_next_and_previous_stay_within_the_filtered_list(study):
    page = read(study, "q3", relation="P50", sort="order")
    assert "1 of 4" in page.text
    assert json.loads(unescape(re.search(r'data-trail="([^"]*)"', page.html)[1])) == ["q3", "q4", "q5", "q6"]
    following = next(link for link in page.links() if link.startswith("question?question=q4"))
    assert "relation=P50" in following and "sort=order" in following
    assert "compare?a=alpha&b=beta&relation=P50&sort=order#row-q3" in page.links(), "back to the row one came from"


def test_a_narrow_window_can_open_the_hits_after_the_first_of_each_list(study):
    """style.css hides them; a list alone on the page is not cut."""
    (first, second) = read(study, "q0").part('<details class="all-hits">.*?</details>')
    assert (first, second) == ("All 10 hits of alpha", "All 10 hits of beta")
    assert 'class="all-hits"' not in Page(study.folder, "question", a="alpha", b="alpha", question="q0").html


def test_further_runs_are_lists_of_their_own(study):
    assert len(re.findall('<section class="list ', read(study, "q0", more="short").html)) == 2, (
        "short has other questions"
    )
    page = Page(study.folder, "question", a="alpha", b="alpha", more="beta", question="q0")
    assert re.findall('class="list ([a-d])"', page.html) == ["a", "c"]


def test_without_a_question_the_first_of_the_list_is_read(study):
    page = Page(study.folder, "question", a="alpha", b="beta", cell="only_b")
    assert "Where is thing 3?" in page.text and "only B finds in the top 5" in page.text


def test_without_a_question_a_chance_match_is_not_shown_first(tmp_path):
    """The greatest contrast is a passage that holds the answer's word and says nothing of the subject."""
    passages = [
        Passage("chance", "Opera", "The composer conducted."),
        Passage("told", "Ada Bell", "Ada Bell was a painter."),
        *(Passage(f"other{i}", "Other", f"Nothing {i}.") for i in range(4)),
    ]
    questions = [
        Question("q0", "What does Carl Dahl do?", ("composer",), "P106", "Carl Dahl", split="dev", gold=("chance",)),
        Question("q1", "What does Ada Bell do?", ("painter",), "P106", "Ada Bell", split="dev", gold=("told",)),
    ]
    study = make_study(tmp_path / "s", passages, questions)
    found = Hits(np.array([[0, 2, 3], [2, 1, 3]]), np.array([[3.0, 2, 1]] * 2, dtype=np.float32))
    missed = Hits(np.array([[2, 3, 4]] * 2), np.array([[3.0, 2, 1]] * 2, dtype=np.float32))
    write_run(study, "found", ["q0", "q1"], found, {"retriever": "bm25"})
    write_run(study, "missed", ["q0", "q1"], missed, {"retriever": "tiny"})
    page = Page(study.folder, "question", a="found", b="missed")
    assert "What does Ada Bell do?" in page.text and "2 of 2" in page.text
    assert "★ gold Ada Bell" in page.text
    chance = Page(study.folder, "question", a="found", b="missed", question="q0").text
    assert "★ gold doubtful Opera" in chance
    assert "(it contains “composer”, but its title is Opera and it never mentions Carl Dahl)" in chance
    assert "but its title is" not in page.text


def test_a_link_to_a_run_that_is_not_there_says_so(study):
    for name in ("compare", "question", "slices"):
        page = Page(study.folder, name, a="nowhere", b="alpha")
        assert "This study has no run 'nowhere', which the address names. Other runs are shown instead." in page.text
        assert "beta" in page.text, "not the same run twice"
    assert "no runs 'x' and 'y'" in Page(study.folder, "relations", runs="x,y,alpha").text
    assert "This study has no run" not in Page(study.folder, "compare", a="beta", b="alpha").text


def test_an_unknown_question_is_one_line(study):
    assert "there is no question 'nobody' in this study" in read(study, "nobody").text


def test_a_question_that_one_run_does_not_hold_shows_the_other(study):
    page = read(study, "q5", a="short")
    assert 'id="b-1"' in page.html and 'id="a-1"' not in page.html
    assert "not in the list" in page.text


def test_data_never_becomes_markup(study):
    page = read(study, "q6")
    assert HOSTILE in " ".join(page.part("<h1>.*?</h1>"))
    assert "Before. <script>window.pwned=1</script> <img src=x onerror='window.pwned=2'> **bold**" in card(page, "a-1")
    assert "<script" not in page.html and "<img" not in page.html and "<b>after" not in page.html
    assert not page.app.markdown


def test_own_question_without_an_index_says_so(study):
    assert "build an index" in read(study, "q0").text
    assert "No index yet" in Page(study.folder, "question", ask="Who?").text


def test_own_question_is_answered_live(indexed_study):
    page = Page(
        indexed_study.folder,
        "question",
        ask="Where was Arve Aurset0 born?",
        expect="Oslo",
        left="bm25",
        right="tiny",
        show=5,
    )
    assert card(page, "a-1").startswith("1 Arve Aurset0 ✓ answer")
    assert 'id="b-5"' in page.html
    assert page.app.text_input(key="url-ask").value == "Where was Arve Aurset0 born?"
    lists = [re.findall(rf'<article[^>]*id="{side}-\d+"[^>]*data-passage="([^"]*)"', page.html) for side in "ab"]
    assert re.search(r"bm25 and tiny share (\d+|none) of their first 10 passages", page.text) and all(lists)


def test_an_overlong_own_question_is_one_line(indexed_study):
    page = Page(indexed_study.folder, "question", ask="x" * 2001)
    assert "between 1 and 2000 characters" in page.text


def test_no_passages_and_no_runs_say_what_to_do(tmp_path):
    from blindspot.backend.core.study import Study

    Study.create(tmp_path / "fresh")
    assert "No passages yet" in Page(tmp_path / "fresh", "question").text
    passages = people()
    make_study(tmp_path / "bare", passages, births(passages))
    assert "No runs yet" in Page(tmp_path / "bare", "question").text
