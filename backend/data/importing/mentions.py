"""Count the passages that mention each entity. A passage mentions an entity if the entity's lower-case tokens (DPR's
tokenizer) occur consecutively in the title or in the text.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from blindspot.backend.data.importing.tools import ThrottledProgress
from blindspot.backend.progress import Progress
from blindspot.backend.text.answers import nfd, spaced_tokens
from blindspot.backend.text.token_arrays import TokenArrays, token_arrays
from blindspot.db.corpus import Row

CHARACTERS = 1 << 19  # of the passages that are tokenised together; limits the memory of long passages
_FACTOR = np.uint64(0xD6E8FEB86659FD93)  # odd; the hash of consecutive tokens is a polynomial in it, modulo 2**64
_SLOTS_PER_HASH = 64  # of a HashFilter; one in so many other hashes needs a search
_MOST_SLOTS = 1 << 24


class HashFilter:
    """Finds the positions in an array of hashes whose hash is in a given set."""

    def __init__(self, hashes: np.ndarray):
        slots = min(1 << (_SLOTS_PER_HASH * max(len(hashes), 1) - 1).bit_length(), _MOST_SLOTS)
        self._shift = np.uint64(64 - (slots.bit_length() - 1))
        self._slots = np.zeros(slots, bool)
        self._slots[hashes >> self._shift] = True
        self._sorted = np.unique(hashes)

    def positions_of_wanted(self, hashes: np.ndarray) -> np.ndarray:
        """Return the positions of the wanted hashes, in order. A table of slots rules out most hashes without a binary
        search.
        """
        places = np.flatnonzero(self._slots[hashes >> self._shift])
        found = hashes[places]
        at = np.searchsorted(self._sorted, found)
        return places[self._sorted[np.minimum(at, len(self._sorted) - 1)] == found] if len(found) else places


class MentionCounter:
    """Counts passages by entity in one pass over the passages. Memory grows only with the number of entities.

    Hashes of two consecutive tokens show where an entity may begin. At these positions, hashes of longer token
    sequences (one for each length that entities have) show which entities are possible, and only then are the tokens
    compared. The cost of a passage therefore hardly depends on the number of entities. Entities that differ only in
    case or Unicode form share a count; an entity without tokens has count 0.
    """

    def __init__(self, entities: Iterable[str]):
        self._keys = {entity: " ".join(spaced_tokens(nfd(entity)).split()) for entity in entities}
        self._counts: Counter[str] = Counter()
        self._whole = set(self._keys.values()) - {""}
        by_length: dict[int, list[str]] = defaultdict(list)
        for key in self._whole:
            by_length[key.count(" ") + 1].append(key)
        self._filters: dict[int, HashFilter] = {}  # by the number of tokens
        pairs = [np.empty(0, np.uint64)]
        for length, keys in sorted(by_length.items()):
            hashes, firsts = token_arrays(keys).hashes, np.arange(0, length * len(keys), length)
            self._filters[length] = HashFilter(_sequence_hashes(hashes, firsts, length))
            if length > 1:
                pairs.append(_sequence_hashes(hashes, firsts, 2))
        self._beginnings = HashFilter(np.concatenate(pairs))

    def add(self, rows: Sequence[Row]) -> None:
        """Count the entities of some passages (id, title, text)."""
        for keys in self.mentioned_entities(rows):
            self._counts.update(keys)

    def add_blocks(
        self, blocks: Iterable[list[Row]], total: int | None, report: ThrottledProgress, activity: str
    ) -> None:
        """Count the entities of a whole collection, a block of passages at a time."""
        done = 0
        for rows in blocks:
            report(done, total, activity)
            self.add(rows)
            done += len(rows)
        report.report_now(done, total, activity)

    def mentioned_entities(self, rows: Sequence[Row]) -> list[set[str]]:
        """Return for each passage the keys of the entities that it mentions."""
        mentioned_names: list[set[str]] = [set() for _ in rows]
        for places in _row_groups(rows):
            tokens = token_arrays([field for place in places for field in rows[place][1:]])
            for passage, key in self._mentions(tokens):
                mentioned_names[places[passage]].add(key)
        return mentioned_names

    def counts(self) -> dict[str, int]:
        """Return the number of passages by entity."""
        return {entity: self._counts[key] for entity, key in self._keys.items()}

    def _mentions(self, tokens: TokenArrays) -> Iterator[tuple[int, str]]:
        """Yield (passage, key) of every mention. Title and text of passage i are the separate texts 2i and 2i + 1, so
        no mention spans both.
        """
        hashes, numbers = tokens.hashes, tokens.numbers
        every = np.arange(len(tokens))
        beginnings = self._beginnings.positions_of_wanted(_sequence_hashes(hashes, every[:-1], 2))
        for length, wanted in self._filters.items():
            firsts = every if length == 1 else beginnings[: np.searchsorted(beginnings, len(tokens) - length + 1)]
            firsts = firsts[numbers[firsts] == numbers[firsts + length - 1]]
            firsts = firsts[wanted.positions_of_wanted(_sequence_hashes(hashes, firsts, length))]
            for first, passage in zip(firsts.tolist(), (numbers[firsts] // 2).tolist(), strict=True):
                if (candidate := tokens.joined_tokens(first, first + length)) in self._whole:
                    yield passage, candidate


def _sequence_hashes(hashes: np.ndarray, first_tokens: np.ndarray, length: int) -> np.ndarray:
    """Return the hash of the `length` consecutive tokens that start at each position in `first_tokens`, (m,) uint64."""
    combined = hashes[first_tokens]
    for place in range(1, length):
        combined = combined * _FACTOR + hashes[first_tokens + place]
    return combined


def count_mentions(
    entities: Iterable[str],
    blocks: Iterable[list[Row]],
    total: int | None = None,
    progress: Progress | None = None,
) -> dict[str, int]:
    """Count the passages that mention each entity. `total` is the number of passages, for progress reports."""
    counter = MentionCounter(entities)
    counter.add_blocks(blocks, total, ThrottledProgress(progress), "counting mentions")
    return counter.counts()


def _row_groups(rows: Sequence[Row]) -> Iterator[list[int]]:
    """Yield the row numbers of the passages in groups of a limited number of characters. ASCII passages form separate
    groups, because they take a quarter of the time.
    """
    portions: dict[bool, list[int]] = {True: [], False: []}
    sizes = {True: 0, False: 0}
    for place, (_, title, text) in enumerate(rows):
        is_ascii = title.isascii() and text.isascii()
        portions[is_ascii].append(place)
        sizes[is_ascii] += len(title) + len(text)
        if sizes[is_ascii] >= CHARACTERS:
            yield portions[is_ascii]
            portions[is_ascii], sizes[is_ascii] = [], 0
    yield from filter(None, portions.values())
