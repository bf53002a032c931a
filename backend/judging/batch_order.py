"""The order of the questions in a batch: `db/queue.py` hands them out by this position.

The questions that are worth most come first, spread over frequency buckets and relations, and the other arms come in
between at random. What a question is worth is in `priority.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from blindspot.analysis.buckets import bucket_group, bucket_order
from blindspot.db.queue import Item
from blindspot.db.records import Question


def mix_arms(priority: Sequence[Item], other_items: Sequence[Item], random: np.random.Generator) -> list[Item]:
    """Insert the items of the other arms at random positions among the priority items, so that a position does not
    reveal the arm. Priority items keep their order.
    """
    other_items = [other_items[index] for index in random.permutation(len(other_items))]
    places = set(random.permutation(len(priority) + len(other_items))[: len(other_items)].tolist())
    queues = {True: iter(other_items), False: iter(priority)}
    return [next(queues[place in places]) for place in range(len(priority) + len(other_items))]


def select_spread(questions: Iterable[Question], priority: Mapping[str, float], question_count: int) -> list[str]:
    """Select the ids of `question_count` questions, spread over frequency buckets and relations.

    Questions are taken from the buckets in turn, rarest bucket first. From a bucket, the question with the highest
    quotient is taken: its priority divided by one plus the number of questions of its relation selected so far.
    Relations are therefore represented in proportion to their priorities (the D'Hondt method).
    """
    groups: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for question in questions:
        groups[bucket_group(question.bucket, question.frequency)][question.relation or ""].append(question.id)
    # Official bucket 7 is the rarest; groups by mention count ascend with frequency.
    order = sorted(
        groups,
        key=lambda group: (bucket_order(group)[0], bucket_order(group)[1] * (-1 if group.startswith("bucket") else 1)),
    )
    waiting = [
        {relation: deque(sorted(ids, key=lambda id: (-priority[id], id))) for relation, ids in groups[bucket].items()}
        for bucket in order
    ]
    chosen: list[str] = []
    taken_per_bucket: Counter[str] = Counter()
    while waiting and len(chosen) < question_count:
        for relations in waiting[: question_count - len(chosen)]:
            best = min(
                relations,
                key=lambda name: (-priority[relations[name][0]] / (1 + taken_per_bucket[name]), relations[name][0]),
            )
            chosen.append(relations[best].popleft())
            taken_per_bucket[best] += 1
            if not relations[best]:
                del relations[best]
        waiting = [relations for relations in waiting if relations]
    return chosen
