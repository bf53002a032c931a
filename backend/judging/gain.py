"""Choose the pairs whose labels training would gain most from: the order "gain" of a batch.

The value of a pair is the uncertainty about its label, times how often training would draw the passage as a negative,
times its diversity from the pairs chosen before it:

    entropy(p) x draws x (1 - similarity) / ((1 + pairs of its question) (1 + pairs of its relation))

`entropy` is that of the probability p that the passage answers, in bits. `draws` comes from `DrawingRules`.
`similarity` is the largest cosine between the pair's passage and a passage chosen before it: of the vectors of a dense
index, or of hashed words. The two divisors count the pairs judged or chosen before; relations therefore share the
places in proportion to their values (D'Hondt). Pairs are chosen one after another, each with the largest value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from blindspot.backend.text.counting import counted
from blindspot.backend.text.gold_matching import lower_tokens
from blindspot.db.errors import BadInput

WORD_DIMENSIONS = 512
BLOCK = 256  # pairs whose similarities are computed together
SHORTLIST = 4096  # pairs with the highest bounds; only these are looked at until another pair could be better
UNKNOWN_RELATION = -1

Vectors = Callable[[np.ndarray], np.ndarray]
"""From places of pairs (m,) int64 to the unit vectors of their passages, (m, d) float32."""


@dataclass(frozen=True, slots=True)
class DrawingRules:
    """How a training draws negatives.

    first, last: the ranks (from 1) that its training set mines. hard_negatives: hard negatives of a question in a
    batch. epochs: how often training sees each question.
    """

    first: int = 1
    last: int = 1000
    hard_negatives: int = 4
    epochs: int = 10

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last or self.hard_negatives < 1 or self.epochs < 1:
            raise BadInput(
                "the ranks, the negatives and the epochs of a training are 1 or more, and the first rank is not above "
                f"the last; not ranks {self.first} to {self.last}, {self.hard_negatives} negatives, {self.epochs} epochs"
            )

    def draws(self, ranks: np.ndarray, negatives: np.ndarray) -> np.ndarray:
        """Return how often training would draw each passage as a negative, (n,) float64.

        A training step draws `hard_negatives` of a question's negatives, each as likely as the others. A passage
        outside the mined ranks is never drawn.

        Args:
            ranks: (n,) rank of each passage.
            negatives: (n,) number of negatives that its question would have with it.
        """
        mined = (ranks >= self.first) & (ranks <= self.last)
        share = np.minimum(1.0, self.hard_negatives / np.maximum(negatives, 1))
        return np.where(mined, self.epochs * share, 0.0)


@dataclass(frozen=True)
class GainPairs:
    """Pairs to choose from, as arrays of length n.

    probability: that the passage answers. draws: see `DrawingRules.draws`. question, relation: int64 numbers from 0;
    UNKNOWN_RELATION for a question without a relation. question_judged, relation_judged: number of pairs of each
    question and of each relation that are judged already; empty arrays count as 0.
    """

    probability: np.ndarray
    draws: np.ndarray
    question: np.ndarray
    relation: np.ndarray
    question_judged: np.ndarray = field(default_factory=lambda: np.zeros(0))
    relation_judged: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.probability)


@dataclass(frozen=True, slots=True)
class PairLimits:
    """How many pairs to choose: in all, of each question, and of how many questions."""

    pairs: int
    per_question: int
    questions: int


@dataclass(frozen=True, slots=True)
class ChosenPair:
    """A chosen pair and the parts of its value when it was chosen.

    place: in the arrays of `GainPairs`. same_question, same_relation: pairs judged or chosen before it.
    """

    place: int
    probability: float
    draws: float
    similarity: float
    same_question: int
    same_relation: int

    @property
    def value(self) -> float:
        uncertainty = float(entropy(np.array([self.probability]))[0])
        shared = (1 + self.same_question) * (1 + self.same_relation)
        return uncertainty * self.draws * (1 - self.similarity) / shared

    def as_dict(self) -> dict[str, Any]:
        parts = asdict(self)
        del parts["place"]
        return {key: round(value, 4) for key, value in parts.items()}


def entropy(probability: np.ndarray) -> np.ndarray:
    """Return the entropy of yes-or-no labels in bits, 0 to 1. probability: (n,) from 0 to 1."""
    p = np.clip(np.asarray(probability, np.float64), 1e-12, 1 - 1e-12)
    return -(p * np.log2(p) + (1 - p) * np.log2(1 - p))


def choose_pairs(pairs: GainPairs, limits: PairLimits, vectors: Vectors, seed: int = 0) -> list[ChosenPair]:
    """Choose pairs one after another, each with the largest value given those before it. `seed` decides ties.

    The similarity of a pair can only grow while others are chosen. So a value computed with an older similarity is an
    upper bound, and only the pairs with the highest bounds are compared with the passages chosen since (the lazy form
    of greedy selection, Minoux 1978). The result is that of comparing all pairs.
    """
    selection = _Selection(pairs, np.random.default_rng(seed).permutation(len(pairs)), limits)
    chosen: list[ChosenPair] = []
    shortlist, highest_other, is_new = *selection.shortlist(), True
    while len(chosen) < limits.pairs and len(shortlist):
        bounds = selection.bounds(shortlist)
        best = int(np.argmax(bounds))
        if not is_new and bounds[best] <= highest_other:
            shortlist, highest_other, is_new = *selection.shortlist(), True
            continue
        if bounds[best] <= 0:  # training would draw no other pair
            break
        if selection.compared[shortlist[best]] < len(chosen):
            selection.compare(shortlist, bounds, vectors)
        else:
            chosen.append(selection.take(int(shortlist[best]), vectors))
        is_new = False
    return chosen


def draw_pairs(
    questions: Sequence[str], probabilities: Sequence[float], limits: PairLimits, random: np.random.Generator
) -> list[ChosenPair]:
    """Draw pairs uniformly, within the limits. questions: the question id of each pair."""
    taken: Counter[str] = Counter()
    chosen: list[ChosenPair] = []
    for place in random.permutation(len(questions)).tolist():
        question = questions[place]
        if len(chosen) == limits.pairs:
            break
        if taken[question] < limits.per_question and (question in taken or len(taken) < limits.questions):
            taken[question] += 1
            chosen.append(ChosenPair(place, probabilities[place], 0.0, 0.0, 0, 0))
    return chosen


class _Selection:
    """The state of a selection. All arrays are in the order that decides ties."""

    def __init__(self, pairs: GainPairs, order: np.ndarray, limits: PairLimits):
        self.order, self.limits = order, limits
        self.probability, self.draws = pairs.probability[order], pairs.draws[order]
        self.question = pairs.question[order]
        # Pairs without a relation share a number that is never counted.
        known = int(pairs.relation.max(initial=UNKNOWN_RELATION)) + 1
        self.relation = np.where(pairs.relation[order] == UNKNOWN_RELATION, known, pairs.relation[order])
        self.no_relation = known
        self.of_question = _counts(pairs.question_judged, int(pairs.question.max(initial=-1)) + 1)
        self.of_relation = _counts(pairs.relation_judged, known + 1)
        self.value = entropy(self.probability) * self.draws
        self.similarity = np.zeros(len(order))
        self.compared = np.zeros(len(order), np.int64)
        self.free = np.ones(len(order), bool)
        self.chosen_of_question = np.zeros(len(self.of_question), np.int64)
        self.chosen_vectors: list[np.ndarray] = []

    def shortlist(self) -> tuple[np.ndarray, float]:
        """Return the pairs with the highest bounds, in the order that decides ties, and the highest bound of the
        others.
        """
        bounds = self.bounds(np.arange(len(self.order)))
        if len(bounds) <= SHORTLIST:
            return np.arange(len(bounds)), -np.inf
        by_bound = np.argsort(-bounds, kind="stable")
        return np.sort(by_bound[:SHORTLIST]), float(bounds[by_bound[SHORTLIST]])

    def bounds(self, rows: np.ndarray) -> np.ndarray:
        """Return an upper bound of the value of some pairs; -1 for those that can no longer be chosen."""
        shared = (1 + self.of_question[self.question[rows]]) * (1 + self.of_relation[self.relation[rows]])
        return np.where(self.free[rows], self.value[rows] * (1 - self.similarity[rows]) / shared, -1.0)

    def compare(self, rows: np.ndarray, bounds: np.ndarray, vectors: Vectors) -> None:
        """Compare the pairs with the highest bounds with the passages chosen since their last comparison."""
        count = min(BLOCK, len(rows))
        block = rows[np.argpartition(-bounds, count - 1)[:count]]
        block = block[self.free[block] & (self.compared[block] < len(self.chosen_vectors))]
        since = int(self.compared[block].min())
        cosines = vectors(self.order[block]) @ np.stack(self.chosen_vectors[since:]).T
        self.similarity[block] = np.maximum(self.similarity[block], np.clip(cosines.max(axis=1), 0, 1))
        self.compared[block] = len(self.chosen_vectors)

    def take(self, best: int, vectors: Vectors) -> ChosenPair:
        question, relation = int(self.question[best]), int(self.relation[best])
        chosen = ChosenPair(
            int(self.order[best]),
            float(self.probability[best]),
            float(self.draws[best]),
            float(self.similarity[best]),
            int(self.of_question[question]),
            int(self.of_relation[relation]),
        )
        self.chosen_vectors.append(vectors(self.order[[best]])[0])
        self.of_question[question] += 1
        self.of_relation[relation] += relation != self.no_relation
        self.chosen_of_question[question] += 1
        self.free[best] = False
        if self.chosen_of_question[question] >= self.limits.per_question:
            self.free &= self.question != question
        if np.count_nonzero(self.chosen_of_question) >= self.limits.questions:
            self.free &= self.chosen_of_question[self.question] > 0
        return chosen


def _counts(judged: np.ndarray, size: int) -> np.ndarray:
    counts = np.zeros(size)
    counts[: min(size, len(judged))] = judged[:size]
    return counts


def word_vectors(texts: Sequence[str]) -> np.ndarray:
    """Return unit vectors (m, WORD_DIMENSIONS) float32 of the sets of words of some texts, by hashing."""
    from zlib import crc32

    vectors = np.zeros((len(texts), WORD_DIMENSIONS), np.float32)
    for row, text in enumerate(texts):
        vectors[row, [crc32(word.encode()) % WORD_DIMENSIONS for word in set(lower_tokens(text))]] = 1
    return unit(vectors)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return vectors (m, d) float32 of length 1; a zero vector stays zero."""
    vectors = np.asarray(vectors, np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


def reason(parts: dict[str, Any]) -> str:
    """Say why a pair was chosen, from `ChosenPair.as_dict`."""
    before = parts["same_question"] + parts["same_relation"]
    shared = (
        f"{counted(int(parts['same_question']), 'pair')} of its question and "
        f"{parts['same_relation']:,.0f} of its relation came before it"
        if before
        else "no pair of its question or relation came before it"
    )
    return (
        f"It answers with a probability of {parts['probability']:.0%}; training would draw it as a negative "
        f"{parts['draws']:.1f} times; its similarity to the passages chosen before is at most "
        f"{parts['similarity']:.2f}; {shared}."
    )


def reasons(settings: Mapping[str, Any], question: str | None = None) -> list[tuple[str, str, str]]:
    """Return (question id, passage id, sentence) of the pairs that a batch chose by gain, from the batch's settings.

    Empty for a batch in another order. Annotators must not read the sentences before they judge: they tell what a
    machine thinks.
    """
    return [
        (asked, passage, reason(parts))
        for asked, passage, parts in settings.get("why", ())
        if question in (None, asked)
    ]
