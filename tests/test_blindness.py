"""Blindness: annotators see Judge alone, whose cards have no ranks, scores or opinions."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from functools import partial

import pytest

import blindspot.app.judging_stores
import blindspot.db.connection
from blindspot.backend.core import study as core
from blindspot.backend.core.study import Study
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.cards import Cards
from blindspot.backend.retrieval import indexes, live
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import PAUSE_SECONDS, People
from blindspot.db.queue import Candidate, Item, Queue
from tests.app_pages import MAIN, Page, hand_made_study, sent_to_browser
from tests.judging import Desk


@pytest.fixture
def desk(tmp_path) -> Desk:
    return Desk(tmp_path)


# ---- crafted messages of a browser


def states(receipts) -> list[str]:
    return [receipt.state for receipt in receipts]


def test_a_label_for_a_question_that_was_never_given_is_refused(desk):
    desk.batch()
    desk.claim("ben")
    for sent in (desk.sent("q0", {"p1": "positive"}), desk.sent("q2", {"p1": "positive"})):
        (receipt,) = desk.labels.add_all("ann", [sent])
        assert receipt.state == "refused" and "was not given to ann" in receipt.message
    note = {"id": "n", "kind": "note", "question": "q1", "batch": "b1", "note": "x", "choices": [{"passage": "p1"}]}
    bad = {"id": "b", "kind": "bad_question", "question": "q1", "batch": "b1"}
    assert states(desk.labels.add_all("ann", [note, bad])) == ["refused", "refused"]
    assert list(desk.labels.events()) == []
    assert states(desk.labels.add_all("ben", [desk.sent("q0", {"p1": "positive"})])) == ["stored"]


def test_outside_batches_an_annotator_is_refused_and_no_label_is_blind(desk):
    desk.batch(questions=1)
    sent = [desk.sent(question, {"p1": "positive"}, batch=None) | {"blind": True} for question in ("q0", "q4")]
    for receipt in desk.labels.add_all("ann", sent):
        assert receipt.state == "refused" and "was not given to ann" in receipt.message
    assert list(desk.labels.events()) == []
    assert states(desk.labels.add_all("lea", sent)) == ["stored"] * 2
    assert [row.blind for row in desk.labels.events()] == [0, 0]


def test_a_browser_is_not_believed_about_what_the_server_knows(desk):
    desk.batch()
    desk.claim("ann")
    choice = {"passage": "p1", "label": "positive", "run": "mine", "rank": 99, "score": 0.1, "suggestion": 0.9}
    sent = desk.sent("q0", {}) | {"choices": [choice], "blind": False, "guideline_version": "forged"}
    assert states(desk.labels.add_all("ann", [sent], guideline_version="7")) == ["stored"]
    (row,) = desk.labels.events()
    assert (row.run, row.rank, row.score, row.suggestion) == ("bm25", 1, 9.0, None), "as the batch has it"
    assert (row.blind, row.guideline_version) == (1, "7")


def test_a_label_is_blind_until_the_question_was_finished_or_skipped_once(desk):
    desk.batch()
    desk.claim("ann")
    finish, again = desk.act("finish", "q0"), desk.act("reopen", "q0")
    outbox = [desk.sent("q0", {"p1": "positive"}), finish, again, desk.sent("q0", {"p1": "negative"})]
    assert states(desk.labels.add_all("ann", outbox)) == ["stored"] * 4
    assert [row.blind for row in desk.labels.events()] == [1, 0]


def test_adjudication_cannot_be_smuggled_into_a_batch(desk):
    desk.batch()
    desk.claim("ada")
    sent = desk.sent("q0", {"p1": "positive"}) | {"kind": "adjudicate"}
    held = sent | {"batch": None, "id": "other"}
    assert states(desk.labels.add_all("ada", [sent, held])) == ["refused", "stored"]
    assert states(desk.labels.add_all("ann", [held | {"id": "anns"}])) == ["refused"]


# ---- pauses


def test_a_paused_person_s_labels_are_taken_for_a_minute_and_only_for_what_they_hold(desk):
    desk.people._clock = desk.clock
    desk.batch()
    desk.claim("ann")
    desk.people.pause("ann", actor="lea")
    assert states(desk.labels.add_all("ann", [desk.sent("q0", {"p1": "positive"})])) == ["stored"]
    desk.clock.now += PAUSE_SECONDS + 1
    late = [
        desk.sent("q0", {"p2": "positive"}),
        desk.sent("q0", {"p2": "negative"}, batch=None),
        desk.act("finish", "q0"),
    ]
    assert states(desk.labels.add_all("ann", late)) == ["refused"] * 3
    stored = next(row.gesture for row in desk.labels.events())
    undo = {"id": "u", "kind": "undo", "question": "q0", "undoes": stored, "batch": "b1"}
    assert states(desk.labels.add_all("ann", [undo])) == ["refused"]
    desk.people.pause("ann", False, actor="lea")
    assert desk.claim("ann") == ["q0"]


def test_labels_do_not_prolong_the_minute(desk):
    desk.people._clock = desk.clock
    desk.batch()
    desk.claim("ann")
    desk.people.pause("ann", actor="lea")
    stored = []
    for passage, label in (("p1", "positive"), ("p2", "positive"), ("p3", "positive"), ("p1", "negative")):
        stored += states(desk.labels.add_all("ann", [desk.sent("q0", {passage: label})]))
        desk.clock.now += PAUSE_SECONDS / 2.5
    assert stored == ["stored", "stored", "stored", "refused"]


# ---- the pages


@pytest.fixture(scope="module")
def untouched(tmp_path_factory) -> Study:
    """Ann gets q3 (only beta finds it) and q0 (both runs find it at rank 1). Ben is done with q3."""
    study = hand_made_study(tmp_path_factory.mktemp("blind") / "study")
    people = People(study.labels_path)
    for name, role in {"lea": "lead", "ada": "adjudicator", "ann": "annotator", "ben": "annotator"}.items():
        people.add(name, role)
    queue, labels = Queue(study.labels_path), Labels(study.labels_path)
    items = [Item(id, (Candidate("filler0", 0, "alpha", 1, 9.0),), people_needed=2) for id in ("q3", "q0")]
    queue.add_batch("first", items, {})
    queue.claim("ben", 1)
    labels.add("ben", LabelEvent("ben-1", "label", "q3", (Choice("filler0", "positive"),), batch="first"))
    queue.finish("ben", "first", "q3")
    study.questions.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return study


@pytest.fixture
def study(untouched, tmp_path) -> Study:
    shutil.copytree(untouched.folder, tmp_path / "study")
    return Study.open(tmp_path / "study")


PAGES = sorted(path.stem for path in (MAIN.parent / "pages").glob("[a-z]*.py"))
PAIR = {"a": "alpha", "b": "beta", "k": 5}
TOLD = ("alpha", "beta", "rank 1", "score 9", "Ansver3 as all", "Where is thing 1?")
"""What the results of runs would show."""


@pytest.mark.parametrize("page", PAGES)
def test_an_annotator_who_opens_any_page_gets_judge(study, page):
    """By its address: the page itself never runs."""
    runs = {} if page == "judge" else PAIR  # links of the menu repeat the address
    got = Page(study.folder, page, "ann", **runs, question="q3", words="thing", adjudicate=1, show=15)
    sent = sent_to_browser(got)
    assert "Where is thing 3?" in sent and "Does this passage" not in got.text
    assert got.part("<nav.*?</nav>") == ["Judge"] and "aria-current" in got.html
    assert not [button.label for button in got.app.button] and 'class="next"' not in got.html
    for told in TOLD:
        assert told not in sent, told
    assert "says positive" not in sent, "what ben said"


@pytest.mark.parametrize("page", PAGES)
def test_an_adjudicator_gets_the_page(study, page):
    got = Page(study.folder, page, "ada", **PAIR, question="q3")
    menu = " ".join(got.part("<nav.*?</nav>")).split()
    assert {"Home", "Compare", "Question", "Judge", "Quality"} <= set(menu) and "Team" not in menu
    assert (got.part('<a [^>]*aria-current="page".*?</a>') == ["Judge"]) == (page == "judge"), "not sent elsewhere"


def test_a_role_counts_at_the_next_run_of_a_page(study):
    page = Page(study.folder, "compare", "ada", **PAIR)
    assert "Where is thing 1?" in page.text
    People(study.labels_path).set_role("ada", "annotator")
    assert "Where is thing 1?" not in Page(study.folder, "compare", "ada", **PAIR).text


def test_before_a_name_is_given_the_local_app_shows_no_labels_of_others(study):
    page = Page(study.folder, "question", None, question="q3", a="alpha", b="beta")
    assert "Town 3" in page.text and "All labels:" not in page.text


def test_adjudication_in_the_address_shows_an_annotator_nothing(study):
    labels = Labels(study.labels_path, passages=study.corpus.ordinals)
    labels.add("ada", LabelEvent("ada-1", "label", "q3", (Choice("filler0", "negative"),)))
    page = Page(study.folder, "judge", "ann", adjudicate=1, question="q3")
    assert not page.app.exception and "says positive" not in sent_to_browser(page)
    settling = sent_to_browser(Page(study.folder, "judge", "lea", adjudicate=1, question="q3"))
    assert "1 says positive" in settling and "1 says negative" in settling


def test_cards_hold_ranks_and_settled_labels_only_of_passages_that_are_labelled(study):
    queue, cards = Queue(study.labels_path), Cards(study)
    leases = queue.claim("ann", 1)
    (card,) = cards.cards_of_leases("ann", leases)
    assert [one["where"] for one in card["candidates"]] == [""]
    Labels(study.labels_path).add(
        "ann", LabelEvent("ann-1", "label", "q3", (Choice("filler0", "positive"),), batch="first")
    )
    (card,) = cards.cards_of_leases("ann", leases)
    assert [one["where"] for one in card["candidates"]] == ["alpha, rank 1, score 9"]


CARD = {"key", "batch", "question", "text", "answers", "more_answers", "positives", "candidates", "given"}
PASSAGE = {"passage", "where", "others", "title", "pieces", "line", "group"}


def test_cards_hold_nothing_of_a_run_or_a_judge(study):
    """What a card holds is listed here, so that nothing more is sent unseen."""
    ScoreStore.create(study, "mine", True).add([("q3", "filler0", 0.8765)])
    cards = Cards(study).cards_of_leases("ann", Queue(study.labels_path).claim("ann", 2))
    assert [card["question"] for card in cards] == ["q3", "q0"]
    for card in cards:
        assert set(card) == CARD and card["given"] == {}
        for shown in card["candidates"]:
            assert set(shown) == PASSAGE and shown["where"] == shown["others"] == ""
    sent = sent_to_browser(Page(study.folder, "judge", "ann"))
    for told in ("0.876", "87.6", "alpha", "beta", "score 9", "says positive"):
        assert told not in sent, told


# ---- the cost of a page


@pytest.fixture
def stopped_clock(monkeypatch):
    """The clock of the app's queue stands still: what the queue keeps for a second is kept however long a page takes."""
    now = time.time()
    monkeypatch.setattr(blindspot.app.judging_stores, "Queue", partial(Queue, clock=lambda: now))
    blindspot.app.judging_stores._cached_stores.cache_clear()
    yield
    blindspot.app.judging_stores._cached_stores.cache_clear()


