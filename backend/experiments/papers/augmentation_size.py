"""RocketQA, Figure 6: the effect of the number of unlabelled questions in step 4. The figure has no printed numbers."""

from __future__ import annotations

from blindspot.backend.experiments.plan import ExperimentPlan, PaperClaim, Plot, Setting, trained_row
from blindspot.backend.experiments.rocketqa_steps import (
    STEP_DEFAULTS,
    require_one_training_set,
    steps_by_seed,
    unlabelled_question_count,
)
from blindspot.backend.experiments.workbench import Workbench
from blindspot.db.errors import BadInput

TAKES = frozenset({"batches"})
DEFAULTS = STEP_DEFAULTS
SHARES = (0.25, 0.5, 1.0)


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    require_one_training_set(setting)
    count = unlabelled_question_count(bench)
    if count < 4:
        raise BadInput(
            f"the study has {count} unlabelled questions; import more with 'blindspot import questions FILE --split "
            "unlabelled'"
        )
    steps, at = steps_by_seed(setting), setting.claim_column()
    models = {
        0: [step.denoised for step in steps],
        **{round(share * count): [step.augmented(round(share * count)) for step in steps] for share in SHARES},
    }
    cells = [cell for size, trained in models.items() for cell in trained_row(setting, f"{size:,}", trained)]
    return ExperimentPlan(
        cells,
        [
            PaperClaim("all unlabelled questions beat none", (f"{count:,}", at), ("0", at)),
            PaperClaim(
                "all unlabelled questions beat a quarter", (f"{count:,}", at), (f"{round(SHARES[0] * count):,}", at)
            ),
        ],
        plot=Plot("unlabelled questions", at, {"step 4": [(size, f"{size:,}", at) for size in models]}),
    )
