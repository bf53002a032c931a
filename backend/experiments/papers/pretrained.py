"""RocketQA, Table 6: RocketQA's first step, started from different pretrained models. Needs at least two encoders,
given with --encoder.
"""

from __future__ import annotations

from blindspot.backend.experiments.parts import StudyEncoder
from blindspot.backend.experiments.plan import ExperimentPlan, PaperClaim, Setting, trained_row
from blindspot.backend.experiments.rocketqa_steps import STEP_DEFAULTS, require_one_training_set, steps_by_seed
from blindspot.backend.experiments.workbench import Workbench
from blindspot.db.errors import BadInput

TAKES = frozenset({"batches", "encoders"})
DEFAULTS = STEP_DEFAULTS
PUBLISHED = {"bert-base": {100: 86.0}, "ernie-base": {100: 87.6}}


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    require_one_training_set(setting)
    encoders = tuple(dict.fromkeys(setting.encoders or bench.settings.encoders))
    if len(encoders) < 2:
        raise BadInput(
            "give at least two encoders to start from with --encoder; study.toml has "
            f"{', '.join(bench.settings.encoders)}, and 'blindspot encoder add' adds more"
        )
    cells = [
        cell
        for name in encoders
        for cell in trained_row(
            setting,
            name,
            [steps.cross_batch for steps in steps_by_seed(setting, StudyEncoder(name))],
            PUBLISHED.get(name),
        )
    ]
    at = f"Success@{setting.ks[-1]}"
    return ExperimentPlan(
        cells,
        [
            PaperClaim(
                f"starting from {other} is within 2 points of starting from {encoders[0]}",
                (other, at),
                (encoders[0], at),
                tolerance=0.02,
            )
            for other in encoders[1:]
        ],
    )
