"""Assemble the training pairs of one question: positives, kept negatives, and dropped passages.

People's labels override all other evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from blindspot.backend.training_sets.denoising import (
    DISTANT,
    GOLD,
    GOLD_UNUSED,
    PassageEvidence,
    Policy,
    ScoreCeiling,
    Thresholds,
    label_role,
    score_ceiling,
)
from blindspot.backend.training_sets.mining import NegativeCandidate
from blindspot.backend.training_sets.training_set import ROLES, SOURCES, Pair, Role, Source

NO_POSITIVE = "no positive"
DENIED = "people deny all its positives, or disagree about them"


@dataclass(frozen=True, slots=True)
class QuestionEvidence:
    """Everything known about the passages of one question. Passages are corpus rows.

    Attributes:
        gold: gold passages that count as positives.
        unused: gold passages that are neither positives nor negatives of this set.
        distant: the positive from distant supervision, or None.
        candidates: passages that may become negatives.
        labels: people's label of each passage, "open" in dispute; empty if the policy uses no labels.
        probabilities: the model's probability of each passage.
        ids: the id of every passage named here.
        listed: for each run, its scores of the positives at any rank.
        floors: for each run, its last score for the question.
        modelled: whether a model's probabilities are known at all; without them a ceiling compares the runs' scores.
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
    modelled: bool = True


def assemble(
    question: str, evidence: QuestionEvidence, policy: Policy, thresholds: Thresholds, pseudo: bool
) -> tuple[list[Pair], str | None]:
    """Return the pairs of a question and None; or no pairs and the reason why the question cannot be used for training.

    Args:
        pseudo: passages that the policy proposes as positives become positives; otherwise they are dropped.
    """
    definition = policy.definition
    known: dict[int, tuple[Source, str]] = dict.fromkeys(evidence.gold, ("gold", GOLD))
    if evidence.distant is not None:
        known.setdefault(evidence.distant, ("distant", DISTANT))
    mined = {candidate.ordinal: candidate for candidate in evidence.candidates if candidate.ordinal not in known}
    listed = {candidate.ordinal: candidate for candidate in evidence.candidates if candidate.ordinal in known}
    ceilings = _ScoreCeilings(evidence, known, thresholds) if definition.uses_ceiling else None
    pairs = []
    for ordinal, (source, reason) in known.items():
        pairs.append(
            _pair(question, evidence, ordinal, listed.get(ordinal), "positive", source, reason, thresholds.related)
        )
    decide, ids, probabilities, labels = definition.decide, evidence.ids, evidence.probabilities, evidence.labels
    for ordinal, each in mined.items():  # a hundred for each question
        _, source, run, rank, score, answer = each
        probability = probabilities.get(ordinal)
        seen = PassageEvidence(answer, score, probability, source != "run")
        role, reason = decide(seen, thresholds, ceilings.ceiling_of(run) if ceilings else None)
        if role == "positive" and definition.proposes:
            source = definition.proposes
        if ordinal in evidence.unused:
            role, source, reason = "dropped", "gold", GOLD_UNUSED
        elif role == "positive" and not pseudo:
            role = "dropped"
        if ordinal in labels:
            pairs.append(_pair(question, evidence, ordinal, each, role, source, reason, thresholds.related))
        else:
            found = (run, rank, score, probability, answer)
            pairs.append(Pair(question, ids[ordinal], role, source, *found, None, role, source, reason))
    for ordinal in labels.keys() - known.keys() - mined.keys():
        pairs.append(_pair(question, evidence, ordinal, None, None, "label", "", thresholds.related))
    pairs.sort(key=_sort_key)
    if pairs and pairs[0].role == "positive":
        return pairs, None
    return [], DENIED if known else NO_POSITIVE


def _pair(
    question: str,
    evidence: QuestionEvidence,
    ordinal: int,
    candidate: NegativeCandidate | None,
    machine: Role | None,
    source: Source,
    reason: str,
    related_policy: str,
) -> Pair:
    """Return a pair. machine: the role without people's labels, or None if only people named the passage."""
    label, role, origin = evidence.labels.get(ordinal), machine, source if machine else None
    if label is not None:
        role, reason = label_role(
            label, related_policy, candidate is not None and machine != "positive", origin == "gold"
        )
        source = "label"
    assert role is not None, "a passage that no machine named has a label"
    answer = candidate.answer if candidate else None
    run, rank, score = (candidate.run, candidate.rank, candidate.score) if candidate else (None, None, None)
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


_ROLE_PLACES = {role: place for place, role in enumerate(ROLES)}
_SOURCE_PLACES = {source: place for place, source in enumerate(SOURCES)}


def _sort_key(pair: Pair) -> tuple[int, int, int, str]:
    return _ROLE_PLACES[pair.role], pair.rank or 1 << 30, _SOURCE_PLACES[pair.source], pair.passage


class _ScoreCeilings:
    """The score ceilings of a question: a single one if scores are probabilities, or one for each run if they are the
    runs' own scores.
    """

    def __init__(self, evidence: QuestionEvidence, known_positives: Mapping[int, object], thresholds: Thresholds):
        self._evidence, self._thresholds = evidence, thresholds
        self._made: dict[str | None, ScoreCeiling] = {}
        self._positives = [each for each in known_positives if evidence.labels.get(each, "positive") == "positive"]
        self._positives += [
            each for each, label in evidence.labels.items() if label == "positive" and each not in known_positives
        ]

    def ceiling_of(self, run: str | None) -> ScoreCeiling:
        if run not in self._made:
            self._made[run] = self._compute_ceiling(run)
        return self._made[run]

    def _compute_ceiling(self, run: str | None) -> ScoreCeiling:
        if self._thresholds.margin is None and self._evidence.modelled:
            found = self._evidence.probabilities
            return score_ceiling(
                [found[positive] for positive in self._positives if positive in found], self._thresholds
            )
        found = {} if run is None else self._evidence.listed.get(run, {})
        floor = None if run is None else self._evidence.floors.get(run)
        scores = [found[positive] for positive in self._positives if positive in found]
        if len(scores) < len(self._positives) and floor is not None:
            scores.append(floor)  # A positive that the run did not find scores no higher than the run's last hit.
        return score_ceiling(scores if self._positives else [], self._thresholds, from_run=True)
