"""Apply the rules of `blindspot.backend.evaluation.causes` to the questions that a run misses, for the command `misses`.
(Which title counts as a similar name is `near_namesake` in `miss_facts.py`.)

Each rule reads its data for all misses together. Each passage is read once, and so are labels, scores and training
questions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from blindspot.analysis.accuracy import success_from_ranks
from blindspot.analysis.buckets import subject_key
from blindspot.backend.core.study import Study
from blindspot.backend.data.importing.gold import find_ordinals
from blindspot.backend.evaluation.causes import (
    DOUBTED,
    JUDGED_POSITIVE,
    LATE_SHARE,
    LONG_WORDS,
    NAMESAKE_SHARE,
    OTHER_WORDS_SHARE,
    RARE_MENTIONS,
    RARE_PATTERN,
    RAREST_BUCKET,
    Cause,
)
from blindspot.backend.evaluation.comparison import Comparison
from blindspot.backend.evaluation.gold_facts import GoldPassage, answer_place, largest_name_share, largest_overlap
from blindspot.backend.evaluation.judged_scores import highest_probabilities, likely_positive
from blindspot.backend.evaluation.miss_facts import near_namesake, pattern
from blindspot.backend.text.answers import mentions_subject
from blindspot.db.question_table import folded_field_of, take
from blindspot.db.records import Passage, Question

Side = Literal["a", "b"]
Fact = tuple[str, str]
"""(subject, relation), in lower case."""
Answer = bool | None
"""The result of a rule for one question; None if a fact that the rule needs is unknown."""
ORDER = tuple(Cause)
"""The column of each cause."""


@dataclass(frozen=True)
class RunCauses:
    """Which causes apply to the questions of a run at cut-off k.

    Attributes:
        rows: (n,) int64 rows of the comparison.
        missed: (n,) bool, whether the run misses the question.
        present: (n, 10) bool, whether the rule of a cause applies, in the order of `ORDER`.
        measured: (n, 10) bool, whether the facts that the rule needs are known.
    """

    run: str
    k: int
    rows: np.ndarray
    missed: np.ndarray
    present: np.ndarray
    measured: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def has_cause(self, cause: Cause) -> np.ndarray:
        """Return the questions to which the rule of a cause applies, (n,) bool."""
        present: np.ndarray = self.present[:, ORDER.index(cause)]
        return present

    def is_measured(self, cause: Cause) -> np.ndarray:
        """Return the questions for which a cause could be measured, (n,) bool."""
        known: np.ndarray = self.measured[:, ORDER.index(cause)]
        return known

    @property
    def without_cause(self) -> np.ndarray:
        """Return the questions to which no rule applies, (n,) bool."""
        return np.asarray(~self.present.any(axis=1))

    @property
    def misses(self) -> RunCauses:
        """Return the causes of only the missed questions."""
        return self._subset(self.missed)

    @property
    def causes_of_found(self) -> RunCauses:
        """Return the causes of only the questions that the run finds."""
        return self._subset(~self.missed)

    def of_rows(self, rows: np.ndarray) -> RunCauses:
        """Return the causes of some rows of the comparison, (m,) int64."""
        return self._subset(np.isin(self.rows, rows))

    def _subset(self, subset: np.ndarray) -> RunCauses:
        arrays = (each[subset] for each in (self.rows, self.missed, self.present, self.measured))
        return RunCauses(self.run, self.k, *arrays)


def run_causes(comparison: Comparison, side: Side, k: int, rows: np.ndarray | None = None) -> RunCauses:
    """Apply the rules to the questions of one run of a comparison.

    Args:
        rows: (n,) int64, only these rows; default all, and then the comparison keeps the result until a label, a score
            or a question changes.

    Raises: Missing for a rule or passage that the study lacks.
    """
    if rows is not None:
        return _Questions(comparison, side, k, rows).causes()
    key = "causes", side, k, evidence_state(comparison)
    causes: RunCauses = comparison.figures_cache.get_or_make(
        key, lambda: _Questions(comparison, side, k, np.arange(len(comparison))).causes()
    )
    return causes


def evidence_state(comparison: Comparison) -> tuple[object, ...]:
    """Return a cache key that changes when the labels, scores or questions that the rules read change."""
    study = comparison.run_a.study
    scores = tuple(
        (name, path.stat().st_mtime_ns)
        for name in study.parts("scores")
        for path in sorted(study.path("scores", name).glob("scores.db*"))
    )
    return study.labels.last_event, study.questions.last_position, scores


class _Questions:
    """Questions of one run, and the data that several rules need. Row i is the same question in every list."""

    def __init__(self, comparison: Comparison, side: Side, k: int, rows: np.ndarray):
        self.compared, self.side, self.k, self.study = comparison, side, k, comparison.run_a.study
        own, other = (comparison.run_a, comparison.run_b) if side == "a" else (comparison.run_b, comparison.run_a)
        self.run, self.other = own.run, other.run
        firsts = (comparison.first_ranks_a, comparison.first_ranks_b)
        self.first, self.first_other = firsts if side == "a" else firsts[::-1]
        places = (comparison.rows_a, comparison.rows_b)
        self.run_rows, self.other_rows = places if side == "a" else places[::-1]
        self.rows = np.asarray(rows, dtype=np.int64)
        self.missed = ~success_from_ranks(self.first[self.rows], k)
        self.questions: list[Question] = list(take(comparison.questions, self.rows))

    def causes(self) -> RunCauses:
        present = np.zeros((len(self.rows), len(ORDER)), dtype=bool)
        measured = np.zeros_like(present)
        for column, cause in enumerate(ORDER):
            for row, answer in enumerate(RULES[cause](self)):
                present[row, column], measured[row, column] = bool(answer), answer is not None
        return RunCauses(self.run.name, self.k, self.rows, self.missed, present, measured)

    @cached_property
    def gold(self) -> list[list[int]]:
        """The collection rows of each question's gold passages."""
        known = find_ordinals(self.study.corpus, {id for question in self.questions for id in question.gold})
        return [sorted({known[id] for id in question.gold if id in known}) for question in self.questions]

    @cached_property
    def gold_passages(self) -> list[list[GoldPassage]]:
        read = _passages_by_row(self.study, (row for rows in self.gold for row in rows))
        prepared = {row: GoldPassage.from_passage(passage) for row, passage in read.items()}
        return [[prepared[row] for row in rows] for rows in self.gold]

    @cached_property
    def hits(self) -> np.ndarray:
        """The collection rows of the run's hits, (m, at most k) int32, padded with -1."""
        return np.asarray(self.run.hits.ordinals[self.run_rows[self.rows]])[:, : self.k]

    @cached_property
    def labels(self) -> dict[str, dict[str, str]]:
        """People's settled labels: question id to passage id to label."""
        settled: dict[str, dict[str, str]] = defaultdict(dict)
        for each in self.study.labels.consensus([question.id for question in self.questions]):
            if each.label is not None and each.label != "unsure":
                settled[each.question][each.passage] = each.label
        return settled

    @cached_property
    def _training(self) -> TrainingCounts:
        questions = self.study.questions
        counts: TrainingCounts = self.compared.figures_cache.get_or_make(
            ("training", questions.last_position), lambda: TrainingCounts.of_questions(questions.all(split="train"))
        )
        return counts

    def near_namesake(self) -> Iterable[Answer]:
        winners = self.hits[:, 0].tolist() if self.hits.shape[1] else [-1] * len(self.rows)
        read = _passages_by_row(self.study, (winner for winner in winners if winner >= 0))
        firsts = self.first[self.rows].tolist()
        for question, winner, gold, first in zip(self.questions, winners, self.gold, firsts, strict=True):
            if not question.subject or winner < 0 or first == 1:  # a relevant passage on top says nothing of the rule
                yield None
            else:
                yield winner not in gold and near_namesake(question.subject, read[winner].title) >= NAMESAKE_SHARE

    def other_words(self) -> Iterable[Answer]:
        for question, passages in zip(self.questions, self.gold_passages, strict=True):
            share = largest_overlap(question, passages)
            yield None if share is None else share < OTHER_WORDS_SHARE

    def late_fact(self) -> Iterable[Answer]:
        for question, passages in zip(self.questions, self.gold_passages, strict=True):
            places = [place for each in passages if (place := answer_place(question, each)) is not None]
            late = [
                place.words >= LONG_WORDS and not place.in_title and place.words_before > LATE_SHARE * place.words
                for place in places
            ]
            yield all(late) if late else None

    def other_entity_passage(self) -> Iterable[Answer]:
        for question, passages in zip(self.questions, self.gold_passages, strict=True):
            share = largest_name_share(question, passages)
            yield None if share is None else share < NAMESAKE_SHARE

    def rare_subject(self) -> Iterable[Answer]:
        for question in self.questions:
            if question.bucket is not None:
                yield question.bucket == RAREST_BUCKET
            else:
                yield None if question.frequency is None else question.frequency <= RARE_MENTIONS

    def unseen_relation(self) -> Iterable[Answer]:
        training = self._training
        for question in self.questions:
            known = question.relation and training.total
            yield question.relation not in training.relations if known else None

    def question_wording(self) -> Iterable[Answer]:
        training = self._training
        wordings = self._wordings()
        for question in self.questions:
            wording = pattern(question)
            found = {
                is_found for other, is_found in wordings.get(_fact(question), ()) if other != (wording or question.text)
            }
            if wording is not None and question.relation in training.relations:
                yield True in found or training.patterns[wording] < RARE_PATTERN
            else:
                yield True in found if found else None

    def _wordings(self) -> dict[Fact | None, list[tuple[str, bool]]]:
        """The wordings of each fact in the comparison, and whether the run finds the question with that wording."""
        rows_by_fact: dict[Fact, np.ndarray] = self.compared.figures_cache.get_or_make(
            "rows by fact", lambda: _rows_by_fact(self.compared.questions)
        )
        asked = {_fact(question) for question in self.questions}
        rows = np.unique(
            np.concatenate([np.zeros(0, np.int64), *(rows_by_fact[f] for f in asked if f in rows_by_fact)])
        )
        found = success_from_ranks(self.first[rows], self.k).tolist()
        wordings: dict[Fact | None, list[tuple[str, bool]]] = defaultdict(list)
        for question, is_found in zip(take(self.compared.questions, rows), found, strict=True):
            wordings[_fact(question)].append((pattern(question) or question.text, is_found))
        return wordings

    def chance_match(self) -> Iterable[Answer]:
        first = self.first_other[self.rows]
        found = success_from_ranks(first, self.k) & (self.other.name != self.run.name)
        hits = np.asarray(self.other.hits.ordinals[self.other_rows[self.rows]])
        relevant = np.where(found, hits[np.arange(len(hits)), np.maximum(first - 1, 0)], -1).tolist()
        asked = list(zip(self.questions, relevant, self.gold, strict=True))
        read = _passages_by_row(self.study, (row for question, row, gold in asked if row >= 0 and row not in gold))
        for question, row, gold in asked:
            if row < 0 or not question.subject:
                yield None
            else:
                yield row not in gold and not mentions_subject(read[row], question)

    def doubtful_gold(self) -> Iterable[Answer]:
        pairs = [
            (q.id, each.passage.id) for q, of in zip(self.questions, self.gold_passages, strict=True) for each in of
        ]
        judged = highest_probabilities(self.study, pairs)
        for question, passages in zip(self.questions, self.gold_passages, strict=True):
            ids = [each.passage.id for each in passages]
            labels = self.labels.get(question.id, {})
            open_ids = [id for id in ids if id not in labels]
            likely = [judged.get((question.id, id)) for id in open_ids]
            if "positive" in [labels.get(id) for id in ids]:
                yield False
            elif not ids or None in likely:
                yield None
            else:
                yield all(each is not None and each < DOUBTED for each in likely)

    def false_negative_above(self) -> Iterable[Answer]:
        ids = [question.id for question in self.questions]
        judged = likely_positive(self.study, ids, JUDGED_POSITIVE)
        named = {passage for pairs in self.labels.values() for passage in pairs}
        named |= {passage for passages in judged.values() for passage in passages}
        known = self.study.corpus.ordinals(named)
        for question, missed, hits in zip(self.questions, self.missed.tolist(), self.hits.tolist(), strict=True):
            top = set(hits) if missed else set()
            labels = {
                known[passage]: label
                for passage, label in self.labels.get(question.id, {}).items()
                if known.get(passage) in top
            }
            likely = {known[p] for p in judged.get(question.id, ()) if p in known} & top
            if not missed or (not labels and question.id not in judged):
                yield None
            else:
                yield "positive" in labels.values() or bool(likely - labels.keys())


