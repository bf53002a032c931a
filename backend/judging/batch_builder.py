"""Build one batch: its arms, and the candidates of its questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from blindspot.backend.judging.gain import (
    UNKNOWN_RELATION,
    ChosenPair,
    DrawingRules,
    GainPairs,
    PairLimits,
    Vectors,
    choose_pairs,
    draw_pairs,
    unit,
    word_vectors,
)
from blindspot.backend.judging.near_duplicates import near_duplicates
from blindspot.backend.judging.pools import Pools
from blindspot.backend.judging.priority import Calibration, Evidence, PooledPassage, harm, select_spread
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.text.answers import mentions_subject
from blindspot.db.errors import Missing
from blindspot.db.judgements import Judgement
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Arm, Candidate, Item, Outcome, Queue
from blindspot.db.records import Question

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

TrainedNegatives = Mapping[str, Mapping[str, float] | AbstractSet[str]]
"""From question id to passage ids, with or without the probability of each."""

Scores = Callable[[Sequence[tuple[str, str]]], Mapping[tuple[str, str], float]]
"""From pairs of (question id, passage id) to a judge's probabilities. The result lacks pairs without a score."""

Order = Literal["priority", "gain", "random"]
ORDERS: tuple[Order, ...] = ("priority", "gain", "random")

_BLOCK = 500


@dataclass(frozen=True)
class PriorityRules:
    """How the priority arm of a batch chooses candidates.

    Attributes:
        order: priority: whole questions by P(false negative) x harm. gain: pairs by what training would gain from
            their labels, see `blindspot.backend.judging.gain`. random: pairs drawn uniformly.
        candidates: Maximum number of passages shown for each question.
        seed: Seed of everything that is drawn.
        scores: A judge's probabilities; None for the estimate from answer match, subject and rank.
        pooled_judge: Whether the judge sees no answers, so that its probability is pooled with that estimate.
        trained: Hard negatives of the current training set.
        pairs: Maximum number of pairs, for the orders gain and random; None for as many as the questions hold.
        drawing: How training draws negatives, for the order gain.
        encoder: The dense index that tells which passages are similar, for the order gain; None compares words.
    """

    order: Order = "priority"
    candidates: int = 8
    seed: int = 0
    scores: Scores | None = None
    pooled_judge: bool = False
    trained: TrainedNegatives = field(default_factory=dict)
    pairs: int | None = None
    drawing: DrawingRules = DrawingRules()
    encoder: str | None = None


