"""Compare any number of runs over the questions that are measured in all of them: tables by relation and curves by
frequency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from blindspot.analysis.accuracy import Estimate, macro_average, mean
from blindspot.analysis.buckets import (
    GROUPS,
    NEVER,
    Point,
    cumulative_buckets,
    in_training,
    mention_groups,
    subject_key,
    value_curves,
)
from blindspot.analysis.relations import GroupRow, relation_order, value_table
from blindspot.backend.core.settings import Unit
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import Units
from blindspot.backend.evaluation.comparison import (
    KS,
    Comparison,
    MeasuredRun,
    PairedFigures,
    by_group,
    figures_at,
    macro_at,
)
from blindspot.backend.evaluation.measures import SUCCESS, RankingMeasure
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BadInput
from blindspot.db.question_table import columns_of, rows_among, take
from blindspot.db.records import Question

TRAINING_FILE = "training_subjects.txt"
ALL, RANDOM, TRAINED = "all subjects", "subjects not in training", "subjects in training"


@dataclass(frozen=True)
class Panel:
    """Several runs over the same questions. Row i is the same question in every array. first_ranks[run]: (q,) int32,
    the rank of the first relevant passage, 0 for none.
    """

    runs: dict[str, MeasuredRun]
    questions: Sequence[Question]
    first_ranks: dict[str, np.ndarray]

    @classmethod
    def of_runs(cls, runs: dict[str, MeasuredRun]) -> Panel:
        """Combine measured runs. Raises BadInput if the runs were measured with different kinds of relevance, or share
        no question.
        """
        measured = list(runs.values())
        if len({each.kind for each in measured}) > 1:
            raise BadInput(
                "the runs are measured by different relevance "
                f"({', '.join(f'{m.name} by {m.kind}' for m in measured)}); choose gold for all"
            )
        first = measured[0].questions
        rows = {name: rows_among(first, run.questions) for name, run in runs.items()}
        kept = np.flatnonzero(np.all([each >= 0 for each in rows.values()], axis=0))
        if not len(kept):
            raise BadInput(f"{', '.join(runs)} share no measured question; choose runs over the same questions")
        shared = first if len(kept) == len(first) else take(first, kept)
        return cls(runs, shared, {name: run.first_ranks[rows[name][kept]] for name, run in runs.items()})

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def depth(self) -> int:
        return min(run.k for run in self.runs.values())

    @property
    def kind(self) -> str:
        return next(iter(self.runs.values())).kind

    @property
    def study(self) -> Study:
        return next(iter(self.runs.values())).study

    def ks(self, k: int | None = None) -> list[int]:
        """Return the usual cut-offs that do not exceed the depth of any run, and k."""
        return sorted({each for each in KS if each <= self.depth} | ({k} if k else set()))

    def values(self, measure: RankingMeasure, k: int) -> dict[str, np.ndarray]:
        """Return by run the measure's value for each question at k, (q,) bool or float64. Raises BadInput if the
        measure needs all relevant passages and relevance is by answers.
        """
        return {
            name: run.values(measure, k)[rows_among(self.questions, run.questions)] for name, run in self.runs.items()
        }

    @cached_property
    def relations(self) -> np.ndarray:
        """The relation of each question, (q,) str; "" if it has none."""
        return columns_of(self.questions).relation.labels(str)

    @cached_property
    def frequency(self) -> np.ndarray:
        """The number of passages that mention each question's subject, (q,) int64; -1 if unknown."""
        return columns_of(self.questions).frequency

    @cached_property
    def units(self) -> Units:
        """The unit of observation of each question."""
        first = next(iter(self.runs.values()))
        return first.units.units_of_rows(rows_among(self.questions, first.questions))

    @cached_property
    def training(self) -> tuple[set[str], str | None]:
        """The result of `training_subjects`, read once."""
        return training_subjects(self.study)

    @cached_property
    def comparison(self) -> Comparison | None:
        """The comparison of the first two runs; None for a single run."""
        pair = list(self.runs.values())[:2]
        return Comparison.of_runs(*pair) if len(pair) == 2 else None


