"""Compare two runs over the questions that are measured in both, for the Compare page and `blindspot compare`.

Every figure of a comparison is computed in this module, so that the page, the command and the HTML report agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Literal

import numpy as np

from blindspot.analysis import flips
from blindspot.analysis.accuracy import Estimate, first_hit, macro_average, mean, success_from_ranks
from blindspot.analysis.buckets import bucket_groups, bucket_order
from blindspot.analysis.flips import FlipTable
from blindspot.analysis.overlap import rank_biased_overlap
from blindspot.analysis.relations import relation_order
from blindspot.analysis.significance import Difference, compare, compare_groups, holm_adjusted
from blindspot.backend.core.runs import Run
from blindspot.backend.core.settings import Unit
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import Units, count_with_units, units_of
from blindspot.backend.evaluation.held import ResultCache
from blindspot.backend.evaluation.measures import SUCCESS, RankingMeasure
from blindspot.backend.evaluation.question_facts import QuestionFacts
from blindspot.backend.evaluation.relevance import Kind, Relevance, relevant
from blindspot.backend.text.answers import DEFAULT_RULE
from blindspot.db.errors import BadInput
from blindspot.db.question_columns import NO_BUCKET, Categories, QuestionColumns
from blindspot.db.question_table import QuestionTable, columns_of, row_index, rows_among, take
from blindspot.db.records import Question

KS = (1, 5, 20, 100)
SEED = 0
SURE = 0.05
FIGURES_CACHED = 1000  # figures kept per comparison; a few hundred bytes each
VALUES_HELD = 32  # arrays kept per run: a measure at a cut-off, 8 bytes a question


@dataclass(frozen=True)
class MeasuredRun:
    """The measured questions of a run, and the rank of the first relevant passage of each.

    Attributes:
        questions: q questions, in the run's order, as a list or a table
        rows: (q,) their rows of the run.
        first_ranks: (q,) int32 rank from 1, 0 for none within the run's k.
        kind: the relevance in use; gold instead of answers if no question has answers.
        left_out: the number of questions that are not measured, by reason.
    """

    study: Study
    run: Run
    kind: Kind
    rule: str
    questions: Sequence[Question]
    rows: np.ndarray
    first_ranks: np.ndarray
    left_out: dict[str, int]

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def k(self) -> int:
        return self.run.hits.k

    @cached_property
    def row_of(self) -> Mapping[str, int]:
        """The position of each question in `questions`."""
        return row_index(self.questions)

    @cached_property
    def facts(self) -> QuestionFacts:
        return QuestionFacts(self.study, self.questions)

    @cached_property
    def units(self) -> Units:
        """The unit of observation of each question, according to the study's settings."""
        return units_of(self.questions, self.study.settings.unit)

    @cached_property
    def _relevance(self) -> Relevance:
        """The relevance of every hit, which measures other than Success@k need."""
        return relevant(self.study, self.run, self.kind, self.rule, self._questions_of(self.run))

    def _questions_of(self, run: Run) -> QuestionTable | None:
        """Return the question table of a run, or None if it is not available and the questions must be read
        as records.
        """
        return self.study.questions.table(run.question_ids) if isinstance(self.questions, QuestionTable) else None

    @cached_property
    def _values(self) -> ResultCache:
        return ResultCache(VALUES_HELD)

    def values(self, measure: RankingMeasure, k: int) -> np.ndarray:
        """Return the measure's value for each question at k, (q,) bool or float64. Raises BadInput if the measure needs
        all relevant passages and relevance is by answers.
        """
        if measure is SUCCESS:
            return success_from_ranks(self.first_ranks, k)

        def compute_values() -> np.ndarray:
            found = self._relevance
            return measure.values_of(found, k)[np.searchsorted(found.rows, self.rows)]

        return self._values.get_or_make((measure.name, k), compute_values)

    def measure_other_run(self, name: str) -> MeasuredRun:
        """Measure another run of the study with the same kind of relevance. Raises Missing for an unknown run."""
        return measure(self.study, name, self.kind, self.rule, self._questions_of(self.study.run(name)))


def measure(
    study: Study,
    name: str,
    relevance: Kind = "answers",
    rule: str = DEFAULT_RULE,
    questions: Sequence[Question] | None = None,
) -> MeasuredRun:
    """Measure a run. `questions` are the run's questions in its order, if the caller has them. Raises Missing for an
    unknown run or rule, and BadInput for an unknown kind of relevance.
    """
    run = study.run(name)
    judged = relevant(study, run, relevance, rule, questions)
    return MeasuredRun(
        study, run, judged.kind, rule, judged.questions, judged.rows, first_hit(judged.relevant), judged.left_out
    )


