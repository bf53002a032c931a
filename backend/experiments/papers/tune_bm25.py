"""DPR, section 5: BM25's k1 and b, tuned on dev (its footnote 9 gives 0.9 and 0.4).

k1 and b are chosen on one half of the questions. The other half is used to compare the choice with 0.9 and 0.4.
"""

from __future__ import annotations

from dataclasses import replace

from blindspot.backend.experiments.hits import Bm25Hits, TunedBm25Hits
from blindspot.backend.experiments.plan import ExperimentPlan, PaperClaim, Setting, success_cells
from blindspot.backend.experiments.workbench import Workbench

GRID = tuple((k1, b) for k1 in (0.5, 0.9, 1.2, 1.6, 2.0) for b in (0.0, 0.2, 0.4, 0.6, 0.8))


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    questions, k = setting.question_selection(), max(setting.ks)
    measured = replace(questions, every=(1, 2))
    rows = {
        "k1 0.9, b 0.4": Bm25Hits(measured, k, k1=0.9, b=0.4),
        "k1 1.2, b 0.75": Bm25Hits(measured, k, k1=1.2, b=0.75),
        "best of the grid": TunedBm25Hits(measured, k, tuned_on=replace(questions, every=(0, 2)), grid=GRID),
    }
    at = setting.claim_column()
    return ExperimentPlan(
        [cell for row, hits in rows.items() for cell in success_cells(row, [hits], setting.ks)],
        [
            PaperClaim(
                "0.9 and 0.4 are within 1 point of the best",
                ("k1 0.9, b 0.4", at),
                ("best of the grid", at),
                tolerance=0.01,
            )
        ],
        notes=[
            f"The grid has {len(GRID)} pairs; the best is chosen by Success@20 on the half of the questions that is "
            "not measured."
        ],
    )
