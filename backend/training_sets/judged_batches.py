"""Make batches whose priority arm is ordered by the scores of a judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blindspot.backend.core.jobs import job
from blindspot.backend.core.study import Study
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.batches import BatchSummary, make_batch
from blindspot.backend.progress import Progress
from blindspot.backend.training_sets.training_set import TrainingSet

NEGATIVES_DRAWN = 4  # hard negatives of a question in a training step, as adapters and retrievers draw by default


@job("make batch by judge", light=True)
def make_batch_by_judge(
    study: Study,
    name: str,
    runs: Sequence[str],
    judge: str,
    training_set: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> BatchSummary:
    """Make a batch whose priority arm is ordered by the scores of a judge. The judge does not affect the audit and the
    other arms.

    Args:
        judge: a judge with scores; a pair without a score counts as answer match, subject and rank estimate it.
        training_set: the set that is trained on now. Its hard negatives count by how likely a step draws them.
        settings: the other arguments of `blindspot.backend.judging.batches.make_batch`.

    Raises:
        Missing: no scores of that judge, or no such set. Else as `make_batch` does.
    """
    scores = ScoreStore.open(study, judge)
    trained = None if training_set is None else draw_probabilities(TrainingSet.open(study, training_set))
    return make_batch(study, name, runs, scores=scores, trained=trained, scored_by=judge, progress=progress, **settings)


def draw_probabilities(
    training_set: TrainingSet, sampled_negatives: int = NEGATIVES_DRAWN
) -> dict[str, dict[str, float]]:
    """Return the probability that a training step draws each hard negative of a question: question to passage to
    probability.
    """
    return {
        question: dict.fromkeys(sorted(passages), min(1.0, sampled_negatives / len(passages)))
        for question, passages in training_set.hard_negatives().items()
    }
