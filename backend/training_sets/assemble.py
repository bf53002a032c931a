"""The pairs of a question: what is positive, what of the mined stays a negative, where people have the last word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from backend.training_sets.denoising import (
    DISTANT,
    GOLD,
    GOLD_UNUSED,
    SURELY,
    PassageEvidence,
    Policy,
    ScoreCeiling,
    Thresholds,
    label_role,
    machine_role,
    score_ceiling,
)
from backend.training_sets.mining import NegativeCandidate
from backend.training_sets.training_set import ROLES, SOURCES, Pair

NO_POSITIVE = "no positive"
DENIED = "people deny all its positives, or disagree on them"


@dataclass(frozen=True, slots=True)
class QuestionEvidence:
    """Everything that is known of a question's passages.

    gold: ordinals. unused: gold that is not asked for as positives, and is no negative either. distant: one, or None.
    candidates: to be negatives. labels: what people hold, by ordinal, "open" in dispute; empty where the policy has no labels.
    probabilities: a cross-encoder's, by ordinal. ids: the passage id of every ordinal named. listed: by run, the run's scores of
    positives at any rank; floors: its last score for the question.
    """

    gold: Sequence[int]
    unused: AbstractSet[int]
    distant: int | None
    candidates: Sequence[NegativeCandidate]
    labels: Mapping[int, str]
    probabilities: Mapping[int, float]
    ids: Mapping[int, str]
    listed: Mapping[str, Mapping[int, float]]
    floors: Mapping[str, float]


def assemble(
    question: str, evidence: QuestionEvidence, policy: Policy, thresholds: Thresholds, pseudo: bool
) -> tuple[list[Pair], str | None]:
    """The pairs of a question, and why it cannot train where it cannot: None where it has a positive.

    Args:
        pseudo: whether what the cross-encoder is sure of becomes a positive; else it is dropped.
    """
    known = dict.fromkeys(evidence.gold, ("gold", GOLD))
    if evidence.distant is not None:
        known.setdefault(evidence.distant, ("distant", DISTANT))
    mined = {each.ordinal: each for each in evidence.candidates if each.ordinal not in known}
    listed = {each.ordinal: each for each in evidence.candidates if each.ordinal in known}
    bars = _ScoreCeilings(evidence, known, thresholds) if policy.base == "positive_aware" else None
    pairs = []
    for ordinal, (source, reason) in known.items():
        pairs.append(
            _pair(question, evidence, ordinal, listed.get(ordinal), "positive", source, reason, thresholds.related)
        )
    for ordinal, each in mined.items():
        seen = PassageEvidence(each.answer, each.score, evidence.probabilities.get(ordinal), each.source != "run")
        role, reason = machine_role(policy.base, seen, thresholds, bars and bars.of(each.run))
        source = "cross_encoder" if reason == SURELY else each.source
        if ordinal in evidence.unused:
            role, source, reason = "dropped", "gold", GOLD_UNUSED
        elif role == "positive" and not pseudo:
            role = "dropped"
        pairs.append(_pair(question, evidence, ordinal, each, role, source, reason, thresholds.related))
    for ordinal in evidence.labels.keys() - known.keys() - mined.keys():
        pairs.append(_pair(question, evidence, ordinal, None, None, "label", "", thresholds.related))
    pairs.sort(
        key=lambda pair: (ROLES.index(pair.role), pair.rank or 1 << 30, SOURCES.index(pair.source), pair.passage)
    )
    if pairs and pairs[0].role == "positive":
        return pairs, None
    return [], DENIED if known else NO_POSITIVE


def _pair(
    question: str,
    evidence: QuestionEvidence,
    ordinal: int,
    mined: NegativeCandidate | None,
    machine: str | None,
    source: str,
    reason: str,
    related: str,
) -> Pair:
    label, role, origin = evidence.labels.get(ordinal), machine, source if machine else None
    if label is not None:
        role, reason = label_role(label, related, mined is not None and machine != "positive", origin == "gold")
        source = "label"
    answer = mined.answer if mined else None
    run, rank, score = (mined.run, mined.rank, mined.score) if mined else (None, None, None)
    return Pair(
        question,
        evidence.ids[ordinal],
        role,
        source,
        run,
        rank,
        score,
        evidence.probabilities.get(ordinal),
        answer,
        label,
        machine,
        origin,
        reason,
    )


class _ScoreCeilings:
    """The bar of `positive_aware`: of probabilities one for all, of scores one for each run."""

    def __init__(self, evidence: QuestionEvidence, known: Mapping[int, object], thresholds: Thresholds):
        self._evidence, self._thresholds, self._made = evidence, thresholds, {}
        self._positives = [each for each in known if evidence.labels.get(each, "positive") == "positive"]
        self._positives += [
            each for each, label in evidence.labels.items() if label == "positive" and each not in known
        ]

    def of(self, run: str | None) -> ScoreCeiling:
        if run not in self._made:
            self._made[run] = self._make(run)
        return self._made[run]

    def _make(self, run: str | None) -> ScoreCeiling:
        if self._thresholds.margin is None:
            found = self._evidence.probabilities
            return score_ceiling([found[each] for each in self._positives if each in found], self._thresholds)
        found = self._evidence.listed.get(run, {})
        scores = [found[each] for each in self._positives if each in found]
        if len(scores) < len(self._positives) and run in self._evidence.floors:
            scores.append(self._evidence.floors[run])  # what the run did not find scores no higher than its last
        return score_ceiling(scores, self._thresholds) if self._positives else ScoreCeiling(None, True)
