"""A simulated annotator who judges pairs in the order of a strategy, batch by batch, as a person would.

Everything happens in memory, so the study's labels stay as they are. Between two batches the judge learns anew from all
labels so far, and so does the estimate of today's priority.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from blindspot.backend.judges.feature_cache import kept_features
from blindspot.backend.judges.feature_judge import Lists, trainable_questions, truth_of
from blindspot.backend.judges.feature_model import NEGATIVE, POSITIVE
from blindspot.backend.judges.label_judge import UNLABELLED, LabelledLists, fitted, flattened, gold_rows, subjects_named
from blindspot.backend.judging.gain import UNKNOWN_RELATION, DrawingRules, GainPairs, PairLimits, choose_pairs, unit
from blindspot.backend.judging.priority import Calibration, Evidence, PooledPassage, harm, select_spread
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.records import Question

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study
    from blindspot.backend.progress import Progress
    from blindspot.backend.retrieval.dense import Dense

Strategy = Literal["random", "priority", "gain"]
STRATEGIES: tuple[Strategy, ...] = ("random", "priority", "gain")
SHOWN = 8  # passages of a question in today's priority order, as in a batch


@dataclass(frozen=True)
class SimulatedPool:
    """The pairs that the simulated annotator may judge: the first ranks of training questions, without known gold.

    pairs: all pairs, none labelled. answers, named, above_gold: (n,) bool: contains an answer, names the subject as
    well, ranks above the known gold. truth: (n,) bool, does the passage answer? known: rows of each question's
    known positives. vectors: (n, d) float32 unit vectors of the passages.
    """

    pairs: LabelledLists
    answers: np.ndarray
    named: np.ndarray
    above_gold: np.ndarray
    truth: np.ndarray
    known: Sequence[set[int]]
    vectors: np.ndarray

    @property
    def questions(self) -> list[Question]:
        return self.pairs.lists.questions

    @property
    def question(self) -> np.ndarray:
        """(n,) int64: the number of each pair's question."""
        return self.pairs.places[:, 0]

    @cached_property
    def evidence(self) -> list[Evidence]:
        return [
            (answer, named if answer and self.questions[i].subject else None)
            if self.questions[i].answers
            else (None, None)
            for i, answer, named in zip(self.question.tolist(), self.answers.tolist(), self.named.tolist(), strict=True)
        ]

    @cached_property
    def relation(self) -> np.ndarray:
        """(n,) int64: the number of each pair's relation."""
        names = sorted({q.relation for q in self.questions if q.relation})
        numbers = {name: number for number, name in enumerate(names)}
        return np.array([numbers.get(q.relation or "", UNKNOWN_RELATION) for q in self.questions])[self.question]


