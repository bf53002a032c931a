"""The pairs of many questions as arrays, where a policy looks at nothing but the answer match.

A set has a hundred pairs for each question. Arrays hold them in a tenth of the time that a `Pair` for each takes. The rows are those
that `assemble` gives for a question without labels: the same pairs, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from blindspot.backend.training_sets.denoising import DISTANT, GOLD, DenoisingPolicy, PassageEvidence, Thresholds
from blindspot.backend.training_sets.training_set import ROLES, SOURCES, schema

if TYPE_CHECKING:
    import pyarrow

    from blindspot.backend.training_sets.mining import MinedPassages, NegativeCandidate

PassageIds = Callable[[Collection[int]], Mapping[int, str]]
NO_RANK = 1 << 30
"""Sorts passages that no run mined behind the others."""
UNKNOWN_ANSWER = -1
_GOLD, _DISTANT, _RUN = map(SOURCES.index, ("gold", "distant", "run"))


class PairColumns(NamedTuple):
    """(n,) each. question_indexes: of the questions. roles, sources: in ROLES and SOURCES. runs: -1 if no run mined the
    passage, whose rank is then 0. answers: 1, 0, or UNKNOWN_ANSWER. reasons: in the list that comes with them.
    """

    question_indexes: np.ndarray
    ordinals: np.ndarray
    roles: np.ndarray
    sources: np.ndarray
    runs: np.ndarray
    ranks: np.ndarray
    scores: np.ndarray
    answers: np.ndarray
    reasons: np.ndarray

    def take(self, rows: np.ndarray) -> PairColumns:
        return PairColumns(*(column[rows] for column in self))


@dataclass(frozen=True, slots=True)
class KnownPositives:
    """(n,) the positives of some questions by place, each question's in the order of its gold, and their sources."""

    question_indexes: np.ndarray
    ordinals: np.ndarray
    sources: np.ndarray

    @classmethod
    def for_questions(
        cls, question_indexes: Sequence[int], golds: Sequence[Sequence[int]], distant: Sequence[int | None]
    ) -> KnownPositives:
        """Return the known positives of these questions. `golds` and `distant` are those of all questions."""
        found = [(place, ordinal, _GOLD) for place in question_indexes for ordinal in dict.fromkeys(golds[place])]
        for place in question_indexes:
            best = distant[place]
            if best is not None and best not in golds[place]:
                found.append((place, best, _DISTANT))
        columns = np.array(found, np.int64).reshape(-1, 3)
        return cls(columns[:, 0], columns[:, 1], columns[:, 2])


def plain_pairs(
    known_positives: KnownPositives,
    mined_passages: MinedPassages,
    easy_negatives: Sequence[Sequence[NegativeCandidate]],
    policy: DenoisingPolicy,
    thresholds: Thresholds,
) -> tuple[PairColumns, list[str]]:
    """Return the pairs of the questions that have a known positive, unsorted, and the reasons that they refer to.

    Args:
        easy_negatives: the easy negatives of every question.
        policy: one that decides `by_answer`.
    """
    candidates = _candidates(mined_passages, easy_negatives, np.unique(known_positives.question_indexes))
    span = 1 + max(int(each.max(initial=0)) for each in (candidates.ordinals, known_positives.ordinals))
    keys, known_keys = (
        candidates.question_indexes * span + candidates.ordinals,
        known_positives.question_indexes * span + known_positives.ordinals,
    )
    order = np.argsort(keys)
    after = np.searchsorted(keys, known_keys, sorter=order)
    is_listed = np.append(keys[order], -1)[after] == known_keys
    rows = np.append(order, 0)[after[is_listed]]

    def listed(column: np.ndarray, missing: int) -> np.ndarray:
        """What the runs say of each known positive."""
        values = np.full(len(known_keys), missing, column.dtype)
        values[is_listed] = column[rows]
        return values

    reasons = [GOLD, DISTANT]
    positives = PairColumns(
        known_positives.question_indexes,
        known_positives.ordinals,
        np.full(len(known_keys), ROLES.index("positive")),
        known_positives.sources,
        listed(candidates.runs, -1),
        listed(candidates.ranks, 0),
        listed(candidates.scores, 0),
        listed(candidates.answers, UNKNOWN_ANSWER),
        (known_positives.sources == _DISTANT).astype(np.int64),
    )
    others = candidates.take(~np.isin(keys, known_keys))
    for source in np.unique(others.sources).tolist():
        for answer in (UNKNOWN_ANSWER, 0, 1):
            evidence = PassageEvidence(None if answer < 0 else bool(answer), easy=source != _RUN)
            role, reason = policy.decide(evidence, thresholds, None)
            where = (others.sources == source) & (others.answers == answer)
            others.roles[where] = ROLES.index("dropped" if role == "positive" else role)
            others.reasons[where] = _place_of(reason, reasons)
    return PairColumns(*(np.concatenate(columns) for columns in zip(positives, others, strict=True))), reasons


