"""A training set as what models train on (`backend.training.examples.Examples`): rows in memory, texts read when they are asked for."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from backend.training.examples import Example
from backend.training_sets.training_set import TrainingSet

if TYPE_CHECKING:
    from backend.core.study import Study

_BLOCK = 200  # questions whose passages are looked up together


class SetExamples:
    """The questions of a set, by id in rising order. Held are the rows of their passages (5 bytes each), not the texts.

    Args:
        hard: take mined and people's negatives alone; else random ones and other questions' gold as well.
        first: so many negatives of a question at most, the ones that stand highest; None for all.
    """

    def __init__(self, study: Study, training_set: TrainingSet, hard: bool = True, first: int | None = None):
        self._study = study
        self.ids: list[str] = []
        ordinals: list[np.ndarray] = []
        ends: list[tuple[int, int]] = []
        judged: list[bool] = []
        end = 0
        examples = training_set.examples(hard)
        while block := list(islice(examples, _BLOCK)):
            chosen = [(*positives, *negatives[:first]) for _, positives, negatives in block]
            known = study.corpus.ordinals({pair.passage for pairs in chosen for pair in pairs})
            ordinals.append(np.array([known[pair.passage] for pairs in chosen for pair in pairs], np.int32))
            judged += (pair.source == "label" for pairs in chosen for pair in pairs)
            for (question, positives, _), pairs in zip(block, chosen, strict=True):
                self.ids.append(question)
                ends.append((end + len(positives), end + len(pairs)))
                end += len(pairs)
        self._ordinals = np.concatenate(ordinals) if ordinals else np.zeros(0, np.int32)
        self._judged = np.array(judged, bool)
        self._ends = np.array(ends, np.int64).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Example:
        index = range(len(self.ids))[index]
        question = self._study.questions.get(self.ids[index])
        start = int(self._ends[index - 1, 1]) if index else 0
        middle, end = self._ends[index].tolist()
        passages = self._study.corpus.passages(self._ordinals[start:end])
        judged = frozenset(passages[place].id for place in np.flatnonzero(self._judged[start:end]))
        return Example(
            question.id,
            question.text,
            tuple(passages[: middle - start]),
            tuple(passages[middle - start :]),
            question.relation,
            judged,
        )
