"""EntityQuestions, Table 2: fine-tuning both encoders, only the passage encoder, or only the question encoder on a
relation's questions (section 4.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

from blindspot.analysis.relations import relation_name
from blindspot.backend.data.formats.entityquestions import MAIN
from blindspot.backend.data.leaks import eligible_questions
from blindspot.backend.experiments.by_relation import (
    LEAST,
    SMALL_MINIMUM,
    K,
    RelationAverage,
    choose_relations,
    claim_cutoff,
    column,
    count_by_relation,
    restrict_to_trained_set,
)
from blindspot.backend.experiments.hits import Bm25Hits, DenseHits, Index, RunPart
from blindspot.backend.experiments.plan import Cell, ExperimentPlan, PaperClaim, Setting, Success
from blindspot.backend.experiments.question_sets import datasets
from blindspot.backend.experiments.relation_training import (
    WORDINGS,
    AdaptedTrainingData,
    FineTuning,
    SharedWordFilter,
    Words,
    encoder_before_training,
    largest_k,
    relation_data,
)
from blindspot.backend.experiments.trainings import TrainingData
from blindspot.backend.experiments.workbench import Workbench
from blindspot.db.records import Question

SIMILAR_ROW = "FT, similar wording"
PUBLISHED = {
    "start": {"P19": 25.4, "P159": 70.0, "P170": 54.1}, "FT": {"P19": 73.9, "P159": 84.0, "P170": 80.0},
    SIMILAR_ROW: {"P19": 74.7, "P159": 79.9, "P170": 76.2}, "FT OnlyP": {"P19": 72.8, "P159": 84.2, "P170": 78.0},
    "FT OnlyQ": {"P19": 45.4, "P159": 72.8, "P170": 73.4}, "BM25": {"P19": 75.2, "P159": 85.0, "P170": 71.7},
}  # fmt: skip
PAPER_RELATIONS = ("P19", "P159", "P170")
TAKES = frozenset({"relations"})
DEFAULTS = {"ks": (20,), "on": "", "train": (), "limit": 8000, "training": {"batch": 24}}
ALL = "All (macro)"
MAX_RELATIONS = 3  # number of relations, if none is named
MIN_QUESTIONS = 100  # minimum number of training questions for also dropping questions that share a word of the answers
OFFICIAL, SIMILAR = "no-overlap", "similar"  # the question sets of EntityQuestions for this experiment


TOWERS: tuple[tuple[str, Literal["question", "passage"] | None], ...] = (
    ("FT", None),
    ("FT OnlyP", "passage"),
    ("FT OnlyQ", "question"),
)
"""The rows with training, and the only tower that each of them trains."""


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    k = largest_k(setting)
    setting, official = _sources(setting, bench)
    apart, counts, notes = _separations(setting, bench, official)
    relations, left_out = choose_relations(
        setting, counts, "training questions without words of the measured questions", MAX_RELATIONS, PAPER_RELATIONS
    )
    worded = official and SIMILAR in datasets(bench, "train") or all(relation in WORDINGS for relation in relations)
    rows: dict[str, dict[str, Sequence[RunPart]]] = {row: {} for row in PUBLISHED if worded or row != SIMILAR_ROW}
    for relation in relations:
        questions, data = (
            setting.question_selection(relations=(relation,)),
            relation_data(setting, setting.train, relation),
        )
        adapted = AdaptedTrainingData(data, apart[relation])
        rows["start"][relation] = [DenseHits(questions, k, Index(encoder_before_training(setting)))]
        rows["BM25"][relation] = [Bm25Hits(questions, k)]
        for row, only in TOWERS:
            rows[row][relation] = FineTuning((adapted,), only).hits(setting, k, questions)
        if worded:
            rows[SIMILAR_ROW][relation] = FineTuning(
                (_reworded_data(setting, bench, data, apart[relation], official),)
            ).hits(setting, k, questions)
    at = column(ALL if len(relations) > 1 else relation_name(relations[0]), claim_cutoff(setting.ks), setting.ks)
    return ExperimentPlan(
        [cell for row, by_relation in rows.items() for cell in _cells(row, by_relation, setting.ks)],
        [
            PaperClaim(
                "fine-tuning on a relation's questions helps on the relation's other entities",
                ("FT", at),
                ("start", at),
            ),
            PaperClaim(
                "the fine-tuned encoder matches or beats BM25 (at most 2 points behind)",
                ("FT", at),
                ("BM25", at),
                minimum_gain=-0.02,
            ),
            *(
                [
                    PaperClaim(
                        "a similar wording is as good (within 5 points)", (SIMILAR_ROW, at), ("FT", at), tolerance=0.05
                    )
                ]
                if worded
                else []
            ),
            PaperClaim(
                "training only the passage tower beats training only the question tower",
                ("FT OnlyP", at),
                ("FT OnlyQ", at),
            ),
        ],
        notes=[
            f"Trained on {', '.join(setting.train)}, measured on {setting.on}.",
            *(notes[relation] for relation in relations),
            *left_out,
            *(
                [f"The similar wording of {relation}: {WORDINGS[relation]}" for relation in relations]
                if worded and not official
                else []
            ),
            *([] if worded else ["These relations have no second wording to train on."]),
        ],
    )


def _sources(setting: Setting, bench: Workbench) -> tuple[Setting, bool]:
    """Return the setting with its training and measured questions, and whether these are EntityQuestions' own
    fine-tuning sets, whose facts are in its test split.
    """
    trained = list(datasets(bench, "train"))
    official = not setting.train and OFFICIAL in trained and MAIN in datasets(bench, "test")
    others = (
        tuple(f"{name}/train" for name in trained if name not in (OFFICIAL, SIMILAR))
        if {OFFICIAL, SIMILAR} & set(trained)
        else ()
    )
    result = replace(
        setting,
        train=setting.train or ((f"{OFFICIAL}/train",) if official else others or ("train",)),
        on=setting.on or (f"{MAIN}/test" if official else "dev"),
    )
    return restrict_to_trained_set(result, bench), official


def _separations(
    setting: Setting, bench: Workbench, official: bool
) -> tuple[dict[str, tuple[SharedWordFilter, ...]], dict[str, int], dict[str, str]]:
    """Return by relation the filters that remove training questions similar to measured ones, the number of training
    questions, and a note. Official sets are not filtered.
    """
    of: dict[str, list[Question]] = {}
    for question in bench.questions.with_ids(eligible_questions(bench, setting.train, relations=setting.relations).ids):
        of.setdefault(question.relation or "", []).append(question)
    asked = count_by_relation(bench, setting.question_selection())
    minimum, enough = (SMALL_MINIMUM, SMALL_MINIMUM) if setting.small else (LEAST, MIN_QUESTIONS)
    separations: dict[str, tuple[SharedWordFilter, ...]] = {}
    counts: Counter[str] = Counter()
    notes: dict[str, str] = {}
    for relation, measured in asked.items():
        if measured < minimum or setting.relations and relation not in setting.relations:
            continue
        questions = setting.question_selection(relations=(relation,))
        kept = {
            words: sum(map(SharedWordFilter(questions, words).kept_question_ids(bench), of.get(relation, ())))
            for words in get_args(Words)
        }
        strict_words: Words = "subject and answers"
        total = len(of.get(relation, ()))
        which: Words = strict_words if kept[strict_words] >= enough else "subject"
        message = (
            f"{relation}: of {total:,} training questions, {kept[strict_words]:,} share no word of subject and answers "
            f"with the {measured:,} measured questions, and {kept['subject']:,} share no word of the subject"
        )
        separations[relation] = () if official else (SharedWordFilter(questions, which),)
        counts[relation] = total if official else kept[which]
        notes[relation] = (
            f"{message}. The official set no-overlap is used unchanged."
            if official
            else f"{message}. The {'former' if which == strict_words else 'latter'} are used for training."
        )
    return separations, dict(counts), notes


def _reworded_data(
    setting: Setting, bench: Workbench, data: TrainingData, separations: tuple[SharedWordFilter, ...], official: bool
) -> AdaptedTrainingData:
    """Return the training data in another wording: the official reworded set if there is one, else the same questions
    reworded.
    """
    if official and SIMILAR in datasets(bench, "train"):
        return AdaptedTrainingData(relation_data(setting, (f"{SIMILAR}/train",), data.relations[0]), separations)
    return AdaptedTrainingData(data, separations, tuple((relation, WORDINGS[relation]) for relation in data.relations))


def _cells(row: str, hits: Mapping[str, Sequence[RunPart]], ks: Sequence[int]) -> list[Cell]:
    result = []
    for k in ks:
        by_relation = {relation: [Success(each, k) for each in some] for relation, some in hits.items()}
        result += [
            Cell(
                row,
                column(relation_name(relation), k, ks),
                tuple(some),
                PUBLISHED[row].get(relation) if k == K else None,
            )
            for relation, some in by_relation.items()
        ]
        if len(hits) > 1:
            result.append(
                Cell(
                    row,
                    column(ALL, k, ks),
                    tuple(RelationAverage(each) for each in zip(*by_relation.values(), strict=True)),
                )
            )
    return result
