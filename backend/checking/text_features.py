"""Compute word-overlap features of questions and passages for thousands of rows at once.

A group is a question with the passages of its consecutive rows. Each distinct passage of a group is tokenised once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from blindspot.backend.text.gold_matching import SHINGLE, containment, lower_tokens
from blindspot.backend.text.token_arrays import TokenArrays, token_arrays

_TABLE = 1 << 20
_BITS = 1 << 24
NEAR = 0.6  # from this share on, texts are compared themselves
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class GroupedTexts:
    """The questions and distinct passages of some groups.

    Attributes:
        questions: One text for each group. texts: Passages. No text contains NUL. group: (texts,) int64, ascending. positive: (texts,) bool.
    """

    questions: Sequence[str]
    texts: Sequence[str]
    group: np.ndarray
    positive: np.ndarray


@dataclass(frozen=True)
class TextFeatures:
    """The features of each passage of a block. The fields are those of
    `blindspot.backend.checking.pairs.PassageOccurrences`.
    """

    overlap: np.ndarray
    shared: np.ndarray
    similar: np.ndarray
    empty: np.ndarray


@dataclass
class WordCounts:
    """Document frequencies of words, counted by a hash of the word over the blocks read so far."""

    counts: np.ndarray = field(default_factory=lambda: np.zeros(_TABLE, np.int64))
    passages: int = 0

    def add(self, words: np.ndarray, passages: int) -> None:
        self.counts += np.bincount(_cell(words, _TABLE), minlength=_TABLE)
        self.passages += passages

    def weights(self, words: np.ndarray) -> np.ndarray:
        """Return the approximate inverse document frequency of each word."""
        result: np.ndarray = np.log1p(self.passages / (0.5 + self.counts[_cell(words, _TABLE)]))
        return result


def text_features(block: GroupedTexts, counts: WordCounts) -> TextFeatures:
    """Compare the passages of each group with its question and its positives.

    Words and word sequences are looked up by hash in a table of bits, which mistakes a few percent of them for others.
    Shares that decide anything, as for near-identical texts, are computed from the texts themselves.
    """
    number = len(block.texts)
    arrays = token_arrays(block.texts)
    lengths = np.bincount(arrays.numbers, minlength=number)
    counts.add(arrays.hashes, number)
    groups = block.group[arrays.numbers]
    return TextFeatures(
        _overlap(block, arrays, counts),
        _shared(block, _mix_hashes(arrays.hashes, groups), arrays.numbers, lengths),
        _similar(block, arrays, lengths, groups),
        lengths == 0,
    )


def _overlap(block: GroupedTexts, arrays: TokenArrays, counts: WordCounts) -> np.ndarray:
    """Return for each negative the share of its question's words that it contains, weighted by inverse document
    frequency.
    """
    asked = token_arrays(block.questions)
    _, first = np.unique(_mix_hashes(asked.hashes, asked.numbers), return_index=True)
    first.sort()
    groups, words = asked.numbers[first], asked.hashes[first]
    weights = counts.weights(words)
    inside = np.zeros(_BITS, bool)
    inside[_cell(_mix_hashes(arrays.hashes, arrays.numbers), _BITS)] = True
    # Each passage with each word of its question.
    begins = np.searchsorted(groups, np.arange(len(block.questions) + 1))
    sizes = np.diff(begins)[block.group]
    texts = np.repeat(np.arange(len(block.texts)), sizes)
    offsets = np.arange(len(texts)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    place = begins[block.group][texts] + offsets
    has = inside[_cell(_mix_hashes(words[place], texts), _BITS)]
    found = np.bincount(texts, weights[place] * has, minlength=len(block.texts))
    whole = np.bincount(groups, weights, minlength=len(block.questions))[block.group]
    overlap = np.divide(found, whole, out=np.zeros(len(found)), where=whole > 0)
    overlap[block.positive] = 0
    return overlap.astype(np.float32)


def _shared(block: GroupedTexts, keys: np.ndarray, texts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return for each negative the share of its items (words or sequences) that a positive of its group contains. keys,
    texts: the hash and the text number of each item.
    """
    common = _common(block, keys, texts)
    share = np.divide(common, sizes, out=np.zeros(len(sizes)), where=sizes > 0)
    share[block.positive] = 0
    return share.astype(np.float32)


def _common(block: GroupedTexts, keys: np.ndarray, texts: np.ndarray) -> np.ndarray:
    cells = _cell(keys, _BITS)
    inside = np.zeros(_BITS, bool)
    inside[cells[block.positive[texts]]] = True
    return np.bincount(texts[inside[cells]], minlength=len(block.texts))


def _similar(block: GroupedTexts, arrays: TokenArrays, lengths: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return for each negative its largest overlap with a positive: the share of the shorter text's 5-word sequences
    that both contain.

    Shares of at least `NEAR` are exact. Smaller values are the share found in all positives of the group together.
    """
    texts, sequences = sequences_of(arrays, lengths)
    sizes = np.bincount(texts, minlength=len(block.texts))
    shortest = np.full(len(block.questions), np.iinfo(np.int64).max)
    np.minimum.at(shortest, block.group[block.positive], sizes[block.positive])
    common = _common(block, _mix_hashes(sequences, block.group[texts]), texts)
    smaller = np.minimum(sizes, shortest[block.group])
    share = np.divide(common, smaller, out=np.zeros(len(sizes)), where=smaller > 0)
    share[block.positive] = 0
    share = np.minimum(share, 1)
    for place in np.flatnonzero(share >= NEAR).tolist():
        first, last = np.searchsorted(block.group, [block.group[place], block.group[place] + 1])
        positives = [other for other in range(first, last) if block.positive[other]]
        mine = lower_tokens(block.texts[place])
        share[place] = max(_containment(mine, lower_tokens(block.texts[other])) for other in positives)
    return share.astype(np.float32)


def _containment(a: Sequence[str], b: Sequence[str]) -> float:
    if min(len(a), len(b)) < SHINGLE:
        return float(a == b and len(a) > 0)
    return containment(a, b)


def sequences_of(arrays: TokenArrays, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all sequences of `SHINGLE` words: the number of the text and the hash of each sequence, both (n,).

    A text with fewer words is one sequence.
    """
    numbers, hashes = arrays.numbers, arrays.hashes
    rolled = hashes.copy()
    for shift in range(1, SHINGLE):
        rolled *= _ODD
        rolled[:-shift] += hashes[shift:]
    after = np.arange(len(numbers)) - (np.cumsum(lengths) - lengths)[numbers]
    whole = after + SHINGLE <= lengths[numbers]
    short = np.flatnonzero((lengths > 0) & (lengths < SHINGLE))
    first = (np.cumsum(lengths) - lengths)[short]
    only = np.array(
        [int(np.bitwise_xor.reduce(hashes[at : at + lengths[text]])) for at, text in zip(first, short, strict=True)],
        np.uint64,
    )
    return np.concatenate([numbers[whole], short]), np.concatenate([rolled[whole], only])


def _cell(keys: np.ndarray, size: int) -> np.ndarray:
    """Return the index of each hash in a table, taken from the high bits of a product because they are mixed best."""
    shift = np.uint64(64 - size.bit_length() + 1)
    result: np.ndarray = ((keys * _ODD) >> shift).astype(np.int64)
    return result


def _mix_hashes(hashes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    mixed = (hashes ^ (numbers.astype(np.uint64) + np.uint64(1)) * _ODD) * np.uint64(0xBF58476D1CE4E5B9)
    result: np.ndarray = mixed ^ (mixed >> np.uint64(29))
    return result
