"""Judging in a browser: what people do and see."""

from __future__ import annotations

from blindspot.app import server
from blindspot.db.labels import Labels

PASSAGES = 10
SAVED = ".judge .status:not(.unsaved)"


def sit_down(tab, port=None, name="Ann", **address):
    """Sign in on Judge: on the page that is open, or on that of a server's port."""
    if port is not None:
        tab.goto(f"http://{server.ADDRESS}:{port}/judge")
    tab.get_by_label("Your name").or_(tab.get_by_label("New name")).fill(name)
    tab.get_by_role("button", name="Start").click()
    tab.wait_for_selector(".judge .candidate.here")


def shown(tab):
    """The question on the page."""
    return tab.locator(".judge h1").inner_text()


def press(tab, *keys, gap=30):
    for key in keys:
        tab.keyboard.press(key)
        tab.wait_for_timeout(gap)


def labels(study, annotator="Ann"):
    """Return the labels in force: (question, passage) to label."""
    return {
        (j.question, j.passage): j.label for j in Labels(study.labels_path).judgements() if j.annotator == annotator
    }
