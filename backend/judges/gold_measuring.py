"""Measure a feature judge against gold passages: how well it separates gold passages from other hits, and how well it
reranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blindspot.analysis.accuracy import Estimate, mean_difference, proportion
from blindspot.backend.core.result_table import signed_ends, signed_number
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import units_of
from blindspot.backend.evaluation.relevance import relevant
from blindspot.backend.judges.feature_judge import FeatureJudge
from blindspot.backend.judges.lists import lists_of, refuse_other_retriever
from blindspot.backend.progress import Progress
from blindspot.db.errors import Missing, Refused

KS = (1, 5, 20)


@dataclass(frozen=True, slots=True)
class GoldQuality:
    """The quality of a feature judge on gold. auc: for gold passages against the other hits in the top `depth`.
    success: Success@k for each of KS of the run, of the reranked run, and the difference. n: number of questions with
    gold passages.
    """

    depth: int
    n: int
    auc: float
    success: dict[int, tuple[Estimate, Estimate, Estimate]]

    def lines(self) -> list[str]:
        """Return one line for each figure, with 95% intervals over units of observation."""
        lines = [f"{self.n:,} questions with gold; AUC of gold among the first {self.depth} ranks {self.auc:.3f}"]
        for k, (before, after, change) in self.success.items():
            assert change.low is not None and change.high is not None
            shown = ", reranked ".join(f"{100 * each.value:.1f}" for each in (before, after) if each.value is not None)
            lines.append(
                f"Success@{k} by gold: {shown}; difference {signed_number(100 * (change.value or 0))} ({signed_ends(100 * change.low, 100 * change.high)})"
            )
        return lines


def measure_on_gold(study: Study, name: str, run: str, progress: Progress | None = None) -> GoldQuality:
    """Measure a feature judge on the questions of a run that have gold.

    Raises Missing if no question of the run has gold, Refused for training questions (judges are trained on them), and
    the errors of `FeatureJudge`.
    """
    from sklearn.metrics import roc_auc_score

    judge, opened = FeatureJudge(study, name), study.run(run)
    questions = study.questions.with_ids(opened.question_ids)
    if any(question.split == "train" for question in questions):
        raise Refused(f"run {run!r} holds training questions, which may have taught the judge; measure on dev or test")
    refuse_other_retriever(name, judge.about["retriever"], opened)
    found = relevant(study, opened, "gold", "dpr", questions)
    if not len(found.rows):
        raise Missing(f"no question of {run!r} has gold passages")
    lists = lists_of(opened, found.questions, judge.rerank_depth)
    scores = judge.ranking_scores(judge.features(lists, progress))
    gold = np.asarray(found.relevant)[:, : lists.rows.shape[1]].astype(bool)
    first = ~np.isnan(scores[:, : judge.depth])
    order = np.argsort(np.where(np.isnan(scores), np.inf, -scores), axis=1, kind="stable")
    after = np.take_along_axis(gold, order, 1)
    units = units_of(found.questions, study.settings.unit).codes
    success = {}
    for k in KS:
        hits = [np.asarray(each[:, :k].any(axis=1)) for each in (gold, after)]
        success[k] = (
            proportion(hits[0], units),
            proportion(hits[1], units),
            mean_difference(hits[1].astype(float) - hits[0], units),
        )
    auc = float(roc_auc_score(gold[:, : judge.depth][first], scores[:, : judge.depth][first]))
    return GoldQuality(judge.depth, len(found.questions), auc, success)
