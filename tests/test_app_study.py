"""What the app makes ready in the background, before anybody asks."""

from __future__ import annotations

import threading
import time

from app import study
from tests.app_pages import Page, hand_made_study


def test_work_ahead_is_done_once_for_a_key_by_a_thread_of_its_own():
    done, who = threading.Event(), []

    def work():
        who.append(threading.current_thread())
        done.set()

    for _ in range(3):
        study.ahead(work, "once", 1)
    assert done.wait(10) and len(who) == 1 and who[0] is not threading.current_thread()
    done.clear()
    study.ahead(work, "once", 2)
    assert done.wait(10) and len(who) == 2


def test_work_ahead_that_fails_stops_nothing(capfd):
    failed = threading.Event()

    def work():
        failed.set()
        raise ValueError("no gold")

    study.ahead(work, "fails")
    assert failed.wait(10)
    study.ahead(lambda: None, "fails")
    assert "Traceback" not in capfd.readouterr().err


def test_the_finder_finds_its_facts_made_by_the_slices_page(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(study, "ahead", lambda work, *key, **more: made.append((work, key)))
    toy = hand_made_study(tmp_path / "toy")
    Page(toy.folder, "slices", a="alpha", b="beta")
    [work] = [work for work, key in made if key[0] == "gold facts"]
    assert list(work()) == list(work()) and len(work()) == 7


def test_what_the_first_test_needs_is_loaded_after_the_first_page(tmp_path, monkeypatch):
    loaded = threading.Event()
    monkeypatch.setattr(study, "import_module", lambda name: loaded.set())
    monkeypatch.setattr(study, "SECONDS_TO_READ", 0.2)
    study._ahead.clear()
    began = time.monotonic()
    Page(hand_made_study(tmp_path / "toy").folder)
    assert loaded.wait(10) and time.monotonic() - began >= 0.2
