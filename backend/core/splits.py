"""Select questions by split (train, dev, test, unlabelled), by named set, or by the split of a named set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blindspot.db.errors import Missing
from blindspot.db.records import SPLITS, Question

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study


def questions_in_split(study: Study, split: str | None) -> list[Question]:
    """Return the questions of a split (train, dev, test, unlabelled), of a named set, or of a set's split
    ("similar/dev"). None returns all questions.

    Raises Missing if there are no such questions.
    """
    if split is None:
        questions = study.questions.all()
    elif "/" in split:
        dataset, _, part = split.partition("/")
        questions = study.questions.all(split=part, dataset=dataset)
    else:
        questions = study.questions.all(split=split) if split in SPLITS else study.questions.all(dataset=split)
    if not questions:
        counts = study.questions.counts()
        known = sorted({count["split"] for count in counts} | {count["dataset"] for count in counts} - {""})
        raise Missing(
            f"there are no questions{f' in {split!r}' if split else ''}; "
            f"{'known: ' + ', '.join(known) if known else 'import some first'}"
        )
    return questions
