"""What people said since a training set was made: what building it again would change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from backend.training_sets.assembling import DENIED, NO_POSITIVE
from backend.training_sets.denoising import by_people
from backend.training_sets.pairs import Role
from backend.training_sets.training_set import TrainingSet
from db.labels import Labels

if TYPE_CHECKING:
    from backend.core.study import Study


@dataclass(frozen=True, slots=True)
class NewLabel:
    """A pair of a question of the set, of which people hold something else than when it was made.

    before, now: the label, "open" in dispute, None where nobody judges it. role: what the set has it as; None where it has it not.
    becomes: what labels make of it, with the set's settings; None where they no longer say anything.
    """

    question: str
    passage: str
    before: str | None
    now: str | None
    role: Role | None
    becomes: Role | None

    @property
    def matters(self) -> bool:
        """Whether the pair may change its role: not where a label confirms what the set has."""
        return self.becomes is None or self.becomes != self.role


def new_labels(study: Study, training_set: TrainingSet) -> list[NewLabel]:
    """By question and passage; of the questions of the set, and of those left out of it that may train with a new positive.

    A set whose policy uses no labels counts as made before all of them.
    """
    used = training_set.manifest["inputs"]["labels"]
    labels = Labels(study.labels_path, read_only=True)
    then, now = (
        {(pair.question, pair.passage): pair.label or "open" for pair in found}
        for found in (labels.consensus_as_of(used["last_event"] if used["used"] else 0), labels.consensus())
    )
    changed = sorted(pair for pair in then.keys() | now.keys() if then.get(pair) != now.get(pair))
    roles = {
        (pair.question, pair.passage): pair.role
        for _, pairs in training_set.groups(sorted({question for question, _ in changed}))
        for pair in pairs
    }
    held = {question for question, _ in roles}
    held |= {question for question, reason in training_set.left_out().items() if reason in (NO_POSITIVE, DENIED)}
    related = training_set.manifest["request"]["thresholds"]["related"]
    becomes = {pair: by_people(now[pair], related, mined=True)[0] if pair in now else None for pair in changed}
    return [
        NewLabel(*pair, then.get(pair), now.get(pair), roles.get(pair), becomes[pair])
        for pair in changed
        if pair[0] in held
    ]
