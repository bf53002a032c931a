"""Draw a random sample of each kind of automatic decision, for people to check.

From the sample one can estimate how many removed negatives answer their question, how many kept negatives do, and how
many pseudo-positives do not. RocketQA's authors checked their data this way and found over 90% right (section 4.1.3).
Pairs that people have labelled belong to no stratum. Within a stratum every pair is drawn with the same probability, so
the share of correct pairs in the sample is an estimate for the stratum.
"""

from __future__ import annotations

import hashlib
import heapq
from typing import NamedTuple

from blindspot.backend.core.require_right import require
from blindspot.backend.core.study import Study
from blindspot.backend.judging.batches import BatchSummary
from blindspot.backend.training_sets.training_set import PROPOSED, Pair, TrainingSet
from blindspot.db.errors import BadInput, Missing

KEPT, REMOVED, PSEUDO = "negatives kept", "negatives removed", "pseudo-positives"
STRATA = (KEPT, REMOVED, PSEUDO)


class SampledPair(NamedTuple):
    """A pair to judge, with the name of its stratum."""

    question: str
    passage: str
    stratum: str


def stratum_of(pair: Pair) -> str | None:
    """Return the stratum of a pair; None for pairs that people labelled, for gold passages, and for randomly drawn
    negatives.
    """
    if pair.label is not None:
        return None
    if pair.role == "positive":
        return PSEUDO if pair.source in (*PROPOSED, "distant") else None
    if not pair.mined:
        return None
    return KEPT if pair.role == "negative" else REMOVED


def stratified_sample(study: Study, name: str, n: int, seed: int = 0) -> list[SampledPair]:
    """Draw up to `n` pairs of each stratum with `seed`, in an order that does not reveal the stratum.

    Questions stay together.

    Raises:
        Missing: no such set, or no pair of it belongs to a stratum. BadInput: n below 1.
    """
    if n < 1:
        raise BadInput("draw at least one pair of each stratum")
    lowest: dict[str, list[tuple[int, str, str]]] = {stratum: [] for stratum in STRATA}
    for _, pairs in TrainingSet.open(study, name).groups():
        for pair in pairs:
            if (stratum := stratum_of(pair)) is None:
                continue
            row = (-_pseudo_random(seed, pair.question, pair.passage), pair.question, pair.passage)
            if len(lowest[stratum]) < n:
                heapq.heappush(lowest[stratum], row)
            else:
                heapq.heappushpop(lowest[stratum], row)
    drawn = [
        SampledPair(question, passage, stratum) for stratum, rows in lowest.items() for _, question, passage in rows
    ]
    if not drawn:
        raise Missing(f"training set {name!r} has no pairs that a policy decided; people have judged all of it")
    return sorted(
        drawn,
        key=lambda each: (_pseudo_random(seed, each.question, ""), _pseudo_random(seed, each.question, each.passage)),
    )


def queue_stratified_sample(
    study: Study, name: str, training_set: str, n: int = 30, seed: int = 0, actor: str | None = None
) -> BatchSummary:
    """Queue a sample of each stratum for judging. The Quality page shows for each stratum how often the automatic
    decision was correct.

    Raises the same errors as `stratified_sample` and `blindspot.backend.judging.batches.batch_of_pairs`.
    """
    from blindspot.backend.judging.batches import batch_of_pairs

    require(study, actor, "make batches")
    drawn = stratified_sample(study, training_set, n, seed)
    pairs = [(each.question, each.passage) for each in drawn]
    return batch_of_pairs(
        study, name, pairs, origin=f"training set {training_set}", strata=[each.stratum for each in drawn], actor=actor
    )


def _pseudo_random(seed: int, question: str, passage: str) -> int:
    """Return a pseudo-random number that depends only on the pair and the seed."""
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{question}\0{passage}".encode(), digest_size=8).digest(), "big")
