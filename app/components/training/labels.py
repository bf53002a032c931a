"""How the labels so far count: which of them train, and the batch that would give labels that train."""

from __future__ import annotations

from blindspot.app import study, url, who
from blindspot.app.components import jobs
from blindspot.app.components.marks import notice
from blindspot.app.desk import desk
from blindspot.app.markup import link, show, tag
from blindspot.app.runs import over_training_questions
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.text.counting import counted

RUNS = 3  # at most, for the offered batch to pool


def label_counts(opened: Study) -> None:
    """Show how many labels are on training questions. If none is, offer a batch of training questions."""
    given = desk(opened).labels.given_by_split()
    total, training = sum(given.values()), given.get("train", 0)
    if not total:
        return
    if training:
        words = f"{counted(total, 'label')}: {training:,} on training questions"
        rest = (
            ""
            if training == total
            else f", {total - training:,} on other questions, which correct the evaluation and never train"
        )
        show(tag("p", f"{words}{rest}.", cls="convention"))
        return
    show(
        notice(
            f"{counted(total, 'label')}: 0 on training questions. Labels of dev and test questions correct the "
            "evaluation and never train, so these labels change no training set.",
            kind="warning",
        )
    )
    _offer(opened)


def _offer(opened: Study) -> None:
    batches = desk(opened).queue.batches()
    waiting = next(
        (each for each in batches if each.state == "open" and each.settings.get("splits") == ["train"]), None
    )
    if waiting is not None:
        show(tag("p", link(f"Judge batch {waiting.name}", url.JUDGE), ": its questions are training questions."))
        return
    runs = over_training_questions(opened, study.shown_runs(opened))
    if not runs:
        show(tag("p", "A batch of training questions needs a run over them; Sets starts one.", cls="soft"))
        return
    if not who.may(opened.labels_path, "make batches"):
        return
    taken = {batch.name for batch in batches}
    name = next(name for number in range(1, 10_000) if (name := f"train-{number}") not in taken)
    jobs.start_button(
        opened,
        request(make_batch, name, runs[:RUNS], splits=["train"]),
        key="batch-that-trains",
        words="Make a batch of training questions",
    )
