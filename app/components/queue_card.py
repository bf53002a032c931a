"""Home's word on judging: what is open, how far it is, and the way back to one's own work."""

from __future__ import annotations

from app import url
from app.desk import desk
from app.markup import Html, div, link, span, tag
from backend.core.study import Study
from db.people import Person


def queue_card(study: Study, person: Person | None, runs: int) -> Html:
    """Nothing where there is neither a batch nor a run to make one from."""
    stores = desk(study)
    batches = [batch for batch in stores.queue.batches() if batch.state == "open"]
    if not batches and not runs:
        return Html("")
    if not batches:
        return div(tag("h2", "Judging"), tag("p", "Passages on top that nobody labelled may answer all the same: false negatives. ",
                                             link("Make a batch to judge", url.JUDGE)), cls="panel")  # fmt: skip
    held = len(stores.queue.held(person.name)) if person is not None else 0
    words = "Go on judging" if held else "Judge"
    button = link(words, url.JUDGE, cls="button", data_key="j", title="Key: j")
    lines = [_line(batch.name, batch.done, batch.questions, batch.practice) for batch in batches]
    return div(div(tag("h2", "Judging"), button, cls="list-head"), *lines, cls="panel")


def _line(name: str, done: int, questions: int, practice: bool) -> Html:
    share = done / questions if questions else 0.0
    told = "practice" if practice else f"{done:,} of {questions:,} questions done"
    bar = "" if practice else div(span(style=f"width:{100 * share:.1f}%"), cls="progress")
    return div(div(span(name, cls="job-name"), span(told, cls="soft"), cls="job-line"), bar, cls="job")
