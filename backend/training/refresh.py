"""A second round of training, with hard negatives that the model of the first round ranks high (as ANCE, Xiong et al.
2021).

Only passages of the training set are searched: all positives, and the first mined negatives up to `POOL` passages in
all. Encoding the whole collection again would take longer than the training. A question's known positives, and the
passages that its training set dropped, are never its negatives. Negatives that people judged stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.core.manifest import read_object, write_json
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.training.checkpoints import TRAINING
from blindspot.backend.training.distributed import is_main_process, wait_for_all
from blindspot.backend.training.examples import Example, TrainingExamples
from blindspot.backend.training.initial_model import normalises
from blindspot.db.records import Passage

if TYPE_CHECKING:
    from blindspot.backend.progress import Progress
    from blindspot.backend.retrieval.encoder import Encoder

POOL = 20_000  # passages that are encoded and searched; all positives are, whatever their number
DEPTH = 50  # hits of a question that are looked at
SHARE = 0.95  # of the best positive's cosine; a hit above it may answer (NV-Retriever, de Souza P. Moreira et al. 2024)
BLOCK = 256  # questions, or passages, encoded between two reports of progress

Dropped = Callable[[], Mapping[str, set[str]]]


@dataclass(frozen=True)
class FirstRound:
    """The first round, inside the working folder of the training. start: the encoder that it starts from."""

    working: Path
    start: EncoderSettings
    max_tokens: int

    @property
    def folder(self) -> Path:
        return self.working / "first"

    @property
    def checkpoints(self) -> Path:
        return self.working / "first~working"

    @property
    def encoder(self) -> EncoderSettings:
        """The model of the first round, with the start's template."""
        return EncoderSettings(
            model=str(self.folder), passage_template=self.start.passage_template, max_tokens=self.max_tokens
        )

    def about(self) -> dict[str, Any]:
        """What training.json says of this round."""
        made = read_object(self.folder / TRAINING)
        return {name: made[name] for name in ("last_step", "best_step", "average_rank", "seconds")}

    def refreshed(
        self, examples: TrainingExamples, dropped: Dropped | None, device: str, progress: Progress | None
    ) -> RefreshedExamples:
        """Return the examples with the negatives of the first round's model. They are mined once, also if
        interrupted.
        """
        path = self.working / "negatives.json"
        if is_main_process() and not path.is_file():
            from blindspot.backend.retrieval.encoder import load_encoder

            pool = _pool(examples)
            found = _mine(load_encoder(self.encoder, device), examples, pool, dropped() if dropped else {}, progress)
            write_json(path, found)
        wait_for_all()
        return RefreshedExamples(examples, {each.id: each for each in _pool(examples)}, read_object(path))


@dataclass(frozen=True)
class RefreshedExamples:
    """Examples whose hard negatives are those of `found`, by question, and those that people judged.

    A question for which none was found keeps its own. passages: those of `found`, by id.
    """

    examples: TrainingExamples
    passages: Mapping[str, Passage]
    found: Mapping[str, Sequence[str]]

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> Example:
        example = self.examples[index]
        new = [self.passages[id] for id in self.found.get(example.id, ())]
        if not new:
            return example
        judged = [passage for passage in example.negatives if passage.id in example.judged]
        return replace(example, negatives=tuple({each.id: each for each in (*judged, *new)}.values()))


def _pool(examples: TrainingExamples) -> list[Passage]:
    """The passages that are searched: all positives, and of each question's hard negatives the first ones, up to
    POOL.
    """
    every = range(len(examples))
    found = {passage.id: passage for number in every for passage in examples[number].positives}
    each = max(1, (POOL - len(found)) // len(examples))
    for number in every:
        for passage in examples[number].hard_negatives()[:each] if len(found) < POOL else ():
            found.setdefault(passage.id, passage)
    return list(found.values())


def _mine(
    encoder: Encoder,
    examples: TrainingExamples,
    pool: Sequence[Passage],
    dropped: Mapping[str, set[str]],
    progress: Progress | None,
) -> dict[str, list[str]]:
    """The ids of new hard negatives of each question, best first.

    A hit that scores above the best positive may answer. A share of a score has a meaning for cosines alone.
    """
    from blindspot.backend.retrieval.search import ExactSearch

    share = SHARE if encoder.similarity == "cosine" or normalises(encoder.model) else 1.0

    def said(done: int, total: int, what: str) -> None:
        if progress is not None:
            progress(done, total, f"looking for new hard negatives: {what}")

    blocks = []
    for begin in range(0, len(pool), BLOCK):
        said(begin, len(pool), "encoding passages")
        blocks.append(encoder.encode_passages(pool[begin : begin + BLOCK]).astype(np.float16))
    search = ExactSearch(np.concatenate(blocks), "l2" if encoder.similarity == "l2" else "dot")
    rows = {passage.id: row for row, passage in enumerate(pool)}
    found = {}
    for begin in range(0, len(examples), BLOCK):
        said(begin, len(examples), "searching")
        asked = [examples[number] for number in range(begin, min(begin + BLOCK, len(examples)))]
        vectors = encoder.encode_questions([example.question for example in asked])
        hits = search.search(vectors, min(DEPTH, len(pool)))
        for place, example in enumerate(asked):
            known = {passage.id for passage in example.positives}
            positives = np.array([[rows[id] for id in sorted(known)]], np.int32)
            best = float(search.score(vectors[place : place + 1], positives).max())
            limit = best - (1 - share) * abs(best)
            never = known | dropped.get(example.id, set())
            ranked = zip(hits.ordinals[place].tolist(), hits.scores[place].tolist(), strict=True)
            found[example.id] = [pool[row].id for row, score in ranked if score < limit and pool[row].id not in never]
    return found
