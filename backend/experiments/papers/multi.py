"""DPR, Table 2, "Multi": one dual encoder trained on several question sets together, compared with one for each set."""

from __future__ import annotations

from blindspot.backend.data.leaks import eligible_questions
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
    data = {name: setting.data_by_answers((f"{name}/train",)) for name in sets}
    cells = []
    for name in sets:
        questions, column = setting.question_selection(measured_split(setting, bench, name)), f"{name} @{k}"
        cells += with_column_name(success_cells("BM25", [Bm25Hits(questions, k)], (k,)), column)
        cells += with_column_name(dense_row(setting, "single", data[name], selection=questions), column)
        cells += with_column_name(dense_row(setting, "multi", tuple(data.values()), selection=questions), column)
    smallest = min(sets, key=lambda name: len(eligible_questions(bench, (f"{name}/train",)).ids))
    at = f"{smallest} @{k}"
    return ExperimentPlan(
        cells,
        [
            PaperClaim(
                f"the smallest set, {smallest}, gains from the others",
                ("multi", at),
                ("single", at),
            )
        ],
    )
