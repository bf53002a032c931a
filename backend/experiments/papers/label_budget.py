"""Blindspot's own experiment: how much do people's labels improve a retriever, and how much would a hundred more labels
add?

Labels are used in the order in which people gave them. A budget consists of all labels up to a given event. A label
that was changed later has the value that it had at that event. For each budget there is one training set, and for each
seed one retriever trained on it. The retrievers are measured with the current labels of the measured questions, which
are never used for training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from blindspot.analysis.accuracy import success_at
from blindspot.analysis.buckets import bucket_group, bucket_order
from blindspot.analysis.judged import corrected_relevance
from blindspot.backend.data.leaks import TRAINS
from blindspot.backend.experiments.hits import RunPart
from blindspot.backend.experiments.papers import EXPERIMENTS
from blindspot.backend.experiments.parts import Part
from blindspot.backend.experiments.plan import Cell, ExperimentPlan, PaperClaim, Setting
from blindspot.backend.experiments.trainings import DualEncoder, run_of_model
from blindspot.backend.experiments.workbench import Workbench
from blindspot.backend.judging.corrected import CorrectedRun, corrected_run
from blindspot.backend.training_sets.denoising import policy_named
from blindspot.db.errors import BadInput, Refused
from blindspot.db.labels import Labels
from blindspot.db.records import Question

TAKES = frozenset({"shares", "policy", "worth"})
DEFAULTS = {"ks": (20,)}
WORDS = {"worth it": "supported", "not worth it": "not supported"}
"""Verdicts in results of older versions."""
CONVENTION = "A passage is relevant if people labelled it positive. Without a label, it is relevant if it contains an answer; if no question has a known answer, gold decides. Labels are used in the order in which people gave them, with one label per person and pair. The verdict assumes that the next labels will gain as much as the last labels did."


@dataclass(frozen=True, slots=True)
class LabelBudget:
    """A budget of labels as a share of all labels in percent, with the number of labels and the number of the last
    label event (0 for no labels).
    """

    share: int
    labels: int
    until: int

    @property
    def row(self) -> str:
        return f"{self.share}% ({self.labels:,} labels)"


@dataclass(frozen=True)
class LabelledSuccess:
    """A measure: Success@k with relevance by the labels up to `last_event`, over the questions of a bucket ("" for all
    questions).
    """

    share: ClassVar[bool] = True
    hits: RunPart
    k: int
    last_event: int
    bucket: str = ""

    def needs(self) -> Sequence[Part]:
        return (self.hits,)

    def values(self, bench: Workbench) -> np.ndarray:
        """Return the values of the questions, (q,) float64."""
        run, rows = self._measured(bench)
        return success_at(corrected_relevance(run.relevant, run.labels), self.k).astype(float)[rows]

    def questions(self, bench: Workbench) -> list[Question]:
        run, rows = self._measured(bench)
        return [run.questions[row] for row in rows.tolist()]

    def _measured(self, bench: Workbench) -> tuple[CorrectedRun, np.ndarray]:
        run = corrected_run(bench, self.hits.open(bench))
        inside = [not self.bucket or _bucket(question) == self.bucket for question in run.questions]
        return run, np.flatnonzero(inside)


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    if not policy_named(setting.policy).labels:
        raise BadInput(
            f"the policy {setting.policy!r} does not use labels; choose labels, or a policy that ends in +labels"
        )
    asked = setting.question_selection()
    questions = asked.questions_of(bench)
    if any(question.split in TRAINS for question in questions):
        raise Refused(f"{setting.on!r} contains training questions; measure on dev or test")
    last_event = Labels(bench.labels_path, read_only=True).last_event
    buckets = sorted({_bucket(question) for question in questions}, key=bucket_order)
    cells = []
    budgets = label_budgets(bench, setting.shares)
    for budget in budgets:
        data = setting.data(
            mined=setting.mined(), policy=setting.policy, positives=("gold", "distant"), until=budget.until
        )
        models = [DualEncoder((data,), setting.settings(seed), setting.first_encoder) for seed in setting.seeds]
        hits = [run_of_model(model, asked, max(setting.ks)) for model in models]
        for bucket in ("", *buckets):
            cells += [
                Cell(
                    f"{budget.row}, {bucket}" if bucket else budget.row,
                    f"Success@{k}",
                    tuple(LabelledSuccess(run, k, last_event, bucket) for run in hits),
                )
                for k in setting.ks
            ]
    before, after = budgets[-2:]
    more, column = after.labels - before.labels, setting.claim_cutoff()
    claim = PaperClaim(
        f"a hundred more labels are worth it: the last {more:,} gained more than {setting.worth:g} points per hundred",
        (after.row, column),
        (before.row, column),
        minimum_gain=setting.worth / 100 * more / 100,
    )
    notes = [] if more else ["The last two budgets contain the same labels, so they say nothing about further labels."]
    return ExperimentPlan(cells, [claim] if more else [], CONVENTION, notes=notes)


def label_budgets(bench: Workbench, shares: Sequence[int]) -> list[LabelBudget]:
    """Return the budgets by ascending share. Raises Refused if no training question has labels."""
    shares = sorted(set(shares))
    if len(shares) < 2 or not 0 <= shares[0] <= shares[-1] <= 100:
        raise BadInput("give at least two shares of the labels, each from 0 to 100 percent")
    labels = Labels(bench.labels_path, read_only=True)
    judged = list(labels.judgements())
    asked = bench.questions.with_ids(sorted({each.question for each in judged}))
    trains = {question.id for question in asked if question.split in TRAINS}
    numbers = [each.number for each in judged if each.question in trains]
    if not numbers:
        raise Refused("nobody has labelled a passage of a training question yet; label some first")
    budgets = []
    for share in shares:
        count = round(share / 100 * len(numbers))
        until = labels.last_event if share == 100 else numbers[count - 1] if count else 0
        budgets.append(LabelBudget(share, count, until))
    return budgets


def _bucket(question: Question) -> str:
    return bucket_group(question.bucket, question.frequency)


def former_result(result: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Convert a result of an older version, which stored label budgets in a separate format, to the common format of
    results.
    """
    column, cells = f"Success@{result['k']}", []
    rows = [LabelBudget(each["share"], each["labels"], 0).row for each in result["budgets"]]
    for row, budget in zip(rows, result["budgets"], strict=True):
        figures = {row: budget["success"], **{f"{row}, {name}": each for name, each in budget["buckets"].items()}}
        cells += [
            {
                "row": each,
                "column": column,
                "published": None,
                "seeds": len(result["seeds"]),
                "by_seed": budget["by_seed"] if each == row else [],
                "units": figure.get("units", figure["n"]),
                **{key: figure[key] for key in ("value", "low", "high", "n")},
            }
            for each, figure in figures.items()
        ]
    gain, verdict = result["gain"], WORDS.get(result["verdict"], "inconclusive")
    claim = {
        "says": f"a hundred more labels gain {result['worth']:g} points or more",
        "ahead": [rows[-1], column],
        "behind": [rows[-2], column],
        "difference": gain["value"],
        "low": gain["low"],
        "high": gain["high"],
        "n": gain["n"],
        "word": verdict,
        "because": "",
    }
    return {
        "experiment": "label-budget",
        **EXPERIMENTS["label-budget"]._asdict(),
        "key": name,
        "setting": {"on": result["split"], "small": False},
        "unit": "%",
        "convention": result["convention"],
        "cells": cells,
        "claims": [claim],
        "verdict": verdict,
        "sentence": result["sentence"],
        "plot": None,
        "notes": [],
    }
