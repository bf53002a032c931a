"""Training examples (questions with positive and negative passages), and how they are sampled for batches.

The positive and the hard negatives that are sampled for a question depend only on the seed, the epoch and the question.
A restart, or another number of processes, therefore does not change what is trained.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile, zip_longest
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.backend.training.distributed import world_size
from blindspot.backend.training.training_settings import TrainingSettings
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.errors import Refused
from blindspot.db.records import Passage


class HasPassages(Protocol):
    """What sampling needs to know about a question: its id, its positives and its hard negatives."""

    @property
    def id(self) -> str: ...

    @property
    def positives(self) -> tuple[Passage, ...]: ...

    def hard_negatives(self) -> tuple[Passage, ...]: ...


E = TypeVar("E", bound=HasPassages)
E_co = TypeVar("E_co", bound=HasPassages, covariant=True)


@dataclass(frozen=True, slots=True)
class Example:
    """A question to train on. Passages are identified by id. A passage that is among both positives and negatives
    counts as a positive.

    Attributes:
        positives: all known positives, gold and people's; each epoch uses one of them in turn.
        negatives: hard negatives, in the order of the retriever that found them.
        judged: ids of the passages that people judged, of both kinds.
    """

    id: str
    question: str
    positives: tuple[Passage, ...]
    negatives: tuple[Passage, ...] = ()
    relation: str | None = None
    judged: frozenset[str] = frozenset()

    def hard_negatives(self) -> tuple[Passage, ...]:
        """The negatives that are not also positives."""
        known = {passage.id for passage in self.positives}
        return tuple(passage for passage in self.negatives if passage.id not in known)


class NumberedExamples(Protocol[E_co]):
    """A sequence of examples: a list, or a class that reads each example on demand to save memory."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> E_co: ...


TrainingExamples: TypeAlias = NumberedExamples[Example]


@dataclass(frozen=True, slots=True)
class SampledExample(Generic[E]):
    """An example as sampled for a batch: one positive, and up to the requested number of hard negatives."""

    example: E
    positive: Passage
    negatives: tuple[Passage, ...]


def sample_passages(example: E, hard_negatives: int, epoch: int, seed: int) -> SampledExample[E]:
    """Sample the positive and the hard negatives of a question for one epoch.

    Positives and negatives are taken in a random order, determined by the seed, that continues from epoch to epoch.
    """
    positive = _passages_in_turn(example.positives, 1, epoch, f"{seed} positive {example.id}")[0]
    return SampledExample(
        example,
        positive,
        _passages_in_turn(example.hard_negatives(), hard_negatives, epoch, f"{seed} negative {example.id}"),
    )


def _passages_in_turn(passages: Sequence[Passage], count: int, epoch: int, seed: str) -> tuple[Passage, ...]:
    if len(passages) <= count:
        return tuple(passages)
    shuffled = random.Random(seed).sample(passages, len(passages))
    return tuple(shuffled[(epoch * count + i) % len(passages)] for i in range(count))


@dataclass(frozen=True, slots=True)
class BatchSampler:
    """The batches of a training: for each step and process, a batch of pairs (epoch, example number).

    It is a batch sampler for torch. Every epoch is shuffled again. Examples left over at the end of an epoch that do
    not fill a batch for all processes are skipped in this epoch.
    """

    examples: int
    batch: int
    steps: int
    processes: int = 1
    seed: int = 0

    def __len__(self) -> int:
        return self.steps * self.processes

    @property
    def steps_per_epoch(self) -> int:
        return self.examples // (self.batch * self.processes)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        per_epoch, order = self.steps_per_epoch * self.processes, []
        for number in range(len(self)):
            epoch, place = divmod(number, per_epoch)
            if place == 0:
                order = list(range(self.examples))
                random.Random(f"{self.seed} epoch {epoch}").shuffle(order)
            yield [(epoch, index) for index in order[place * self.batch : (place + 1) * self.batch]]


