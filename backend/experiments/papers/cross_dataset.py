"""DPR, section 5.2: does a dual encoder that is trained on one question set work on another?

The paper trains on Natural Questions and tests on WebQuestions and CuratedTREC: at top 20 it is 3 to 5 points below the
best model trained for them (69.9 vs 75.0, 86.3 vs 89.1), and far above BM25 (55.0, 70.9).
"""

from __future__ import annotations

from backend.experiments.hits import Bm25Hits
from backend.experiments.plan import ExperimentPlan, PaperClaim, Setting, dense_row, in_column, success_cells
from backend.experiments.question_sets import measured_on, training_sets
from backend.experiments.workbench import Workbench

TAKES = frozenset({"sets"})
DEFAULTS = {"ks": (20,)}


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    sets, k = training_sets(setting, bench), setting.ks[0]
    cells, claims = [], []
    for there in sets:
        asked, column = setting.asked(measured_on(setting, bench, there)), f"{there} @{k}"
        cells += in_column(success_cells("BM25", [Bm25Hits(asked, k)], (k,)), column)
        for here in sets:
            data = setting.data(
                questions=(f"{here}/train",), mined=setting.mined((f"{here}/train",)), policy="answer_match"
            )
            cells += in_column(dense_row(setting, f"trained on {here}", data, asked=asked), column)
            if here != there:
                claims += [
                    PaperClaim(
                        f"trained on {here}, the encoder is within 5 points of one trained on {there}",
                        (f"trained on {here}", column),
                        (f"trained on {there}", column),
                        within=0.05,
                    ),
                    PaperClaim(
                        f"trained on {here}, the encoder beats BM25 on {there}",
                        (f"trained on {here}", column),
                        ("BM25", column),
                    ),
                ]
    return ExperimentPlan(cells, claims)
