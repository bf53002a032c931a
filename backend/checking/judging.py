"""Let an automatic judge, instead of people, judge the sample of a checked file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from blindspot.backend.checking.building import SAMPLE_OF_FILE, CheckedStudy, number_of
from blindspot.backend.checking.pairs import negative_pairs
from blindspot.backend.checking.sample import OPEN, PairId, SamplePlan, unjudged_pairs
from blindspot.backend.core.runs import write_run
from blindspot.backend.core.settings import check_name
from blindspot.backend.judges.judge import judge_kind_of, judges_of, stored_thresholds
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.progress import Progress
from blindspot.db.errors import Missing
from blindspot.db.records import Hits

RUN = "check-sample"
SURE = (0.5, 0.5)
"""A judge without thresholds of its own calls a pair negative below the first probability, and positive from the second
on.
"""


def judge_sample(checked_study: CheckedStudy, plan: SamplePlan, judge: str, progress: Progress | None = None) -> str:
    """Let a judge score the drawn pairs, and return the judge's name.

    Args:
        judge: A judge of the study; or a cross-encoder by its folder or Hugging Face name, which is added.

    Raises:
        Missing: no such judge and no such model.
    """
    study = checked_study.study
    if judge not in {card.name for card in judges_of(study)}:
        name = Path(judge).name
        check_name(name, "judge")
        if name not in {card.name for card in judges_of(study)}:
            from blindspot.backend.training.ready_cross_encoder import add_cross_encoder

            add_cross_encoder(study, name, judge, progress=progress)
        judge = name
    if unscored_pairs(checked_study, plan, judge):
        kind = judge_kind_of(study, judge)
        if type(kind).run_job is None:
            raise Missing(f"judge {judge!r} has no scores of the drawn pairs; import them for run {RUN!r}")
        _write_run(checked_study, plan)
        type(kind).run_job(study, judge, RUN, progress=progress)  # type: ignore[misc]
    return judge


def labels_of_judge(checked_study: CheckedStudy, plan: SamplePlan, judge: str) -> dict[PairId, str]:
    """Return a judge's labels of the drawn pairs, up to the last pair that it scored; {} if it scored no pair.

    A pair is "open" if the judge skipped it or its score is between the judge's two thresholds.
    """
    drawn = unjudged_pairs(plan, negative_pairs(checked_study.occurrences), {})
    scores = _scores(checked_study, judge, drawn)
    negative_below, positive_from = stored_thresholds(checked_study.study, judge) or SURE
    last = max((place for place, pair in enumerate(drawn) if pair in scores), default=-1)

    def label(pair: PairId) -> str:
        score = scores.get(pair)
        if score is None or negative_below <= score < positive_from:
            return OPEN
        return "positive" if score >= positive_from else "negative"

    return {pair: label(pair) for pair in drawn[: last + 1]}


def unscored_pairs(checked_study: CheckedStudy, plan: SamplePlan, judge: str) -> list[PairId]:
    """Return the drawn pairs that a judge of the study has not scored yet."""
    drawn = unjudged_pairs(plan, negative_pairs(checked_study.occurrences), {})
    scores = _scores(checked_study, judge, drawn)
    return [pair for pair in drawn if pair not in scores]


def _scores(checked_study: CheckedStudy, judge: str, pairs: Sequence[PairId]) -> dict[PairId, float]:
    if judge not in checked_study.study.parts("scores"):
        return {}
    return ScoreStore.open(checked_study.study, judge)(pairs)


def _write_run(checked_study: CheckedStudy, plan: SamplePlan) -> None:
    """Write the drawn pairs as a run, because judges of every kind take a run as input."""
    of_question: dict[str, list[int]] = {}
    for question, passage in unjudged_pairs(plan, negative_pairs(checked_study.occurrences), {}):
        of_question.setdefault(question, []).append(number_of(passage))
    k = max(map(len, of_question.values()))
    ordinals = np.full((len(of_question), k), -1, np.int32)
    scores = np.full((len(of_question), k), -np.inf, np.float32)
    for row, passages in enumerate(of_question.values()):
        ordinals[row, : len(passages)] = passages
        scores[row, : len(passages)] = -np.arange(len(passages))
    settings = {"retriever": SAMPLE_OF_FILE}
    write_run(checked_study.study, RUN, list(of_question), Hits(ordinals, scores), settings, replace=True)