def batch_sampler(examples: int, settings: TrainingSettings, minimum: int = 1) -> BatchSampler:
    """Return the sampler of batches for all processes.

    Args:
        minimum: number of examples without which nothing can be learned.

    Raises Refused if there are fewer examples, or if a process would have no examples.
    """
    processes = world_size()
    if examples < max(processes, minimum):
        raise Refused(f"{examples} questions are too few to train on with {processes} processes; add some")
    batch = min(settings.batch, examples // processes)
    steps = settings.steps or max(1, round(settings.epochs * (examples // (batch * processes))))
    return BatchSampler(examples, batch, steps, processes, settings.seed)


@dataclass(frozen=True)
class NegativeSampler(Generic[E]):
    """The examples as a torch dataset. Its keys are the pairs of `BatchSampler`."""

    examples: NumberedExamples[E]
    hard_negatives: int
    seed: int

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, key: tuple[int, int]) -> SampledExample[E]:
        epoch, index = key
        return sample_passages(self.examples[index], self.hard_negatives, epoch, self.seed)


@dataclass(frozen=True)
class Pool:
    """Held-out questions and one fixed list of passages, by which checkpoints are compared.

    known[i]: the rows of `passages` that answer question i, at least one.
    """

    questions: tuple[str, ...]
    passages: tuple[Passage, ...]
    known_positives: tuple[tuple[int, ...], ...]
    digest: str = field(compare=False, default="")


def make_pool(held_out: Sequence[Example], size: int, other_examples: TrainingExamples = (), seed: int = 0) -> Pool:
    """Make a pool of up to `size` passages: first all positives of the held-out questions, then their hard negatives by
    rank, then positives of other questions.

    Raises:
        Refused: no held-out question.
    """
    if not held_out:
        raise Refused("there is no question to compare checkpoints by; hold some out, or train without evaluation")
    rows: dict[str, int] = {}
    passages: list[Passage] = []

    def row(passage: Passage) -> int:
        if passage.id not in rows:
            rows[passage.id] = len(passages)
            passages.append(passage)
        return rows[passage.id]

    known = tuple(tuple(row(passage) for passage in example.positives) for example in held_out)
    by_rank = chain.from_iterable(zip_longest(*(example.hard_negatives() for example in held_out)))
    for passage in takewhile(lambda _: len(passages) < size, filter(None, by_rank)):
        row(passage)
    numbers = list(range(len(other_examples)))
    random.Random(f"{seed} pool").shuffle(numbers)
    for number in numbers:
        if len(passages) >= size:
            break
        row(other_examples[number].positives[0])
    digest = hashlib.sha256("\0".join([*(example.id for example in held_out), "", *rows]).encode()).hexdigest()
    return Pool(tuple(example.question for example in held_out), tuple(passages), known, digest)


def hold_out(examples: Sized, count: int, seed: int = 0) -> tuple[list[int], list[int]]:
    """Return the numbers of the examples to train on, and of those held out. The held-out examples are drawn with
    `seed`: at most `count`, and at most a fifth of all examples.
    """
    numbers = list(range(len(examples)))
    chosen = sorted(random.Random(f"{seed} held out").sample(numbers, min(count, len(numbers) // 5)))
    chosen_set = set(chosen)
    return [number for number in numbers if number not in chosen_set], chosen


@dataclass(frozen=True)
class Subset(Generic[E]):
    """A subset of examples, by number."""

    examples: NumberedExamples[E]
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> E:
        return self.examples[self.numbers[index]]


def with_positives(examples: NumberedExamples[E]) -> Subset[E]:
    """Return the examples that have a positive.

    Raises:
        Refused: no example has one.
    """
    numbers = [number for number in range(len(examples)) if examples[number].positives]
    if not numbers:
        raise Refused(
            f"none of the {len(examples):,} questions of this training set has a positive passage; nothing can be "
            "learned"
        )
    return Subset(examples, numbers)


def examples_digest(examples: TrainingExamples) -> str:
    """Return the SHA-256 of all training texts."""
    whole = hashlib.sha256()
    for number in range(len(examples)):
        example = examples[number]
        for text in (
            example.id,
            example.question,
            str(len(example.positives)),
            *(
                part
                for passage in (*example.positives, *example.negatives)
                for part in (passage.id, passage.title, passage.text)
            ),
        ):
            data = text.encode("utf-8", "surrogatepass")
            whole.update(len(data).to_bytes(8, "little"))
            whole.update(data)
    return whole.hexdigest()


def passage_number(id: str) -> int:
    """Convert a passage's id to a 63-bit number, which is the same on every machine. The loss identifies passages by
    this number.
    """
    return int.from_bytes(hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 1


_BLOCK = 200  # questions whose passages are looked up together


class TrainingSetExamples:
    """The questions of a training set, by ascending id.

    Holds only the rows of the questions' passages (5 bytes each), not the texts.

    Args:
        hard: take only mined and people's negatives; otherwise random ones and other questions' gold as well.
    """

    def __init__(self, study: Study, training_set: TrainingSet, hard: bool = True):
        self._study = study
        self.ids: list[str] = []
        ordinals: list[np.ndarray] = []
        ends: list[tuple[int, int]] = []
        judged: list[bool] = []
        end = 0
        examples = training_set.examples(hard)
        while block := list(islice(examples, _BLOCK)):
            chosen = [(*positives, *negatives) for _, positives, negatives in block]
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
