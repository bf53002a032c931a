"""RocketQA, Figure 4: the effect of the number of random negatives per question, with and without hard negatives, for a
fixed number of training steps.

Random negatives are the passages of the other questions in the batch. The figure has no printed numbers.
"""

from __future__ import annotations

from blindspot.backend.experiments.plan import ExperimentPlan, PaperClaim, Plot, Setting, dense_row
from blindspot.backend.experiments.workbench import Workbench

TAKES = frozenset({"batches"})
DEFAULTS = {"batches": (8, 32, 128), "training": {"steps": 500}}


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    sizes, cells = setting.three_batches(), []
    data = setting.data_by_answers()
    names = {0: "without hard negatives", 1: "with one hard negative"}
    for hard, name in names.items():
        for size in sizes:
            cells += dense_row(
                setting,
                f"{size - 1}, {name}",
                data,
                batch=size,
                hard_negatives=hard,
                mini_batch=128 if size > 128 else None,
            )
    at = setting.claim_column()
    few, many = sizes[0] - 1, sizes[-1] - 1
    return ExperimentPlan(
        cells,
        [
            PaperClaim(f"more random negatives are better, {name}", (f"{many}, {name}", at), (f"{few}, {name}", at))
            for name in names.values()
        ],
        plot=Plot(
            "random negatives of a question",
            at,
            {name: [(size - 1, f"{size - 1}, {name}", at) for size in sizes] for name in names.values()},
            logarithmic=True,
        ),
    )
