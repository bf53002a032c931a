"""RocketQA, Figure 5: the share of mined passages that the cross-encoder removes, by rank. The figure has no printed
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.backend.experiments.parts import Part
from blindspot.backend.experiments.plan import Cell, ExperimentPlan, PaperClaim, Plot, Setting
from blindspot.backend.experiments.rocketqa_steps import STEP_DEFAULTS, require_one_training_set, steps_by_seed
from blindspot.backend.experiments.trainings import TrainingData
from blindspot.backend.experiments.workbench import Workbench

TAKES = frozenset({"batches"})
DEFAULTS = STEP_DEFAULTS
RANK_RANGES = ((1, 1), (2, 5), (6, 10), (11, 20), (21, 50), (51, 100))


@dataclass(frozen=True)
class RemovedShare:
    """A measure: for each question of a training set, the share of its mined passages at ranks `first` to `last` that
    are not kept as negatives.
    """

    data: TrainingData
    first: int
    last: int

    def needs(self) -> Sequence[Part]:
        return (self.data,)

    def values(self, bench: Workbench) -> np.ndarray:
        """Return the share for each question, (q,) float64; 0 for questions without a mined passage at these ranks."""
        from blindspot.backend.training_sets.training_set import TrainingSet

        shares, ranks = [], range(self.first, self.last + 1)
        for _, pairs in TrainingSet.open(bench, bench.name(self.data)).groups():
            mined = [pair.role != "negative" for pair in pairs if pair.rank in ranks and pair.mined]
            shares.append(sum(mined) / len(mined) if mined else 0.0)
        return np.array(shares)


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    require_one_training_set(setting)
    steps, column = steps_by_seed(setting), "taken out"
    spans = [span for span in RANK_RANGES if span[0] <= setting.depth]
    rows = {f"rank {first}" if first == last else f"ranks {first} to {last}": (first, last) for first, last in spans}
    cells = [
        Cell(row, column, tuple(RemovedShare(step.denoised_data, *span) for step in steps))
        for row, span in rows.items()
    ]
    names = list(rows)
    early, late = (names[1 % len(names)], column), (names[-1], column)
    return ExperimentPlan(
        cells,
        [PaperClaim("more passages are removed at the first ranks than at the last", early, late)],
        convention="The share of a question's mined passages at these ranks that the cross-encoder removes from the "
        "negatives (score of 0.1 or more), averaged over questions.",
        plot=Plot(
            "rank", "taken out", {"mined passages": [(first, row, column) for row, (first, _) in rows.items()]}, True
        ),
    )
