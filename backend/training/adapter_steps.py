"""Measure how much Success@20 of a study's encoder changes when an adapter is trained with people's labels. Label
forecasts extrapolate these differences ("steps").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from blindspot.backend.core.gold import gold_matrix
from blindspot.backend.judges.feature_model import NEGATIVE, POSITIVE
from blindspot.backend.judges.lists import Lists
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.question_vectors import question_vectors
from blindspot.backend.text.answers import match_run
from blindspot.backend.training.adapter_map import TrainingQuestions, learn_map, pad_rows
from blindspot.backend.training.curve_bench import CurveBench
from blindspot.backend.training.forecast_steps import StepLists
from blindspot.backend.training.training_settings import AdapterSettings

if TYPE_CHECKING:
    from torch.nn import Module

ADAPTER_QUESTIONS = 100  # with fewer, an adapter does worse than the encoder alone, so none is trained
ADAPTER_SEEDS = 2
CUTOFF = 20

LabelsOfPeople = Mapping[str, Mapping[str, int]]
"""POSITIVE, NEGATIVE or UNKNOWN, by question and passage."""


def adapter_steps(bench: CurveBench, dense: Dense, data: StepLists, by_people: LabelsOfPeople) -> np.ndarray:
    """Return the differences of Success@20 on dev between adapters trained with and without people's labels,
    (seeds, q).
    """
    steps = []
    for seed in range(ADAPTER_SEEDS):
        with_labels = _successes(bench, dense, data.lists, data.truth, by_people, seed)
        steps.append(with_labels.astype(float) - _successes(bench, dense, data.lists, data.without, {}, seed))
    return np.array(steps)


def _successes(
    bench: CurveBench, dense: Dense, lists: Lists, truth: np.ndarray, by_people: LabelsOfPeople, seed: int
) -> np.ndarray:
    """Return for each dev question whether an adapter that learned from some lists finds an answer, (q,) bool."""
    positives, negatives = training_rows(bench, lists, truth, by_people)
    learnable = [i for i, row in enumerate(positives) if row]
    question_map = None
    if len(learnable) >= ADAPTER_QUESTIONS:
        texts = [lists.questions[i].text for i in learnable]
        questions = TrainingQuestions(
            question_vectors(bench.study, dense, texts, bench.progress),
            pad_rows([positives[i] for i in learnable]),
            pad_rows([negatives[i] for i in learnable]),
        )
        settings = AdapterSettings(scale=20.0, weight_decay=0.0, held_out=0, seed=seed)
        question_map = learn_map(questions, dense.vectors, dense.unit_length, settings, bench.progress).map
    return _map_successes(bench, dense, question_map)


def training_rows(
    bench: CurveBench, lists: Lists, truth: np.ndarray, by_people: LabelsOfPeople
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the rows of each question's positives and hard negatives, determined by gold passages, people's labels and
    the list.
    """
    named = {passage for q in lists.questions for passage in (*q.gold, *by_people.get(q.id, {}))}
    rows = bench.study.corpus.ordinals(named) if named else {}
    positives, negatives = [], []
    for question, row, known in zip(lists.questions, lists.rows.tolist(), truth.tolist(), strict=True):
        said = dict.fromkeys(question.gold, POSITIVE) | dict(by_people.get(question.id, {}))
        roles = dict(zip(row, known, strict=True)) | {rows[p]: label for p, label in said.items() if p in rows}
        positives.append(sorted(p for p, role in roles.items() if role == POSITIVE and p >= 0))
        negatives.append(sorted(p for p, role in roles.items() if role == NEGATIVE and p >= 0))
    return positives, negatives


def _map_successes(bench: CurveBench, dense: Dense, question_map: Module | None) -> np.ndarray:
    """Return for each dev question whether its top 20 hold a relevant passage, (q,) bool. None maps no question."""
    bench.report("searching dev")
    questions = bench.relevance.questions
    vectors = question_vectors(bench.study, dense, [question.text for question in questions], bench.progress)
    if question_map is not None:
        import torch

        with torch.no_grad():
            mapped = question_map(torch.from_numpy(vectors))
            vectors = (torch.nn.functional.normalize(mapped, dim=1) if dense.unit_length else mapped).numpy()
    rows = dense.search_vectors(vectors, min(CUTOFF, len(bench.study.corpus))).ordinals
    if bench.relevance.kind == "gold":
        return np.asarray(gold_matrix(bench.study.corpus, rows, questions)[0].any(axis=1))
    return np.asarray(match_run(bench.study.corpus, questions, rows, bench.rule, bench.progress).any(axis=1))
