"""Rights: the table of actions and roles, checked in the stores, the jobs, the app and the service."""

from __future__ import annotations

import subprocess
from unittest.mock import Mock
from urllib.parse import parse_qsl

import pytest

from blindspot.backend.core import jobs
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import set_unit
from blindspot.backend.evaluation import saved_slices
from blindspot.backend.judging.batches import batch_of_pairs, make_batch
from blindspot.backend.upkeep import parts
from blindspot.backend.upkeep.downloads import download
from blindspot.db.errors import BlindspotError, Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.jobs import Jobs
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue
from blindspot.db.rights import ACTIONS, JOBS, ROLES, action_of_job, role_allows
from blindspot.db.tags import Tags
from tests.app_pages import Page
from tests.job_kinds import every_kind
from tests.studies import copied
from tests.training_studies import build, training_study

NAMES = {"annotator": "ann", "adjudicator": "ada", "lead": "lea"}


@pytest.fixture(scope="module")
def untouched(tmp_path_factory) -> Study:
    study = training_study(tmp_path_factory.mktemp("rights") / "study")
    People(study.labels_path).add("lea", "lead")
    Queue(study.labels_path).add_batch("first", [Item("q0", (Candidate("p1"),))], {})
    build(study, name="raw")
    return study


@pytest.fixture
def study(untouched, tmp_path) -> Study:
    return copied(untouched, tmp_path / "study")


@pytest.fixture
def started(monkeypatch) -> list:
    """The recorded starts of job processes."""
    commands = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: commands.append(command) or Mock())
    return commands


# Attempts of each action: each must refuse a person without the right before it does anything.
ATTEMPTS = {
    "judge": [lambda study, by: Labels(study.labels_path).add(by, LabelEvent(f"bad-{by}", "bad_question", "q0"))],
    "tag questions": [
        lambda study, by: Tags(study.labels_path).add(f"word of {by}", "q0", by),
        lambda study, by: Tags(study.labels_path).remove("nothing", "q0", by),
    ],
    "adjudicate": [
        lambda study, by: Labels(study.labels_path, passages=study.corpus.ordinals).add(
            by, LabelEvent(f"a-{by}", "adjudicate", "q0", (Choice("p1", "positive"),))
        )
    ],
    "save slices": [
        lambda study, by: saved_slices.save(study, f"slice of {by}", "relation:P19", by=by),
        lambda study, by: saved_slices.delete(study, "nothing", by=by),
    ],
    "set the unit": [lambda study, by: set_unit(study, "subject", by)],
    "make batches": [
        lambda study, by: make_batch(study, f"pooled by {by}", ["r"], size=1, by=by),
        lambda study, by: batch_of_pairs(study, f"pairs of {by}", [("q0", "p1")], actor=by),
        lambda study, by: Queue(study.labels_path).add_batch(f"b {by}", [Item("q0", (Candidate("p1"),))], {}, actor=by),
    ],
    "manage batches": [
        lambda study, by: Queue(study.labels_path).set_state("first", "closed", actor=by),
        lambda study, by: Queue(study.labels_path).set_people_needed("first", 2, actor=by),
        lambda study, by: Queue(study.labels_path).assign("first", "ann", actor=by),
    ],
    "manage people": [
        lambda study, by: People(study.labels_path).add(f"friend of {by}", actor=by),
        lambda study, by: People(study.labels_path).invite(f"guest of {by}", actor=by),
        lambda study, by: People(study.labels_path).revoke("ben", actor=by),
        lambda study, by: People(study.labels_path).pause("ben", actor=by),
        lambda study, by: People(study.labels_path).set_role("ben", "adjudicator", actor=by),
    ],
    "manage parts": [
        lambda study, by: parts.delete(study, "training-set", "raw", True, actor=by),
        lambda study, by: Queue(study.labels_path).delete("first", actor=by),
    ],
    "export": [lambda study, by: download(study, "report", "report", "html", actor=by)],
    "export labels": [lambda study, by: download(study, "labels", "labels", "csv", actor=by)],
    "cancel jobs": [lambda study, by: jobs.cancel(study, "nothing", actor=by)],
}
IN_THE_PAGES = {"see results", "see others' labels"}
"""Actions that only show something; what the pages show is tested in test_blindness.py and below."""


KINDS = every_kind()
NEEDED = {"retrieve": {"kind": "bm25"}}
"""What a kind of job needs to be checked at all, besides a name."""


def submit(study: Study, kind: str, by: str | None) -> None:
    jobs.submit_request(study, jobs.JobRequest(KINDS[kind], {"name": "n"} | NEEDED.get(kind, {})), actor=by)


def attempts():
    yield from ((action, attempt) for action, each in ATTEMPTS.items() for attempt in each)
    for name in KINDS:
        yield action_of_job(name), lambda study, by, name=name: submit(study, name, by)


def is_refused(attempt, study: Study, by: str) -> bool:
    """Return whether an attempt is refused for lack of rights; other errors come later."""
    try:
        attempt(study, by)
    except Refused as error:
        return "and may not" in str(error)
    except (BlindspotError, AttributeError):
        return False
    return False