def truths_of(study: Study, path: Path | None) -> dict[str, set[str]]:
    """Return the ids of all passages that answer each question.

    From a file of JSON lines with `question` and `passages`; without a file from gold.

    Raises Missing for no such file, BadInput for a line of another form.
    """
    if path is None:
        return {question.id: set(question.gold) for question in study.questions.all() if question.gold}
    if not path.is_file():
        raise Missing(f"there is no file {path}")
    truths: dict[str, set[str]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
            truths[str(row["question"])] = {str(id) for id in row["passages"]}
        except (ValueError, KeyError, TypeError):
            raise BadInput('must be an object with "question" and "passages"', path, number) from None
    return truths


def simulated_pool(
    study: Study,
    run: str,
    dense: Dense,
    truths: Mapping[str, set[str]],
    depth: int,
    answers_known: bool = True,
    progress: Progress | None = None,
) -> SimulatedPool:
    """Return the pool of a run's training questions that have gold. Only the first gold passage counts as known.

    Args:
        answers_known: False hides answers and subjects, as for questions without answers.

    Raises Refused if the run has no such question.
    """
    opened = study.run(run)
    asked = [q for q in study.questions.some(trainable_questions(study, opened)) if q.gold and q.id in truths]
    if not asked:
        raise Refused(f"run {run!r} holds no question that may train, with gold and a known truth; retrieve over train")
    asked = [replace(question, gold=question.gold[:1]) for question in asked]
    lists, features = kept_features(study, opened, asked, depth, dense.name, progress)
    lists = Lists(asked, lists.rows, lists.scores)
    _, answers = truth_of(study, opened, lists, {}, progress)
    named = subjects_named(study, lists, answers)
    if not answers_known:
        lists = Lists([replace(question, answers=(), subject=None) for question in asked], lists.rows, lists.scores)
        answers, named = np.zeros_like(answers), np.zeros_like(named)
    known = gold_rows(study, asked)
    unlabelled = np.full(lists.rows.shape, UNLABELLED, np.int8)
    pairs = flattened(lists, features, answers, named, unlabelled, known)
    i, j = pairs.places.T
    rows = lists.rows[i, j]
    ids = study.corpus.ordinals({id for question in asked for id in truths[question.id]})
    right = [{ids[id] for id in truths[question.id] if id in ids} for question in asked]
    first_gold = [
        next((rank for rank, row in enumerate(listed) if row in gold), len(listed))
        for listed, gold in zip(lists.rows.tolist(), known, strict=True)
    ]
    return SimulatedPool(
        pairs,
        answers[i, j],
        named[i, j],
        j < np.array(first_gold)[i],
        np.array([row in right[question] for question, row in zip(i.tolist(), rows.tolist(), strict=True)]),
        known,
        unit(dense.vectors[rows]),
    )


@dataclass(frozen=True)
class SimulatedAnnotator:
    """Someone who judges pairs of a pool in the order of a strategy.

    right: probability of a right label; a wrong one swaps positive and negative. seed: of the mistakes, of what is
    drawn at random, and of ties. drawing: for the strategy gain. batch: pairs judged before the judge learns anew.
    """

    pool: SimulatedPool
    right: float
    seed: int
    drawing: DrawingRules
    batch: int

    @cached_property
    def labels(self) -> np.ndarray:
        """(n,) int8 POSITIVE or NEGATIVE: what the annotator says of each pair. The same for all strategies."""
        mistaken = np.random.default_rng([self.seed, 0]).random(len(self.pool.truth)) >= self.right
        return np.where(self.pool.truth ^ mistaken, POSITIVE, NEGATIVE).astype(np.int8)

    def labelled(self, judged: Sequence[int]) -> LabelledLists:
        """Return the pairs of the pool with the annotator's labels of some."""
        truth = np.full(len(self.pool.truth), UNLABELLED, np.int8)
        truth[list(judged)] = self.labels[list(judged)]
        return replace(self.pool.pairs, truth=truth)

    def judge(self, strategy: Strategy, count: int) -> list[int]:
        """Return the places of the first `count` pairs that the annotator judges, in their order."""
        judged: list[int] = []
        for chosen in self._batches(strategy, count, judged):
            judged += chosen
            if not chosen:
                break
        return judged

    def _batches(self, strategy: Strategy, count: int, judged: list[int]) -> Iterator[list[int]]:
        if strategy == "random":
            yield np.random.default_rng([self.seed, 1]).permutation(len(self.pool.truth))[:count].tolist()
            return
        choose = self._by_gain if strategy == "gain" else self._by_priority
        while len(judged) < count:
            yield choose(judged, min(self.batch, count - len(judged)))

    def _by_gain(self, judged: list[int], count: int) -> list[int]:
        pool, labelled = self.pool, self.labelled(judged)
        free = np.setdiff1d(np.arange(len(pool.truth)), judged)
        if not len(free):
            return []
        negatives = np.bincount(pool.question, minlength=len(pool.questions))
        related = pool.relation[judged]
        pairs = GainPairs(
            fitted(labelled, self.seed).probabilities(labelled.features[free]),
            self.drawing.draws(pool.pairs.places[free, 1] + 1, negatives[pool.question[free]]),
            pool.question[free],
            pool.relation[free],
            np.bincount(pool.question[judged], minlength=len(pool.questions)),
            np.bincount(related[related != UNKNOWN_RELATION]),
        )
        limits = PairLimits(count, count, count)
        chosen = choose_pairs(pairs, limits, lambda places: pool.vectors[free[places]], self.seed)
        return [int(free[pair.place]) for pair in chosen]

    def _by_priority(self, judged: list[int], count: int) -> list[int]:
        """Take whole questions by P(false negative) x harm, as the priority arm of a batch does."""
        pool, words = self.pool, {POSITIVE: "positive", NEGATIVE: "negative"}
        ranks = (pool.pairs.places[:, 1] + 1).tolist()
        calibration = Calibration(
            (pool.evidence[place], ranks[place], words[int(self.labels[place])]) for place in judged
        )
        done, negatives = set(judged), np.bincount(pool.question, minlength=len(pool.questions))
        worth: dict[str, list[tuple[float, int]]] = {}
        for place, question in enumerate(pool.question.tolist()):
            if place not in done:
                passage = PooledPassage(place, "", ranks[place], 0.0, None, bool(pool.above_gold[place]))
                drawn = min(1.0, self.drawing.hard_negatives / int(negatives[question]))
                value = calibration.probability(pool.evidence[place], ranks[place]) * harm(passage, drawn)
                worth.setdefault(pool.questions[question].id, []).append((value, place))
        # A batch leaves out the questions of earlier batches until there are no others.
        asked = {pool.questions[question].id for question in pool.question[judged].tolist()}
        waiting = {id: rows for id, rows in worth.items() if id not in asked} or worth
        shown = {id: sorted(rows, key=lambda row: (-row[0], row[1]))[:SHOWN] for id, rows in waiting.items()}
        totals = {id: sum(value for value, _ in rows) for id, rows in shown.items()}
        questions = [question for question in pool.questions if question.id in shown]
        order = select_spread(questions, totals, count)
        return [place for id in order for _, place in shown[id]][:count]
