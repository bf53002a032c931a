"""Quality: disagreements, agreement, annotators' work, and the rate of false negatives."""

from __future__ import annotations

from blindspot.app import study, who
from blindspot.app.components.quality.view import render
from blindspot.app.entry import enter


def page() -> None:
    opened = study.current()
    render(opened, who.signed_in_person(opened.labels_path))


enter(page)
