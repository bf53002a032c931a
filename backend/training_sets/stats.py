"""Statistics of a training set, counted while it is built."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from blindspot.analysis.buckets import bucket_group, bucket_order
from blindspot.analysis.relations import relation_order
from blindspot.backend.training_sets.denoising import PEOPLE_REASONS, RELABELLED
from blindspot.backend.training_sets.pair_columns import PairColumns
from blindspot.backend.training_sets.training_set import ROLES, SOURCES, Pair, Role, Source, is_mined
from blindspot.db.records import Question

FATES = ("kept", "removed", "relabelled", "removed_by_people")
"""What happens to the passages mined at a rank: kept as negatives; removed, or proposed as positives, by a machine;
relabelled as positives by people; removed by people.
"""


Kind = tuple[Role, Source, int | None, Source | None, str]
_kind = itemgetter(*map(Pair._fields.index, ("role", "source", "rank", "origin", "reason")))


@dataclass(slots=True)
class SetStats:
    """The statistics of a set. questions, pairs: numbers. groups: by relation and bucket, the number of questions and
    of pairs of each kind.

    A set has about a hundred pairs per question. For speed, pairs are first counted by kind, and the counts are added
    up at the end.
    """

    questions: int = 0
    pairs: int = 0
    groups: dict[tuple[str | None, str], tuple[Counter[str], Counter[Kind]]] = field(
        default_factory=lambda: defaultdict(lambda: (Counter(), Counter()))
    )

    def add(self, question: Question, pairs: Sequence[Pair]) -> None:
        self.questions += 1
        self.pairs += len(pairs)
        questions, kinds = self.groups[question.relation, bucket_group(question.bucket, question.frequency)]
        questions["questions"] += 1
        kinds.update(map(_kind, pairs))

    def add_columns(self, questions: Sequence[Question], pairs: PairColumns, reasons: Sequence[str]) -> None:
        """Add the pairs of several questions; each place in `pairs` is one of `questions`."""
        keys = [(question.relation, bucket_group(question.bucket, question.frequency)) for question in questions]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        places, self.pairs = np.unique(pairs.question_indexes), self.pairs + len(pairs.question_indexes)
        self.questions += len(places)
        for place in places.tolist():
            self.groups[keys[place]][0]["questions"] += 1
        group = np.array([numbers[key] for key in keys], np.int64)[pairs.question_indexes]
        shape = (len(numbers), len(ROLES), len(SOURCES), int(pairs.ranks.max(initial=0)) + 1, len(reasons))
        kinds = np.ravel_multi_index((group, pairs.roles, pairs.sources, pairs.ranks, pairs.reasons), shape)
        found, count = np.unique(kinds, return_counts=True)
        names = list(numbers)
        for number, role, source, rank, reason, times in zip(*np.unravel_index(found, shape), count, strict=True):
            kind = ROLES[role], SOURCES[source], int(rank) or None, SOURCES[source], reasons[reason]
            self.groups[names[number]][1][kind] += int(times)

    def as_json(self) -> dict:
        """Return the statistics as JSON values in a fixed order."""
        orders = {"relation": relation_order, "bucket": bucket_order}
        sources: Counter[tuple[Role, Source]] = Counter()
        reasons: Counter[str] = Counter()
        ranks: dict[int, Counter[str]] = defaultdict(Counter)
        groups: dict[str, dict[str, Counter[str]]] = {kind: defaultdict(Counter) for kind in orders}
        for (relation, bucket), (questions, kinds) in self.groups.items():
            mine = Counter(questions)
            for (role, source, rank, origin, reason), count in kinds.items():
                sources[role, source] += count
                reasons[reason] += count
                mine[f"{role}s" if role != "dropped" else "dropped"] += count
                if rank is not None and is_mined(rank, origin):
                    fate = fate_of(role, reason)
                    ranks[rank][fate] += count
                    mine[fate] += count
            if relation is not None:
                groups["relation"][relation].update(mine)
            groups["bucket"][bucket].update(mine)
        result: dict[str, Any] = {
            "questions": self.questions,
            "pairs": self.pairs,
            "sources": {
                role: {source: sources[role, source] for source in SOURCES if sources[role, source]} for role in ROLES
            },
            "reasons": tally_order(reasons),
            "by_rank": {str(rank): _fate_counts(ranks[rank]) for rank in sorted(ranks)},
        }
        for kind, by_name in groups.items():
            result[f"by_{kind}"] = {
                name: {key: by_name[name][key] for key in ("questions", "positives", "negatives", "dropped")}
                | _fate_counts(by_name[name])
                for name in sorted(by_name, key=orders[kind])
            }
        return result


def fate_of(role: Role, reason: str) -> str:
    """Return what happened to a mined pair, in a word, given its role and reason."""
    if role == "negative":
        return "kept"
    if reason in PEOPLE_REASONS:
        return "relabelled" if reason == RELABELLED else "removed_by_people"
    return "removed"


def tally_pairs(reasons: Iterable[str]) -> dict[str, int]:
    """Count each reason, the most frequent first."""
    return tally_order(Counter(reasons))


def tally_order(counts: Counter[str]) -> dict[str, int]:
    """Return counts as a dict, most frequent first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _fate_counts(counts: Counter) -> dict[str, int]:
    return {fate: counts[fate] for fate in FATES}
