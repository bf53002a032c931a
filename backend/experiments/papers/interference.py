"""EntityQuestions, Table 3: the effect of training on one relation, alone or with a general set, on all other questions
(section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from blindspot.analysis.relations import relation_name
from blindspot.backend.data.encyclopedia import SECOND_DATASET, SECOND_WORDINGS
from blindspot.backend.experiments.by_relation import (
    K,
    choose_relations,
    claim_cutoff,
    column,
    count_by_relation,
    eligible_by_relation,
    restrict_to_trained_set,
)
from blindspot.backend.experiments.hits import Bm25Hits, DenseHits, Index, RunPart
from blindspot.backend.experiments.parts import QuestionSelection
from blindspot.backend.experiments.plan import Cell, ExperimentPlan, PaperClaim, Setting, Success
from blindspot.backend.experiments.question_sets import datasets
from blindspot.backend.experiments.relation_training import (
    AdaptedTrainingData,
    FineTuning,
    encoder_before_training,
    largest_k,
    relation_data,
)
from blindspot.backend.experiments.workbench import Workbench
from blindspot.db.errors import BadInput

TAKES = frozenset({"relations", "sets"})
DEFAULTS = {"ks": (20,), "limit": 8000, "training": {"batch": 24}}
PAPER_RELATIONS = ("P19", "P159", "P170")
PUBLISHED = {  # (the general set, the relation, all relations): before, FT, FT with the general set
    "P19": ((80.1, 25.4, 49.7), (62.8, 74.3, 56.2), (70.8, 52.0, 47.4)),
    "P159": ((80.1, 70.0, 49.7), (71.6, 80.3, 53.3), (75.1, 81.3, 49.5)),
    "P170": ((80.1, 54.1, 49.7), (70.8, 80.8, 52.3), (72.6, 72.3, 44.1)),
}
BM25_PUBLISHED = (64.5, None, 71.2)
MAX_RELATIONS = 1  # number of relations, if none is named and the study lacks the paper's
RELATION, ALL, REST = "the relation", "all relations (macro)", "the rest (macro)"


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    general, data, general_words = _general_cells(setting, bench)
    setting = restrict_to_trained_set(setting, bench)
    k, questions = largest_k(setting), setting.question_selection()
    counts = count_by_relation(bench, questions)
    trained = eligible_by_relation(bench, setting)
    relations, left_out = choose_relations(
        setting,
        {count: trained[count] for count in counts},
        f"questions in {', '.join(setting.train)}",
        MAX_RELATIONS,
        PAPER_RELATIONS,
    )
    cells: list[Cell] = []
    claims: list[PaperClaim] = []
    for relation in relations:
        own = relation_data(setting, setting.train, relation)
        rows: dict[str, tuple[Callable[[QuestionSelection], Sequence[RunPart]], int | None]] = {
            "start": (lambda asked: [DenseHits(asked, k, Index(encoder_before_training(setting)))], 0),
            f"FT {relation}": (partial(FineTuning((own,)).hits, setting, k), 1),
            f"FT {relation} + {general.split}": (partial(FineTuning((own, *data)).hits, setting, k), 2),
            "BM25": (lambda asked: [Bm25Hits(asked, k)], None),
        }
        name = relation_name(relation)
        for row, (hits, place) in rows.items():
            published = BM25_PUBLISHED if place is None else PUBLISHED.get(relation, ((None,) * 3,) * 3)[place]
            cells += _cells(
                f"{name}: {row}",
                hits(general),
                hits(questions),
                relation,
                tuple(counts),
                setting,
                general.split,
                published,
            )
        start, alone, joint, bm25 = (f"{name}: {row}" for row in rows)
        at = {part: column(part, claim_cutoff(setting.ks), setting.ks) for part in (general.split, ALL)}
        claims += [
            replace(claim, about=name)
            for claim in (
                PaperClaim(
                    "training on this relation alone helps over all relations", (alone, at[ALL]), (start, at[ALL])
                ),
                PaperClaim(
                    f"training on this relation alone costs accuracy on {general.split}",
                    (start, at[general.split]),
                    (alone, at[general.split]),
                ),
                PaperClaim(
                    "trained on this relation, the encoder stays behind BM25 over all relations",
                    (bm25, at[ALL]),
                    (alone, at[ALL]),
                ),
                PaperClaim(
                    f"training on both preserves more accuracy on {general.split}",
                    (joint, at[general.split]),
                    (alone, at[general.split]),
                ),
                PaperClaim("training on both gains less over all relations", (alone, at[ALL]), (joint, at[ALL])),
            )
        ]
    return ExperimentPlan(
        cells,
        claims,
        notes=[
            general_words,
            *left_out,
            f"{ALL}: {len(counts)} relations of {setting.on}; {REST}: without the training relation. In the paper, Natural Questions is the general set.",
        ],
    )


def _cells(
    row: str,
    general: Sequence[RunPart],
    hits: Sequence[RunPart],
    relation: str,
    relations: tuple[str, ...],
    setting: Setting,
    name: str,
    published: Sequence[float | None],
) -> list[Cell]:
    rest = tuple(each for each in relations if each != relation)
    result = []
    for k in setting.ks:
        measures = {
            name: tuple(Success(each, k) for each in general),
            RELATION: tuple(Success(hit, k, relations=(relation,)) for hit in hits),
            ALL: tuple(Success(hit, k, True, relations) for hit in hits),
        }
        result += [
            Cell(row, column(what, k, setting.ks), measured, figure if k == K else None)
            for (what, measured), figure in zip(measures.items(), published, strict=True)
        ]
        if rest:
            result.append(Cell(row, column(REST, k, setting.ks), tuple(Success(hit, k, True, rest) for hit in hits)))
    return result


def _general_cells(setting: Setting, bench: Workbench) -> tuple[QuestionSelection, tuple, str]:
    """Return the measured questions of the general set, its training data, and a note. Raises BadInput if the study has
    no second question set.
    """
    split = setting.on if setting.on in ("dev", "test") else "dev"
    if setting.sets:
        general = setting.sets[0]
        if len(setting.sets) > 1:
            raise BadInput(f"give one general set, not {', '.join(setting.sets)}")
        if general not in datasets(bench, "train") or general not in datasets(bench, split):
            raise BadInput(
                f"the set {general!r} needs training questions and questions in {split}; sets with training "
                f"questions: {', '.join(datasets(bench, 'train')) or 'none'}"
            )
        data = setting.data_by_answers((f"{general}/train",), positives=("gold", "distant"))
        message = f"The general set is {general}: trained on its training questions, measured on its {split}."
        return setting.question_selection(f"{general}/{split}"), (data,), message
    if SECOND_DATASET not in datasets(bench, split):
        raise BadInput("the study has no second question set; name one with training and dev questions with --set")
    whole = setting.data_by_answers(positives=("gold", "distant"))
    return (
        setting.question_selection(f"{SECOND_DATASET}/{split}"),
        (AdaptedTrainingData(whole, wordings=tuple(sorted(SECOND_WORDINGS.items()))),),
        f"The general set is {SECOND_DATASET}: trained on all training questions in their second wording, measured "
        f"on its {split}.",
    )
