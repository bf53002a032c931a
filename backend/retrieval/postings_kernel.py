"""The inner loops of the search over postings, compiled by numba. They hold no lock, so threads run them in parallel."""

from __future__ import annotations

import numpy as np
from numba import njit

WINDOW = 4096  # documents whose sums are held at a time; their 32 KiB fit into a processor's fastest memory


@njit(nogil=True, cache=True)
def search(ends, starts, stops, weights, saturation, postings, keys):
    """Fill keys (q, k) uint64, which hold 0, with the k best passages of each question, in no order.

    A key is the bits of the score (float32, greater than 0) and then the complement of the passage row, so that the
    greater of two keys is the better hit, and the lower row wins a tie.

    Args:
        ends: (q + 1,) int64, where the terms of each question begin in the next three arrays.
        starts, stops: (terms,) int64, where the postings of each term begin and end.
        weights: (terms,) float32.
        saturation: (pairs,) float32, the frequency over the length factor.
        postings: documents (m,) int32, pairs (m,) uint16, and the passage row of each document, int32.
    """
    documents, pairs, rows = postings
    k = keys.shape[1]
    most = 0
    for question in range(len(ends) - 1):
        most = max(most, ends[question + 1] - ends[question])
    parts = np.empty((most, len(saturation)), np.float32)
    at = np.empty(most, np.int64)
    first = np.empty(most, np.int64)
    sums = np.zeros(WINDOW, np.float64)
    best = np.empty(2 * k + 64, np.uint64)
    bits, scores = _float_and_bits()
    for question in range(len(ends) - 1):
        begin, terms = ends[question], ends[question + 1] - ends[question]
        for term in range(terms):
            weight = weights[begin + term]
            for pair in range(len(saturation)):
                parts[term, pair] = weight - weight / (np.float32(1) + saturation[pair])
            at[term] = starts[begin + term]
        held, least, threshold = 0, np.uint64(0), 0.0
        for low in range(0, len(rows), WINDOW):
            high = low + WINDOW
            for term in range(terms):
                place, stop = at[term], stops[begin + term]
                first[term] = place
                part = parts[term]
                while place < stop and documents[place] < high:
                    sums[documents[place] - low] += part[pairs[place]]
                    place += 1
                at[term] = place
            for term in range(terms):
                for place in range(first[term], at[term]):
                    document = documents[place]
                    total = sums[document - low]
                    if total > threshold:
                        scores[0] = total
                        key = (np.uint64(bits[0]) << np.uint64(32)) | np.uint64(0xFFFFFFFF - rows[document])
                        if key > least:
                            best[held] = key
                            held += 1
                            if held == len(best):
                                _select(best, k)
                                held, least = k, best[k - 1]
                                bits[0] = np.uint32(least >> np.uint64(32))
                                threshold = scores[0] * (1 - 1e-7)  # below every sum that rounds to the k-th score
                    sums[document - low] = 0.0
        if held > k:
            _select(best[:held], k)
            held = k
        keys[question, :held] = best[:held]


@njit(inline="always")
def _float_and_bits():
    """Return two views of the same four bytes: as uint32 and as float32."""
    bits = np.zeros(1, np.uint32)
    return bits, bits.view(np.float32)


@njit(nogil=True, cache=True)
def _select(values, k):
    """Move the k greatest values to the front and the least of them to place k - 1 (Hoare's selection)."""
    low, high = 0, len(values) - 1
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while values[left] > pivot:
                left += 1
            while values[right] < pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if k - 1 <= right:
            high = right
        elif k - 1 >= left:
            low = left
        else:
            return
