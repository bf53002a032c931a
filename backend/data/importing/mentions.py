"""Count the passages that mention each entity: its tokens, as in DPR and in lower case, are consecutive in the title or
text.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable

from backend.progress import Progress
from backend.text.answers import joined, nfd
from db.corpus import Row

_BETWEEN = "\n"  # no token is a line end, so no match spans title and text


class MentionCounter:
    """Counts passages by entity in one pass over the passages. Memory grows only with the number of entities.

    An entity is found by its first two tokens and then compared completely, so the cost of a passage is one look-up per
    token for any number of entities. Entities that differ only in case or Unicode form share a count; an entity without
    tokens has count 0.
    """

    def __init__(self, entities: Iterable[str]):
        self._keys = {entity: " ".join(_tokens(entity)) for entity in entities}
        self._counts: Counter[str] = Counter()
        self._whole = set(self._keys.values()) - {""}
        self._starts: dict[str, dict[str | None, set[int]]] = defaultdict(lambda: defaultdict(set))
        for key in self._whole:
            tokens = key.split(" ")
            self._starts[tokens[0]][tokens[1] if len(tokens) > 1 else None].add(len(tokens))
        self._starts = {first: dict(seconds) for first, seconds in self._starts.items()}

    def add(self, rows: Iterable[Row]) -> None:
        """Count the entities of some passages (id, title, text)."""
        for row in rows:
            self._counts.update(self.mentioned(row))

    def mentioned(self, row: Row) -> set[str]:
        """Return the keys of the entities that a passage mentions."""
        _, title, text = row
        return self._subjects_in([*_tokens(title), _BETWEEN, *_tokens(text)])

    def counts(self) -> dict[str, int]:
        """Return the number of passages by entity."""
        return {entity: self._counts[key] for entity, key in self._keys.items()}

    def _subjects_in(self, tokens: list[str]) -> set[str]:
        starts, whole, subjects = self._starts, self._whole, set()
        for at in [at for at, token in enumerate(tokens) if token in starts]:
            seconds = starts[tokens[at]]
            if None in seconds:
                subjects.add(tokens[at])
            for length in seconds.get(tokens[at + 1], ()) if at + 1 < len(tokens) else ():
                candidate = " ".join(tokens[at : at + length])
                if candidate in whole:
                    subjects.add(candidate)
        return subjects


def count_mentions(
    entities: Iterable[str],
    blocks: Iterable[list[Row]],
    total: int | None = None,
    progress: Progress | None = None,
) -> dict[str, int]:
    """Count the passages that mention each entity. `total` is the number of passages, for progress reports."""
    counter, done, last = MentionCounter(entities), 0, 0.0
    for rows in blocks:
        if progress and time.monotonic() - last > 0.3:
            progress(done, total, "counting mentions")
            last = time.monotonic()
        counter.add(rows)
        done += len(rows)
    if progress:
        progress(done, total, "counting mentions")
    return counter.counts()


def _tokens(text: str) -> list[str]:
    return joined(nfd(text)).split()
