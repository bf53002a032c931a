"""The button that lets other machines in: a second server with personal links, which ends with the app or by a button."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from blindspot.app import network
from blindspot.db.people import People
from tests.app_pages import Page, hand_made_study


def answer(address: str) -> int:
    with urllib.request.urlopen(address, timeout=10) as found:
        return found.status


def test_others_are_let_in_and_kept_out(tmp_path, monkeypatch):
    study = hand_made_study(tmp_path / "study")
    address = network.address()
    assert address == network.address() and not network.is_open()
    with pytest.raises(urllib.error.URLError):
        answer(address)
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")  # what holds for the app's own people does not hold for others
    network.let_others_in(study)
    try:
        assert network.is_open() and answer(f"{address}/_stcore/health") == 200
        secret = People(study.labels_path).invite("Ann")
        assert answer(f"{address}/judge?invite={secret}") == 200
        network.let_others_in(study)
        assert network.is_open(), "a second press changes nothing"
    finally:
        network.keep_others_out()
    assert not network.is_open()
    with pytest.raises(urllib.error.URLError):
        answer(address)


def test_who_came_by_the_network_has_no_such_button(tmp_path):
    """Only whoever uses the machine itself lets others in; here the page is one that others reach."""
    study = hand_made_study(tmp_path / "study")
    People(study.labels_path).add("Lea", "lead")
    page = Page(study.folder, "team", "Lea")
    assert "door" not in [each.key for each in page.app.button]
