"""The Team page as one person sees it."""

from __future__ import annotations

from blindspot.app import url, who
from blindspot.app.components import jobs
from blindspot.app.components.marks import empty
from blindspot.app.components.sign_in import sign_in
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.team.batches import batch_panel
from blindspot.app.components.team.guidelines import guidelines_panel
from blindspot.app.components.team.people import people_panel
from blindspot.app.components.team.progress import passages_to_settle, progress_panel
from blindspot.app.judging_stores import judging_stores, label_count_words
from blindspot.app.markup import div, link, show, tag
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.db.people import Person


def render(open_study: Study, person: Person | None) -> None:
    """Show the page to a lead; tell other people why they cannot use it."""
    if person is None:
        sign_in(open_study.labels_path, "On this page leads manage people, batches and guidelines.")
        return
    if not person.is_allowed("manage people"):
        show(empty("For leads only", "On this page leads manage people and batches, and see their progress."))
        return
    queue = judging_stores(open_study).queue
    own = sum(queue.available_counts(person.name).values()) if not person.paused else 0
    has_batch = any(batch.state == "open" for batch in queue.batches())
    show(style_sheet("team/team.css"), tag("h1", _answer(open_study)))
    if own:
        words = f"Judge your {quantity(own, 'question')}"
        show(div(link(words, url.JUDGE, cls="button main", data_key="j", title="Key: j"), cls="action"))
    elif has_batch and passages_to_settle(open_study):
        show(div(link("Settle the disagreements", url.QUALITY, cls="button"), cls="action"))
    alone = len(who.real_people(open_study.labels_path)) < 2
    with jobs.with_job_panel(open_study):
        progress_panel(open_study)
        batch_panel(open_study, primary=not has_batch)
        people_panel(open_study, person, primary=has_batch and alone and not own)
        guidelines_panel(open_study)
        jobs.panel(open_study)


def _answer(open_study: Study) -> str:
    """Say in a sentence how many labels there are, and what waits."""
    stores = judging_stores(open_study)
    open_batches = [each for each in stores.queue.batches() if each.state == "open" and not each.practice]
    given = label_count_words(open_study) if stores.labels.label_counts_by_person() else "No labels yet"
    disputed = passages_to_settle(open_study)
    rest = [f"{quantity(disputed, 'disagreement')} to settle"] if disputed else []
    waiting = sum(each.questions - each.done for each in open_batches)
    judged = f"{quantity(waiting, 'question')} {noun_form(waiting, 'waits', 'wait')} to be judged"
    return f"{given}; {', '.join([*rest, judged if open_batches else 'no batch is open'])}."
