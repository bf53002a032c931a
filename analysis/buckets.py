"""Groups of questions by how often the collection mentions their subject, and the accuracy in each group
(EntityQuestions, Figure 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.accuracy import Estimate, mean

FREQUENCY_STEPS = ((1, "<=1"), (3, "2-3"), (9, "4-9"), (29, "10-29"), (99, "30-99"))
"""Upper bound and label of each group of frequencies; the label of the last group is "100+"."""
UNKNOWN = "frequency unknown"
BUCKETS = 8
NONE_KNOWN, NEVER = -1, BUCKETS
"""Codes that `cumulative_buckets` returns for an unknown frequency and for the frequency 0."""
FEW = 30
"""A point with fewer units of observation (facts) is unreliable; plots draw it in grey."""


JOINED = 5
"""The line of a plot joins the points with at least so many units; a point with fewer stands alone."""


GROUPS = (*(label for _, label in FREQUENCY_STEPS), "100+")
"""Labels of the groups by number of mentions, from rare to frequent; `mention_groups` gives their indices."""


def mention_groups(frequency: np.ndarray) -> np.ndarray:
    """Return the index in `GROUPS` of each frequency, or -1 if the frequency is unknown (negative). (q,) int -> (q,)
    int8.
    """
    frequency = np.asarray(frequency, dtype=np.int64)
    groups = np.searchsorted([highest for highest, _ in FREQUENCY_STEPS], frequency, side="left")
    return np.where(frequency < 0, NONE_KNOWN, groups).astype(np.int8)


def frequency_group(frequency: int) -> str:
    """Return the label of the frequency group of a subject with this many mentions."""
    return next((label for highest, label in FREQUENCY_STEPS if frequency <= highest), "100+")


def bucket_group(bucket: int | None, frequency: int | None) -> str:
    """Return the label of the question's official bucket if it has one, else of its frequency group, else `UNKNOWN`."""
    if bucket is not None:
        return f"bucket {bucket}"
    return UNKNOWN if frequency is None else f"{frequency_group(frequency)} mentions"


def bucket_groups(bucket: np.ndarray, frequency: np.ndarray, no_bucket: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the `bucket_group` of many questions as (q,) int32 codes and the label of each code.

    Args:
        bucket: (q,) int64; `no_bucket` without an official bucket.
        frequency: (q,) int64; negative where it is unknown.
    """
    groups = mention_groups(frequency)
    codes = np.where(groups == NONE_KNOWN, len(GROUPS), groups).astype(np.int32)
    names = [*(f"{group} mentions" for group in GROUPS), UNKNOWN]
    official = bucket != no_bucket
    if official.any():
        numbers, members = np.unique(bucket[official], return_inverse=True)
        codes[official] = len(names) + members
        names += [bucket_group(number, None) for number in numbers.tolist()]
    return codes, tuple(names)


def bucket_order(label: str) -> tuple[int, int]:
    """Return a sort key for the labels of `bucket_group`: first official buckets, then groups from rare to frequent,
    then unknown.
    """
    if label == UNKNOWN:
        return 2, 0
    if label.startswith("bucket "):
        return 0, int(label.removeprefix("bucket "))
    return 1, int(label.removesuffix(" mentions").lstrip("<=").split("-")[0].rstrip("+"))


def cumulative_buckets(frequency: np.ndarray, groups: np.ndarray | None = None, count: int = BUCKETS) -> np.ndarray:
    """Return buckets of about equal cumulative frequency: 0 for the most frequent subjects, count - 1 for the rarest.

    The questions of a relation are sorted by the frequency of their subject and cut so that the frequencies of each
    bucket have about the same sum. Buckets of rare subjects therefore have many more questions (EntityQuestions,
    section 3). Questions with equal frequencies share one bucket: the one that contains the middle of their summed
    frequency. So one very frequent subject can leave a bucket empty.

    Args:
        frequency: (q,) int mentions of the subject; negative where unknown.
        groups: (q,) relations, each cut separately; None cuts all questions together.

    Returns: (q,) int8: 0 to count - 1; `count` for a frequency of 0; -1 if the frequency is unknown.
    """
    frequency = np.asarray(frequency, dtype=np.int64)
    result = np.full(len(frequency), NONE_KNOWN, dtype=np.int8)
    result[frequency == 0] = count
    counted = frequency > 0
    if groups is None:
        result[counted] = _cut_into_buckets(frequency[counted], count)
        return result
    _, member = np.unique(np.asarray(groups), return_inverse=True)
    order = np.argsort(member, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(member[order])) + 1):
        rows = rows[counted[rows]]
        result[rows] = _cut_into_buckets(frequency[rows], count)
    return result


def _cut_into_buckets(frequency: np.ndarray, count: int) -> np.ndarray:
    """Cut sorted frequencies into buckets, (m,) positive int -> (m,) int8."""
    if not len(frequency):
        return np.zeros(0, np.int8)
    values, member, sizes = np.unique(-frequency, return_inverse=True, return_counts=True)  # the most frequent first
    mass = -values * sizes
    middle = np.cumsum(mass) - mass / 2
    buckets: np.ndarray = np.minimum(middle * count // mass.sum(), count - 1).astype(np.int8)
    return buckets[member]


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a curve of accuracy by frequency.

    Attributes:
        bucket: 0 most frequent to 7 rarest, 8 if the frequency is 0; or an index in `GROUPS`.
        success: Success@k, or the measure that was asked for.
        min_frequency, max_frequency: the range of frequencies in the bucket; None if unknown (official buckets).
    """

    bucket: int
    n: int
    units: int
    success: Estimate
    min_frequency: int | None
    max_frequency: int | None

    @property
    def has_few_questions(self) -> bool:
        return self.units < FEW

    @property
    def is_joined(self) -> bool:
        return self.units >= JOINED


def value_curves(
    values: Mapping[str, np.ndarray],
    buckets: np.ndarray,
    frequency: np.ndarray | None = None,
    units: np.ndarray | None = None,
) -> dict[str, list[Point]]:
    """Return the mean of a measure by run and bucket. Buckets without questions are omitted.

    Args:
        values: by run, (q,) bool or float64 from 0 to 1.
        buckets: (q,) int; negative leaves a question out.
        frequency: (q,) int, -1 if unknown. units: (q,) int, the unit of observation of each question.
    """
    units = np.arange(len(buckets)) if units is None else units
    points_by_run: dict[str, list[Point]] = {run: [] for run in values}
    for bucket in np.unique(buckets[buckets >= 0]).tolist():
        rows = np.flatnonzero(buckets == bucket)
        known = frequency[rows][frequency[rows] >= 0] if frequency is not None else np.zeros(0, np.int64)
        n_units = len(np.unique(units[rows]))
        span = (int(known.min()), int(known.max())) if len(known) else (None, None)
        for run, each in values.items():
            points_by_run[run].append(Point(bucket, len(rows), n_units, mean(each[rows], units[rows]), *span))
    return points_by_run


def in_training(subjects: Sequence[str | None], training: set[str]) -> np.ndarray:
    """Return whether the training data asks about each question's subject. (q,) bool. `training` holds
    `subject_key`s."""
    return np.fromiter(
        (subject is not None and subject_key(subject) in training for subject in subjects), bool, len(subjects)
    )


def subject_key(subject: str) -> str:
    """Return a subject in lower case (case-folded), with single spaces."""
    return " ".join(subject.casefold().split())