class BatchBuilder:
    """Builds one batch. Build the arms in the order audit, second, repeat, priority; no question is drawn twice."""

    def __init__(
        self,
        study: Study,
        pools: Pools,
        questions: list[Question],
        rules: PriorityRules,
        progress: Progress | None,
    ):
        self.study, self.rules, self.progress = study, rules, progress
        self.limit, self.random = rules.candidates, np.random.default_rng(rules.seed)
        self.queue = Queue(study.labels_path)
        self.pools: dict[str, list[PooledPassage]] = {}
        for start in range(0, len(questions), _BLOCK):
            if progress:
                progress(start, len(questions), "pooling")
            self.pools.update(pools.of(questions[start : start + _BLOCK]))
        self.frame = {q.id: q for q in questions if self.pools[q.id]}
        if not self.frame:
            raise Missing(
                "none of these questions has an unlabelled passage in these runs; choose other runs, splits or a "
                "greater depth"
            )
        self.calibration = Calibration(self._outcomes())
        self.waiting = self.queue.waiting() | self.queue.practised()
        self.active = {person.name for person in People(study.labels_path).all() if person.active}
        self.used: set[str] = set()
        self.reasons: list[list[object]] = []
        self.judged: dict[str, list[Judgement]] = defaultdict(list)
        for judgement in Labels(study.labels_path).judgements():
            self.judged[judgement.question].append(judgement)

    def audit(self, count: int, people_needed: int) -> list[Item]:
        """Draw questions uniformly from the frame, and passages uniformly from each pool."""
        audited = self.queue.audited()
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

    def second(self, count: int) -> list[Item]:
        """Draw questions that exactly one annotator judged, with the passages that they judged, for another active
        annotator.
        """
        judges = {id: {given.annotator for given in self.judged.get(id, ())} for id in self._free()}
        free = [id for id, names in judges.items() if len(names) == 1 and self.active - names]
        return [self._again(id, "second", None) for id in self._draw(free, count)]

    def repeats(self, count: int) -> list[Item]:
        """Draw settled questions, each for one of the active annotators who judged it."""
        opened = {pair.question for pair in Labels(self.study.labels_path).consensus() if pair.state == "open"}
        judges = {
            id: sorted({given.annotator for given in self.judged.get(id, ())} & self.active)
            for id in self._free()
            if id not in opened
        }
        drawn = self._draw([id for id, names in judges.items() if names], count)
        return [self._again(id, "repeat", judges[id][int(self.random.integers(len(judges[id])))]) for id in drawn]

    def priority(self, count: int, people_needed: int) -> list[Item]:
        """Select unsettled candidates of at most `count` questions in the order of the batch."""
        if self.rules.order == "priority":
            return self._by_harm(count, people_needed)
        return self._by_pairs(count, people_needed)

    def _by_harm(self, count: int, people_needed: int) -> list[Item]:
        """Select the questions whose candidates have the highest P(false negative) x harm."""
        done, scored, trained_negatives = self._settled(), self._judge_scores(), self.rules.trained
        trained = self._ordinals({passage for passages in trained_negatives.values() for passage in passages})
        worth: dict[str, list[tuple[float, float, PooledPassage]]] = {}
        for id in self._free():
            negatives = trained_negatives.get(id, {})
            drawn = negatives if isinstance(negatives, Mapping) else dict.fromkeys(negatives, 1.0)
            hard = {trained[passage]: share for passage, share in drawn.items() if passage in trained}
            rows = []
            for pooled in self.pools[id]:
                if (id, pooled.ordinal) not in done:
                    p = self._probability(scored.get((id, pooled.ordinal)), pooled)
                    rows.append((p * harm(pooled, hard.get(pooled.ordinal, 0.0)), p, pooled))
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

    def _by_pairs(self, count: int, people_needed: int) -> list[Item]:
        """Select pairs one by one, by what training would gain from each or at random, and serve them by question."""
        done, scored, ids = self._settled(), self._judge_scores(), self._free()
        rows = [(id, pooled) for id in ids for pooled in self.pools[id] if (id, pooled.ordinal) not in done]
        probabilities = [self._probability(scored.get((id, pooled.ordinal)), pooled) for id, pooled in rows]
        limits = PairLimits(self.rules.pairs or count * self.limit, self.limit, count)
        if self.rules.order == "gain":
            pairs = self._gain_pairs(rows, probabilities, done)
            chosen = choose_pairs(pairs, limits, self._vectors([pooled for _, pooled in rows]), self.rules.seed)
        else:
            chosen = draw_pairs([id for id, _ in rows], probabilities, limits, self.random)
        by_question: dict[str, list[ChosenPair]] = defaultdict(list)
        for pair in chosen:
            by_question[rows[pair.place][0]].append(pair)
        items = []
        for id, given in by_question.items():
            pooled = [rows[pair.place][1] for pair in given]
            candidates = self._candidates(id, pooled, [pair.probability for pair in given])
            items.append(Item(id, candidates, "priority", sum(pair.value for pair in given), people_needed))
        if self.rules.order == "gain":
            passages = self.study.corpus.passages([rows[pair.place][1].ordinal for pair in chosen])
            self.reasons = [
                [rows[pair.place][0], passage.id, pair.as_dict()]
                for pair, passage in zip(chosen, passages, strict=True)
            ]
        return items

    def _gain_pairs(
        self,
        rows: Sequence[tuple[str, PooledPassage]],
        probabilities: Sequence[float],
        settled: AbstractSet[tuple[str, int]],
    ) -> GainPairs:
        """Return the pairs with their numbers of draws and with what is judged already of their questions and
        relations.
        """
        numbers = {id: number for number, id in enumerate(self.frame)}
        names = {q.relation for q in self.frame.values() if q.relation}
        relations = {name: number for number, name in enumerate(sorted(names))}
        of_question = [relations.get(q.relation or "", UNKNOWN_RELATION) for q in self.frame.values()]
        judged = np.array([numbers[id] for id, _ in settled if id in numbers], dtype=np.int64)
        relation_of = np.array(of_question, dtype=np.int64)
        question = np.array([numbers[id] for id, _ in rows], dtype=np.int64)
        trained = self.rules.trained
        negatives = [len(trained[id]) if id in trained else len(self.pools[id]) for id, _ in rows]
        judged_relations = relation_of[judged]
        return GainPairs(
            np.array(probabilities),
            self.rules.drawing.draws(np.array([pooled.rank for _, pooled in rows]), np.array(negatives)),
            question,
            relation_of[question],
            np.bincount(judged, minlength=len(numbers)),
            np.bincount(judged_relations[judged_relations != UNKNOWN_RELATION], minlength=len(relations)),
        )

    def _vectors(self, pooled: Sequence[PooledPassage]) -> Vectors:
        """Return what gives the vectors of passages: of a dense index, else of their words."""
        rows = np.array([each.ordinal for each in pooled], dtype=np.int64)
        if self.rules.encoder is not None:
            vectors = Dense(self.study, self.rules.encoder).vectors
            return lambda places: unit(vectors[rows[places]])
        corpus = self.study.corpus
        return lambda places: word_vectors([passage.text for passage in corpus.passages(rows[places].tolist())])

    def _settled(self) -> set[tuple[str, int]]:
        """Return (question id, row) of the pairs whose label is settled."""
        settled = {
            (pair.question, pair.passage) for pair in Labels(self.study.labels_path).consensus() if pair.state != "open"
        }
        known = self._ordinals({passage for _, passage in settled})
        return {(question, known[passage]) for question, passage in settled if passage in known}

    def _probability(self, judged: float | None, pooled: PooledPassage) -> float:
        """P(false negative): the estimate, pooled with the opinion of a named judge where it has one."""
        if judged is None:
            return self.calibration.probability(pooled.evidence, pooled.rank)
        if not self.rules.pooled_judge:
            return judged
        return self.calibration.with_judge(judged, pooled.evidence, pooled.rank)

    def mixed(self, priority: list[Item], others: list[Item]) -> list[Item]:
        """Mix the other arms into the priority items at random, so positions do not reveal arms. Priority items keep
        their order.
        """
        others = [others[index] for index in self.random.permutation(len(others))]
        places = set(self.random.permutation(len(priority) + len(others))[: len(others)].tolist())
        queues = {True: iter(others), False: iter(priority)}
        return [next(queues[place in places]) for place in range(len(priority) + len(others))]

    def _free(self) -> list[str]:
        return [id for id in self.frame if id not in self.used and id not in self.waiting]

    def _draw(self, ids: list[str], count: int) -> list[str]:
        drawn = [ids[index] for index in self.random.permutation(len(ids))[:count].tolist()]
        self.used.update(drawn)
        return drawn

    def _again(self, id: str, arm: Arm, assigned_to: str | None) -> Item:
        """Return the judged passages of a question in random order. If it is assigned, only those that this annotator
        judged.
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
            probabilities = [self.calibration.probability(row.evidence, row.rank) if row.rank else None for row in rows]
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
        return tuple(together(candidates))

    def _outcomes(self) -> list[tuple[Evidence, int | None, str]]:
        """Return (evidence, rank, label) of the settled candidates of all batches."""
        outcomes = self.queue.outcomes()
        held = self._ordinals({outcome.passage for outcome in outcomes if outcome.answer})
        asked = {outcome.question for outcome in outcomes if outcome.passage in held}
        questions = {question.id: question for question in self.study.questions.some(asked)}
        passages = {passage.id: passage for passage in self.study.corpus.passages(held.values())}

        def subject(outcome: Outcome) -> bool | None:
            if not outcome.answer or outcome.passage not in passages or not questions[outcome.question].subject:
                return None
            return mentions_subject(passages[outcome.passage], questions[outcome.question])

        return [((outcome.answer, subject(outcome)), outcome.rank, outcome.label) for outcome in outcomes]

    def _judge_scores(self) -> dict[tuple[str, int], float]:
        """Return the judge's probabilities by (question id, row), where it has them."""
        if self.rules.scores is None:
            return {}
        probabilities: dict[tuple[str, int], float] = {}
        ids = self._free()
        for start in range(0, len(ids), _BLOCK):
            if self.progress:
                self.progress(start, len(ids), "reading scores")
            block = [(id, pooled.ordinal) for id in ids[start : start + _BLOCK] for pooled in self.pools[id]]
            names = [passage.id for passage in self.study.corpus.passages([ordinal for _, ordinal in block])]
            pairs = [(id, passage) for (id, _), passage in zip(block, names, strict=True)]
            known = self.rules.scores(pairs)
            scored = zip(block, pairs, strict=True)
            probabilities.update((key, known[pair]) for key, pair in scored if pair in known)
        return probabilities

    def _ordinals(self, passages: Collection[str]) -> dict[str, int]:
        return self.study.corpus.ordinals(passages) if passages else {}


def together(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Move near-duplicates next to each other, at the position of the group's first member."""
    first: dict[int, int] = {}
    for place, candidate in enumerate(candidates):
        first.setdefault(candidate.near_duplicates, place)
    return sorted(candidates, key=lambda candidate: first[candidate.near_duplicates])
