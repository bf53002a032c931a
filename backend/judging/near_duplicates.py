"""Group passages with nearly the same text."""

from __future__ import annotations

from collections.abc import Sequence

from blindspot.backend.text.gold_matching import SHINGLE, lower_tokens, shingles

THRESHOLD = 0.7


def near_duplicates(texts: Sequence[str], threshold: float = THRESHOLD) -> list[int]:
    """Return a group number for each text.

    Two texts are near-duplicates if they share at least `threshold` of the shorter one's 5-token shingles. Groups are
    transitive:
    if a resembles b and b resembles c, all three are in one group. Groups are numbered from 0 in order of appearance. A
    text that is too short to have a shingle is grouped only with texts of the same words.
    """
    shingle_sets = [_shingle_set(text) for text in texts]
    group = list(range(len(texts)))
    for i, ours in enumerate(shingle_sets):
        for j in range(i):
            smaller = min(len(ours), len(shingle_sets[j]))
            if group[i] != group[j] and smaller and len(ours & shingle_sets[j]) >= threshold * smaller:
                old, new = group[i], group[j]
                group = [new if number == old else number for number in group]
    numbers: dict[int, int] = {}
    return [numbers.setdefault(number, len(numbers)) for number in group]


def _shingle_set(text: str) -> set[tuple[str, ...]]:
    words = lower_tokens(text)
    if len(words) < SHINGLE:
        return {tuple(words)} if words else set()
    return set(shingles(words))
