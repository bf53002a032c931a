"""Errors in the app: one line that names the log, and a page that retries by itself."""

from __future__ import annotations

import logging
import sqlite3

import pytest

from blindspot.app.log import LOG, start_log, where_details_are
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue
from tests.app_pages import Page, hand_made_study


@pytest.fixture
def study(tmp_path):
    made = hand_made_study(tmp_path / "s")
    People(made.labels_path).add("Ann", "lead")
    Queue(made.labels_path).add_batch("first", [Item("q0", (Candidate("answer0", 0),))], {})
    return made


@pytest.fixture
def logging_restored():
    root, streamlit = logging.getLogger(), logging.getLogger("streamlit")
    before = root.handlers, root.level, streamlit.handlers, streamlit.propagate, logging.raiseExceptions
    yield
    for handler in root.handlers:
        if handler not in before[0]:
            handler.close()
    root.handlers, root.level, streamlit.handlers, streamlit.propagate, logging.raiseExceptions = before


def fail(error):
    def failing(*_, **__):
        raise error

    return failing


@pytest.mark.parametrize(
    "error, retries",
    [
        (sqlite3.OperationalError("database or disk is full"), True),
        (OSError(5, "Input/output error"), True),
        (KeyError("nothing"), False),
        (ValueError("odd\nvalue"), False),
    ],
)
def test_an_error_of_a_page_is_one_line(study, monkeypatch, caplog, error, retries):
    monkeypatch.setattr("blindspot.backend.core.study.Study.parts", fail(error))
    page = Page(study.folder)
    assert ("tries again every few seconds" in page.text) is retries
    assert type(error).__name__ in page.text or "cannot be read or written now" in page.text
    assert "Details: " in page.text and "Traceback" not in page.text
    assert "a page failed" in caplog.text and "in failing" in caplog.text, "the traceback is in the log"


def test_judge_comes_back_by_itself_after_a_full_disk(study, monkeypatch):
    with monkeypatch.context() as failing:
        failing.setattr("blindspot.db.queue.Queue.claim", fail(sqlite3.OperationalError("database or disk is full")))
        failing.setattr("blindspot.app.who.signed_in_person", lambda path: People(path).get("Ann"))
        page = Page(study.folder, "judge")
        assert "database or disk is full. This page tries again" in page.text
        assert "first" in page.text, "the rest of the page is there"
    monkeypatch.setattr("blindspot.app.who.signed_in_person", lambda path: People(path).get("Ann"))
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    page.app.run()
    assert "tries again" not in page.text and not page.app.exception


def test_errors_go_to_a_log_that_is_bounded(tmp_path, logging_restored, monkeypatch):
    monkeypatch.setattr("blindspot.app.log.BYTES", 2000)
    assert where_details_are() == "Details: the terminal where the app was started."
    start_log(tmp_path)
    assert where_details_are() == f"Details: {LOG} in the study's folder."
    for number in range(200):
        try:
            raise ValueError(f"number {number}")
        except ValueError as error:
            logging.getLogger("streamlit.runtime").error("a page failed", exc_info=error)
    files = sorted((tmp_path / "logs").iterdir())
    assert [file.name for file in files] == ["app.log", "app.log.1", "app.log.2", "app.log.3"]
    assert sum(file.stat().st_size for file in files) < 10_000 and "ValueError: number 199" in files[0].read_text()


def test_a_study_that_cannot_be_written_to_has_no_log_and_opens(tmp_path, logging_restored, capsys):
    (tmp_path / "logs").write_text("a file where the folder should be")
    start_log(tmp_path)
    assert "the app writes no log" in capsys.readouterr().err
    assert where_details_are() == "Details: the terminal where the app was started."