def _place_of(reason: str, reasons: list[str]) -> int:
    if reason not in reasons:
        reasons.append(reason)
    return reasons.index(reason)


def _candidates(
    mined_passages: MinedPassages, easy_negatives: Sequence[Sequence[NegativeCandidate]], trains: np.ndarray
) -> PairColumns:
    """Return mined and drawn passages of the questions at these places; their roles and reasons are not decided yet."""
    easy = [
        (place, each.ordinal, SOURCES.index(each.source), UNKNOWN_ANSWER if each.answer is None else int(each.answer))
        for place, row in enumerate(easy_negatives)
        for each in row
    ]
    columns = np.array(easy, np.int64).reshape(-1, 4)
    count, zeros = (
        len(mined_passages.question_indexes),
        np.zeros(len(mined_passages.question_indexes) + len(columns), np.int64),
    )
    both = PairColumns(
        np.concatenate([mined_passages.question_indexes, columns[:, 0]]),
        np.concatenate([mined_passages.ordinals, columns[:, 1]]),
        zeros,
        np.concatenate([np.full(count, _RUN), columns[:, 2]]),
        np.concatenate([mined_passages.runs, np.full(len(columns), -1)]),
        np.concatenate([mined_passages.ranks, np.zeros(len(columns), np.int64)]),
        np.concatenate([mined_passages.scores, np.zeros(len(columns), np.float32)]),
        np.concatenate([mined_passages.answers, columns[:, 3]]),
        zeros,
    )
    return both.take(np.isin(both.question_indexes, trains))


def sort_pairs(pairs: PairColumns, ids_of: PassageIds) -> PairColumns:
    """Sort pairs by question, role, rank, source and passage id."""
    keys = (pairs.sources, np.where(pairs.ranks > 0, pairs.ranks, NO_RANK), pairs.roles, pairs.question_indexes)
    order = np.lexsort(keys)
    tied = np.ones(max(len(order) - 1, 0), bool)
    for key in keys:
        tied &= key[order][1:] == key[order][:-1]
    if tied.any():  # only then do passage ids decide: sorting all of them takes long
        rows = order[np.union1d(np.flatnonzero(tied), np.flatnonzero(tied) + 1)]
        ids = ids_of(np.unique(pairs.ordinals[rows]).tolist())
        place = {ordinal: place for place, ordinal in enumerate(sorted(ids, key=ids.__getitem__))}
        last = np.zeros(len(order), np.int64)
        last[rows] = [place[ordinal] for ordinal in pairs.ordinals[rows].tolist()]
        order = np.lexsort((last, *keys))
    return pairs.take(order)


def pairs_table(
    pairs: PairColumns, reasons: Sequence[str], questions: Sequence[str], runs: Sequence[str], ids_of: PassageIds
) -> pyarrow.Table:
    """Return pairs as rows of pairs.parquet."""
    import pyarrow as pa

    def names(values: Sequence[str], rows: np.ndarray, missing: np.ndarray | None = None) -> pyarrow.Array:
        return pa.array(values, pa.string()).take(pa.array(rows, mask=missing))

    wanted, place = np.unique(pairs.ordinals, return_inverse=True)
    ids, unmined = ids_of(wanted.tolist()), pairs.runs < 0
    roles, sources = names(ROLES, pairs.roles), names(SOURCES, pairs.sources)
    columns = {
        "question": names(questions, pairs.question_indexes),
        "passage": names([ids[ordinal] for ordinal in wanted.tolist()], place),
        "role": roles,
        "source": sources,
        "run": names(runs, pairs.runs, unmined),
        "rank": pa.array(pairs.ranks, pa.int32(), mask=unmined),
        "score": pa.array(pairs.scores, pa.float32(), mask=unmined),
        "probability": pa.nulls(len(place), pa.float64()),
        "answer": pa.array(pairs.answers == 1, mask=pairs.answers == UNKNOWN_ANSWER),
        "label": pa.nulls(len(place), pa.string()),
        "machine": roles,
        "origin": sources,
        "reason": names(reasons, pairs.reasons),
    }
    return pa.table(columns, schema=schema())


def merge_tables(first: pyarrow.Table, second: pyarrow.Table, questions: Sequence[str]) -> pyarrow.Table:
    """Return the rows of two tables in the order of these questions, of which each is in one table."""
    import pyarrow as pa
    import pyarrow.compute as compute

    both = pa.concat_tables([first, second])
    places = compute.index_in(both["question"], value_set=pa.array(questions))
    return both.take(compute.array_sort_indices(places.combine_chunks())).combine_chunks()
