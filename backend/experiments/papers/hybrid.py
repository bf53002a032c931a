"""DPR, Table 2 and section 5: hybrid retrieval with the score `BM25 + weight x dot product`, where the weight is chosen
on dev, and with reciprocal rank fusion.

If dev is also the measured split, the weight is chosen on one half of its questions and all methods are measured on the
other half.
"""

from __future__ import annotations

from dataclasses import replace

from blindspot.backend.experiments.hits import Bm25Hits, DenseHits, HybridHits, Index, TunedHybridHits
from blindspot.backend.experiments.plan import ExperimentPlan, PaperClaim, Setting, success_cells
from blindspot.backend.experiments.workbench import Workbench

PUBLISHED = {
    "BM25": {20: 59.1, 100: 73.7},
    "dense": {20: 78.4, 100: 85.4},
    "BM25 + weight x dense": {20: 76.6, 100: 83.8},
}


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    questions, k, index = setting.question_selection(), max(setting.ks), Index(setting.first_encoder)
    measured = replace(questions, every=(1, 2))
    rows = {
        "BM25": Bm25Hits(measured, k),
        "dense": DenseHits(measured, k, index),
        "BM25 + weight x dense": TunedHybridHits(measured, k, index, tuned_on=replace(questions, every=(0, 2))),
        "reciprocal ranks": HybridHits(measured, k, index, "rrf"),
    }
    at = setting.claim_column()
    return ExperimentPlan(
        [cell for row, hits in rows.items() for cell in success_cells(row, [hits], setting.ks, PUBLISHED.get(row))],
        [PaperClaim("hybrid retrieval beats BM25", ("BM25 + weight x dense", at), ("BM25", at))],
        notes=[
            "The weight is chosen for Success@20 on half of the questions; the figures are measured on the other half."
        ],
    )
