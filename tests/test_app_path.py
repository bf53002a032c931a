"""The path on every page: where one is, what is done, and the next step, in the demo and in a study without labels."""

from __future__ import annotations

import re

import pytest

from blindspot.backend.judging.batches import make_batch
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.people import People
from tests.app_pages import Page
from tests.indexes import bm25_of
from tests.studies import births, make_study, people
from tests.training_studies import say


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two runs over dev, and nothing else."""
    passages = people(30)
    study = make_study(tmp_path_factory.mktemp("path") / "study", passages, births(passages))
    bm25_of(study)
    for name in ("bm25-dev", "shallow"):
        retrieve(study, "bm25", split="dev", k=5, name=name)
    return study


def shown(page: Page) -> tuple[str | None, str | None]:
    """(the step that one is on, the address of the next step) of a page; None for what it does not show."""
    here = re.search(r'aria-current="step"[^>]*>(?:<span[^>]*>|</span>|<a [^>]*>|[✓\d ])*([^<]+)<', page.html)
    following = page.next_step()
    return here and here[1], following and following[1]


def test_each_page_says_where_one_is_and_what_comes_next(study):
    assert shown(Page(study.folder, "compare"))[0] == "See the failure"
    assert shown(Page(study.folder, "question", a="bm25-dev", b="shallow"))[0] == "Look at questions"
    assert shown(Page(study.folder, "training"))[0] == "Clean"
    assert shown(Page(study.folder, "training", tab="models"))[0] == "Train"
    assert shown(Page(study.folder, "training", model="of-an-older-address"))[0] == "Train"
    here, following = shown(Page(study.folder, "compare", a="shallow", b="bm25-dev"))
    assert here == "See the failure" and following == "question?a=shallow&b=bm25-dev&cell=only_a"
    assert shown(Page(study.folder, "question"))[1] == "judge"


def ticks(page: Page) -> dict[str, str]:
    """The steps with a tick, by title, with what the tick's title says."""
    items = re.findall(r'<li(?: class="(?:now|done)")?(?: title="([^"]*)")?[^>]*>(.*?)</li>', page.html, re.DOTALL)
    return {re.sub("<[^>]+>", "", each).lstrip("✓ 0123456789"): words for words, each in items if "✓" in each}


def test_a_step_is_done_by_this_person_or_by_others(study, tmp_path):
    assert list(ticks(Page(study.folder, "training"))) == ["See the failure"]
    judged = make_study(tmp_path / "judged", passages := people(30), asked := births(passages))
    bm25_of(judged)
    for name in ("bm25-dev", "shallow"):
        retrieve(judged, "bm25", split="dev", k=5, name=name)
    for name in ("ann", "ben"):
        People(judged.labels_path).add(name, "adjudicator")
    say(judged, "ann", asked[0].id, {"p2": "negative"})
    mine, theirs = (ticks(Page(judged.folder, "training", name)) for name in ("ann", "ben"))
    assert mine == {"See the failure": "Done", "Look at questions": "Done by you", "Judge": "Done by you"}
    assert theirs == {"See the failure": "Done", "Look at questions": "Done by others", "Judge": "Done by others"}
    assert ticks(Page(study.folder, "question")) == {"See the failure": "Done", "Look at questions": "Done by you"}
    home = {name: Page(judged.folder, "", name) for name in ("ann", "ben")}
    assert shown(home["ann"])[0] == "Judge" and shown(home["ben"])[0] == "Look at questions"
    (item,) = re.findall('<li class="now"[^>]*>.*?</li>', home["ben"].html, re.DOTALL)
    assert "Done by others" in item and "✓" not in item and 'data-step="Step 2 of 6: "' in item
    (button,), (to_step,) = (
        re.findall('<a [^>]*class="button main"[^>]*', home["ben"].html),
        re.findall("href=.*?>", item),
    )
    assert to_step.strip(">").split()[0] in button, "the filled button leads to the current step"
    html = Page(judged.folder, "training", "ben").html
    assert "✓ </span><a" in html and not re.search(r"✓ </span><span[^>]*>[0-9] </span><a", html), "no number by a tick"


def test_judging_is_not_done_while_questions_of_an_open_batch_wait(tmp_path):
    waiting = make_study(tmp_path / "waiting", passages := people(30), asked := births(passages))
    bm25_of(waiting)
    for name in ("bm25-dev", "shallow"):
        retrieve(waiting, "bm25", split="dev", k=5, name=name)
    People(waiting.labels_path).add("ann", "lead")
    say(waiting, "ann", asked[0].id, {"p2": "negative"})
    assert "Judge" in ticks(Page(waiting.folder, "training", "ann"))
    make_batch(waiting, "first", ["bm25-dev"], size=3, splits=["dev"])
    assert "Judge" not in ticks(Page(waiting.folder, "training", "ann"))
    assert 'data-after="judging"' in Page(waiting.folder, "judge", "ann").html, "Next waits for the last question"
    assert 'data-after="judging"' not in Page(waiting.folder, "team", "ann").html


def test_the_menu_stands_in_groups_that_follow_the_path(study):
    groups = [["Home"]]
    for attributes, title in re.findall(
        r"<a ([^>]*)>([^<]+)</a>", re.findall("<nav.*?</nav>", Page(study.folder, "map").html)[0]
    )[1:]:
        if "begins-group" in attributes:
            groups.append([])
        groups[-1].append(title)
    assert groups == [
        ["Home"],
        ["Compare", "Relations", "Slices", "Map", "Question"],
        ["Judge"],
        ["Training"],
    ], "without Quality and Team for nobody, and with the current page in its group"


def test_without_two_runs_there_is_no_path(tmp_path):
    empty = make_study(tmp_path / "empty", people(6), births(people(6)))
    assert shown(Page(empty.folder, "compare")) == (None, None)


def test_the_current_step_says_of_how_many_and_a_step_without_a_later_one_leads_to_what_is_not_done(study):
    assert (
        '<span class="place" data-step="Step 4 of 6: "><span>4 </span></span>Clean'
        in Page(study.folder, "training").html
    )
    see = Page(study.folder, "compare").html
    assert (
        '<span class="tick">✓ </span><span class="place" data-step="Step 1 of 6: "><span>1 </span></span>See the failure'
        in see
    )
    # Without labels and sets: from Judge and from Train to the tab that builds a set, which has its own button.
    assert shown(Page(study.folder, "judge"))[1] == "training?tab=sets"
    assert shown(Page(study.folder, "training"))[1] is None
    assert shown(Page(study.folder, "training", tab="judges"))[1] == "training?tab=sets"
    assert shown(Page(study.folder, "training", tab="models"))[1] == "training?tab=sets"
