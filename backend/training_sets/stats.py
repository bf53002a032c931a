"""Statistics of a training set, counted while it is built."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from blindspot.analysis.buckets import bucket_group, bucket_order
from blindspot.analysis.relations import relation_order
from blindspot.backend.training_sets.denoising import PEOPLE_REASONS, RELABELLED
from blindspot.backend.training_sets.training_set import ROLES, SOURCES, Pair, Role
from blindspot.db.records import Question

FATES = ("kept", "removed", "relabelled", "removed_by_people")
"""What becomes of a passage mined at a rank: kept as a negative; removed, or proposed as a positive, by a machine;
relabelled as a positive by people; removed by people.
"""


@dataclass(slots=True)
class SetStats:
    """questions, pairs: counts. sources: pairs by role and source. reasons: pairs by reason. ranks: pairs by mined
    rank and fate.
    groups: for "relation" and for "bucket", by group: questions, positives, negatives, and mined passages by fate.
    """

    questions: int = 0
    pairs: int = 0
    sources: Counter = field(default_factory=Counter)
    reasons: Counter = field(default_factory=Counter)
    ranks: dict[int, Counter] = field(default_factory=lambda: defaultdict(Counter))
    groups: dict[str, dict[str, Counter]] = field(
        default_factory=lambda: {kind: defaultdict(Counter) for kind in ("relation", "bucket")}
    )

    def add(self, question: Question, pairs: Sequence[Pair]) -> None:
        self.questions += 1
        self.pairs += len(pairs)
        mine: Counter = Counter(questions=1)
        for pair in pairs:
            self.sources[pair.role, pair.source] += 1
            self.reasons[pair.reason] += 1
            mine[f"{pair.role}s" if pair.role != "dropped" else "dropped"] += 1
            if pair.mined and pair.rank is not None:
                fate = fate_of(pair)
                self.ranks[pair.rank][fate] += 1
                mine[fate] += 1
        if question.relation is not None:
            self.groups["relation"][question.relation].update(mine)
        self.groups["bucket"][bucket_group(question.bucket, question.frequency)].update(mine)

    def as_json(self) -> dict:
        """Plain values in a fixed order."""
        orders = {"relation": relation_order, "bucket": bucket_order}
        result: dict[str, Any] = {
            "questions": self.questions,
            "pairs": self.pairs,
            "sources": {role: self._by_source(role) for role in ROLES},
            "reasons": tally_order(self.reasons),
            "by_rank": {str(rank): _fate_counts(self.ranks[rank]) for rank in sorted(self.ranks)},
        }
        for kind, groups in self.groups.items():
            names = sorted(groups, key=orders[kind])
            result[f"by_{kind}"] = {
                name: {key: groups[name][key] for key in ("questions", "positives", "negatives", "dropped")}
                | _fate_counts(groups[name])
                for name in names
            }
        return result

    def _by_source(self, role: Role) -> dict[str, int]:
        return {source: self.sources[role, source] for source in SOURCES if self.sources[role, source]}


def fate_of(pair: Pair) -> str:
    """The fate of a mined pair."""
    if pair.role == "negative":
        return "kept"
    if pair.reason in PEOPLE_REASONS:
        return "relabelled" if pair.reason == RELABELLED else "removed_by_people"
    return "removed"


def tally_pairs(reasons: Iterable[str]) -> dict[str, int]:
    """Count each reason, the most frequent first."""
    return tally_order(Counter(reasons))


def tally_order(counts: Counter[str]) -> dict[str, int]:
    """Counts as a plain dict, the most frequent first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _fate_counts(counts: Counter) -> dict[str, int]:
    return {fate: counts[fate] for fate in FATES}