RULES: dict[Cause, Callable[[_Questions], Iterable[Answer]]] = {
    Cause.NEAR_NAMESAKE: _Questions.near_namesake,
    Cause.OTHER_WORDS: _Questions.other_words,
    Cause.LATE_FACT: _Questions.late_fact,
    Cause.OTHER_ENTITY_PASSAGE: _Questions.other_entity_passage,
    Cause.RARE_SUBJECT: _Questions.rare_subject,
    Cause.UNSEEN_RELATION: _Questions.unseen_relation,
    Cause.QUESTION_WORDING: _Questions.question_wording,
    Cause.CHANCE_MATCH: _Questions.chance_match,
    Cause.DOUBTFUL_GOLD: _Questions.doubtful_gold,
    Cause.FALSE_NEGATIVE_ABOVE: _Questions.false_negative_above,
}


@dataclass(frozen=True, slots=True)
class TrainingCounts:
    """The number of training questions of a study: in total, for each relation, and for each question pattern."""

    total: int
    relations: Counter[str]
    patterns: Counter[str]

    @classmethod
    def of_questions(cls, questions: Sequence[Question]) -> TrainingCounts:
        wordings = (pattern(question) for question in questions)
        return cls(
            len(questions),
            Counter(question.relation for question in questions if question.relation),
            Counter(wording for wording in wordings if wording is not None),
        )


def _fact(question: Question) -> Fact | None:
    """Return the fact that a question asks for; None if its subject or relation is unknown."""
    return (
        (subject_key(question.subject), question.relation.casefold())
        if question.subject and question.relation
        else None
    )


def _rows_by_fact(questions: Sequence[Question]) -> dict[Fact, np.ndarray]:
    """Return the rows, (m,) int64, of each fact that at least two questions ask for."""
    rows: dict[Fact, list[int]] = defaultdict(list)
    pairs = zip(folded_field_of(questions, "subject"), folded_field_of(questions, "relation"), strict=True)
    for row, (subject, relation) in enumerate(pairs):
        if subject and relation:
            rows[" ".join(subject.split()), relation].append(row)
    return {fact: np.array(each) for fact, each in rows.items() if len(each) > 1}


def _passages_by_row(study: Study, rows: Iterable[int]) -> dict[int, Passage]:
    """Return passages by row, reading each passage once."""
    wanted = sorted(set(rows))
    return dict(zip(wanted, study.corpus.passages(wanted), strict=True))
