"""Measure a reader's stored answers ("readings"): exact match and F1 at each k, overall, by relation and by bucket, for
one reading or a comparison of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from blindspot.analysis.accuracy import Estimate, macro_average, mean, proportion
from blindspot.analysis.buckets import bucket_group, bucket_order
from blindspot.analysis.relations import relation_order
from blindspot.analysis.significance import Difference, compare, compare_groups
from blindspot.backend.core.settings import Unit
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import Units, units_of
from blindspot.backend.evaluation.relevance import relevant
from blindspot.backend.reader.answer_scores import score_prediction
from blindspot.backend.reader.reading import Reading
from blindspot.db.errors import BadInput, Refused
from blindspot.db.records import Question

Group = Literal["relation", "bucket"]
SEED = 0
CONVENTION = (
    "Exact match: the predicted answer equals one of the question's answers, both in lower case and without "
    "punctuation, a, an, the (SQuAD). F1: overlap of words. The predicted answer is the best span of the passage "
    "that the reader selects from the top k."
)


@dataclass(frozen=True)
class MeasuredReading:
    """A measured reading. Row i of every array is questions[i].

    Attributes:
        predictions: by k, the predicted answers, None if nothing was read.
        exact: by k, (q,) bool.
        f1: by k, (q,) float64. successes: by k, (q,) bool, whether a passage in the top k contains an answer (Success@k by
            the default rule), an upper bound for the reader.
        left_out: number of questions of the run without answers.
    """

    run: str
    reader: str
    questions: Sequence[Question]
    predictions: dict[int, list[str | None]]
    exact: dict[int, np.ndarray]
    f1: dict[int, np.ndarray]
    successes: dict[int, np.ndarray]
    left_out: int
    unit: Unit = "fact"

    @cached_property
    def units(self) -> Units:
        """The unit of observation of each question."""
        return units_of(self.questions, self.unit)

    @property
    def ks(self) -> list[int]:
        return list(self.exact)

    @cached_property
    def row_of(self) -> dict[str, int]:
        return {question.id: row for row, question in enumerate(self.questions)}

    @cached_property
    def relations(self) -> np.ndarray:
        """The relation of each question, (q,) str; "" without a relation."""
        return np.array([question.relation or "" for question in self.questions], dtype=str)

    def groups(self, grouping: Group) -> dict[str, np.ndarray]:
        """Return the rows of each relation or bucket, in the order in which tables list them. Questions without a
        relation are left out.
        """
        labels = (
            self.relations
            if grouping == "relation"
            else np.array([bucket_group(q.bucket, q.frequency) for q in self.questions], dtype=str)
        )
        order = relation_order if grouping == "relation" else bucket_order
        return {name: np.flatnonzero(labels == name) for name in sorted(set(labels.tolist()) - {""}, key=order)}


def measure_reading(study: Study, reading: Reading, ks: Sequence[int] | None = None) -> MeasuredReading:
    """Measure a reading at the values of k that it was made for, or at other values up to its depth.

    Raises:
        BadInput: a k beyond the reading's depth, or a run whose questions have no answers.
    """
    ks = sorted(set(reading.ks if ks is None else ks))
    if not ks or ks[0] < 1 or ks[-1] > reading.depth:
        raise BadInput(
            f"{reading.name}: k must be from 1 to {reading.depth}, not {', '.join(map(str, ks)) or 'nothing'}; read "
            "deeper with --k"
        )
    relevance = relevant(study, reading.run, "answers")
    if relevance.kind != "answers":
        raise BadInput(f"no question of run {reading.run.name!r} has answers; exact match cannot be measured")
    said, questions = reading.answers(study, ks, relevance.rows.tolist()), relevance.questions
    pairs = {
        k: [
            score_prediction(each, q.answers, q.answer_rule == "regex")
            for q, each in zip(questions, said[k], strict=True)
        ]
        for k in ks
    }
    return MeasuredReading(
        reading.run.name,
        reading.reader,
        questions,
        said,
        {k: np.array([exact for exact, _ in pairs[k]], dtype=bool) for k in ks},
        {k: np.array([f1 for _, f1 in pairs[k]], dtype=np.float64) for k in ks},
        {k: np.asarray(relevance.relevant[:, :k].any(axis=1)) for k in ks},
        len(reading.run.question_ids) - len(questions),
        study.settings.unit,
    )


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """The figures of a group of questions at each k, with intervals over units of observation."""

    group: str
    n: int
    exact: dict[int, Estimate]
    f1: dict[int, Estimate]
    found: dict[int, Estimate]


def answer_rows(reading: MeasuredReading, grouping: Group | None = None) -> list[AnswerRow]:
    """Return one row for all questions ("all"), or a row for each relation or bucket."""
    groups = {"all": np.arange(len(reading.questions))} if grouping is None else reading.groups(grouping)
    units = reading.units.codes
    return [
        AnswerRow(
            name,
            len(rows),
            {k: proportion(reading.exact[k][rows], units[rows]) for k in reading.ks},
            {k: mean(reading.f1[k][rows], units[rows]) for k in reading.ks},
            {k: proportion(reading.successes[k][rows], units[rows]) for k in reading.ks},
        )
        for name, rows in groups.items()
    ]


def macro_exact(reading: MeasuredReading) -> dict[int, Estimate]:
    """Return exact match at each k, macro-averaged over relations; {} if no question has a relation."""
    related = reading.relations != ""
    if not related.any():
        return {}
    names, units = reading.relations[related], reading.units.codes[related]
    return {k: macro_average(reading.exact[k][related], names, units) for k in reading.ks}


@dataclass(frozen=True, slots=True)
class TunedK:
    """The k with the best exact match on dev questions; of equally good k the smallest."""

    k: int
    run: str
    exact: Estimate


def tuned_k(reading: MeasuredReading) -> TunedK:
    """Tune k on dev questions.

    Raises Refused if the reading has no dev questions, because choosing k on the measured questions would bias the
    result upwards.
    """
    dev = np.array([question.split == "dev" for question in reading.questions], dtype=bool)
    if not dev.any():
        raise Refused(
            f"run {reading.run!r} has no dev question with answers to tune k on; give --tune-on a run over dev "
            "questions ('blindspot retrieve --split dev')"
        )
    shares = {k: proportion(reading.exact[k][dev], reading.units.codes[dev]) for k in reading.ks}
    best = max(reading.ks, key=lambda k: (shares[k].value, -k))
    return TunedK(best, reading.run, shares[best])


@dataclass(frozen=True, slots=True)
class ReadingComparison:
    """Exact match of two readings on the same questions, and the difference."""

    n: int
    estimate_a: Estimate
    estimate_b: Estimate
    difference: Difference


def compare_readings(
    reading_a: MeasuredReading,
    reading_b: MeasuredReading,
    k: int,
    grouping: Group | None = None,
    kept_ids: set[str] | None = None,
) -> dict[str, ReadingComparison]:
    """Compare two readings on the questions that are measured in both: overall ("all"), or by group with Holm-adjusted
    p values.

    Args:
        k: a cut-off at which both readings are measured. kept_ids: ids of the questions to use; None for all.
    """
    both = [id for id in reading_a.row_of if id in reading_b.row_of and (kept_ids is None or id in kept_ids)]
    if not both:
        return {}
    left, right = (np.array([each.row_of[id] for id in both], dtype=np.int64) for each in (reading_a, reading_b))
    exact_a, exact_b, units = reading_a.exact[k][left], reading_b.exact[k][right], reading_a.units.codes[left]
    if grouping is None:
        members = {"all": np.arange(len(both))}
        differences = {"all": compare(exact_a, exact_b, units=units, seed=SEED)}
    else:
        in_group = {name: np.flatnonzero(np.isin(left, group)) for name, group in reading_a.groups(grouping).items()}
        members = {name: rows for name, rows in in_group.items() if len(rows)}
        differences = compare_groups(exact_a, exact_b, members, units, seed=SEED)
    return {
        name: ReadingComparison(
            len(group),
            proportion(exact_a[group], units[group]),
            proportion(exact_b[group], units[group]),
            differences[name],
        )
        for name, group in members.items()
    }
