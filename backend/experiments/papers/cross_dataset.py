"""DPR, section 5.2: how well does a dual encoder that is trained on one question set work on another one?

The paper trains on Natural Questions and tests on WebQuestions and CuratedTREC. Its Success@20 is 3 to 5 points below
the best models trained on those sets (69.9 vs 75.0, 86.3 vs 89.1), and far above BM25 (55.0, 70.9).
"""

from __future__ import annotations

from blindspot.backend.experiments.hits import Bm25Hits
from blindspot.backend.experiments.plan import (
    ExperimentPlan,
    PaperClaim,
    Setting,
    dense_row,
    success_cells,
    with_column_name,
)
from blindspot.backend.experiments.question_sets import measured_split, sets_to_train_on
from blindspot.backend.experiments.workbench import Workbench

TAKES = frozenset({"sets"})
DEFAULTS = {"ks": (20,)}


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    sets, k = sets_to_train_on(setting, bench), setting.ks[0]
    cells, claims = [], []
    for target in sets:
        questions, column = setting.question_selection(measured_split(setting, bench, target)), f"{target} @{k}"
        cells += with_column_name(success_cells("BM25", [Bm25Hits(questions, k)], (k,)), column)
        for source in sets:
            data = setting.data_by_answers((f"{source}/train",))
            cells += with_column_name(dense_row(setting, f"trained on {source}", data, selection=questions), column)
            if source != target:
                claims += [
                    PaperClaim(
                        f"trained on {source}, the encoder is within 5 points of one trained on {target}",
                        (f"trained on {source}", column),
                        (f"trained on {target}", column),
                        tolerance=0.05,
                    ),
                    PaperClaim(
                        f"trained on {source}, the encoder beats BM25 on {target}",
                        (f"trained on {source}", column),
                        ("BM25", column),
                    ),
                ]
    return ExperimentPlan(cells, claims)
