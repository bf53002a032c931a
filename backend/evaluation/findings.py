"""Summarise two runs in sentences for the Home page: which run finds more, how accuracy depends on the subject's
frequency, and how many questions only one run finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from blindspot.analysis.accuracy import Estimate, proportion, success_from_ranks
from blindspot.analysis.buckets import FEW, JOINED, UNKNOWN
from blindspot.analysis.significance import independent_difference
from blindspot.backend.evaluation.comparison import Comparison, figures_at
from blindspot.backend.evaluation.comparison_words import verdict_words
from blindspot.backend.text.number_words import quantity

Topic = Literal["difference", "frequency", "only_a", "only_b"]
TIMES = {"<=1": "once at most", "2-3": "2 or 3 times", "100+": "100 times or more"}


@dataclass(frozen=True, slots=True)
class RunFinding:
    """A sentence about two runs, and its topic, so that a page can link to the details.

    Attributes:
        run, count: of a sentence about the questions that one run alone answers, that run and their number.
    """

    topic: Topic
    sentence: str
    run: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class FrequencyPoint:
    """Success of both runs on the questions of one bucket or group of frequencies. label: as
    `blindspot.analysis.buckets.bucket_group` returns it.
    """

    label: str
    estimate_a: Estimate
    estimate_b: Estimate

    @property
    def n(self) -> int:
        return self.estimate_a.n

    @property
    def has_few_questions(self) -> bool:
        return self.estimate_a.n_units < FEW

    @property
    def is_joined(self) -> bool:
        return self.estimate_a.n_units >= JOINED


def findings(comparison: Comparison, k: int, names: tuple[str, str]) -> list[RunFinding]:
    """Return the findings at k, the most general first; [] if the runs share no question.

    Args:
        names: of A and B, as the sentences call them.
    """
    if not len(comparison):
        return []
    figures = figures_at(comparison, k)
    points = frequency_points(comparison, k)
    sentences = [RunFinding("difference", verdict_words(figures, *names, figures.difference.p))]
    sentences += _frequency_findings(points, names)
    only_one_run: Mapping[Topic, tuple[str, int]] = {
        "only_a": (names[0], figures.difference.only_a),
        "only_b": (names[1], figures.difference.only_b),
    }
    sentences += [
        RunFinding(topic, f"Only {name} answers {quantity(count, 'question')}.", name, count)
        for topic, (name, count) in only_one_run.items()
        if count
    ]
    return sentences


def frequency_points(comparison: Comparison, k: int) -> list[FrequencyPoint]:
    """Return the success of both runs by bucket or group of subject frequencies, from frequent to rare. Questions with
    unknown frequency are left out.
    """
    found_a, found_b = success_from_ranks(comparison.first_ranks_a, k), success_from_ranks(comparison.first_ranks_b, k)
    units = comparison.units.codes
    groups = {label: rows for label, rows in comparison.groups("bucket").items() if label != UNKNOWN}
    official = [label for label in groups if label.startswith("bucket ")]
    labels = official or list(reversed(groups))
    return [
        FrequencyPoint(label, *(proportion(found[groups[label]], units[groups[label]]) for found in (found_a, found_b)))
        for label in labels
    ]


def _frequency_findings(points: list[FrequencyPoint], names: tuple[str, str]) -> list[RunFinding]:
    """Return the finding on frequency, if two groups have enough questions: both runs' accuracy on the rarest and on
    the most frequent subjects, first that of the run whose accuracy differs between them; or that neither run's does.
    """
    enough = [point for point in points if not point.has_few_questions]
    if len(enough) < 2:
        return []
    frequent, rare = enough[0], enough[-1]
    there, elsewhere = bucket_words(rare.label), bucket_words(frequent.label)
    a, b = (names[0], rare.estimate_a, frequent.estimate_a), (names[1], rare.estimate_b, frequent.estimate_b)
    for (name, low, high), (other, low_beside, high_beside) in ((b, a), (a, b)):
        change = independent_difference(high, low)
        assert change.low is not None and change.high is not None, "both have questions"
        if change.low <= 0 <= change.high:
            continue
        bottom, beside, top, beside_top = (each.percent[0] for each in (low, low_beside, high, high_beside))
        steady = independent_difference(high_beside, low_beside)
        is_level = (steady.low or 0.0) <= 0 <= (steady.high or 0.0)
        sentence = (
            f"{name} answers {bottom:.0f}% {there} and {top:.0f}% {elsewhere.replace('the subject', 'it', 1)}; {other} "
            f"{beside:.0f}% and {beside_top:.0f}%{', a change that is not established' if is_level else ''}."
        )
        return [RunFinding("frequency", sentence)]
    sentence = f"Neither run differs reliably between subjects {elsewhere} and subjects {there}."
    return [RunFinding("frequency", sentence)]


def bucket_words(label: str) -> str:
    """Describe a bucket or group of frequencies in words, such as "where the subject is mentioned 30 to 99 times"."""
    if label.startswith("bucket "):
        return f"in frequency {label.replace('bucket', 'group')}"
    group = label.removesuffix(" mentions")
    return f"where the subject is mentioned {TIMES.get(group) or group.replace('-', ' to ') + ' times'}"
