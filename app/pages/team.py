"""Team: the people of the study with their links and roles, their progress, and the batches that they judge."""

from __future__ import annotations

from blindspot.app import study, who
from blindspot.app.components.team.view import render
from blindspot.app.entry import enter


def page() -> None:
    opened = study.current()
    render(opened, who.signed_in_person(opened.labels_path))


enter(page)
