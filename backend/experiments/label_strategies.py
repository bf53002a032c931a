"""Compare strategies of judging: what training gains from the labels of a simulated annotator who judges pairs at
random, by today's priority, or by what training would gain.

Each strategy labels the same pairs with the same annotator. Each budget and seed trains one adapter over a dense index,
which takes seconds, and Success@k of held-out questions measures it. Two trainings bound the gain: without labels, and
with all pairs judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.core.declared import build
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import file_sha256
from blindspot.backend.core.units import units_of
from blindspot.backend.experiments.label_experiment import LabelExperiment
from blindspot.backend.experiments.label_simulation import (
    STRATEGIES,
    SimulatedAnnotator,
    SimulatedPool,
    Strategy,
    simulated_pool,
    truths_of,
)
from blindspot.backend.experiments.strategy_results import summary
from blindspot.backend.judges.feature_model import POSITIVE
from blindspot.backend.judges.label_judge import THRESHOLD, fitted
from blindspot.backend.judging.gain import DrawingRules
from blindspot.backend.recipes.state import State
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.question_vectors import question_vectors
from blindspot.backend.text.answers import DEFAULT_RULE, match_run
from blindspot.backend.training.adapter_map import MapLearner, TrainingQuestions, learn, padded
from blindspot.backend.training.training_settings import AdapterSettings
from blindspot.db.errors import BadInput, Missing
from blindspot.db.records import Question

if TYPE_CHECKING:
    from torch.nn import Module

    from blindspot.backend.core.study import Study
    from blindspot.backend.progress import Progress

WHAT = "label strategies"
BUDGETS = (50, 100, 200, 400)
SEEDS = (0, 1, 2)
NONE, PRIOR, ANSWERS, ALL = "none", "prior", "answers", "all"


@dataclass(frozen=True)
class StrategiesSpec(LabelExperiment):
    """The arguments of `label_strategies`, and what follows from them."""

    encoder: str
    split: str
    strategies: tuple[Strategy, ...]
    budgets: tuple[int, ...]
    seeds: tuple[int, ...]
    truth: str | None
    depth: int
    k: int
    right: float
    batch: int
    generalise: bool
    answers_known: bool
    settings: dict[str, Any] = field(default_factory=dict)

    def adapter(self, seed: int) -> AdapterSettings:
        """The adapter's settings. None is chosen on held-out questions, so every training does the same."""
        plain = {"scale": 20.0, "weight_decay": 0.0, "held_out": 0}
        return build(AdapterSettings, {**plain, **self.settings, "seed": seed})

    @property
    def without_strategy(self) -> tuple[str, ...]:
        """The trainings without a strategy: no labels and every pair negative; no labels and the judge's estimate
        before any; no labels and every passage with an answer positive; all pairs judged.
        """
        prior, answers = (PRIOR,) if self.generalise else (), (ANSWERS,) if self.answers_known else ()
        return NONE, *prior, *answers, ALL

    @property
    def drawing(self) -> DrawingRules:
        chosen = self.adapter(0)
        return DrawingRules(1, self.depth, max(1, chosen.hard_negatives))

    def check(self) -> list[Question]:
        """Check the arguments and return the questions to measure on. Raises BadInput, Refused or Missing."""
        self.check_name()
        if unknown := [name for name in self.strategies if name not in STRATEGIES] or not self.strategies:
            raise BadInput(f"strategies are one or more of {', '.join(STRATEGIES)}, not {unknown or 'none'}")
        if not self.budgets or self.budgets[0] < 1:
            raise BadInput("give one or more budgets, each of at least 1 pair")
        if not self.seeds:
            raise BadInput("give at least one seed; use three or more to get an interval")
        if not 0.5 < self.right <= 1 or self.batch < 1 or self.depth < 1:
            raise BadInput("the annotator is right more than half the time, and batch and depth are 1 or more")
        if self.truth is not None and not Path(self.truth).is_file():
            raise Missing(f"there is no file {self.truth}")
        self.adapter(0)
        return self.held_out([split.strip() for split in self.split.split(",")])

    def request(self) -> dict[str, Any]:
        left_out = ("study", "name", "truth")
        about = {key: getattr(self, key) for key in self.__dataclass_fields__ if key not in left_out}
        return {
            **{key: list(value) if isinstance(value, tuple) else value for key, value in about.items()},
            "corpus": self.study.corpus.digest,
            "run_sha256": self.run_hash,
            "truth_sha256": None if self.truth is None else file_sha256(Path(self.truth)),
        }


