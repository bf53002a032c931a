"""EntityQuestions, Figure 2: the spread of a relation's positive passages, before and after training on the relation
(section 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from blindspot.analysis.neighbours import unit_vectors
from blindspot.analysis.relations import relation_name
from blindspot.analysis.spread import SpreadGroup, group_measurements
from blindspot.backend.experiments.bucket_measures import difference_values
from blindspot.backend.experiments.by_relation import (
    choose_relations,
    count_by_relation,
    eligible_by_relation,
    restrict_to_trained_set,
)
from blindspot.backend.experiments.hits import Index
from blindspot.backend.experiments.parts import Part, QuestionSelection
from blindspot.backend.experiments.plan import Cell, ExperimentPlan, PaperClaim, Plot, Setting
from blindspot.backend.experiments.relation_training import (
    FineTuning,
    encoder_before_training,
    largest_k,
    relation_data,
)
from blindspot.backend.experiments.workbench import Workbench

TAKES = frozenset({"relations"})
DEFAULTS = {"limit": 8000, "training": {"batch": 24}}
PAPER = ("P19",)
MOST = 1  # number of relations, if none is named and the study lacks the paper's
Figure = Literal["mean cosine", "nearest other", "margin"]
FIGURES: tuple[Figure, ...] = ("mean cosine", "nearest other", "margin")
CONVENTION = (
    "Cosines between the questions' gold passages, corrected by labels. mean cosine: of two different passages; "
    "high values mean crowded passages (each passage's jackknife value). nearest other: of a passage with its "
    "nearest other passage. margin: a question's cosine with its own best passage minus that with the best passage "
    "of other questions."
)


@dataclass(frozen=True)
class SpreadMeasure:
    """A figure of `blindspot.analysis.spread`: one value for each passage, or for each question in the case of margins."""

    index: Index
    selection: QuestionSelection
    figure: Figure

    def needs(self) -> Sequence[Part]:
        return (self.index,)

    def values(self, bench: Workbench) -> np.ndarray:
        from blindspot.backend.retrieval.dense import Dense
        from blindspot.db.labels import Labels

        questions = [question for question in self.selection.questions_of(bench) if question.gold]
        gold = bench.corpus.ordinals({id for question in questions for id in question.gold})
        positives: dict[str, set[int]] = {}  # gold, corrected by labels
        ids = [question.id for question in questions]
        for pair in Labels(bench.labels_path).corrected_relevance(ids) if ids else []:
            if pair.relevance == "positive" and pair.passage in gold:
                positives.setdefault(pair.question, set()).add(gold[pair.passage])
        asked = [question for question in questions if question.id in positives]
        members = sorted(set().union(*positives.values()))
        where = {ordinal: place for place, ordinal in enumerate(members)}
        own = [sorted(where[ordinal] for ordinal in positives[question.id]) for question in asked]
        dense = Dense(bench, bench.name(self.index), bench.device)
        vectors = dense.encode([question.text for question in asked])
        group = SpreadGroup(np.arange(len(members)), np.arange(len(asked)), own)
        spread = group_measurements(unit_vectors(dense.vectors[members]), vectors, group)
        values = spread[FIGURES.index(self.figure)]
        return np.zeros(0) if values is None else values


@dataclass(frozen=True)
class MeanDifference:
    """A measure: the mean of one group minus the mean of another group."""

    larger: SpreadMeasure
    smaller: SpreadMeasure

    def needs(self) -> Sequence[Part]:
        return self.larger.needs()

    def values(self, bench: Workbench) -> np.ndarray:
        return difference_values([(1, self.larger.values(bench)), (-1, self.smaller.values(bench))])


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    largest_k(setting)
    setting = restrict_to_trained_set(setting, bench)
    counts = count_by_relation(bench, setting.question_selection())
    trained = eligible_by_relation(bench, setting)
    relations, left_out = choose_relations(
        setting,
        {each: min(count, trained[each]) for each, count in counts.items()},
        f"questions in {', '.join(setting.train)} and {setting.on}",
        MOST,
        PAPER,
    )
    cells: list[Cell] = []
    claims: list[PaperClaim] = []
    series: dict[str, Sequence[tuple[float, str, str]]] = {}
    for relation in relations:
        name, data = relation_name(relation), relation_data(setting, setting.train, relation)
        questions = setting.question_selection(relations=(relation,))
        others = QuestionSelection(setting.on, tuple(count for count in counts if count != relation), counts[relation])
        indexes = {
            "before": [Index(encoder_before_training(setting))],
            "after": [Index(model) for model in FineTuning((data,)).models(setting)],
        }
        groups = {name: questions, **({f"others than {relation}": others} if others.relations else {})}
        for when, some in indexes.items():
            cells += [
                Cell(f"{group}, {when}", figure, tuple(SpreadMeasure(index, selected, figure) for index in some))
                for group, selected in groups.items()
                for figure in FIGURES
            ]
        series |= {
            group: [(place, f"{group}, {when}", FIGURES[0]) for place, when in enumerate(indexes)] for group in groups
        }
        claims.append(
            PaperClaim(
                "passages are further apart after training on the relation",
                (f"{name}, before", FIGURES[0]),
                (f"{name}, after", FIGURES[0]),
                about=name,
            )
        )
        if others.relations:
            row = f"{name} less others, before"
            own, rest = (SpreadMeasure(indexes["before"][0], selected, FIGURES[0]) for selected in (questions, others))
            cells.append(Cell(row, FIGURES[0], (MeanDifference(own, rest),)))
            says = "before training, passages are more crowded than those of other relations"
            claims.append(PaperClaim(says, (row, FIGURES[0]), about=name))
    return ExperimentPlan(
        cells,
        claims,
        CONVENTION,
        "cosine",
        Plot("0: before training, 1: after", FIGURES[0], series),
        [
            *left_out,
            "The paper shows only a picture; a map of two encoders shows the same picture for this study. Others: an equal number of "
            "questions of the other relations.",
        ],
    )
