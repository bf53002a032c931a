"""Blindness: a person who still has to judge a question cannot see its ranks, scores, gold or other people's labels."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections import Counter
from csv import DictReader
from functools import partial
from io import StringIO

import pytest

import blindspot.app.judging_stores
import blindspot.db.connection
import blindspot.db.queue
from blindspot.backend.core import study as core
from blindspot.backend.core.study import Study
from blindspot.backend.judging.cards import Cards
from blindspot.backend.retrieval import indexes, live
from blindspot.backend.upkeep.downloads import download
from blindspot.db.errors import Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.leases import LEASE_SECONDS
from blindspot.db.people import PAUSE_SECONDS, People
from blindspot.db.queue import Candidate, Item, Queue
from tests.app_pages import Page, hand_made_study, sent_to_browser
from tests.judging import Desk


@pytest.fixture
def desk(tmp_path) -> Desk:
    return Desk(tmp_path)


# ---- the rule


def test_questions_are_hidden_from_an_annotator_until_they_are_finished(desk):
    desk.batch(questions=2)
    assert desk.queue.hidden_questions("ann") == {"q0", "q1"}, "the queue may hand out either"
    assert desk.claim("ann") == ["q0"]
    desk.work("ann", "b1", "q0")
    assert desk.queue.hidden_questions("ann") == {"q1"}
    assert desk.queue.hidden_questions("ben") == {"q1"}, "q0 has all the people it needs, and will not come to ben"
    desk.queue.set_state("b1", "closed")
    assert desk.queue.hidden_questions("ann") == desk.queue.hidden_questions("ben") == frozenset()


def test_assigned_and_skipped_questions(desk):
    desk.batch(questions=3)
    desk.queue.assign("b1", "ben", ["q0"])
    assert desk.queue.hidden_questions("ann") == {"q1", "q2"} and "q0" in desk.queue.hidden_questions("ben")
    assert desk.claim("ann") == ["q1"]
    desk.queue.skip("ann", "b1", "q1")
    assert desk.queue.hidden_questions("ann") == {"q1", "q2"}, "a question that was skipped once comes back"
    assert desk.claim("ann", 2) == ["q2", "q1"]
    desk.queue.skip("ann", "b1", "q1")
    assert desk.queue.hidden_questions("ann") == {"q2"}


def test_from_people_who_settle_only_what_they_hold_is_hidden(desk):
    desk.batch(questions=3)
    assert desk.queue.hidden_questions("lea") == frozenset()
    assert desk.claim("lea") == ["q0"]
    assert desk.queue.hidden_questions("lea") == {"q0"} and desk.queue.hidden_questions("ada") == frozenset()
    desk.clock.now += 3600  # the lease lapses
    assert desk.queue.hidden_questions("lea") == frozenset()


def test_practice_hides_its_settled_labels_until_it_is_done(desk):
    desk.batch("practice", questions=1, practice=True)
    assert desk.queue.hidden_questions("ann") == desk.queue.hidden_questions("ben") == {"q0"}
    desk.claim("ann")
    desk.work("ann", "practice", "q0")
    assert desk.queue.hidden_questions("ann") == frozenset() and desk.queue.hidden_questions("ben") == {"q0"}


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


def test_outside_batches_a_hidden_question_is_refused_and_another_is_never_blind(desk):
    desk.batch(questions=1)
    hidden, free = (desk.sent(question, {"p1": "positive"}, batch=None) for question in ("q0", "q4"))
    first, second = desk.labels.add_all("ann", [hidden, {**free, "blind": True}])
    assert first.state == "refused" and "has still to judge question 'q0'" in first.message
    assert second.state == "stored" and [row.blind for row in desk.labels.events()] == [0]


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
    assert states(desk.labels.add_all("ada", [sent, held])) == ["refused", "refused"], "she has still to judge it"
    assert states(desk.labels.add_all("lea", [held | {"id": "leas"}])) == ["stored"]


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
    """Ann may still get q0 (both runs find it at rank 1) and q3 (only beta finds it). Lea is a lead, Ada an
    adjudicator, and Ben is done with q3.
    """
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


def finish(study: Study, name: str) -> None:
    queue, labels = Queue(study.labels_path), Labels(study.labels_path)
    for lease in queue.claim(name, 5):
        event = LabelEvent(f"{name}-{lease.question}", "bad_question", lease.question, batch=lease.batch)
        labels.add(name, event)
        queue.finish(name, lease.batch, lease.question)


PAIR = {"a": "alpha", "b": "beta", "k": 5}


def test_compare_leaves_hidden_questions_out_of_lists_and_figures(study):
    page = Page(study.folder, "compare", "ann", **PAIR)
    assert "5 questions. " in page.text and "2 questions left out: you have still to judge them" in page.text
    assert "Where is thing 3?" not in page.text and "Where is thing 1?" in page.text
    assert "Accuracy with people's labels" not in page.text, "ben's label would show in the corrected figures"
    for narrow in ({"text": "thing 3"}, {"slice": "relation:P50", "text": "q3"}):
        assert "thing 3" not in Page(study.folder, "compare", "ann", **PAIR, **narrow).part(r"<table.*?</table>")
    for sees in ("lea", "ada"):
        page = Page(study.folder, "compare", sees, **PAIR)
        assert "Where is thing 3?" in page.text and "Accuracy with people's labels" in page.text
    finish(study, "ann")
    page = Page(study.folder, "compare", "ann", **PAIR)
    assert "Where is thing 3?" in page.text and "left out: you have still" not in page.text


@pytest.mark.parametrize("person, questions", [("ann", 5), ("lea", 7)])
def test_a_saved_table_has_the_questions_of_the_page(study, monkeypatch, person, questions):
    saved = []
    monkeypatch.setattr(
        "blindspot.app.components.download_buttons.table_downloads", lambda name, latex, csv: saved.append((latex, csv))
    )
    Page(study.folder, "compare", person, **PAIR, by="relation")
    ((latex, csv),) = saved
    rows = list(DictReader(StringIO(csv())))
    assert {row["n"] for row in rows if row["group"] == "all"} == {str(questions)}
    assert latex().startswith("%")


@pytest.mark.parametrize("more", [{}, {"adjudicate": 1}, {"show": 15}, {"reader": "x"}])
def test_the_question_page_does_not_open_a_hidden_question(study, more):
    page = Page(study.folder, "question", "ann", question="q3", a="alpha", b="beta", **more)
    assert "Judge first" in page.text
    for told in ("Ansver3", "Town 3", "filler", "passage containing", "gold passage at", "All labels:"):
        assert told not in page.html, told
    finish(study, "ann")
    assert "Town 3" in Page(study.folder, "question", "ann", question="q3", a="alpha", b="beta").text


def test_the_walk_through_the_list_passes_hidden_questions_by(study):
    page = Page(study.folder, "question", "ann", question="q2", a="alpha", b="beta")
    assert "q3" not in "".join(page.part(r'data-trail="[^"]*"')) and "&quot;q3&quot;" not in page.html


def test_slices_relations_and_home_leave_hidden_questions_out(study):
    page = Page(study.folder, "slices", "ann", **PAIR, slice="relation:P50")
    assert "Where is thing 3?" not in page.text and "3 questions" in page.text
    assert "4 questions" in Page(study.folder, "slices", "lea", **PAIR, slice="relation:P50").text
    assert "5 questions measured in all runs" in Page(study.folder, "relations", "ann", runs="alpha,beta").text
    assert "7 questions measured in all runs" in Page(study.folder, "relations", "lea", runs="alpha,beta").text


def test_somebody_who_holds_a_question_is_blind_to_it_whatever_their_role(study):
    assert [lease.question for lease in Queue(study.labels_path).claim("lea", 1)] == ["q3"]
    assert "Judge first" in Page(study.folder, "question", "lea", question="q3", a="alpha", b="beta").text
    assert "Where is thing 0?" in Page(study.folder, "compare", "lea", **PAIR).text
    finish(study, "lea")
    assert "Town 3" in Page(study.folder, "question", "lea", question="q3", a="alpha", b="beta").text


def test_the_report_that_a_lead_downloads_shows_no_question_that_they_still_have_to_judge(study):
    def report(by):
        content = download(study, "report", "report", "html", actor=by).content.decode()
        return re.sub("<script.*?</script>", "", content, flags=re.DOTALL)

    assert "Where is thing 3?" in report("lea") and "q3" in report("lea")
    (lease,) = Queue(study.labels_path).claim("lea", 1)
    assert lease.question == "q3"
    said = report("lea")
    assert "Where is thing 3?" not in said and "q3" not in said and "Where is thing 1?" in said
    assert "1 question that you still have to judge: none is an example here." in said
    assert "Where is thing 3?" in report(None)
    with pytest.raises(Refused, match="you have still to judge 1 question of alpha; download it after that"):
        download(study, "run", "alpha", "trec", actor="lea")
    page = Page(study.folder, "home", "lea")
    assert "once you have judged its questions" in page.text or "Download" not in page.text
    finish(study, "lea")
    assert b"q3" in download(study, "run", "alpha", "trec", actor="lea").content and "q3" in report("lea")


def test_quality_leaves_out_what_an_adjudicator_holds_herself(study):
    people, labels = People(study.labels_path), Labels(study.labels_path, passages=study.corpus.ordinals)
    people.add("cid")
    for question in ("q3", "q5"):
        for name, label in (("ben", "positive"), ("cid", "negative")):
            labels.add(name, LabelEvent(f"{name}-{question}", "label", question, (Choice("filler0", label),)))
    assert "Where is thing 3?" in Page(study.folder, "quality", "ada").text
    assert [lease.question for lease in Queue(study.labels_path).claim("ada", 1)] == ["q3"]
    page = Page(study.folder, "quality", "ada")
    assert "Where is thing 3?" not in page.text and "Where is thing 5?" in page.text


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


def test_questions_of_one_s_own_wait_until_the_others_are_judged(study, monkeypatch):
    from blindspot.backend.retrieval import live

    asked = []
    monkeypatch.setattr(live, "answering_retrievers", lambda _: ["bm25"])
    monkeypatch.setattr(live, "index_state", lambda _: ())

    def search(study_, retriever, questions, k):
        asked.extend(questions)
        return study_.run("alpha").hits.__class__(
            study_.run("alpha").hits.ordinals[:1], study_.run("alpha").hits.scores[:1]
        )

    monkeypatch.setattr(live, "search", search)
    page = Page(study.folder, "question", "ann", ask="Anything at all?")
    assert (
        "you can ask your own questions once you have judged those assigned to you: 2 questions remaining" in page.text
        and not asked
    )
    Queue(study.labels_path).claim("lea", 1)
    page = Page(study.folder, "question", "lea", ask="where is THING 3")
    assert "its ranks are hidden until you finish it" in page.text and not asked
    Page(study.folder, "question", "lea", ask="Anything at all?")
    assert asked == ["Anything at all?"]
    finish(study, "lea")
    finish(study, "ann")
    Page(study.folder, "question", "ann", ask="Anything of ann's?")
    assert asked[1:] == ["Anything of ann's?"]


# ---- the cost of a page


def test_what_is_hidden_is_read_again_only_when_the_file_or_the_second_changes(tmp_path, monkeypatch):
    desk, now, asked = Desk(tmp_path), [1000.0], []
    desk.batch(questions=2)
    queue = Queue(desk.queue.path, clock=lambda: now[0])
    read = blindspot.db.queue.hidden_questions
    monkeypatch.setattr(blindspot.db.queue, "hidden_questions", lambda *about: asked.append(about) or read(*about))
    assert [queue.hidden_questions("ann") for _ in range(5)] == [{"q0", "q1"}] * 5 and len(asked) == 1
    assert queue.hidden_questions("lea") == frozenset() and queue.hidden_questions("ann") == {"q0", "q1"}, (
        "each person has an own answer"
    )
    desk.queue.set_state("b1", "closed")  # another connection writes
    assert queue.hidden_questions("ann") == frozenset()
    queue.set_state("b1", "open")  # the same connection writes
    assert queue.hidden_questions("ann") == {"q0", "q1"}
    assert [lease.question for lease in queue.claim("lea", 1)] == ["q0"] and queue.hidden_questions("lea") == {"q0"}
    now[0] += LEASE_SECONDS + 1
    assert queue.hidden_questions("lea") == frozenset(), "the lease has lapsed, though nobody wrote"


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
    finish(study, "ann")
    an_hour_ago = time.time() - 3600
    os.utime(study.folder / "runs", (an_hour_ago, an_hour_ago))  # soon after a change nothing is kept; see study.COARSE
    page = Page(study.folder, "question", "ann", question="q0", a="alpha", b="beta")
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    statements, hidden, manifests = [], [], []
    execute, read, manifest = (
        blindspot.db.connection._Connection.execute,
        blindspot.db.queue.hidden_questions,
        core.read_manifest,
    )

    def counted(connection, sql, *values):
        statements.append(sql)
        return execute(connection, sql, *values)

    monkeypatch.setattr(blindspot.db.connection._Connection, "execute", counted)
    monkeypatch.setattr(blindspot.db.queue, "hidden_questions", lambda *about: hidden.append(about) or read(*about))
    monkeypatch.setattr(core, "read_manifest", lambda folder: manifests.append(folder) or manifest(folder))
    page.app.run()
    assert "Where is thing 0?" in page.text
    assert len(hidden) <= 1
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
