"""Estimate the share of false negatives that remain among a training set's negatives, using only random audits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blindspot.analysis.audit import Rate, rate
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import units_by_id
from blindspot.backend.judging.audits import audited_candidates
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.events import SETTLED
from blindspot.db.judgements import labels_by_pair
from blindspot.db.labels import Labels


@dataclass(frozen=True, slots=True)
class ResidualFalseNegatives:
    """The estimated remaining false negatives. rate: the share of positives among the mined passages that the policy,
    without labels, keeps as negatives.

    The rate refers only to the ranks from which the audits sampled. unjudged: number of kept mined negatives without a
    label, to which the rate applies; all kept mined negatives if the set uses no labels.
    """

    rate: Rate
    unjudged: int


def residual_false_negatives(study: Study, training_set: TrainingSet) -> ResidualFalseNegatives | None:
    """Return the estimate; None if the set has no audited question with a kept negative.

    People's labels remove only the judged false negatives from a set. The share is therefore estimated as if labels
    were not used.
    """
    rows = audited_candidates(study)
    by_question: dict[str, set[str]] = {question: set() for question, _ in rows}
    unjudged = 0
    for question, pairs in training_set.groups():
        for pair in pairs:
            if pair.mined and pair.machine == "negative":
                unjudged += pair.label is None
                if question in by_question:
                    by_question[question].add(pair.passage)
    kept = [(question, each) for question, each in rows if each.passage in by_question[question]]
    if not kept:
        return None
    consensus = labels_by_pair(Labels(study.labels_path).consensus({question for question, _ in kept}))
    labels = [consensus.get((question, each.passage)) for question, each in kept]
    estimate = rate(
        np.array([label == "positive" for label in labels]),
        np.array([label in SETTLED for label in labels]),
        np.array([each.inclusion_probability for _, each in kept]),
        np.array([question for question, _ in kept], dtype=str),
        units=units_by_id(study, [question for question, _ in kept]),
    )
    return ResidualFalseNegatives(estimate, unjudged)
