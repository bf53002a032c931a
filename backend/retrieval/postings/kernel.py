"""The inner loops of the search over postings, compiled by numba. They release Python's global lock, so threads run
them in parallel.

The search uses the MaxScore algorithm over windows of documents. The terms of a question are sorted in ascending order
of the maximum that they can add to a score. Once k hits are known, a passage that contains only the first (low-scoring)
terms cannot be among the best. Therefore only the postings of the other ("essential") terms are added up, and the first
terms are looked up only for the few passages whose sum is close enough to the k-th score.
"""

from __future__ import annotations

import numpy as np
from numba import njit

WINDOW = 4096  # documents whose sums are held at a time; their 32 KiB fit into a processor's fastest memory
BELOW = 1 - 1e-7  # times a float32 score: below every float64 that rounds to the score
LOOK_UP_COST = 32  # a posting that is looked up costs as much as so many that are added up


@njit(nogil=True, cache=True)
def saturation_bounds(terms, offsets, pairs, descending, saturation, k, bounds):
    """Compute the bounds (v, 2) float32 of those terms (int64) whose bounds are still negative: the highest saturation
    among a term's postings, and the k-th highest (0 for a term with fewer than k postings).

    Args:
        descending: (pairs,) int64, the pairs in descending order of their saturation.
    """
    counts = np.zeros(len(saturation), np.int64)
    for term in terms:
        if bounds[term, 0] >= 0:
            continue
        counts[:] = 0
        for place in range(np.uint64(offsets[term]), np.uint64(offsets[term + 1])):
            counts[pairs[place]] += 1
        bounds[term, 0] = bounds[term, 1] = 0
        passed = 0
        for pair in descending:
            if counts[pair] and not passed:
                bounds[term, 0] = saturation[pair]
            passed += counts[pair]
            if passed >= k:
                bounds[term, 1] = saturation[pair]
                break


@njit(nogil=True, cache=True)
def search(ends, ranges, weights, bounds, saturation, postings, keys):
    """Fill `keys` (q, k) uint64, which must be 0 at the start, with the k best passages of each question, in no order.

    A key consists of the bits of the score (float32, greater than 0) followed by the complement of the passage row. The
    larger of two keys is therefore the better hit, and of two hits with equal scores the one with the lower row.

    Args:
        ends: (q + 1,) int64, where the terms of each question begin in the next three arrays.
        ranges: (terms, 2) uint64, where the postings of each term begin and end.
        weights: (terms,) float32.
        bounds: (terms, 2) float32, of `saturation_bounds`. A question's terms ascend by the most that each can add.
        saturation: (pairs,) float32, the frequency over the length factor.
        postings: documents (m,) uint32, pairs (m,) uint16, and the passage row of each document, int32.
    """
    rows, k = postings[2], keys.shape[1]
    most = 0
    for question in range(len(ends) - 1):
        most = max(most, ends[question + 1] - ends[question])
    parts = np.empty((most, len(saturation)), np.float32)  # of each term, by pair
    cursors = np.empty((most, 3), np.uint64)  # of each term: the first posting of the window, the next, the end
    reach = np.zeros(most + 1, np.float64)  # the most that the first so many terms add together
    sums, candidates, totals = np.zeros(WINDOW), np.empty(WINDOW, np.uint64), np.empty(WINDOW)
    window = sums, candidates, totals, np.zeros(1, np.uint32)
    best = np.empty(2 * k + 64, np.uint64)
    for question in range(len(ends) - 1):
        begin, end = ends[question], ends[question + 1]
        terms, held = end - begin, 0
        cursors[:terms, 1:] = ranges[begin:end]
        threshold = _start_question(weights[begin:end], bounds[begin:end], saturation, parts, reach)
        essential = _first_essential(reach, 0, terms, threshold)
        for low in range(np.uint64(0), np.uint64(len(rows)), np.uint64(WINDOW)):
            if essential == terms:
                break
            _add_postings(postings, parts[essential:terms], cursors[essential:terms], low, sums)
            found = _collect_candidates(postings, cursors[essential:terms], low, window, threshold - reach[essential])
            for term in range(essential - 1, -1, -1):
                if found == 0:
                    break
                found = _add_term(postings, parts[term], cursors[term], low, window, found, threshold - reach[term + 1])
            if found:
                held, threshold = _add_candidate_keys(rows, low, window, found, best, k, held, threshold)
                essential = _first_essential(reach, essential, terms, threshold)
        if held > k:
            _select_best(best[:held], k)
            held = k
        keys[question, :held] = best[:held]


@njit(nogil=True, cache=True)
def _start_question(weights, bounds, saturation, contributions, cumulative_maxima):
    """Compute the score contributions ("parts") of a question's terms and the cumulative maxima of these ("reach").
    Return a lower bound on the k-th best score.
    """
    one, floor = np.float32(1), np.float32(0)
    for term in range(len(weights)):
        weight, part = weights[term], contributions[term]
        for pair in range(len(saturation)):
            part[pair] = weight - weight / (one + saturation[pair])
        cumulative_maxima[term + 1] = cumulative_maxima[term] + (weight - weight / (one + bounds[term, 0]))
        floor = max(floor, weight - weight / (one + bounds[term, 1]))  # k passages have at least this part
    return floor * BELOW


@njit(nogil=True, cache=True)
def _first_essential(cumulative_maxima, essential, terms, threshold):
    """Return the first essential term: a passage that contains only terms before it cannot exceed the threshold."""
    while essential < terms and cumulative_maxima[essential + 1] <= threshold:
        essential += 1
    return essential


