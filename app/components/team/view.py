"""The Team page as one person sees it."""

from __future__ import annotations

from blindspot.app import url, who
from blindspot.app.components import jobs
from blindspot.app.components.marks import empty
from blindspot.app.components.sign_in import sign_in
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.team.batches import batch_panel
from blindspot.app.components.team.people import people_panel
from blindspot.app.components.team.progress import agreement_words, passages_to_settle, progress_panel
from blindspot.app.judging_stores import judging_stores, label_count_words
from blindspot.app.markup import Html, div, join, link, show, tag
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.db.people import Person


def render(open_study: Study, person: Person | None) -> None:
    """Show the page to a lead; tell other people why they cannot use it."""
    if person is None:
        sign_in(open_study.labels_path, "On this page leads manage people and batches.")
        return
    if not person.is_allowed("manage people"):
        show(empty("For leads only", "On this page leads manage people and batches, and see their progress."))
        return
    queue = judging_stores(open_study).queue
    own = sum(queue.available_counts(person.name).values()) if not person.paused else 0
    has_batch = any(batch.state == "open" for batch in queue.batches())
    show(style_sheet("team/team.css"), tag("h1", _answer(open_study, own)), _labels_line(open_study))
    if own:
        words = f"Judge your {quantity(own, 'question')}"
        show(div(link(words, url.JUDGE, cls="button main", data_key="j", title="Key: j"), cls="action"))
    elif has_batch and (disputed := passages_to_settle(open_study)):
        words = f"Settle {quantity(disputed, 'passage')}"
        show(div(link(words, url.QUALITY, cls="button main"), cls="action"))
    alone = len(who.real_people(open_study.labels_path)) < 2
    with jobs.with_job_panel(open_study):
        progress_panel(open_study)
        batch_panel(open_study, primary=not has_batch)
        people_panel(open_study, person, primary=has_batch and alone and not own)
        jobs.panel(open_study)


def _answer(open_study: Study, own: int) -> Html:
    """Say in a sentence what waits, or what is labelled. own: how many questions wait for this person."""
    stores = judging_stores(open_study)
    batches = [each for each in stores.queue.batches() if each.state == "open"]
    total = sum(each.questions for each in batches)
    waiting = total - sum(each.done for each in batches)
    counted = (
        f"{waiting:,} of {quantity(total, 'question')}"
        if total / 2 < waiting < total
        else quantity(waiting, "question")
    )
    if not batches:
        answer = "No batch is open" if stores.labels.last_event else "No labels yet; no batch is open"
    elif not waiting:
        answer = "Labelling is done"
    elif own == waiting:
        answer = f"{counted} {noun_form(waiting, 'waits', 'wait')} for you"
    elif own:
        answer = f"{counted} wait to be judged, {own:,} of them by you"
    else:
        answer = f"{counted} {noun_form(waiting, 'waits', 'wait')} to be judged"
    disputed = passages_to_settle(open_study)
    if not disputed:
        return join(answer, ".")
    return join(
        answer, "; ", link(f"{quantity(disputed, 'disagreement')} to settle", url.QUALITY, cls="to-settle"), "."
    )


def _labels_line(open_study: Study) -> Html:
    """Say who gave how many labels, and how well they agree."""
    if not judging_stores(open_study).labels.last_event:
        return Html("")
    given, found = label_count_words(open_study), agreement_words(open_study)
    if found is None:
        return tag("p", f"{given}. No passage has been judged blind by two annotators yet.", cls="lead")
    about = f" Most disputes are about the label “{found.label}”." if found.label else ""
    said = f"{given}. On the passages that two judged blind they agree with {found.sentence}.{about}"
    return tag("p", said, cls="lead", title=found.detail)
