"""Find near-identical texts in a large collection: MinHash finds candidates, and
`blindspot.backend.judging.near_duplicates` compares them exactly.

A text's sketch holds the smallest hash of its 5-word sequences in each of 16 bins (one-permutation hashing, Li, Owen
and Zhang 2012). Two texts are compared if their sketches agree in one of eight pairs of bins. This finds 99% of the
text pairs that share 70% of their sequences, and 90% of those that share half.

Identical texts within a question are found in `facts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from blindspot.backend.checking.text_features import sequences_of
from blindspot.backend.judging.near_duplicates import near_duplicates
from blindspot.backend.text.token_arrays import token_arrays

BINS, BAND = 16, 2
BLOCK = 4000  # texts whose words are in memory together
MOST_COMPARED = 2_000_000
NEARLY_ALL = 0.9
"""Minimum share of the shorter text's word sequences that both texts contain. At 70%, articles written from the same
template would count as copies.
"""


def near_duplicate_groups(count: int, texts_of: Callable[[Sequence[int]], list[str]]) -> np.ndarray:
    """Return a group number for each of `count` texts, (count,) int64. Near-identical texts have the same number.

    Args:
        texts_of: Returns the texts in some rows; it is called for a block at a time.
    """
    sketches = np.zeros((count, BINS), np.uint64)
    for start in range(0, count, BLOCK):
        rows = range(start, min(start + BLOCK, count))
        sketches[start : rows.stop] = _sketches([text.replace("\0", " ") for text in texts_of(rows)])
    groups = np.arange(count)
    compared = 0
    for first, second in _candidates(sketches):
        a, b = _root(groups, first), _root(groups, second)
        if a == b:
            continue
        compared += 1
        if compared > MOST_COMPARED:
            break
        one, other = texts_of([first, second])
        if near_duplicates([one, other], NEARLY_ALL)[1] == 0:
            groups[max(a, b)] = min(a, b)
    return np.array([_root(groups, place) for place in range(count)], np.int64)


def _sketches(texts: list[str]) -> np.ndarray:
    arrays = token_arrays(texts)
    numbers, hashes = sequences_of(arrays, np.bincount(arrays.numbers, minlength=len(texts)))
    mixed = hashes * np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(33)
    result = np.full(len(texts) * BINS, np.iinfo(np.uint64).max)
    place = numbers * BINS + (mixed >> np.uint64(60)).astype(np.int64)
    order = np.lexsort((mixed, place))
    places, first = np.unique(place[order], return_index=True)
    result[places] = mixed[order][first]
    return result.reshape(len(texts), BINS)


def _candidates(sketches: np.ndarray) -> list[tuple[int, int]]:
    """Return candidate pairs of rows. Rows that agree in a pair of bins form a bucket; each row is paired with the
    first and with the previous row of its bucket.
    """
    empty = np.iinfo(np.uint64).max
    pairs: set[tuple[int, int]] = set()
    for start in range(0, BINS, BAND):
        band = sketches[:, start : start + BAND]
        rows = np.flatnonzero((band != empty).all(axis=1))
        key = band[rows, 0] * np.uint64(0x9E3779B97F4A7C15) ^ band[rows, 1]
        order = np.argsort(key, kind="stable")
        same = np.flatnonzero(key[order][1:] == key[order][:-1]) + 1
        begins = np.flatnonzero(np.r_[True, key[order][1:] != key[order][:-1]]) if len(order) else np.zeros(0, np.int64)
        leaders = begins[np.searchsorted(begins, same, side="right") - 1]
        for place, leader in zip(same.tolist(), leaders.tolist(), strict=True):
            now = int(rows[order[place]])
            pairs.add((int(rows[order[leader]]), now))
            pairs.add((int(rows[order[place - 1]]), now))
    return sorted(pairs)


def _root(groups: np.ndarray, place: int) -> int:
    while groups[place] != place:
        groups[place] = groups[groups[place]]
        place = int(groups[place])
    return place
