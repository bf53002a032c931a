"""Which candidates are worth an annotator's time: P(false negative) x harm, and quotas so that the tail is served."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analysis.buckets import bucket_group, bucket_order
from db.records import Question

RANK_STEPS = (1, 5, 20)  # the last rank of each group; beyond is one more group
_START = {True: (0.5, 0.35, 0.2, 0.1), False: (0.1, 0.05, 0.03, 0.02), None: (0.3, 0.15, 0.08, 0.04)}
"""Where no labels are: our guess, by answer match (None: the question has no answers) and rank group. Labels correct it."""
_WEIGHT_OF_START = 10  # labels that the guess is worth

HARM_TRAINED = 2.0  # it is a hard negative of the current training set: training pushes it away right now
HARM_ABOVE_GOLD = 1.0  # it stands above every gold passage, so it turns a win into a loss


@dataclass(frozen=True, slots=True)
class Pooled:
    """An unlabelled passage of a question's pool. Run, rank and score are those of its best rank over the runs."""

    ordinal: int
    run: str
    rank: int
    score: float
    answer: bool | None
    above_gold: bool


class Calibration:
    """P(false negative) from answer match and rank group: the share of positives among settled candidates, shrunk to a guess.

    Args:
        outcomes: (answer, rank, label) of settled candidates, as `db.queue.Queue.outcomes` gives them.
    """

    def __init__(self, outcomes: Iterable[tuple[bool | None, int | None, str]] = ()):
        seen: dict[tuple[bool | None, int], list[int]] = defaultdict(lambda: [0, 0])
        self.labels = 0
        for answer, rank, label in outcomes:
            if rank is None or label == "unsure":
                continue
            cell = seen[answer, rank_group(rank)]
            cell[0] += label == "positive"
            cell[1] += 1
            self.labels += 1
        self._table = {
            (answer, group): _shrunk(guess, *seen[answer, group])
            for answer, row in _START.items()
            for group, guess in enumerate(row)
        }

    def probability(self, answer: bool | None, rank: int) -> float:
        return self._table[answer, rank_group(rank)]


def rank_group(rank: int) -> int:
    return sum(rank > step for step in RANK_STEPS)


def harm(pooled: Pooled, trained: bool) -> float:
    """What a false negative costs here; 1 for a passage that is neither trained against nor above the gold."""
    return 1.0 + HARM_TRAINED * trained + HARM_ABOVE_GOLD * pooled.above_gold


def served(questions: Iterable[Question], priority: Mapping[str, float], count: int) -> list[str]:
    """The ids of `count` questions: each frequency bucket in its turn, from the rarest, gives the one of highest priority."""
    groups: dict[str, list[str]] = defaultdict(list)
    for question in questions:
        groups[bucket_group(question.bucket, question.frequency)].append(question.id)
    # Official bucket 7 is the rarest; groups by count rise with frequency.
    order = sorted(
        groups,
        key=lambda group: (bucket_order(group)[0], bucket_order(group)[1] * (-1 if group.startswith("bucket") else 1)),
    )
    lists = [iter(sorted(groups[group], key=lambda id: (-priority[id], id))) for group in order]
    chosen: list[str] = []
    while lists and len(chosen) < count:
        for each in list(lists):
            id = next(each, None)
            if id is None:
                lists.remove(each)
            elif len(chosen) < count:
                chosen.append(id)
    return chosen


def _shrunk(guess: float, positives: int, count: int) -> float:
    return (guess * _WEIGHT_OF_START + positives) / (_WEIGHT_OF_START + count)
