"""What a training set counts while it is made; counts of parts add up to those of the whole."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from analysis.buckets import bucket_group, bucket_order
from analysis.relations import relation_order
from backend.training_sets.denoising import PEOPLE_REASONS, RELABELLED
from backend.training_sets.training_set import ROLES, SOURCES, Pair
from db.records import Question

FATES = ("kept", "removed", "relabelled", "removed_by_people")
"""What becomes of a passage that was mined at a rank: a negative; dropped, or proposed as a positive, by a machine; made a positive by
people; dropped by people."""


@dataclass(slots=True)
class SetStats:
    """questions, pairs: how many. sources: pairs by role and source. reasons: by reason. ranks: by rank at which a passage was mined
    and by fate. groups: "relation" and "bucket", by group: questions, positives, negatives, and mined passages by fate."""

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
            if pair.mined:
                fate = fate_of(pair)
                self.ranks[pair.rank][fate] += 1
                mine[fate] += 1
        if question.relation is not None:
            self.groups["relation"][question.relation].update(mine)
        self.groups["bucket"][bucket_group(question.bucket, question.frequency)].update(mine)

    def as_json(self) -> dict:
        """Plain and in a fixed order."""
        orders = {"relation": relation_order, "bucket": bucket_order}
        return {
            "questions": self.questions, "pairs": self.pairs,
            "sources": {role: {source: self.sources[role, source] for source in SOURCES if self.sources[role, source]} for role in ROLES},
            "reasons": dict(sorted(self.reasons.items(), key=lambda item: (-item[1], item[0]))),
            "by_rank": {str(rank): _fates(self.ranks[rank]) for rank in sorted(self.ranks)},
            **{f"by_{kind}": {name: {key: found[key] for key in ("questions", "positives", "negatives", "dropped")} | _fates(found)
                              for name, found in sorted(groups.items(), key=lambda item: orders[kind](item[0]))}
               for kind, groups in self.groups.items()},
        }  # fmt: skip

    def merge(self, made: dict) -> None:
        """Add what `as_json` gave of a part."""
        self.questions += made["questions"]
        self.pairs += made["pairs"]
        self.sources.update(
            {(role, source): count for role, row in made["sources"].items() for source, count in row.items()}
        )
        self.reasons.update(made["reasons"])
        for rank, row in made["by_rank"].items():
            self.ranks[int(rank)].update(row)
        for kind, groups in self.groups.items():
            for name, row in made[f"by_{kind}"].items():
                groups[name].update(row)


def fate_of(pair: Pair) -> str:
    """Of a pair that was mined."""
    if pair.role == "negative":
        return "kept"
    if pair.reason in PEOPLE_REASONS:
        return "relabelled" if pair.reason == RELABELLED else "removed_by_people"
    return "removed"


def tally(reasons: Iterable[str]) -> dict[str, int]:
    """How often each reason comes, the commonest first."""
    return dict(sorted(Counter(reasons).items(), key=lambda item: (-item[1], item[0])))


def _fates(found: Counter) -> dict[str, int]:
    return {fate: found[fate] for fate in FATES}
