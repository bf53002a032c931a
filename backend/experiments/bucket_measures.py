"""Group the questions of a run by the frequency of their subject, and compare the groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.accuracy import Estimate, mean_difference, proportion, success_at
from blindspot.analysis.buckets import cumulative_buckets, in_training, subject_key
from blindspot.analysis.significance import weighted_sum
from blindspot.backend.core.units import units_of
from blindspot.backend.evaluation.relevance import Relevance, relevant
from blindspot.backend.experiments.hits import RunPart
from blindspot.backend.experiments.parts import Part
from blindspot.backend.experiments.workbench import Workbench
from blindspot.db.records import Question


@dataclass(frozen=True)
class Bucket:
    """A bucket of a run's questions, by the frequency of their subject and by whether a training question has the same
    subject.

    Attributes:
        number: 0 is the most frequent.
        official: use the bucket in the question file; otherwise cut each relation's questions by frequency.
        seen: only subjects that training questions ask about (True) or do not (False); None for all.
    """

    hits: RunPart
    number: int
    official: bool
    seen: bool | None = None

    def success_values(self, bench: Workbench, k: int) -> np.ndarray:
        """Return Success@k of the bucket's questions, (q,) float64."""
        judged, inside = self._measured(bench)
        return success_at(judged.relevant, k).astype(float)[inside]

    def questions(self, bench: Workbench) -> list[Question]:
        """Return the bucket's questions."""
        judged, inside = self._measured(bench)
        return [judged.questions[row] for row in np.flatnonzero(inside).tolist()]

    def _measured(self, bench: Workbench) -> tuple[Relevance, np.ndarray]:
        """Return the run's relevance, and which of the measured questions are in the bucket, (q,) bool."""
        run = self.hits.open(bench)
        questions = bench.questions.with_ids(run.question_ids)
        inside = bucket_numbers(questions, self.official) == self.number
        if self.seen is not None:
            inside &= is_seen(bench, questions) == self.seen
        judged = relevant(bench, run, questions=questions)
        return judged, inside[judged.rows]


def is_seen(bench: Workbench, questions: Sequence[Question]) -> np.ndarray:
    """Return for each question whether a training question asks about its subject, (q,) bool."""
    training = {subject_key(question.subject) for question in bench.questions.all(split="train") if question.subject}
    return in_training([question.subject for question in questions], training)


def bucket_numbers(questions: Sequence[Question], official: bool) -> np.ndarray:
    """Return the bucket of each question, (q,) int: 0 (most frequent subjects) to 7 (rarest), 8 for subjects that are
    never mentioned, -1 if unknown.
    """
    if official:
        return np.array([-1 if question.bucket is None else question.bucket for question in questions], np.int64)
    frequency = np.array([-1 if question.frequency is None else question.frequency for question in questions], np.int64)
    return cumulative_buckets(frequency, np.array([question.relation or "" for question in questions])).astype(np.int64)


def _units(bench: Workbench, bucket: Bucket) -> np.ndarray:
    return units_of(bucket.questions(bench), bench.settings.unit).codes


@dataclass(frozen=True)
class BucketSuccess:
    """A measure: Success@k of the questions of a bucket."""

    bucket: Bucket
    k: int

    def needs(self) -> Sequence[Part]:
        return (self.bucket.hits,)

    def values(self, bench: Workbench) -> np.ndarray:
        return self.bucket.success_values(bench, self.k)

    def questions(self, bench: Workbench) -> list[Question]:
        return self.bucket.questions(bench)


@dataclass(frozen=True)
class BucketDifference:
    """A measure: mean Success@k over some buckets minus that over other buckets, with the same weight for each bucket.

    The two sides have different questions, so the values are not paired differences. Each value is the difference of
    the means plus the influence of one question on the difference. The mean and the variance of the values are those of
    the difference.
    """

    more_frequent: tuple[Bucket, ...]
    less_frequent: tuple[Bucket, ...]
    k: int

    def needs(self) -> Sequence[Part]:
        return tuple(dict.fromkeys(bucket.hits for bucket in (*self.more_frequent, *self.less_frequent)))

    def values(self, bench: Workbench) -> np.ndarray:
        """Return one value for each question of all buckets, (q,) float64."""
        groups = [(1 / len(self.more_frequent), bucket.success_values(bench, self.k)) for bucket in self.more_frequent]
        groups += [
            (-1 / len(self.less_frequent), bucket.success_values(bench, self.k)) for bucket in self.less_frequent
        ]
        return difference_values(groups)

    def estimate(self, bench: Workbench, confidence: float) -> Estimate:
        """Return the difference with an interval that has a width also where every question of a bucket succeeds."""
        return weighted_sum(
            [
                (weight, proportion(bucket.success_values(bench, self.k), _units(bench, bucket), confidence))
                for weight, bucket in self._weighted()
            ]
        )

    def estimate_against(self, other: BucketDifference, bench: Workbench, confidence: float) -> Estimate:
        """Return by how much this difference is larger than that of another system over the same questions, with an
        interval that has a width also where no question of a bucket tells the two apart.
        """
        terms = []
        for (weight, bucket), (_, beside) in zip(self._weighted(), other._weighted(), strict=True):
            more = bucket.success_values(bench, self.k) - beside.success_values(bench, other.k)
            terms.append((weight, mean_difference(more, _units(bench, bucket), confidence=confidence)))
        return weighted_sum(terms)

    def _weighted(self) -> list[tuple[float, Bucket]]:
        return [
            (sign / len(buckets), bucket)
            for sign, buckets in ((1, self.more_frequent), (-1, self.less_frequent))
            for bucket in buckets
        ]

    def questions(self, bench: Workbench) -> list[Question]:
        return [
            question for bucket in (*self.more_frequent, *self.less_frequent) for question in bucket.questions(bench)
        ]


def difference_values(groups: Sequence[tuple[float, np.ndarray]]) -> np.ndarray:
    """Convert groups of different items, given as (weight, values), to one value for each item.

    The mean of the result is the weighted sum of the groups' means.

    The variance of this mean is the sum of weight^2 x variance / n over the groups, as for independent groups.
    """
    total = sum(len(values) for _, values in groups)
    whole = sum(weight * values.mean() for weight, values in groups)
    return np.concatenate(
        [whole + total / len(values) * weight * (values - values.mean()) for weight, values in groups]
    )