@job("experiment label strategies")
def label_strategies(
    study: Study,
    name: str,
    run: str,
    encoder: str = "minilm",
    split: str = "dev",
    strategies: Sequence[Strategy] = STRATEGIES,
    budgets: Sequence[int] = BUDGETS,
    seeds: Sequence[int] = SEEDS,
    truth: str | None = None,
    depth: int = 10,
    k: int = 20,
    right: float = 0.95,
    batch: int = 25,
    generalise: bool = True,
    answers_known: bool = True,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run the experiment (a job) and return the content of result.json.

    Args:
        run: the run over training questions whose first `depth` ranks are judged; the others do not train.
        encoder: an encoder with a dense index; the adapters start from it.
        split: the questions to measure on, or several splits, separated by commas.
        budgets: numbers of judged pairs.
        seeds: of annotator, strategy and training; every strategy and budget has every seed.
        truth: a file of JSON lines with `question` and `passages`, all that answer it: the annotator's knowledge, and
            what is relevant for the measured questions that it holds. Default: gold. Of several gold passages only the
            first is known at the start, and a passage with an answer is relevant.
        right: probability of a right label.
        batch: pairs judged before the judge learns anew.
        generalise: unjudged pairs are positive or negative as a judge says that learned from the labels. Otherwise
            they are negative.
        answers_known: False hides answers and subjects of training questions from judge and strategies.
        settings: settings of the adapter that differ from its defaults.

    Raises:
        Refused: no question to judge, or an experiment of this name with other settings.
        BadInput, Missing: invalid settings, or an unknown run or encoder.
    """
    asked = StrategiesSpec(
        study,
        name,
        run,
        encoder,
        split,
        tuple(dict.fromkeys(strategies)),
        tuple(sorted(set(budgets))),
        tuple(dict.fromkeys(seeds)),
        truth,
        depth,
        k,
        right,
        batch,
        generalise,
        answers_known,
        dict(settings or {}),
    )
    questions, request = asked.check(), asked.request()
    if (result := asked.finished(request)) is not None:
        return result
    with study.building(f"experiments/{name}"):
        State(asked.working).open(request, {})
        bench = _Bench(asked, questions, progress)
        cells = bench.cells()
        for number, cell in enumerate(cells, 1):
            bench.run_cell(cell, f"{number} of {len(cells)}")
        result = summary(
            asked,
            bench.about(),
            {cell: bench.outcome(cell) for cell in cells},
            units_of(questions, study.settings.unit).codes,
        )
        asked.write(result, [bench.path(cell) for cell in cells], {"what": WHAT, "request": request})
    return result


Cell = tuple[str, int, int]
"""Strategy (or NONE, PRIOR, ANSWERS, ALL), judged pairs (0 for these), seed."""


class _Bench:
    """The pool, the vectors and the truth that all trainings share."""

    def __init__(self, asked: StrategiesSpec, questions: Sequence[Question], progress: Progress | None):
        self.asked, self.questions, self.progress = asked, list(questions), progress
        self.study, self.dense = asked.study, Dense(asked.study, asked.encoder)
        self.truths = truths_of(self.study, None if asked.truth is None else Path(asked.truth))

    @cached_property
    def pool(self) -> SimulatedPool:
        asked = self.asked
        return simulated_pool(
            self.study, asked.run, self.dense, self.truths, asked.depth, asked.answers_known, self.progress
        )

    def about(self) -> dict[str, Any]:
        return {
            "pairs": len(self.pool.truth),
            "false_negatives": int(self.pool.truth.sum()),
            "training_questions": len(self.pool.questions),
            "questions": len(self.questions),
        }

    def cells(self) -> list[Cell]:
        return [
            *((bound, 0, seed) for bound in self.asked.without_strategy for seed in self.asked.seeds),
            *(
                (strategy, budget, seed)
                for seed in self.asked.seeds
                for strategy in self.asked.strategies
                for budget in self.asked.budgets
            ),
        ]

    def path(self, cell: Cell) -> Path:
        return self.asked.working / f"{cell[0]}-{cell[1]}-{cell[2]}.npy"

    def outcome(self, cell: Cell) -> np.ndarray:
        """(q,) bool: does the retriever of this training find a relevant passage?"""
        return np.load(self.path(cell), allow_pickle=False)

    def run_cell(self, cell: Cell, number: str) -> None:
        path = self.path(cell)
        if path.is_file():
            return
        if self.progress is not None:
            self.progress(0, None, f"{number}: {cell[0]}, {cell[1]:,} pairs, seed {cell[2]}")
        beside = path.with_suffix(".part")
        with open(beside, "wb") as file:
            np.save(file, self._found(self._train(self._roles(cell), cell[2])))
        beside.rename(path)

    def _roles(self, cell: Cell) -> np.ndarray:
        """(n,) bool: is each pair of the pool a positive? The others are negatives."""
        strategy, budget, seed = cell
        if strategy == NONE:
            return np.zeros(len(self.pool.truth), bool)
        if strategy == ANSWERS:
            return self.pool.answers
        annotator = self._annotator(seed)
        if strategy == ALL:
            return annotator.labels == POSITIVE
        judged = [] if strategy == PRIOR else self._order(strategy, seed)[:budget]
        positive = np.zeros(len(self.pool.truth), bool)
        if self.asked.generalise:
            labelled = annotator.labelled(judged)
            positive = fitted(labelled, seed).probabilities(labelled.features) >= THRESHOLD
        positive[judged] = annotator.labels[judged] == POSITIVE
        return positive

    def _annotator(self, seed: int) -> SimulatedAnnotator:
        return SimulatedAnnotator(self.pool, self.asked.right, seed, self.asked.drawing, self.asked.batch)

    def _order(self, strategy: str, seed: int) -> list[int]:
        """The pairs that a strategy judges, in their order; a smaller budget is the beginning of a larger one."""
        key = (strategy, seed)
        if key not in self._orders:
            chosen = next(each for each in STRATEGIES if each == strategy)
            self._orders[key] = self._annotator(seed).judge(chosen, max(self.asked.budgets))
        return self._orders[key]

    @cached_property
    def _orders(self) -> dict[tuple[str, int], list[int]]:
        return {}

    @cached_property
    def _training_vectors(self) -> np.ndarray:
        texts = [question.text for question in self.pool.questions]
        return question_vectors(self.study, self.dense, texts, self.progress)

    def _train(self, positive: np.ndarray, seed: int) -> Module:
        i, j = self.pool.pairs.places.T
        rows = self.pool.pairs.lists.rows[i, j].tolist()
        positives = [set(known) for known in self.pool.known]
        negatives: list[list[int]] = [[] for _ in positives]
        for question, row, is_positive in zip(i.tolist(), rows, positive.tolist(), strict=True):
            if is_positive:
                positives[question].add(row)
            else:
                negatives[question].append(row)
        questions = TrainingQuestions(self._training_vectors, padded([sorted(p) for p in positives]), padded(negatives))
        return learn(questions, self.dense.vectors, self.dense.unit_length, self.asked.adapter(seed)).map

    @cached_property
    def _measured(self) -> TrainingQuestions:
        texts = [question.text for question in self.questions]
        empty = np.empty((len(texts), 0), np.int64)
        return TrainingQuestions(question_vectors(self.study, self.dense, texts, self.progress), empty, empty)

    def _found(self, mapped: Module) -> np.ndarray:
        """(q,) bool: is a relevant passage among the first k?"""
        learner = MapLearner(self.dense.vectors, self.dense.unit_length, self.asked.adapter(0))
        rows = learner.search(mapped, self._measured, self.asked.k).ordinals
        if self.asked.truth is not None and all(question.id in self.truths for question in self.questions):
            known = self._relevant_rows
            return np.array([not known[place].isdisjoint(row) for place, row in enumerate(rows.tolist())])
        return np.asarray(match_run(self.study.corpus, self.questions, rows, DEFAULT_RULE, processes=1).any(axis=1))

    @cached_property
    def _relevant_rows(self) -> list[set[int]]:
        ids = self.study.corpus.ordinals({id for question in self.questions for id in self.truths[question.id]})
        return [{ids[id] for id in self.truths[question.id] if id in ids} for question in self.questions]