@dataclass(frozen=True, slots=True)
class RelationTable:
    """Success@k, or another measure, by relation for several runs (EntityQuestions, Tables 1 and 5).

    Attributes:
        rows: by relation.
        micro, macro: [run][k] over all questions, and averaged over relations (empty without relations).
        differences: by relation, the first run minus the second at k; empty for one run.
        whole, averaged: the same difference over all questions, and of the macro averages. Differences cover the
            questions that the first two runs share.
    """

    ks: list[int]
    k: int
    rows: list[GroupRow]
    micro: dict[str, dict[int, Estimate]]
    macro: dict[str, dict[int, Estimate]]
    differences: dict[str, PairedFigures]
    whole: PairedFigures | None
    averaged: PairedFigures | None
    measure: RankingMeasure = SUCCESS
    unit: Unit = "question"

    @property
    def title(self) -> str:
        """The measure with its cut-off, such as "nDCG@20"."""
        return self.measure.title_at(self.k)


def relation_table(panel: Panel, k: int, measure: RankingMeasure = SUCCESS) -> RelationTable:
    """Return the table of a measure by relation. Raises BadInput if the measure needs all relevant passages and
    relevance is by answers.
    """
    ks = panel.ks(k) if measure.has_cut_off else [k]
    labels = [relation or None for relation in panel.relations.tolist()]
    by_k = {k: panel.values(measure, k) for k in ks}
    values = {run: {k: by_k[k][run] for k in ks} for run in panel.runs}
    related, units = panel.relations != "", panel.units.codes
    rows = sorted(value_table(values, labels, units), key=lambda row: relation_order(row.group))
    micro = {run: {k: mean(each, units) for k, each in of.items()} for run, of in values.items()}
    macro = {}
    if related.any():
        names = panel.relations[related]
        macro = {
            run: {k: macro_average(each[related], names, units[related]) for k, each in of.items()}
            for run, of in values.items()
        }
    compared = panel.comparison
    if compared is None:
        return RelationTable(ks, k, rows, micro, macro, {}, None, None, measure, panel.units.name)
    kept = _shared_rows(panel, compared)
    members = {name: rows[kept[rows]] for name, rows in compared.groups("relation").items()}
    differences, whole = by_group(compared, k, members, measure), figures_at(compared, k, kept, measure)
    averaged = macro_at(compared, k, kept, measure)
    return RelationTable(ks, k, rows, micro, macro, differences, whole, averaged, measure, panel.units.name)


def _shared_rows(panel: Panel, comparison: Comparison) -> np.ndarray:
    """Return the rows of the first two runs' comparison that are measured in every run of the panel, (q,) bool."""
    return rows_among(comparison.questions, panel.questions) >= 0


Cut = Literal["official", "mentions", "mass"]
"""How questions are grouped by frequency: by the buckets of the question sets; by mentions, as in Compare's table; or
in 8 buckets with equal sums of frequencies.
"""


@dataclass(frozen=True, slots=True)
class Curves:
    """Accuracy by frequency (EntityQuestions, Figure 1).

    Attributes:
        series: by name (a bucket set, or a group of subjects) and run: the points.
        cut: the kind of buckets.
        source: of the frequencies.
        training: the source of the training subjects.
    """

    series: dict[str, dict[str, list[Point]]]
    k: int
    relation: str
    cut: Cut
    source: str
    training: str | None
    measure: RankingMeasure = SUCCESS
    unit: Unit = "question"

    @property
    def title(self) -> str:
        """The measure with its cut-off, such as "Success@20"."""
        return self.measure.title_at(self.k)

    @property
    def known_columns(self) -> list[str]:
        """The columns of a table of the points that say which questions a point covers. A column that would repeat
        another is left out: the subjects of a single series, and a group that is named by its mentions."""
        points = [point for by_run in self.series.values() for each in by_run.values() for point in each]
        names = {"subjects": len(self.series) > 1, "bucket": self.cut == "official", "group": self.cut == "mass"}
        names["mentions"] = self.cut == "mentions" or any(point.min_frequency is not None for point in points)
        return [name for name, is_shown in names.items() if is_shown]

    def known_cells(self, series: str, point: Point) -> list[str]:
        """Return a point's cells of `known_columns`."""
        low, high = point.min_frequency, point.max_frequency
        span = "" if low is None else f"{low:,}" if low == high else f"{low:,}\N{EN DASH}{high:,}"
        cells = {"subjects": series, "group": self.label(point.bucket), "bucket": self.label(point.bucket)}
        cells["mentions"] = self.label(point.bucket) if self.cut == "mentions" else span
        return [cells[column] for column in self.known_columns]

    def label(self, bucket: int) -> str:
        """Return the display name of a bucket or group."""
        if self.cut == "mentions":
            return GROUPS[bucket].replace("<=", "≤").replace("-", "–")
        return "never" if bucket == NEVER else str(bucket)


