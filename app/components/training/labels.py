"""How labels are used: which of them train, and a batch that would give labels that train."""

from __future__ import annotations

from blindspot.app import study
from blindspot.app.components.marks import notice
from blindspot.app.components.team.batches import offer_batch
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import show, tag
from blindspot.app.runs import over_training_questions
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity


def label_sentence(open_study: Study) -> str:
    """Say how many labels are on training questions; "" if none is."""
    given = judging_stores(open_study).labels.label_counts_by_split()
    total, training = sum(given.values()), given.get("train", 0)
    if not training:
        return ""
    others = f", {total - training:,} on other questions, which correct the evaluation and never train"
    words = f": {training:,} on training questions{others}" if training < total else ", all on training questions"
    return f"{quantity(total, 'label')}{words}."


def label_warning(open_study: Study) -> None:
    """If there are labels, and none is on a training question, show a warning, and offer a batch of training questions."""
    given = judging_stores(open_study).labels.label_counts_by_split()
    total = sum(given.values())
    if not total or given.get("train", 0):
        return
    show(
        notice(
            f"{quantity(total, 'label')}: 0 on training questions. Labels of dev and test questions correct the evaluation and never enter training, so they change no training set.",
            kind="warning",
        )
    )
    _offer_batch(open_study)


def _offer_batch(open_study: Study) -> None:
    if not offer_batch(
        open_study,
        "train",
        over_training_questions(open_study, study.runs(open_study)),
        "training questions",
        splits=["train"],
    ):
        show(
            tag(
                "p",
                "A batch of training questions needs a run over them; on the Sets tab you can start one.",
                cls="soft",
            )
        )
