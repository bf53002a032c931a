"""Compare two training sets pair by pair, and list the labels given since a set was built."""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter

from blindspot.backend.core.study import Study
from blindspot.backend.training_sets.assemble import DENIED, NO_POSITIVE
from blindspot.backend.training_sets.denoising import PEOPLE_REASONS, label_role
from blindspot.backend.training_sets.training_set import Pair, Role, Source, TrainingSet
from blindspot.db.judgements import labels_by_pair
from blindspot.db.labels import Labels

NOT_ASKED = "the question was not selected"
_A_JUDGE = re.compile("^the (judge|cross-encoder)(?= is )")  # the subject of the reasons that a judge gives

ChangeKind = tuple[Role | None, Role | None]
"""(role before, role after); None if the set lacks the pair."""

KINDS: dict[ChangeKind, str] = {
    ("negative", "positive"): "negative → positive",
    ("positive", "negative"): "positive → negative",
    ("negative", "dropped"): "negative → dropped",
    ("positive", "dropped"): "positive → dropped",
    ("dropped", "positive"): "dropped → positive",
    ("dropped", "negative"): "dropped → negative",
    (None, "positive"): "new positive",
    (None, "negative"): "new negative",
    (None, "dropped"): "new, dropped",
    ("positive", None): "positive, no longer in the set",
    ("negative", None): "negative, no longer in the set",
    ("dropped", None): "dropped, no longer in the set",
}
"""Every kind of change with its title; the kinds that matter most for training come first."""


@dataclass(frozen=True, slots=True)
class Change:
    """A pair whose role differs. before, after: (role, source), or None if the pair is not in the set."""

    question: str
    passage: str
    before: tuple[Role, Source] | None
    after: tuple[Role, Source] | None
    why: str

    @property
    def kind(self) -> ChangeKind:
        return self.before and self.before[0], self.after and self.after[0]


@dataclass(slots=True)
class ChangeSummary:
    """The numbers of changes. changes: by (role before, role after, reason); a role is None if the pair is not in the
    set. same: number of pairs with unchanged role.
    """

    changes: Counter[tuple[Role | None, Role | None, str]] = field(default_factory=Counter)
    same: int = 0

    @property
    def changed(self) -> int:
        return sum(self.changes.values())

    def by_kind(self) -> dict[ChangeKind, dict[str, int]]:
        """Return for each kind of change that occurs, in the order of KINDS, the counts by reason, most
        frequent first.
        """
        kinds: dict[ChangeKind, dict[str, int]] = defaultdict(dict)
        for (was, now, why), count in self.changes.most_common():
            kinds[was, now][why] = count
        return {kind: kinds[kind] for kind in KINDS if kind in kinds}


def diff(older_set: TrainingSet, newer_set: TrainingSet) -> Iterator[Change]:
    """Yield the changes ordered by question and passage. Only one row group of each set is in memory."""
    return (change for change in _changes(older_set, newer_set) if change is not None)


def changes_of_kind(
    older_set: TrainingSet, newer_set: TrainingSet, kind: ChangeKind, reason: str | None, start: int, limit: int
) -> list[Change]:
    """Return `limit` changes of a kind, starting with number `start`. With `reason`, only changes for this reason are
    counted.
    """
    changes = (change for change in diff(older_set, newer_set) if change.kind == kind and reason in (None, change.why))
    return list(islice(changes, start, start + limit))


def change_summary(older_set: TrainingSet, newer_set: TrainingSet) -> ChangeSummary:
    """Count the changes of each kind."""
    summary = ChangeSummary()
    for change in _changes(older_set, newer_set):
        if change is None:
            summary.same += 1
        else:
            summary.changes[*change.kind, change.why] += 1
    return summary


def _changes(older_set: TrainingSet, newer_set: TrainingSet) -> Iterator[Change | None]:
    """Yield for each pair of either set a `Change`, or None for an unchanged role."""
    left_before, left_after = older_set.left_out(), newer_set.left_out()
    for question, old, new in _merged_groups(older_set, newer_set):
        olds, news = ({pair.passage: pair for pair in pairs or ()} for pairs in (old, new))
        reason = None if new is not None else left_after.get(question, NOT_ASKED)
        come = None if old is not None else left_before.get(question, NOT_ASKED)
        for passage in sorted(olds.keys() | news.keys()):
            yield _change_of_pair(question, passage, olds.get(passage), news.get(passage), reason, come, newer_set)


