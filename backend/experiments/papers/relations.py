"""EntityQuestions, Tables 1 and 5: BM25 and dense retrieval by relation (Sciavolino et al. 2021, section 3, appendix
A).
"""

from __future__ import annotations

from blindspot.analysis.published import AVERAGE as PUBLISHED_AVERAGE
from blindspot.analysis.published import SYSTEMS, TOP_20, comparability_caveat
from blindspot.backend.experiments.by_relation import (
    AVERAGE,
    choose_relations,
    claim_cutoff,
    column,
    count_by_relation,
    relation_cells,
    restrict_to_trained_set,
    success_of_each_seed,
)
from blindspot.backend.experiments.hits import Bm25Hits, DenseHits, Index
from blindspot.backend.experiments.parts import StudyEncoder
from blindspot.backend.experiments.plan import ExperimentPlan, PaperClaim, Setting
from blindspot.backend.experiments.workbench import Workbench

TAKES = frozenset({"encoders", "relations"})
DEFAULTS = {"ks": (20,)}
BM25 = "BM25"


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    setting = restrict_to_trained_set(setting, bench)
    questions, k = setting.question_selection(), max(setting.ks)
    counts = count_by_relation(bench, questions)
    relations, left_out = choose_relations(setting, counts, f"questions in {setting.on}")
    encoders = setting.compared_encoders
    runs = {
        BM25: Bm25Hits(questions, k),
        **{encoder: DenseHits(questions, k, Index(StudyEncoder(encoder))) for encoder in encoders},
    }
    beside = {BM25: BM25, **dict(zip(encoders, SYSTEMS[:2], strict=False))}

    def published(relation: str, system: str) -> float | None:
        row = {**TOP_20, "Average": PUBLISHED_AVERAGE}.get(relation)
        return row[SYSTEMS.index(beside[system])] if row and system in beside else None

    at = claim_cutoff(setting.ks)
    return ExperimentPlan(
        relation_cells(
            {name: success_of_each_seed([hits]) for name, hits in runs.items()}, relations, setting.ks, published
        ),
        [
            PaperClaim(
                f"BM25 beats {encoder}, on average over relations",
                (AVERAGE, column(BM25, at, setting.ks)),
                (AVERAGE, column(encoder, at, setting.ks)),
            )
            for encoder in encoders
        ],
        notes=[
            *left_out,
            "The first encoder is compared with the paper's DPR trained on NQ, the second with its DPR trained on "
            "four sets.",
            comparability_caveat(len(bench.corpus), sum(counts[relation] for relation in relations)),
        ],
    )
