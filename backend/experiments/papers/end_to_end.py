"""DPR, Table 4, and RocketQA, Table 5: does better retrieval give better answers? The papers report exact match on
Natural Questions.

For each retriever, a reader is trained on its hits, as in DPR. BM25's reader also reads the dense hits, because
RocketQA first used DPR's reader for its own hits.
"""

from __future__ import annotations

from blindspot.backend.experiments.hits import Bm25Hits, DenseHits, HybridHits, Index
from blindspot.backend.experiments.parts import QuestionSelection
from blindspot.backend.experiments.plan import Cell, ExperimentPlan, PaperClaim, Setting, success_cells
from blindspot.backend.experiments.readers import (
    ExactMatchOfSelected,
    ReaderModelPart,
    ReadingPart,
    exact_cells,
    reader_settings,
)
from blindspot.backend.experiments.rocketqa_steps import require_one_training_set
from blindspot.backend.experiments.workbench import Workbench

PUBLISHED = {"BM25": 32.6, "dense": 41.5, "BM25 + dense": 39.0}
MOST, LEAST = "the one that finds most", "the one that finds least"
TAKES = frozenset({"reader"})
DEFAULTS = {"ks": (1, 10, 50)}


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    require_one_training_set(setting)
    deepest, index = max(setting.ks), Index(setting.first_encoder)
    ways = {
        "BM25": lambda asked, k: Bm25Hits(asked, k),
        "dense": lambda asked, k: DenseHits(asked, k, index),
        "BM25 + dense": lambda asked, k: HybridHits(asked, k, index, "auto"),
    }
    trained_on = QuestionSelection(setting.train[0], limit=setting.data().limit)
    readers = {
        row: [
            ReaderModelPart(way(trained_on, setting.depth), reader_settings(setting, seed), setting.first_encoder)
            for seed in setting.seeds
        ]
        for row, way in ways.items()
    }
    runs = {row: way(setting.question_selection(), deepest) for row, way in ways.items()}
    reads = {row: [ReadingPart(reader, runs[row], deepest) for reader in readers[row]] for row in ways}
    cells = [
        cell
        for row in ways
        for cell in (
            *success_cells(row, [runs[row]], setting.ks),
            *exact_cells(row, reads[row], setting.ks, PUBLISHED[row]),
        )
    ]
    cells += exact_cells(
        "dense, read by BM25's reader",
        [ReadingPart(reader, runs["dense"], deepest) for reader in readers["BM25"]],
        setting.ks,
    )
    at = f"EM@{deepest}"
    for row, direction in ((MOST, True), (LEAST, False)):
        by_seed = zip(*reads.values(), strict=True)
        cells.append(Cell(row, at, tuple(ExactMatchOfSelected(some, deepest, direction) for some in by_seed)))
    return ExperimentPlan(
        cells,
        [PaperClaim("the retriever with higher success gives better answers", (MOST, at), (LEAST, at))],
        convention="EM@k: the reader's answer, which is the best span of its best passage among the top k, equals a known answer after SQuAD's normalisation. Success@k: one of the top k passages contains an answer by DPR's rule.",
        notes=[
            "One half of the questions decides which retriever finds the most and which the least; these two rows are measured on the other half."
        ],
    )
