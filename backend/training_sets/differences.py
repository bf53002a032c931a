"""What changed between two training sets: pair by pair, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from backend.training_sets.denoising import PEOPLES
from backend.training_sets.pairs import Pair, Role, Source
from backend.training_sets.training_set import TrainingSet

NOT_ASKED = "the question is not among those asked for"


@dataclass(frozen=True, slots=True)
class Change:
    """A pair whose role or source differs. before, after: (role, source); None where the set does not hold the pair."""

    question: str
    passage: str
    before: tuple[Role, Source] | None
    after: tuple[Role, Source] | None
    why: str


@dataclass(slots=True)
class Summary:
    """changes: by (role before, role after, why), a role None where the pair is not held. same: pairs that did not change."""

    changes: Counter = field(default_factory=Counter)
    same: int = 0

    @property
    def changed(self) -> int:
        return sum(self.changes.values())


def diff(before: TrainingSet, after: TrainingSet) -> Iterator[Change]:
    """The changes, by question and passage. A row group of each set is held at a time."""
    return (change for change in _compared(before, after) if change is not None)


def summary(before: TrainingSet, after: TrainingSet) -> Summary:
    """How often each kind of change comes."""
    made = Summary()
    for change in _compared(before, after):
        if change is None:
            made.same += 1
        else:
            made.changes[change.before and change.before[0], change.after and change.after[0], change.why] += 1
    return made


def _compared(before: TrainingSet, after: TrainingSet) -> Iterator[Change | None]:
    """A change, or None, for each pair that either set holds."""
    left_before, left_after = before.left_out(), after.left_out()
    for question, old, new in _together(before, after):
        olds, news = ({pair.passage: pair for pair in pairs or ()} for pairs in (old, new))
        gone = None if new is not None else left_after.get(question, NOT_ASKED)
        come = None if old is not None else left_before.get(question, NOT_ASKED)
        for passage in sorted(olds.keys() | news.keys()):
            yield _change(question, passage, olds.get(passage), news.get(passage), gone, come, after)


def _together(before: TrainingSet, after: TrainingSet) -> Iterator[tuple[str, list[Pair] | None, list[Pair] | None]]:
    """(question, its pairs before, after) by question id; None where a set does not hold the question."""
    olds, news = before.groups(), after.groups()
    old, new = next(olds, None), next(news, None)
    while old is not None or new is not None:
        if new is None or (old is not None and old[0] < new[0]):
            yield old[0], old[1], None
            old = next(olds, None)
        elif old is None or new[0] < old[0]:
            yield new[0], None, new[1]
            new = next(news, None)
        else:
            yield old[0], old[1], new[1]
            old, new = next(olds, None), next(news, None)


def _change(
    question: str,
    passage: str,
    old: Pair | None,
    new: Pair | None,
    gone: str | None,
    come: str | None,
    after: TrainingSet,
) -> Change | None:
    held = [None if pair is None else (pair.role, pair.source) for pair in (old, new)]
    if held[0] == held[1]:
        return None
    if new is None:
        why = f"the question was left out: {gone}" if gone is not None else _not_there(old, after)
    elif old is None:
        why = f"{new.reason}; the question was left out before: {come}" if come is not None else new.reason
    elif old.reason in PEOPLES and new.reason not in PEOPLES:
        why = f"{new.reason}; before, {old.reason}"
    else:
        why = new.reason
    return Change(question, passage, *held, why)


def _not_there(old: Pair, after: TrainingSet) -> str:
    request = after.manifest["request"]
    if old.mined:
        return f"not at ranks {request['first']} to {request['last']} of {', '.join(request['runs'])}"
    if old.source == "label":
        return "nobody's label is used" if not after.manifest["inputs"]["labels"]["used"] else "no label stands"
    return "not drawn" if old.source in ("random", "other_gold") else f"no longer {old.reason}"
