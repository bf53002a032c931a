"""Home's panel about judging: the open batches, their progress, and a link to judge."""

from __future__ import annotations

from blindspot.app import url
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, div, link, span, tag
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity
from blindspot.db.people import Person


def queue_card(study: Study, person: Person | None, runs: int) -> Html:
    """The panel; empty while the study has no batch and no run from which a batch could be built."""
    stores = judging_stores(study)
    batches = [batch for batch in stores.queue.batches() if batch.state == "open"]
    if not batches and not runs:
        return Html("")
    if not batches:
        return div(
            tag("h2", "Judging"),
            tag(
                "p",
                "Top-ranked passages that nobody has labelled may still answer the question. Those are false "
                "negatives. ",
                link("Create a batch to judge", url.JUDGE),
            ),
            cls="panel",
        )
    held = len(stores.queue.leases_of(person.name)) if person is not None else 0
    words = "Continue judging" if held else "Judge"
    button = link(words, url.JUDGE, cls="button", data_key="j", title="Key: j")
    lines = [_batch_line(batch.name, batch.done, batch.questions) for batch in batches]
    return div(div(tag("h2", "Judging"), button, cls="list-head"), *lines, cls="panel")


def _batch_line(name: str, judged_count: int, questions: int) -> Html:
    share = judged_count / questions if questions else 0.0
    state = f"{judged_count:,} of {quantity(questions, 'question')} done"
    bar = div(span(style=f"width:{100 * share:.1f}%"), cls="progress")
    return div(div(span(name, cls="job-name"), span(state, cls="soft"), cls="job-line"), bar, cls="job")