def content(study: Study) -> tuple:
    """Return everything that an attempt could have changed."""
    connection = study.questions.connection
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    files = [(path, path.read_bytes()) for path in sorted(study.folder.glob("*.json"))]
    return [connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables], files


@pytest.mark.parametrize("role", ROLES)
def test_every_attempt_is_refused_or_taken_as_the_table_says(study, started, role):
    name, tried = NAMES[role], set()
    for action, attempt in attempts():
        before = content(study)
        refused = is_refused(attempt, study, name)
        assert refused != role_allows(role, action), f"{role}: {action}"
        if refused:
            assert content(study) == before, f"{action} was refused and changed something"
        tried.add(action)
    assert len(started) == (len(KINDS) if role == "lead" else 0)
    by_command = {action for action, about in ACTIONS.items() if not about.roles}
    assert tried | IN_THE_PAGES | by_command | {"start other jobs"} == set(ACTIONS)


def test_the_role_is_read_from_the_store_at_every_act(study, started):
    people = People(study.labels_path)
    people.add("zoe", "lead")
    submit(study, "index bm25", "lea")
    people.set_role("lea", "annotator", actor="zoe")
    with pytest.raises(Refused, match="lea is an annotator and may not build indexes; this takes the role lead"):
        submit(study, "index bm25", "lea")
    assert len(started) == len(Jobs(study.labels_path).recent()) == 1


def test_every_kind_of_job_is_an_action_and_unknown_kinds_are_for_leads():
    assert set(JOBS.values()) < set(ACTIONS)
    assert {kind for kind in KINDS if action_of_job(kind) == "start other jobs"} == set()
    assert action_of_job("something new") == "start other jobs"
    assert all(ACTIONS[action_of_job(kind)].roles == ("lead",) for kind in (*KINDS, "something new"))


def test_the_command_line_may_do_everything(study, started):
    for name in KINDS:
        submit(study, name, None)
    saved_slices.save(study, "mine", "relation:P19")
    assert len(started) == len(KINDS)


# ---- the app: a page hides what would be refused, and a press that was on its way is refused

BUTTONS = {
    "": {"lead": {"Start"}, "adjudicator": set(), "annotator": set()},
    "training": {"lead": {"Build"}, "adjudicator": set(), "annotator": set()},
    "training?tab=sets": {"lead": {"Build"}, "adjudicator": set(), "annotator": set()},
    "training?tab=models": {
        "lead": {"Train on raw", "Train a cross-encoder on raw"},
        "adjudicator": set(),
        "annotator": set(),
    },
    "training?tab=judges": {"lead": set(), "adjudicator": set(), "annotator": set()},
    "team": {
        "lead": {"Close batch", "Create batch", "Pause", "Create link", "Add and create link"},
        "adjudicator": set(),
        "annotator": set(),
    },
}


@pytest.mark.parametrize("page", BUTTONS)
@pytest.mark.parametrize("role", ROLES)
def test_pages_hide_what_would_be_refused(study, page, role):
    name, _, parameters = page.partition("?")
    shown = {button.label for button in Page(study.folder, name, NAMES[role], **dict(parse_qsl(parameters))).app.button}
    found = {label for label in BUTTONS[page]["lead"] if any(each.startswith(label) for each in shown)}
    assert found == (BUTTONS[page]["lead"] if role == "lead" else set())
    assert role == "lead" or not shown, shown


def test_a_press_on_a_button_that_a_former_lead_still_sees_is_refused(study, started, monkeypatch):
    people = People(study.labels_path)
    people.add("zoe", "lead")
    page = Page(study.folder, "", "lea")
    start = next(button for button in page.app.button if button.label == "Start")
    people.set_role("lea", "annotator", actor="zoe")
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    start.click().run()
    assert started == [] and Jobs(study.labels_path).recent() == []
    assert not [button for button in page.app.button if button.label == "Start"], "the page is an annotator's now"


def test_a_press_of_somebody_who_is_not_signed_in_any_more_is_refused(study, started, monkeypatch):
    """Streamlit runs a button's function before the page, so the page's own check comes too late."""
    page = Page(study.folder, "", "lea")
    start = next(button for button in page.app.button if button.label == "Start")
    monkeypatch.setenv(
        "BLINDSPOT_STUDY", str(study.folder)
    )  # and no BLINDSPOT_SIGN_IN: a name alone counts for nothing
    start.click().run()
    assert started == [] and Jobs(study.labels_path).recent() == []
    assert not page.app.exception and "Please sign in" in page.text


def test_nobody_sees_the_labels_of_others_without_the_right(study):
    labels = Labels(study.labels_path, passages=study.corpus.ordinals)
    labels.add("ben", LabelEvent("one", "label", "q1", (Choice("p2", "positive"),)))
    Queue(study.labels_path).set_state("first", "closed")
    for person, sees in ((None, False), ("ada", True), ("lea", True)):
        assert ("All labels:" in Page(study.folder, "question", person, question="q1").text) is sees
        training = Page(study.folder, "training", person, set="raw").text
        assert ("New labels would change" in training) is sees
        assert ("1 label by" in Page(study.folder, "quality", person).text) is sees