def test_a_question_page_asks_the_files_little(study, monkeypatch, stopped_clock):
    """Statements on SQLite, and manifests read, by one run of the script."""
    an_hour_ago = time.time() - 3600
    os.utime(study.folder / "runs", (an_hour_ago, an_hour_ago))  # soon after a change nothing is kept; see study.COARSE
    page = Page(study.folder, "question", "lea", question="q0", a="alpha", b="beta")
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    statements, manifests = [], []
    execute, manifest = blindspot.db.connection._Connection.execute, core.read_manifest

    def counted(connection, sql, *values):
        statements.append(sql)
        return execute(connection, sql, *values)

    monkeypatch.setattr(blindspot.db.connection._Connection, "execute", counted)
    monkeypatch.setattr(core, "read_manifest", lambda folder: manifests.append(folder) or manifest(folder))
    page.app.run()
    assert "Where is thing 0?" in page.text
    # Five of them read the first passages and whether questions wait, for the finding and the tick.
    assert len(statements) <= 75, Counter(statements).most_common(5)
    assert max(Counter(manifests).values(), default=0) <= 2, Counter(manifests)


def test_whether_anything_answers_questions_is_asked_of_one_kind_after_the_other(study, monkeypatch):
    class Kind:
        extras = ()

        def __init__(self, names):
            self.names, self.asked = names, 0

        def available(self, study):
            self.asked += 1
            return self.names

    kinds = [Kind([]), Kind(["one"]), Kind(["two"])]
    monkeypatch.setattr(indexes, "RETRIEVERS", kinds)
    assert live.answering_retrievers(study) == ["one", "two"] and live.can_answer(study)
    assert [kind.asked for kind in kinds] == [2, 2, 1]
    monkeypatch.setattr(indexes, "RETRIEVERS", kinds[:1])
    assert not live.can_answer(study)