def measure_all(
    study: Study, names: Sequence[str], relevance: Kind = "answers", rule: str = DEFAULT_RULE
) -> dict[str, MeasuredRun]:
    """Measure several runs. Questions that occur in several runs are read once."""
    question_by_id: dict[str, Question] = {}
    result = {}
    for name in dict.fromkeys(names):
        ids = study.run(name).question_ids
        absent = [id for id in ids if id not in question_by_id]
        question_by_id.update(zip(absent, study.questions.with_ids(absent), strict=True))
        result[name] = measure(study, name, relevance, rule, [question_by_id[id] for id in ids])
    return result


@dataclass(frozen=True)
class Comparison:
    """Two runs, A and B, over the questions that are measured in both. Row i is the same question in every array."""

    run_a: MeasuredRun
    run_b: MeasuredRun
    questions: Sequence[Question]
    first_ranks_a: np.ndarray
    first_ranks_b: np.ndarray
    rows_a: np.ndarray
    rows_b: np.ndarray

    @classmethod
    def of_runs(cls, measured_a: MeasuredRun, measured_b: MeasuredRun) -> Comparison:
        """Compare two measured runs. The comparison is empty if the runs were measured with different kinds of
        relevance.
        """
        if measured_a.kind != measured_b.kind:
            none = np.zeros(0, dtype=np.int64)
            return cls(
                measured_a,
                measured_b,
                [],
                measured_a.first_ranks[none],
                measured_b.first_ranks[none],
                measured_a.rows[none],
                measured_b.rows[none],
            )
        rows_of_b = rows_among(measured_a.questions, measured_b.questions)
        rows_of_a = np.flatnonzero(rows_of_b >= 0)
        rows_of_b = rows_of_b[rows_of_a]
        shared = (
            measured_a.questions
            if len(rows_of_a) == len(measured_a.questions)
            else take(measured_a.questions, rows_of_a)
        )
        return cls(
            measured_a,
            measured_b,
            shared,
            measured_a.first_ranks[rows_of_a],
            measured_b.first_ranks[rows_of_b],
            measured_a.rows[rows_of_a],
            measured_b.rows[rows_of_b],
        )

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def depth(self) -> int:
        """The largest k at which both runs can be measured."""
        return min(self.run_a.k, self.run_b.k)

    def values(self, measure: RankingMeasure, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the measure's value for each question in A and in B, two arrays (q,) of bool or float64. Raises
        BadInput as `Measured.values` does.
        """
        if measure is SUCCESS:
            return success_from_ranks(self.first_ranks_a, k), success_from_ranks(self.first_ranks_b, k)
        in_a, in_b = np.searchsorted(self.run_a.rows, self.rows_a), np.searchsorted(self.run_b.rows, self.rows_b)
        return self.run_a.values(measure, k)[in_a], self.run_b.values(measure, k)[in_b]

    def measured_run(self, name: str) -> MeasuredRun:
        """Return another run of the study, measured in the same way. The result is cached until the run is replaced.
        Raises Missing for an unknown run.
        """
        known = {side.name: side for side in (self.run_a, self.run_b)}
        if name in known:
            return known[name]
        key = name, self.run_a.study.run(name).manifest.get("made")
        if key not in self._other_runs:
            self._other_runs[key] = self.run_a.measure_other_run(name)
        return self._other_runs[key]

    @cached_property
    def _other_runs(self) -> dict[tuple, MeasuredRun]:
        return {}

    @cached_property
    def facts(self) -> QuestionFacts:
        """The facts about the questions. If B contains all questions of A, these are A's facts, which other comparisons
        with A can reuse.
        """
        return (
            self.run_a.facts
            if len(self) == len(self.run_a.questions)
            else QuestionFacts(self.run_a.study, self.questions)
        )

    @cached_property
    def units(self) -> Units:
        """The unit of observation of each question."""
        return self.run_a.units.units_of_rows(np.searchsorted(self.run_a.rows, self.rows_a))

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """The row of each question by id."""
        return row_index(self.questions)

    @cached_property
    def columns(self) -> QuestionColumns:
        """The facts about the questions by which tables are grouped and filtered."""
        return columns_of(self.questions)

    @cached_property
    def relations(self) -> np.ndarray:
        """The relation of each question, (q,) str; "" if it has none."""
        return self.columns.relation.labels(str)

    @cached_property
    def _bucket_groups(self) -> Categories[str]:
        return Categories(*bucket_groups(self.columns.bucket, self.columns.frequency, NO_BUCKET))

    @cached_property
    def buckets(self) -> np.ndarray:
        """The bucket label of each question, (q,) str; see `bucket_group`."""
        return self._bucket_groups.labels(str)

    @cached_property
    def sets(self) -> np.ndarray:
        """The label of split and data set of each question, (q,) str; see `set_label`."""
        return self.columns.dataset_split.labels(lambda pair: set_label(*pair))

    @property
    def frequency(self) -> np.ndarray:
        """The number of passages that mention each question's subject, (q,) int64; -1 if unknown."""
        return self.columns.frequency

    @cached_property
    def searchable_text(self) -> list[str]:
        """The text that the text filter searches: question, answers, subject and id, case-folded."""
        if isinstance(self.questions, QuestionTable):
            return self.questions.search_texts
        return [" ".join((q.text, *q.answers, q.subject or "", q.id)).casefold() for q in self.questions]

    @cached_property
    def contrast(self) -> np.ndarray:
        """The reciprocal rank of the first relevant passage in A minus that in B, (q,) float64, from -1 to 1."""
        return _reciprocal_ranks(self.first_ranks_a) - _reciprocal_ranks(self.first_ranks_b)

    @cached_property
    def overlap(self) -> np.ndarray:
        """The extrapolated rank-biased overlap (p = 0.9) of the two lists, (q,) float64, from 0 to 1; NaN if a list is
        empty.
        """
        list_a = np.asarray(self.run_a.run.hits.ordinals)[self.rows_a]
        list_b = np.asarray(self.run_b.run.hits.ordinals)[self.rows_b]
        return rank_biased_overlap(list_a, list_b)

    def overlap_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the `overlap` of some questions, (m,) float64, without reading the lists of the other questions."""
        if "overlap" in self.__dict__:
            return self.overlap[rows]
        list_a = np.asarray(self.run_a.run.hits.ordinals[self.rows_a[rows]])
        list_b = np.asarray(self.run_b.run.hits.ordinals[self.rows_b[rows]])
        return rank_biased_overlap(list_a, list_b)

    @cached_property
    def figures_cache(self) -> ResultCache:
        """The cache of recently computed figures, which all viewers of this comparison share."""
        return ResultCache(FIGURES_CACHED)

    def groups(self, grouping: Literal["relation", "bucket"]) -> dict[str, np.ndarray]:
        """Return the rows of each relation or bucket, in the order in which tables list them. Questions without a
        relation are left out.
        """
        relation = grouping == "relation"
        rows = (self.columns.relation if relation else self._bucket_groups).rows_by_value()
        names = sorted(rows.keys() - {""}, key=relation_order if relation else bucket_order)
        return {name: rows[name] for name in names}


def set_label(dataset: str, split: str) -> str:
    """Return the label of a question set, such as "dev", or "test · common-random-buckets" for a named set."""
    return split if dataset in ("", split) else f"{split} · {dataset}"


def _reciprocal_ranks(first_ranks: np.ndarray) -> np.ndarray:
    return np.divide(1.0, first_ranks, out=np.zeros(len(first_ranks)), where=first_ranks > 0)


@dataclass(frozen=True, slots=True)
class PairedFigures:
    """A measure of the two runs at one k, their difference, and the number of questions that only one of them finds.

    Attributes:
        oracle: the measure of a run that takes, for each question, the better of the two lists.
        unit: what `units` counts, as in `blindspot.backend.core.units`.
        flips: always of Success@k; `difference.only_a` and `only_b` count the questions on which one run is better.
    """

    n: int
    k: int
    a: Estimate
    b: Estimate
    oracle: Estimate
    difference: Difference
    flips: FlipTable
    unit: Unit = "question"
    measure: RankingMeasure = SUCCESS

    @property
    def units(self) -> int:
        return self.difference.units

    @property
    def questions(self) -> str:
        """The n in words, such as "452 questions about 226 facts"."""
        return count_with_units(self.n, self.units, self.unit)

    @property
    def title(self) -> str:
        """The measure with its cut-off, such as "Success@5"."""
        return self.measure.title_at(self.k)


def figures_at(
    comparison: Comparison, k: int, rows: np.ndarray | None = None, measure: RankingMeasure = SUCCESS
) -> PairedFigures:
    """Return the figures at k over all questions, or over the questions in `rows` (indices or bool)."""

    def compute_figures() -> PairedFigures:
        chosen = slice(None) if rows is None else rows
        a, b = (values[chosen] for values in comparison.values(measure, k))
        made = compare(a, b, units=comparison.units.codes[chosen], seed=SEED)
        return _paired_figures(comparison, chosen, k, measure, (a, b), made)

    return comparison.figures_cache.get_or_make(("at", measure.name, k, _rows_digest(rows)), compute_figures)


def macro_at(
    comparison: Comparison, k: int, rows: np.ndarray | None = None, measure: RankingMeasure = SUCCESS
) -> PairedFigures | None:
    """Return the figures at k, macro-averaged over relations; None if no question has a relation."""

    def compute_figures() -> PairedFigures | None:
        chosen = np.arange(len(comparison)) if rows is None else np.arange(len(comparison))[rows]
        chosen = chosen[comparison.relations[chosen] != ""]
        if not len(chosen):
            return None
        relations, units = comparison.relations[chosen], comparison.units.codes[chosen]
        a, b = (values[chosen] for values in comparison.values(measure, k))
        made = compare(a, b, relations, units, seed=SEED)
        return _paired_figures(comparison, chosen, k, measure, (a, b), made, relations)

    return comparison.figures_cache.get_or_make(("macro", measure.name, k, _rows_digest(rows)), compute_figures)


@dataclass(frozen=True, slots=True)
class Overall:
    """The figures over all questions (or one slice) at several cut-offs. The p values are Holm-adjusted for all these
    tests together.

    Attributes:
        figures_at: by k.
        macro: by k, averaged over relations; empty if no question has a relation.
    """

    figures_at: dict[int, PairedFigures]
    macro: dict[int, PairedFigures]

    @property
    def tests(self) -> int:
        """The number of tests for which the p values are adjusted."""
        return len(self.figures_at) + len(self.macro)


def overall(
    comparison: Comparison, ks: Iterable[int], rows: np.ndarray | None = None, measure: RankingMeasure = SUCCESS
) -> Overall:
    """Return the figures at each k, over all questions and macro-averaged over relations. One table shows them, so
    their p values are adjusted together.
    """
    cells = {("at", k): figures_at(comparison, k, rows, measure) for k in ks}
    cells |= {
        ("macro", k): both for _, k in list(cells) if (both := macro_at(comparison, k, rows, measure)) is not None
    }
    differences = holm_adjusted({key: both.difference for key, both in cells.items()})
    adjusted = {key: replace(both, difference=differences[key]) for key, both in cells.items()}
    return Overall(*({k: both for (kind, k), both in adjusted.items() if kind == each} for each in ("at", "macro")))


def by_group(
    comparison: Comparison, k: int, members: Mapping[str, np.ndarray], measure: RankingMeasure = SUCCESS
) -> dict[str, PairedFigures]:
    """Return the figures at k of each non-empty group. The p values are Holm-adjusted for the number of groups.

    Args:
        members: rows of each group (indices or bool).
    """

    def compute_figures() -> dict[str, PairedFigures]:
        a, b = comparison.values(measure, k)
        groups = {name: rows for name, rows in members.items() if len(comparison.first_ranks_a[rows])}
        differences = compare_groups(a, b, groups, comparison.units.codes, seed=SEED)
        return {
            name: _paired_figures(comparison, rows, k, measure, (a[rows], b[rows]), differences[name])
            for name, rows in groups.items()
        }

    key = "groups", measure.name, k, tuple((name, _rows_digest(rows)) for name, rows in members.items())
    return comparison.figures_cache.get_or_make(key, compute_figures)


def _paired_figures(
    comparison: Comparison,
    rows: np.ndarray | slice,
    k: int,
    measure: RankingMeasure,
    values: tuple[np.ndarray, np.ndarray],
    difference: Difference,
    relations: np.ndarray | None = None,
) -> PairedFigures:
    """Return the figures of both runs over some rows, from their values there; macro averages where relations are given."""
    units = comparison.units.codes[rows]
    a, b, oracle = (
        mean(each, units) if relations is None else macro_average(each, relations, units)
        for each in (*values, np.maximum(*values))
    )
    table = flips.flip_table(comparison.first_ranks_a[rows], comparison.first_ranks_b[rows], k)
    return PairedFigures(len(values[0]), k, a, b, oracle, difference, table, comparison.units.name, measure)


def _rows_digest(rows: np.ndarray | None) -> bytes:
    """Return a hash of a set of rows, for use as a cache key."""
    if rows is None:
        return b""
    return blake2b(np.ascontiguousarray(rows).data, key=rows.dtype.str.encode(), digest_size=16).digest()


def check_k(k: int, comparison: Comparison) -> int:
    """Return k if it is valid. Raises BadInput if a run has fewer than k hits per question."""
    if not 1 <= k <= comparison.depth:
        a, b = comparison.run_a, comparison.run_b
        raise BadInput(
            f"k is {k}, but {a.name} has {a.k} hits per question and {b.name} {b.k}; k must be from 1 to "
            f"{comparison.depth}"
        )
    return k
