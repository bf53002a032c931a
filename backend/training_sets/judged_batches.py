"""Batches whose priority arm goes by a judge, or by what training would gain from each label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.core.jobs import job
from blindspot.backend.judges.feature_judge import scored_rows
from blindspot.backend.judges.label_judge import fitted, labelled_pairs
from blindspot.backend.judges.scores import PairKey, ScoreStore
from blindspot.backend.judging.batch_builder import Scores
from blindspot.backend.judging.batches import DEPTH, BatchSummary, make_batch
from blindspot.backend.judging.gain import DrawingRules
from blindspot.backend.training_sets.training_set import TrainingSet

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study
    from blindspot.backend.progress import Progress

EPOCHS = 10
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
    """Make a batch whose priority arm goes by a judge. The audit and the other arms stay as they are.

    Args:
        judge: a judge with scores; a pair without a score counts as answer match, subject and rank estimate it.
        training_set: the set that is trained on now. Its hard negatives count by how likely a step draws them.
        settings: the other arguments of `blindspot.backend.judging.batches.make_batch`.

    Raises:
        Missing: no scores of that judge, or no such set. Else as `make_batch` does.
    """
    scores = ScoreStore.open(study, judge)
    trained = None if training_set is None else drawn_negatives(TrainingSet.open(study, training_set))
    return make_batch(study, name, runs, scores=scores, trained=trained, scored_by=judge, progress=progress, **settings)


@job("make batch by gain", light=True)
def make_batch_by_gain(
    study: Study,
    name: str,
    runs: Sequence[str],
    judge: str | None = None,
    training_set: str | None = None,
    pairs: int | None = None,
    hard_negatives: int = NEGATIVES_DRAWN,
    epochs: int = EPOCHS,
    encoder: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> BatchSummary:
    """Make a batch whose priority arm takes the pairs whose labels training would gain most from.

    See `blindspot.backend.judging.gain`. The audit and the other arms stay as they are.

    Args:
        judge: a judge with scores. Default: a judge that learns now from all labels so far (`label_judge`), so it
            learns anew for every batch.
        training_set: the set that is trained on now; its ranks and its negatives tell how often a pair is drawn.
            Default: the first `depth` ranks of each question.
        pairs: maximum number of pairs in the priority arm; default as many as its questions hold.
        hard_negatives, epochs: of the training.
        encoder: the dense index for similarities, and for the features of the judge that learns now.
        settings: the other arguments of `blindspot.backend.judging.batches.make_batch`.

    Raises:
        Missing: no scores of that judge, or no such set or index. Else as `make_batch` does.
    """
    depth = int(settings.get("depth", DEPTH))
    opened = None if training_set is None else TrainingSet.open(study, training_set)
    request = {"first": 1, "last": depth} if opened is None else opened.manifest["request"]
    drawing = DrawingRules(int(request["first"]), int(request["last"]), hard_negatives, epochs)
    return make_batch(
        study,
        name,
        runs,
        order="gain",
        pairs=pairs,
        scores=learned_now(study, runs, depth, encoder, progress) if judge is None else ScoreStore.open(study, judge),
        scored_by=judge,
        answers_known=judge is None,
        trained=None if opened is None else drawn_negatives(opened, hard_negatives),
        drawing=asdict(drawing),
        encoder=encoder,
        progress=progress,
        **settings,
    )


def learned_now(
    study: Study, runs: Sequence[str], depth: int, encoder: str | None, progress: Progress | None = None
) -> Scores:
    """Learn from all labels so far which pairs of some runs answer, and return what knows their probabilities.

    The first run that lists a pair judges it.
    """
    known: dict[PairKey, float] = {}
    for run in reversed(list(dict.fromkeys(runs))):
        questions = list(study.run(run).question_ids)
        lists = labelled_pairs(study, run, encoder, depth, questions=questions, progress=progress)
        probabilities = np.full(lists.lists.rows.shape, np.nan)
        probabilities[tuple(lists.places.T)] = fitted(lists).probabilities(lists.features)
        known |= {(question, passage): p for question, passage, p in scored_rows(study, lists.lists, probabilities)}
    return lambda pairs: {pair: known[pair] for pair in pairs if pair in known}


def drawn_negatives(training_set: TrainingSet, drawn: int = NEGATIVES_DRAWN) -> dict[str, dict[str, float]]:
    """Return how likely a training step draws each hard negative of a question: question to passage to probability."""
    return {
        question: dict.fromkeys(sorted(passages), min(1.0, drawn / len(passages)))
        for question, passages in training_set.hard_negatives().items()
    }
