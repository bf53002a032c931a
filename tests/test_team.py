"""What a lead sees of a team: progress, and agreement in words."""

from __future__ import annotations

import pytest

from blindspot.analysis.agreement import Agreement
from blindspot.backend.core.result_table import stated_interval
from blindspot.backend.core.study import Study
from blindspot.backend.judging.agreement_words import agreement_in_words, agreement_strength
from blindspot.backend.judging.quality import PairAgreement, Quality, quality
from blindspot.backend.judging.team_progress import team_progress
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue
from tests.app_pages import Page, hand_made_study
from tests.judging import Clock


@pytest.fixture
def study(tmp_path) -> Study:
    """Seven questions in a batch for two people; Ann and Ben annotate, Lea leads."""
    study = hand_made_study(tmp_path / "study")
    for name, role in (("Ann", "annotator"), ("Ben", "annotator"), ("Lea", "lead")):
        People(study.labels_path).add(name, role)
    shown = (Candidate("answer0"), Candidate("filler1"))
    items = [Item(f"q{i}", shown, people_needed=2) for i in range(7)]
    Queue(study.labels_path).add_batch("b1", items, {})
    return study


def judge(study: Study, who: str, question: str, labels: dict[str, str], at: float = 0.0, ms: int = 10_000) -> None:
    """Give the labels of a question as one gesture, and finish the question."""
    clock = Clock(1_700_000_000.0 + at)
    store, queue = Labels(study.labels_path, clock=clock), Queue(study.labels_path, clock=clock)
    queue.claim(who, 7)
    choices = tuple(Choice(passage, label) for passage, label in labels.items())
    store.add(who, LabelEvent(f"{who}-{question}", "label", question, choices, batch="b1", milliseconds=ms))
    queue.finish(who, "b1", question)


def test_progress(study):
    assert {(one.name, one.remaining["b1"]) for one in team_progress(study)} == {("Ann", 7), ("Ben", 7), ("Lea", 7)}
    judge(study, "Ann", "q0", {"answer0": "positive", "filler1": "negative"})
    judge(study, "Ann", "q1", {"answer0": "negative", "filler1": "negative"})
    judge(study, "Ann", "q2", {"answer0": "negative"})
    ann, ben, _ = team_progress(study)
    assert (ann.finished, ann.remaining, ann.labels) == ({"b1": 3}, {"b1": 4}, 5)
    assert (ben.finished, ben.labels) == ({}, 0)


def test_the_strength_of_an_agreement_has_a_word():
    words = [agreement_strength(alpha).split(",")[0] for alpha in (0.9, 0.8, 0.7, 0.41, 0.1, -0.3)]
    assert words == ["good", "good", "fair", "weak", "poor", "poor"]


def test_agreement_in_words_names_the_label_that_most_disputes_are_about(study):
    assert agreement_in_words(quality(study)) is None
    disputes = [("related", "negative"), ("positive", "related"), ("related", "negative"), ("positive", "negative")]
    for number, labels in enumerate([*disputes, *3 * [("positive", "positive")]]):
        for who, label in zip(("Ann", "Ben"), labels, strict=True):
            judge(study, who, f"q{number}", {"answer0": label, "filler1": "negative"})
    found = quality(study)
    assert found.clashes == (("related", "negative", 2), ("positive", "related", 1), ("positive", "negative", 1))
    words = agreement_in_words(found)
    four = found.together.four
    interval = stated_interval(four.low, four.high, places=2)
    assert words.label == "related" and words.sentence == f"alpha {four.value:.2f} {interval}: weak"
    assert words.detail.startswith("4 disagreements") and "2 related against negative" in words.detail
    page = Page(study.folder, "team", "Lea").text
    assert words.sentence in page and "“related”" in page and "b1 7 of 7 questions" in page
    same = Agreement(0.5, None, None, 1.0, 4, 4, "alpha")
    clashes = (("positive", "unsure", 1), ("related", "negative", 1))
    found = Quality(1, (), (), PairAgreement(("a", "b"), same, same), (), (), None, clashes)
    assert agreement_in_words(found).label == "", "the disputes are about no label in particular"


def test_the_team_page_is_the_lead_s(study):
    assert "On this page leads manage people" in Page(study.folder, "team").text
    page = Page(study.folder, "team", "Lea")
    assert {button.label for button in page.app.button} >= {"Pause", "Create link", "Create batch", "Close batch"}
    assert "Ann" in page.text and "Ben" in page.text and "b1" in page.text
    assert "Judge your 7 questions" in page.text and "judge" in page.links()
    assert page.part("<h1.*?</h1>") == ["7 questions wait for you."]
    assert page.text.index("Progress") < page.text.index("b1 0 of 7 questions") < page.text.index("People")
    Queue(study.labels_path).set_state("b1", "closed", actor="Lea")
    assert "Judge your" not in Page(study.folder, "team", "Lea").text


def test_a_link_made_where_only_this_machine_reaches_the_app_says_how_to_open_it(study, monkeypatch):
    """The link is shown once; it signs in as the person, and the store keeps its hash alone."""
    monkeypatch.setattr("blindspot.app.who.on_this_machine", lambda: True)
    page = Page(study.folder, "team", "Lea")
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    next(button for button in page.app.button if button.key == "invite-Ben").click().run()
    (link,) = [block.value for block in page.app.code if "?key=" in block.value]
    assert "opens nothing yet" in page.text and "blindspot open --address 0.0.0.0" in page.text
    assert People(study.labels_path).person_of_link(link.partition("?key=")[2]).name == "Ben"
    page.app.run()
    assert not [block for block in page.app.code if "?key=" in block.value]