def _merged_groups(
    older_set: TrainingSet, newer_set: TrainingSet
) -> Iterator[tuple[str, list[Pair] | None, list[Pair] | None]]:
    """Yield (question, pairs before, pairs after) by question id; None for a set without the question."""
    olds = ((question, "old", pairs) for question, pairs in older_set.groups())
    news = ((question, "new", pairs) for question, pairs in newer_set.groups())
    for question, rows in groupby(heapq.merge(olds, news, key=itemgetter(0)), itemgetter(0)):
        pairs_of = {side: pairs for _, side, pairs in rows}
        yield question, pairs_of.get("old"), pairs_of.get("new")


def _change_of_pair(
    question: str,
    passage: str,
    older_pair: Pair | None,
    newer_pair: Pair | None,
    removed_reason: str | None,
    added_reason: str | None,
    newer_set: TrainingSet,
) -> Change | None:
    was, now = _role_and_source(older_pair), _role_and_source(newer_pair)
    if was and now and was[0] == now[0]:
        return None
    if newer_pair is None:
        assert older_pair is not None
        why = (
            f"the question was left out: {removed_reason}"
            if removed_reason is not None
            else _absence_reason(older_pair, newer_set)
        )
    elif older_pair is None:
        said = _reason_of_change(newer_pair, newer_set)
        why = f"{said}; the question was left out before: {added_reason}" if added_reason is not None else said
    elif older_pair.reason in PEOPLE_REASONS and newer_pair.reason not in PEOPLE_REASONS:
        why = f"{_reason_of_change(newer_pair, newer_set)}; before, {older_pair.reason}"
    else:
        why = _reason_of_change(newer_pair, newer_set)
    return Change(question, passage, was, now, why)


def _reason_of_change(pair: Pair, training_set: TrainingSet) -> str:
    """Return the reason for a pair's role, including the name of the judge if the reason is a judge's score."""
    judge = training_set.manifest["request"]["model"]
    return pair.reason if judge is None else _A_JUDGE.sub(lambda found: str(judge), pair.reason)


def _role_and_source(pair: Pair | None) -> tuple[Role, Source] | None:
    return None if pair is None else (pair.role, pair.source)


def _absence_reason(older_pair: Pair, newer_set: TrainingSet) -> str:
    request = newer_set.manifest["request"]
    if older_pair.mined:
        return f"not at ranks {request['first']} to {request['last']} of {', '.join(request['runs'])}"
    if older_pair.source == "label":
        return (
            "the set uses no labels"
            if not newer_set.manifest["inputs"]["labels"]["used"]
            else "the label was withdrawn"
        )
    return "not drawn" if older_pair.source in ("random", "other_gold") else f"no longer {older_pair.reason}"


@dataclass(frozen=True, slots=True)
class NewLabel:
    """A pair whose label has changed since the set was built.

    Attributes:
        before, now: the label, "open" in dispute, None if nobody judged the pair.
        role: the pair's role in the set; None if the set does not hold it.
        becomes: the role that the label now gives it, by the set's settings; None if there is no label any more.
    """

    question: str
    passage: str
    before: str | None
    now: str | None
    role: Role | None
    becomes: Role | None

    @property
    def is_important(self) -> bool:
        """Whether the label may change the pair's role in the set, instead of confirming it."""
        return self.becomes is None or self.becomes != self.role


def new_labels(study: Study, training_set: TrainingSet) -> list[NewLabel]:
    """Return the labels that changed since the set was built, ordered by question and passage.

    Included are the questions of the set, and questions that were left out but could be used with a new positive. If
    the set's policy uses no labels, all labels count as new.
    """
    used = training_set.manifest["inputs"]["labels"]
    labels = Labels(study.labels_path, read_only=True)
    then, now = (
        labels_by_pair(consensus)
        for consensus in (labels.consensus_as_of(used["last_event"] if used["used"] else 0), labels.consensus())
    )
    changed = sorted(pair for pair in then.keys() | now.keys() if then.get(pair) != now.get(pair))
    roles = {
        (pair.question, pair.passage): pair.role
        for _, pairs in training_set.groups(sorted({question for question, _ in changed}))
        for pair in pairs
    }
    questions = {question for question, _ in roles}
    questions |= {question for question, reason in training_set.left_out().items() if reason in (NO_POSITIVE, DENIED)}
    related = training_set.manifest["request"]["thresholds"]["related"]
    becomes = {pair: label_role(now[pair], related, is_mined=True)[0] if pair in now else None for pair in changed}
    return [
        NewLabel(*pair, then.get(pair), now.get(pair), roles.get(pair), becomes[pair])
        for pair in changed
        if pair[0] in questions
    ]
