"""DPR, Table 3: which negatives a dual encoder needs (Karpukhin et al. 2020, section 5.2)."""

from __future__ import annotations

from backend.experiments.parts import DenseHits, DualEncoder, Index, TrainingData
from backend.experiments.plan import Claim, Plan, Setting, success_cells
from backend.experiments.workbench import Workbench

PUBLISHED = {
    "7 gold, in-batch": {5: 51.1, 20: 69.1, 100: 80.8}, "31 gold, in-batch": {5: 52.1, 20: 70.8, 100: 82.1},
    "127 gold, in-batch": {5: 55.8, 20: 73.0, 100: 83.1}, "31 gold + 1 BM25": {5: 65.0, 20: 77.3, 100: 84.4},
    "31 gold + 2 BM25": {5: 64.5, 20: 76.4, 100: 84.0}, "127 gold + 1 BM25": {5: 65.8, 20: 78.0, 100: 84.9},
}  # fmt: skip
BATCHES = (8, 32, 128)


def plan(setting: Setting, bench: Workbench) -> Plan:
    hard = setting.data(mined=(setting.mined(),), policy="answer_match")
    sizes = (2, 4, 8) if setting.small else BATCHES
    rows = {
        **{f"{size - 1} gold, in-batch": (hard, {"batch": size, "hard_negatives": 0}) for size in sizes},
        **{f"{sizes[1] - 1} gold + {count} BM25": (hard, {"batch": sizes[1], "hard_negatives": count}) for count in (1, 2)},
        f"{sizes[2] - 1} gold + 1 BM25": (hard, {"batch": sizes[2], "hard_negatives": 1}),
    }  # fmt: skip
    at = f"Success@{setting.ks[0]}"
    return Plan(
        [cell for row, (data, more) in rows.items()
         for cell in success_cells(row, _runs(setting, data, more), setting.ks, PUBLISHED.get(row))],
        [Claim("a larger batch is better", (f"{sizes[2] - 1} gold, in-batch", at), (f"{sizes[0] - 1} gold, in-batch", at)),
         Claim("one BM25 negative helps", (f"{sizes[1] - 1} gold + 1 BM25", at), (f"{sizes[1] - 1} gold, in-batch", at)),
         Claim("a second one adds nothing much (2 points)", (f"{sizes[1] - 1} gold + 2 BM25", at), (f"{sizes[1] - 1} gold + 1 BM25", at),
               within=0.02)])  # fmt: skip


def _runs(setting: Setting, data: TrainingData, more: dict) -> list[DenseHits]:
    models = [DualEncoder((data,), setting.settings(seed, **more), setting.first) for seed in setting.seeds]
    return [DenseHits(setting.asked(), max(setting.ks), Index(model)) for model in models]