@njit(nogil=True, cache=True)
def _add_postings(postings, contributions, cursors, first_document, sums):
    """Add the contributions of all postings in the window that begins with document `first_document` to the window's
    sums.
    """
    documents, pairs = postings[0], postings[1]
    high = first_document + np.uint64(WINDOW)
    for term in range(len(contributions)):
        place, stop, part = cursors[term, 1], cursors[term, 2], contributions[term]
        cursors[term, 0] = place
        while place < stop and documents[place] < high:
            sums[documents[place] - first_document] += part[pairs[place]]
            place += np.uint64(1)
        cursors[term, 1] = place


@njit(nogil=True, cache=True)
def _collect_candidates(postings, cursors, first_document, window, minimum_sum):
    """Collect the documents whose sum is above `minimum_sum` as candidates, reset all sums to 0, and return the number of
    candidates.
    """
    documents = postings[0]
    sums, candidates, totals, _ = window
    found = 0
    for term in range(len(cursors)):
        for place in range(cursors[term, 0], cursors[term, 1]):
            inside = documents[place] - first_document
            total = sums[inside]
            sums[inside] = 0.0
            if total > minimum_sum and total > 0.0:
                candidates[found], totals[found] = inside, total
                found += 1
    return found


@njit(nogil=True, cache=True)
def _add_candidate_keys(rows, first_document, window, found, best, k, key_count, threshold):
    """Add the keys of the candidates above the threshold to `best`. Return the number of keys in `best`, and the new
    threshold.
    """
    _, candidates, totals, bits = window
    score = bits.view(np.float32)
    for candidate in range(found):
        if totals[candidate] > threshold:
            score[0] = totals[candidate]
            row = np.uint64(0xFFFFFFFF - rows[candidates[candidate] + first_document])
            best[key_count] = (np.uint64(bits[0]) << np.uint64(32)) | row
            key_count += 1
            if key_count == len(best):
                _select_best(best, k)
                key_count = k
                bits[0] = np.uint32(best[k - 1] >> np.uint64(32))
                threshold = max(threshold, score[0] * BELOW)
    return key_count, threshold


@njit(nogil=True, cache=True)
def _first_position_from(documents, start, stop, low):
    """Return the first position whose document number is at least `low`, found by exponential search and then binary
    search.
    """
    step = np.uint64(1)
    while start + step < stop and documents[start + step] < low:
        start += step
        step <<= np.uint64(1)
    end = min(start + step + np.uint64(1), stop)
    while start < end:
        middle = (start + end) >> np.uint64(1)
        if documents[middle] < low:
            start = middle + np.uint64(1)
        else:
            end = middle
    return start


@njit(nogil=True, cache=True)
def _add_term(postings, contribution, cursor, first_document, window, found, minimum_sum):
    """Drop the candidates whose total is not above `minimum_sum`, because this term and the terms before it cannot add enough.
    Add the term's contributions to the totals of the other candidates, and return the number of these.
    """
    documents, pairs = postings[0], postings[1]
    sums, candidates, totals, _ = window
    kept = 0
    for candidate in range(found):
        if totals[candidate] > minimum_sum:
            candidates[kept], totals[kept] = candidates[candidate], totals[candidate]
            kept += 1
    place = _first_position_from(documents, cursor[1], cursor[2], first_document)
    end = _first_position_from(documents, place, cursor[2], first_document + np.uint64(WINDOW))
    cursor[1] = place
    if np.uint64(kept * LOOK_UP_COST) < end - place:
        for candidate in range(kept):
            document = candidates[candidate] + first_document
            at = _first_position_from(documents, place, end, document)
            if at < end and documents[at] == document:
                totals[candidate] += contribution[pairs[at]]
        return kept
    for candidate in range(kept):
        sums[candidates[candidate]] = totals[candidate]
    for at in range(place, end):
        inside = documents[at] - first_document
        if sums[inside] > 0.0:
            sums[inside] += contribution[pairs[at]]
    for candidate in range(kept):
        totals[candidate] = sums[candidates[candidate]]
        sums[candidates[candidate]] = 0.0
    return kept


@njit(nogil=True, cache=True)
def find_terms(texts, offsets, wanted_terms, starts, positions):
    """Fill `positions` (t,) int64 with the position of each requested term among the index's sorted terms, or -1.

    Args:
        texts, offsets: the terms of the index, one after another in UTF-8, and where each begins (v + 1,).
        wanted_terms, starts: the same of the terms to find.
    """
    for term in range(len(starts) - 1):
        wanted = wanted_terms[starts[term] : starts[term + 1]]
        low, high = 0, len(offsets) - 1
        while low < high:
            middle = (low + high) // 2
            if _text_precedes(texts[offsets[middle] : offsets[middle + 1]], wanted):
                low = middle + 1
            else:
                high = middle
        positions[term] = -1
        if low < len(offsets) - 1 and _texts_equal(texts[offsets[low] : offsets[low + 1]], wanted):
            positions[term] = low


@njit(nogil=True, cache=True)
def _texts_equal(text, other_text):
    return (
        len(text) == len(other_text) and not _text_precedes(text, other_text) and not _text_precedes(other_text, text)
    )


@njit(nogil=True, cache=True)
def _text_precedes(text, other_text):
    """Return whether a text sorts before another by their bytes."""
    for place in range(min(len(text), len(other_text))):
        if text[place] != other_text[place]:
            return text[place] < other_text[place]
    return len(text) < len(other_text)


@njit(nogil=True, cache=True)
def _select_best(values, k):
    """Move the k largest values to the front, with the smallest of them at position k - 1 (Hoare's quickselect)."""
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
