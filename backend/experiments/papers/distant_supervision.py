"""DPR, Table 5: compare gold passages as positives with distant supervision, where BM25's highest-ranked passage that
contains an answer is the positive (appendix A).
"""

from __future__ import annotations

from blindspot.backend.experiments.plan import ExperimentPlan, PaperClaim, Setting, dense_row
from blindspot.backend.experiments.workbench import Workbench

PUBLISHED = {"gold": {1: 44.9, 5: 66.8, 20: 78.1, 100: 85.0}, "distant": {1: 43.9, 5: 65.3, 20: 77.1, 100: 84.4}}
DEFAULTS = {"ks": (1, 5, 20, 100)}


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    rows = {kind: setting.data_by_answers(positives=(kind,)) for kind in PUBLISHED}
    at = setting.claim_column()
    return ExperimentPlan(
        [cell for kind, data in rows.items() for cell in dense_row(setting, kind, data, PUBLISHED[kind])],
        [PaperClaim("distant supervision is within 3 points of gold", ("distant", at), ("gold", at), tolerance=0.03)],
    )
