"""Draw samples by a seed. For the same seed, a larger sample contains every smaller one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def nested_sample(ids: Sequence[str], limit: int | None, seed: int) -> list[str]:
    """Return at most `limit` of the ids in their given order; None returns all.

    Each id is ranked by a hash of seed and id, so the sample depends neither on the order nor on the number of the
    other ids.
    """
    if limit is None or limit >= len(ids):
        return list(ids)
    chosen = set(sorted(ids, key=lambda id: text_key(f"{seed}\0{id}"))[:limit])
    return [id for id in ids if id in chosen]


def text_key(text: str) -> bytes:
    """Return a 12-byte BLAKE2b digest of a text: a compact key for sets of millions of texts."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()
