"""Passages that say the same in nearly the same words."""

from __future__ import annotations

from collections.abc import Sequence

from backend.text.gold_matching import SHINGLE, lower_tokens

THRESHOLD = 0.7


def near_duplicates(texts: Sequence[str], threshold: float = THRESHOLD) -> list[int]:
    """A group number for each text: those that share `threshold` of the shorter one's 5-token shingles are of one group.

    Likeness is handed on: where a is like b and b like c, all three are of one group. Groups are numbered from 0 as they come.
    A text too short to have a shingle is grouped only with the same words.
    """
    shingles = [_shingles(text) for text in texts]
    group = list(range(len(texts)))
    for i, ours in enumerate(shingles):
        for j in range(i):
            least = min(len(ours), len(shingles[j]))
            if group[i] != group[j] and least and len(ours & shingles[j]) >= threshold * least:
                old, new = group[i], group[j]
                group = [new if each == old else each for each in group]
    numbers: dict[int, int] = {}
    return [numbers.setdefault(each, len(numbers)) for each in group]


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = lower_tokens(text)
    if len(words) < SHINGLE:
        return {tuple(words)} if words else set()
    return set(zip(*(words[start:] for start in range(SHINGLE)), strict=False))
