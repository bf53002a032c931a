"""DPR, Table 3: which kinds of negatives are needed to train a dual encoder (Karpukhin et al. 2020, section 5.2).

#N is the number of negatives per question. IB means that the negatives include the passages of the other questions in
the batch.
"""

from __future__ import annotations

from typing import Any

from blindspot.backend.experiments.plan import ExperimentPlan, PaperClaim, Setting, dense_row
from blindspot.backend.experiments.trainings import TrainingData
from blindspot.backend.experiments.workbench import Workbench

PUBLISHED = {
    "7 random": {5: 47.0, 20: 64.3, 100: 77.8}, "7 BM25": {5: 50.0, 20: 63.3, 100: 74.8}, "7 gold": {5: 42.6, 20: 63.1, 100: 78.3},
    "7 gold, IB": {5: 51.1, 20: 69.1, 100: 80.8}, "31 gold, IB": {5: 52.1, 20: 70.8, 100: 82.1},
    "127 gold, IB": {5: 55.8, 20: 73.0, 100: 83.1}, "31 gold + 32 BM25, IB": {5: 65.0, 20: 77.3, 100: 84.4},
    "31 gold + 64 BM25, IB": {5: 64.5, 20: 76.4, 100: 84.0}, "127 gold + 128 BM25, IB": {5: 65.8, 20: 78.0, 100: 84.9},
}  # fmt: skip
TAKES = frozenset({"batches"})
DEFAULTS = {"batches": (8, 32, 128)}


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    few, batches, many = setting.three_batches()
    mined = setting.data_by_answers()
    alone = {"batch": few, "hard_negatives": few - 1, "in_batch": False}
    rows: dict[str, tuple[TrainingData, dict[str, Any]]] = {
        f"{few - 1} random": (setting.data(random=few - 1), alone),
        f"{few - 1} BM25": (mined, alone),
        f"{few - 1} gold": (setting.data(other_gold=few - 1), alone),
        **{f"{size - 1} gold, IB": (mined, {"batch": size, "hard_negatives": 0}) for size in (few, batches, many)},
        **{
            f"{size - 1} gold + {size * count} BM25, IB": (mined, {"batch": size, "hard_negatives": count})
            for size, count in ((batches, 1), (batches, 2), (many, 1))
        },
    }
    cells = [
        cell for row, (data, more) in rows.items() for cell in dense_row(setting, row, data, PUBLISHED.get(row), **more)
    ]
    at = f"Success@{setting.ks[0]}"
    with_one, with_two = f"{batches - 1} gold + {batches} BM25, IB", f"{batches - 1} gold + {2 * batches} BM25, IB"
    return ExperimentPlan(
        cells,
        [
            PaperClaim(
                "in-batch negatives beat the same number of random gold negatives",
                (f"{few - 1} gold, IB", at),
                (f"{few - 1} gold", at),
            ),
            PaperClaim("a larger batch is better", (f"{many - 1} gold, IB", at), (f"{few - 1} gold, IB", at)),
            PaperClaim("one BM25 negative helps", (with_one, at), (f"{batches - 1} gold, IB", at)),
            PaperClaim(
                "a second BM25 negative adds less than 2 points", (with_two, at), (with_one, at), tolerance=0.02
            ),
        ],
    )
