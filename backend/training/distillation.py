"""Distil a cross-encoder into a dual encoder: provide the cross-encoder's scores (the teacher) of each question's own
passages in a batch.

The teacher's scores are the probabilities stored in `scores/<model>/`, converted to log odds. A softmax over the log
odds of a question's passages gives for each passage the probability that it answers the question, given that exactly
one passage does. People's labels override the cross-encoder: a judged passage is treated as certain, regardless of the
teacher's score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

import numpy as np

from blindspot.backend.core.manifest import read_object
from blindspot.backend.judges.scores import PairKey, ScoreStore
from blindspot.backend.progress import Progress
from blindspot.backend.training.distributed import rank, wait_for_all, world_size
from blindspot.backend.training.examples import BatchSampler, Example, NegativeSampler, SampledExample, sample_passages
from blindspot.db.errors import Missing, Refused

if TYPE_CHECKING:
    from torch import Tensor

    from blindspot.backend.core.study import Study
    from blindspot.backend.training.scoring import CrossEncoderScorer
    from blindspot.db.records import Passage

CERTAIN = 13.8  # log odds of a probability of 0.999999, the largest that counts
PER_BLOCK = 32  # questions whose pairs are scored, and stored, together


class PassageTeacher(Protocol):
    """What a training needs of a teacher. `prepare` and the call are those of `Teacher`."""

    name: str
    model_hash: str | None

    def prepare(self, dataset: NegativeSampler, sampler: BatchSampler, progress: Progress | None = None) -> None: ...

    def __call__(self, batch: Sequence[SampledExample[Example]], hard_negatives: int) -> Tensor: ...


class Teacher:
    """The teacher: a cross-encoder of a study, or its stored scores."""

    def __init__(self, study: Study, model: str, device: str | None = None):
        """Open the teacher. Raises Missing if there is neither such a cross-encoder nor its scores, and Refused if the
        scores were made with another model.
        """
        self.study, self.name, self.device = study, model, device
        self.folder = study.path("models", model)
        about = read_object(self.folder / "training.json") if (self.folder / "training.json").is_file() else {}
        self._can_score = about.get("kind") == "cross-encoder"
        if not self._can_score and model not in study.parts("scores"):
            raise Missing(
                f"there is no cross-encoder {model!r} to learn from; train one with 'blindspot train cross-encoder'"
            )
        self._store = ScoreStore.open(study, model) if model in study.parts("scores") else None
        scored = None if self._store is None else self._store.manifest.get("model_hash")
        self.model_hash = about["model_hash"] if self._can_score else scored
        if self._store is not None and self._store.manifest.get("model_hash") != self.model_hash:
            raise Refused(
                f"the scores stored as {model!r} are of another model than models/{model}; delete scores/{model} to "
                "score again"
            )
        self._judge: CrossEncoderScorer | None = None

    def prepare(self, dataset: NegativeSampler, sampler: BatchSampler, progress: Progress | None = None) -> None:
        """Score every unscored pair that training will sample. In distributed training, each process scores a part of
        the questions.

        Most training sets contain gold passages that the retriever did not find and that are therefore in no scored
        run. If scoring is interrupted, finished scores are kept.

        Raises:
            Refused: pairs have no score, and the cross-encoder is not in the study.
        """
        shares = list(_epochs_by_example(sampler))[rank() :: world_size()]
        for begin in range(0, len(shares), PER_BLOCK):
            if progress is not None:
                progress(begin, len(shares), f"scoring passages with {self.name}")
            block = [_sampled_passages(dataset, number, epochs) for number, epochs in shares[begin : begin + PER_BLOCK]]
            missing = self._unscored_pairs(block)
            if missing:
                self._score_and_store(missing)
        self._judge = None  # frees its memory for training
        wait_for_all()
        if self._store is None and self.name in self.study.parts("scores"):  # another process created the store
            self._store = ScoreStore.open(self.study, self.name)

    def __call__(self, batch: Sequence[SampledExample[Example]], hard_negatives: int) -> Tensor:
        """Return the log odds of each question's positive and hard negatives, (b, 1 + hard_negatives) float32; -inf for
        a missing passage.
        """
        import torch

        pairs = [(drawn.example.id, passage.id) for drawn in batch for passage in _sampled_example_passages(drawn)]
        known = self._stored_scores(pairs)
        taught = torch.full((len(batch), 1 + hard_negatives), -torch.inf)
        for row, drawn in enumerate(batch):
            for column, passage in enumerate(_sampled_example_passages(drawn)):
                taught[row, column] = _label_log_odds(drawn.example, passage) or log_odds(
                    known[drawn.example.id, passage.id]
                )
        return taught

    def _stored_scores(self, pairs: Sequence[PairKey]) -> dict[PairKey, float]:
        return {} if self._store is None else self._store(pairs)

    def _unscored_pairs(self, block: Sequence[tuple[Example, Sequence[Passage]]]) -> list[tuple[Example, Passage]]:
        """Return the distinct unscored pairs. Judged pairs need no score."""
        pairs = {
            (example.id, passage.id): (example, passage)
            for example, passages in block
            for passage in passages
            if not _label_log_odds(example, passage)
        }
        known = self._stored_scores(list(pairs))
        return [score for pair, score in pairs.items() if pair not in known]

    def _score_and_store(self, missing: Sequence[tuple[Example, Passage]]) -> None:
        from blindspot.backend.training.scoring import CrossEncoderScorer

        if not self._can_score:
            raise Refused(
                f"{len(missing):,} pairs or more of this training have no score of {self.name!r}, and that "
                "cross-encoder is not in this study to score them"
            )
        if self._judge is None:
            self._judge = CrossEncoderScorer(self.folder, self.device)
        if self._store is None:
            self._store = ScoreStore.create(
                self.study, self.name, self._judge.calibrated, {"model_hash": self.model_hash}
            )
        probabilities = self._judge.score([(example.question, passage) for example, passage in missing])
        self._store.add(
            (example.id, passage.id, float(p)) for (example, passage), p in zip(missing, probabilities, strict=True)
        )


def log_odds(probability: float) -> float:
    """Return the log odds of a probability, clipped to -CERTAIN .. CERTAIN."""
    with np.errstate(divide="ignore"):
        return float(np.clip(np.log(probability) - np.log1p(-probability), -CERTAIN, CERTAIN))


def _label_log_odds(example: Example, passage: Passage) -> float | None:
    """Return the log odds for people's label of a passage; None if nobody judged it."""
    if passage.id not in example.judged:
        return None
    return CERTAIN if any(passage.id == positive.id for positive in example.positives) else -CERTAIN


def _sampled_example_passages(example: SampledExample[Example]) -> tuple[Passage, ...]:
    return (example.positive, *example.negatives)


def _epochs_by_example(sampler: BatchSampler) -> Iterator[tuple[int, list[int]]]:
    """Yield (example number, epochs in which it is sampled), ordered by number."""
    keys = np.fromiter(chain.from_iterable(chain.from_iterable(sampler)), np.int32).reshape(-1, 2)
    keys = keys[np.lexsort((keys[:, 0], keys[:, 1]))]
    for number, rows in groupby(keys.tolist(), itemgetter(1)):
        yield number, [epoch for epoch, _ in rows]


def _sampled_passages(dataset: NegativeSampler, number: int, epochs: Sequence[int]) -> tuple[Example, list[Passage]]:
    """Return an example, and its passages that are sampled in any of these epochs."""
    example = dataset.examples[number]
    rows = (
        _sampled_example_passages(sample_passages(example, dataset.hard_negatives, epoch, dataset.seed))
        for epoch in epochs
    )
    return example, list({passage.id: passage for passage in chain.from_iterable(rows)}.values())
