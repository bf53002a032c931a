"""Build one batch: draw the questions of its arms, and the candidate passages of each question. (Their order in the batch
is in `batch_order.py`.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.backend.judging.batch_order import select_spread
from blindspot.backend.judging.near_duplicates import near_duplicates
from blindspot.backend.judging.pools import Pools
from blindspot.backend.judging.priority import Calibration, Evidence, PooledPassage, false_negative_cost
from blindspot.backend.judging.settings import BatchSettings
from blindspot.backend.progress import Progress
from blindspot.backend.text.answers import mentions_subject
from blindspot.db.errors import Missing
from blindspot.db.judgements import Judgement
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Arm, Candidate, Item, Queue, SettledCandidate
from blindspot.db.records import Question

TrainedNegatives = Mapping[str, Mapping[str, float] | AbstractSet[str]]
"""Maps question ids to passage ids, with or without the probability of each."""

Scores = Callable[[Sequence[tuple[str, str]]], Mapping[tuple[str, str], float]]
"""A function from pairs of (question id, passage id) to a judge's probabilities. The result lacks pairs without a
score.
"""

_BLOCK = 500


@dataclass(frozen=True)
class PriorityEvidence:
    """The evidence, besides labels, by which the priority arm of a batch selects candidates.

    Attributes:
        scores: A judge's probabilities; None for the estimate from answer match, subject and rank.
        pooled_judge: Whether the judge sees no answers, so that its probability is pooled with that estimate.
        trained: Hard negatives of the current training set.
    """

    scores: Scores | None = None
    pooled_judge: bool = False
    trained: TrainedNegatives = field(default_factory=dict)


class BatchBuilder:
    """Builds one batch. The arms must be built in the order audit, second, repeat, priority, so that no question is
    drawn twice.
    """

    def __init__(
        self,
        study: Study,
        pools: Pools,
        questions: list[Question],
        settings: BatchSettings,
        evidence: PriorityEvidence | None = None,
        progress: Progress | None = None,
    ):
        self.study, self.settings, self.progress = study, settings, progress
        self.evidence = evidence or PriorityEvidence()
        self.limit, self.random = settings.candidates, np.random.default_rng(settings.seed)
        self.queue = Queue(study.labels_path)
        self.pools: dict[str, list[PooledPassage]] = {}
        for start in range(0, len(questions), _BLOCK):
            if progress:
                progress(start, len(questions), "pooling")
            self.pools.update(pools.pools_of(questions[start : start + _BLOCK]))
        self.frame = {q.id: q for q in questions if self.pools[q.id]}
        if not self.frame:
            raise Missing(
                "none of these questions has an unlabelled passage in these runs; choose other runs, splits or a "
                "greater depth"
            )
        self.calibration = Calibration(self._settled_evidence())
        self.waiting = self.queue.unfinished_questions() | self.queue.practised_questions()
        self.active = {person.name for person in People(study.labels_path).all() if person.active}
        self.used: set[str] = set()
        self.judged: dict[str, list[Judgement]] = defaultdict(list)
        for judgement in Labels(study.labels_path).judgements():
            self.judged[judgement.question].append(judgement)

    def audit(self, count: int, people_needed: int) -> list[Item]:
        """Draw questions uniformly from the sampling frame, and passages uniformly from each question's pool."""
        audited = self.queue.audited_questions()
        free = [id for id in self.frame if id not in audited]
        count = min(count, len(free))
        items = []
        for index in self.random.choice(len(free), count, replace=False).tolist() if count else ():
            id, pool = free[index], self.pools[free[index]]
            shown = self.random.permutation(len(pool))[: self.limit].tolist()
            share = count / len(free)
            chosen = self._candidates(
                id, [pool[position] for position in shown], inclusion=share * len(shown) / len(pool)
            )
            items.append(Item(id, chosen, "audit", people_needed=people_needed, inclusion_probability=share))
        self.used.update(item.question for item in items)
        return items

    def second_opinions(self, count: int) -> list[Item]:
        """Draw questions that exactly one annotator has judged, with the judged passages, for another
        active annotator.
        """
        judges = {id: {given.annotator for given in self.judged.get(id, ())} for id in self._free_passages()}
        free = [id for id, names in judges.items() if len(names) == 1 and self.active - names]
        return [self._repeat_item(id, "second", None) for id in self._draw_ids(free, count)]

    def repeat_items(self, count: int) -> list[Item]:
        """Draw settled questions, and assign each to one of the active annotators who judged it before."""
        opened = {pair.question for pair in Labels(self.study.labels_path).consensus() if pair.state == "open"}
        judges = {
            id: sorted({given.annotator for given in self.judged.get(id, ())} & self.active)
            for id in self._free_passages()
            if id not in opened
        }
        drawn = self._draw_ids([id for id, names in judges.items() if names], count)
        return [self._repeat_item(id, "repeat", judges[id][int(self.random.integers(len(judges[id])))]) for id in drawn]

    def priority(self, count: int, people_needed: int) -> list[Item]:
        """Select unsettled candidates of at most `count` questions, by the selection method of the batch."""
        if self.settings.order == "priority":
            return self._items_by_harm(count, people_needed)
        return self._random_items(count, people_needed)

    def _items_by_harm(self, count: int, people_needed: int) -> list[Item]:
        """Select the questions whose candidates have the highest P(false negative) x harm."""
        done, scored, trained_negatives = self._settled_pairs(), self._judge_scores(), self.evidence.trained
        trained = self._ordinals({passage for passages in trained_negatives.values() for passage in passages})
        worth: dict[str, list[tuple[float, float, PooledPassage]]] = {}
        for id in self._free_passages():
            negatives = trained_negatives.get(id, {})
            drawn = negatives if isinstance(negatives, Mapping) else dict.fromkeys(negatives, 1.0)
            hard = {trained[passage]: share for passage, share in drawn.items() if passage in trained}
            rows = []
            for pooled in self.pools[id]:
                if (id, pooled.ordinal) not in done:
                    p = self._probability(scored.get((id, pooled.ordinal)), pooled)
                    rows.append((p * false_negative_cost(pooled, hard.get(pooled.ordinal, 0.0)), p, pooled))
            if rows:
                worth[id] = sorted(rows, key=lambda row: (-row[0], row[2].rank, row[2].ordinal))[: self.limit]
        totals = {id: sum(row[0] for row in rows) for id, rows in worth.items()}
        chosen = select_spread([self.frame[id] for id in worth], totals, count)
        return [
            Item(
                id,
                self._candidates(id, [row[2] for row in worth[id]], [row[1] for row in worth[id]]),
                "priority",
                totals[id],
                people_needed,
            )
            for id in chosen
        ]

    def _random_items(self, count: int, people_needed: int) -> list[Item]:
        """Draw unsettled pairs uniformly within the limits, and group them by question."""
        done = self._settled_pairs()
        rows = [
            (id, pooled)
            for id in self._free_passages()
            for pooled in self.pools[id]
            if (id, pooled.ordinal) not in done
        ]
        drawn: dict[str, list[PooledPassage]] = defaultdict(list)
        limit = self.settings.pairs or count * self.limit
        for place in self.random.permutation(len(rows)).tolist():
            id, pooled = rows[place]
            if limit and len(drawn.get(id, ())) < self.limit and (id in drawn or len(drawn) < count):
                drawn[id].append(pooled)
                limit -= 1
        scored = self._judge_scores()
        return [
            Item(
                id,
                self._candidates(
                    id, pools, [self._probability(scored.get((id, each.ordinal)), each) for each in pools]
                ),
                "priority",
                people_needed=people_needed,
            )
            for id, pools in drawn.items()
        ]

    def _settled_pairs(self) -> set[tuple[str, int]]:
        """Return (question id, row) for the pairs whose label is settled."""
        settled = {
            (pair.question, pair.passage) for pair in Labels(self.study.labels_path).consensus() if pair.state != "open"
        }
        known = self._ordinals({passage for _, passage in settled})
        return {(question, known[passage]) for question, passage in settled if passage in known}

    def _probability(self, judge_probability: float | None, passage: PooledPassage) -> float:
        """Return P(false negative): the estimate from answer match, subject and rank, combined with the judge's
        probability if there is one.
        """
        if judge_probability is None:
            return self.calibration.probability(passage.answer_evidence, passage.rank)
        if not self.evidence.pooled_judge:
            return judge_probability
        return self.calibration.with_judge(judge_probability, passage.answer_evidence, passage.rank)

    def _free_passages(self) -> list[str]:
        return [id for id in self.frame if id not in self.used and id not in self.waiting]

    def _draw_ids(self, ids: list[str], count: int) -> list[str]:
        drawn = [ids[index] for index in self.random.permutation(len(ids))[:count].tolist()]
        self.used.update(drawn)
        return drawn

    def _repeat_item(self, id: str, arm: Arm, assigned_to: str | None) -> Item:
        """Return an item with the judged passages of a question in random order. If it is assigned to an annotator, it
        contains only the passages that this annotator judged.
        """
        passages = dict.fromkeys(given.passage for given in self.judged[id] if assigned_to in (None, given.annotator))
        ordinals = self._ordinals(passages)
        pooled = {candidate.ordinal: candidate for candidate in self.pools[id]}
        known = [ordinals[passage] for passage in passages if passage in ordinals]
        rows = [pooled.get(ordinal, PooledPassage(ordinal, "", 0, 0.0, None, False)) for ordinal in known]
        rows = [rows[index] for index in self.random.permutation(len(rows)).tolist()]
        return Item(id, self._candidates(id, rows), arm, assigned_to=assigned_to)

    def _candidates(
        self,
        question: str,
        rows: Sequence[PooledPassage],
        probabilities: Sequence[float | None] | None = None,
        inclusion: float | None = None,
    ) -> tuple[Candidate, ...]:
        passages = self.study.corpus.passages([row.ordinal for row in rows])
        groups = near_duplicates([passage.text for passage in passages])
        if probabilities is None:
            probabilities = [
                self.calibration.probability(row.answer_evidence, row.rank) if row.rank else None for row in rows
            ]
        candidates = [
            Candidate(
                passage.id,
                group,
                row.run or None,
                row.rank or None,
                row.score if row.rank else None,
                row.answer,
                p,
                inclusion,
            )
            for passage, group, row, p in zip(passages, groups, rows, probabilities, strict=True)
        ]
        return tuple(group_duplicates(candidates))

    def _settled_evidence(self) -> list[tuple[Evidence, int | None, str]]:
        """Return (evidence, rank, label) for the settled candidates of all batches."""
        outcomes = self.queue.settled_candidates()
        with_answer = [outcome for outcome in outcomes if outcome.answer]
        passages = self.study.corpus.by_id(outcome.passage for outcome in with_answer) if with_answer else {}
        asked = {outcome.question for outcome in with_answer if outcome.passage in passages}
        questions = {question.id: question for question in self.study.questions.with_ids(asked)}

        def subject(outcome: SettledCandidate) -> bool | None:
            passage = passages.get(outcome.passage) if outcome.answer else None
            if passage is None or not questions[outcome.question].subject:
                return None
            return mentions_subject(passage, questions[outcome.question])

        return [((outcome.answer, subject(outcome)), outcome.rank, outcome.label) for outcome in outcomes]

    def _judge_scores(self) -> dict[tuple[str, int], float]:
        """Return the judge's known probabilities by (question id, row)."""
        if self.evidence.scores is None:
            return {}
        probabilities: dict[tuple[str, int], float] = {}
        ids = self._free_passages()
        for start in range(0, len(ids), _BLOCK):
            if self.progress:
                self.progress(start, len(ids), "reading scores")
            block = [(id, pooled.ordinal) for id in ids[start : start + _BLOCK] for pooled in self.pools[id]]
            names = [passage.id for passage in self.study.corpus.passages([ordinal for _, ordinal in block])]
            pairs = [(id, passage) for (id, _), passage in zip(block, names, strict=True)]
            known = self.evidence.scores(pairs)
            scored = zip(block, pairs, strict=True)
            probabilities.update((key, known[pair]) for key, pair in scored if pair in known)
        return probabilities

    def _ordinals(self, passages: Collection[str]) -> dict[str, int]:
        return self.study.corpus.ordinals(passages) if passages else {}


def group_duplicates(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Reorder candidates so that near-duplicates are next to each other, at the position of the first one."""
    first_of_group: dict[int, int] = {}
    for place, candidate in enumerate(candidates):
        first_of_group.setdefault(candidate.near_duplicates, place)
    return sorted(candidates, key=lambda candidate: first_of_group[candidate.near_duplicates])
