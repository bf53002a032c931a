"""RocketQA, section 4.2.2: what share of the top-ranked unlabelled passages answer the question?

The authors read the top-ranked passages of 100 MS MARCO questions: about 70% of the unlabelled ones were positive or
highly relevant. In this experiment people judge randomly drawn questions, the audit arm of judging batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from blindspot.analysis.accuracy import Estimate
from blindspot.backend.experiments.parts import Part
from blindspot.backend.experiments.plan import Cell, ExperimentPlan, PaperClaim, Setting
from blindspot.backend.experiments.workbench import Workbench
from blindspot.backend.judging.audits import Audit, audit
from blindspot.db.errors import BadInput

KINDS = {"positive": "positive", "positive or related": "with_related"}


@dataclass(frozen=True)
class Audited:
    """The rate measured by the audit, over all ranks or one group of ranks. labels: the number of the last label event,
    because the rate changes with later labels.
    """

    kind: str
    group: str
    labels: int

    def needs(self) -> Sequence[Part]:
        return ()

    def values(self, bench: Workbench) -> np.ndarray:
        return np.zeros(0)

    def estimate(self, bench: Workbench) -> Estimate:
        found = _audit(bench)
        rates = found.overall if self.group == "all" else found.by["rank"][self.group]
        rate = getattr(rates, self.kind)
        return Estimate(rate.value, rate.questions, rate.low, rate.high, rate.method)


@cache
def _audit(bench: Workbench) -> Audit:
    return audit(bench)


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    from blindspot.db.labels import Labels

    rates, last = _audit(bench), Labels(bench.labels_path, read_only=True).last_event
    if rates.overall is None:
        raise BadInput(
            "nobody has finished a question of an audit yet; create a batch with 'blindspot batch new NAME --run "
            "RUN', whose audit arm is a random sample, and judge it"
        )
    groups = ["all", *rates.by["rank"]]
    cells = [
        Cell(group, shown, (Audited(kind, group, last),), 70.0 if (group, kind) == ("all", "with_related") else None)
        for group in groups
        for shown, kind in KINDS.items()
    ]
    return ExperimentPlan(
        cells,
        [PaperClaim("more than half are positive or related", ("all", "positive or related"), minimum_gain=0.5)],
        convention="Shares of unlabelled passages, from the audit arms of all batches, weighted by how likely each "
        "was drawn; n "
        "counts questions.",
    )