def frequency_curves(
    panel: Panel, k: int, relation: str = "", frequency_cut: Cut | None = None, measure: RankingMeasure = SUCCESS
) -> Curves:
    """Return the curves of every run by frequency, for one relation or for all.

    If the questions have official bucket sets, each set is a series: EntityQuestions' common-random-buckets (`rand
    ent`) and nq-seen-buckets (`train ent`). Otherwise `mention_groups` or `cumulative_buckets` splits the questions of
    the named relation, or of all relations together. Questions about subjects of training questions are then a separate
    series.

    Args:
        frequency_cut: None means the official buckets if there are any, else groups by mentions.
    """
    kept = panel.relations == relation if relation else np.ones(len(panel), dtype=bool)
    given = np.array([-1 if q.bucket is None else q.bucket for q in panel.questions], dtype=np.int64)
    has_buckets = bool((given[kept] >= 0).any())
    if frequency_cut is None or (frequency_cut == "official" and not has_buckets):
        frequency_cut = "official" if has_buckets else "mentions"
    source = panel.study.questions.frequency_source or "none, no frequencies are known"
    if frequency_cut == "official":
        sets = np.array([question.dataset for question in panel.questions], dtype=str)
        kept &= given >= 0
        groups, buckets, training = (
            {name: kept & (sets == name) for name in np.unique(sets[kept]).tolist()},
            given,
            None,
        )
    else:
        buckets = np.full(len(panel), -1, dtype=np.int64)
        buckets[kept] = (mention_groups if frequency_cut == "mentions" else cumulative_buckets)(panel.frequency[kept])
        subjects, training = panel.training
        groups = {ALL: kept}
        if training:
            known = in_training([question.subject for question in panel.questions], subjects)
            if (kept & known).any():
                groups = {RANDOM: kept & ~known, TRAINED: kept & known}
    values = panel.values(measure, k)
    series = {
        name: value_curves(
            {run: each[rows] for run, each in values.items()},
            buckets[rows],
            panel.frequency[rows],
            panel.units.codes[rows],
        )
        for name, rows in groups.items()
    }
    return Curves(series, k, relation, frequency_cut, source, training, measure, panel.units.name)


def training_subjects(study: Study) -> tuple[set[str], str | None]:
    """Return the keys (`subject_key`) of the subjects of the training questions, and their source: a file of the study
    if there is one, else the study's training questions.
    """
    path = study.folder / TRAINING_FILE
    if path.is_file():
        lines = path.read_text(encoding="utf-8").splitlines()
        return {subject_key(line) for line in lines if line.strip()}, TRAINING_FILE
    subjects = {subject_key(question.subject) for question in study.questions.all(split="train") if question.subject}
    return (
        subjects,
        f"the subjects of {quantity(len(subjects), 'imported training question')}" if subjects else None,
    )


def runs_named(text: str, known_runs: Sequence[str], default: Sequence[str]) -> list[str]:
    """Return the known run names in a comma-separated list, or the default if there are none."""
    return [name for name in dict.fromkeys(text.split(",")) if name in known_runs] or list(default)
