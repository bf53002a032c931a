"""DPR, Table 6: compare dot product and Euclidean distance, softmax and triplet loss (appendix B), and cosine
similarity, which section 5.2 mentions.
"""

from __future__ import annotations

from blindspot.backend.experiments.plan import ExperimentPlan, PaperClaim, Setting, dense_row
from blindspot.backend.experiments.workbench import Workbench

PUBLISHED = {
    "dot, softmax": {1: 44.9, 5: 66.8, 20: 78.1, 100: 85.0}, "dot, triplet": {1: 41.6, 5: 65.0, 20: 77.2, 100: 84.5},
    "L2, softmax": {1: 43.5, 5: 64.7, 20: 76.1, 100: 83.1}, "L2, triplet": {1: 42.2, 5: 66.0, 20: 78.1, 100: 84.9},
}  # fmt: skip
SIMILARITIES = {"dot": "dot", "L2": "l2", "cosine": "cosine"}
DEFAULTS = {"ks": (1, 5, 20, 100)}


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    data = setting.data_by_answers()
    cells = []
    for shown, similarity in SIMILARITIES.items():
        for loss in ("softmax", "triplet"):
            row = f"{shown}, {loss}"
            cells += dense_row(
                setting, row, data, PUBLISHED.get(row), similarity=similarity, loss=loss, normalise=False
            )
    at = setting.claim_column()
    return ExperimentPlan(
        cells,
        [
            PaperClaim(
                "L2 is within 3 points of the dot product", ("L2, softmax", at), ("dot, softmax", at), tolerance=0.03
            ),
            PaperClaim("the dot product beats cosine", ("dot, softmax", at), ("cosine, softmax", at)),
            PaperClaim(
                "the triplet loss is within 3 points of softmax",
                ("dot, triplet", at),
                ("dot, softmax", at),
                tolerance=0.03,
            ),
        ],
    )
