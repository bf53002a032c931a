"""RocketQA, Tables 3 and 7: how much does each of its three strategies add? The paper's figures are those of Table 7,
R@5 (Success@5) on Natural Questions.
"""

from __future__ import annotations

from blindspot.backend.experiments.plan import ExperimentPlan, PaperClaim, Setting, trained_row
from blindspot.backend.experiments.rocketqa_steps import (
    STEP_DEFAULTS,
    require_one_training_set,
    steps_by_seed,
    unlabelled_question_count,
)
from blindspot.backend.experiments.workbench import Workbench

IN_BATCH, CROSS_BATCH, RAW, DENOISED, AUGMENTED = (
    "in-batch negatives",
    "cross-batch negatives (step 1)",
    "hard negatives, not denoised",
    "hard negatives, denoised (step 3)",
    "data augmentation (step 4)",
)
PUBLISHED = {IN_BATCH: 68.5, CROSS_BATCH: 68.9, RAW: 68.0, DENOISED: 73.2, AUGMENTED: 74.0}
TAKES = frozenset({"batches"})
DEFAULTS = STEP_DEFAULTS


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    require_one_training_set(setting)
    steps, more = steps_by_seed(setting), unlabelled_question_count(bench)
    rows = {
        IN_BATCH: [step.in_batch for step in steps],
        CROSS_BATCH: [step.cross_batch for step in steps],
        RAW: [step.undenoised for step in steps],
        DENOISED: [step.denoised for step in steps],
        **({AUGMENTED: [step.augmented() for step in steps]} if more else {}),
    }
    at = f"Success@{setting.ks[0]}"
    cells = [cell for row, models in rows.items() for cell in trained_row(setting, row, models, {5: PUBLISHED[row]})]
    claims = [
        PaperClaim("cross-batch negatives beat those of one batch", (CROSS_BATCH, at), (IN_BATCH, at)),
        PaperClaim("raw hard negatives do harm", (CROSS_BATCH, at), (RAW, at)),
        PaperClaim("denoised hard negatives beat raw ones", (DENOISED, at), (RAW, at)),
        PaperClaim("denoised hard negatives beat no hard negatives", (DENOISED, at), (CROSS_BATCH, at)),
    ]
    notes = [
        f"Step 1's batch has {steps[0].batch} questions for each of {steps[0].devices} devices, processed as one batch."
    ]
    if more:
        claims.append(PaperClaim("unlabelled questions improve on that", (AUGMENTED, at), (DENOISED, at)))
    else:
        notes.append("Step 4 is left out, because the study has no questions of the split “unlabelled”.")
    return ExperimentPlan(cells, claims, notes=notes)
