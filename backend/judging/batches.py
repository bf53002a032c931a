"""Make batches to judge. Candidates are pooled from runs, and the questions belong to four arms.

- priority: questions by P(false negative) x harm, spread over frequency buckets and relations.
- audit: questions drawn uniformly from the whole frame, each with passages drawn uniformly from its pool, in random
  order.
  False-negative rates are estimated from this arm alone. A passage's inclusion probability is the question's
  probability times the drawn share of its pool.
- second: questions that one annotator has judged, for another annotator.
- repeat: settled questions, for an annotator who judged them before, to measure drift.

An audit may draw questions that have been judged before; excluding them would bias the estimate, because annotators and
priority arms do not choose questions at random. Questions that an earlier audit drew are excluded, so all audits
together are one larger sample without replacement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.buckets import bucket_group
from backend.core.jobs import job
from backend.core.manifest import text_sha256
from backend.core.rights import require
from backend.judging.near_duplicates import near_duplicates
from backend.judging.pools import Pools
from backend.judging.priority import Calibration, Evidence, PooledPassage, harm, select_spread
from backend.progress import Progress
from backend.text.answers import DEFAULT_RULE, mentions_subject, rule_named
from db.errors import BadInput, Missing
from db.judgements import Judgement
from db.labels import Labels
from db.people import People
from db.queue import Arm, Candidate, Item, Outcome, Queue
from db.records import SPLITS, Question
from db.tags import Tags

if TYPE_CHECKING:
    from backend.core.study import Study

TrainedNegatives = Mapping[str, Mapping[str, float] | AbstractSet[str]]
"""From question id to passage ids, with or without the probability of each."""

Scores = Callable[[Sequence[tuple[str, str]]], Mapping[tuple[str, str], float]]
"""From pairs of (question id, passage id) to a judge's probabilities. The result lacks pairs without a score."""

DEPTH = 20
CANDIDATES = 8
_BLOCK = 500


@dataclass(frozen=True, slots=True)
class ArmShares:
    """The shares of the arms, 0 to 1. The priority arm gets the rest, and the questions that the other arms cannot
    fill.
    """

    audit: float = 0.10
    second: float = 0.10
    repeat: float = 0.05


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """Size of a new batch.

    Attributes:
        arms: Number of questions by arm.
        passages: Number of passages in total.
        frame: Number of questions that could have been drawn.
    """

    name: str
    arms: dict[str, int]
    passages: int
    frame: int


@job("make batch", light=True)
def make_batch(
    study: Study,
    name: str,
    runs: Sequence[str],
    *,
    size: int = 100,
    depth: int = DEPTH,
    splits: Sequence[str] | None = None,
    slice: Sequence[str] | None = None,
    candidates: int = CANDIDATES,
    people_needed: int = 1,
    mix: ArmShares | None = None,
    seed: int = 0,
    rule: str = DEFAULT_RULE,
    scores: Scores | None = None,
    trained: TrainedNegatives | None = None,
    scored_by: str | None = None,
    by: str | None = None,
    progress: Progress | None = None,
) -> BatchSummary:
    """Make a batch of `size` questions and put it into the queue.

    Args:
        runs: The runs to pool candidates from, the top `depth` ranks of each.
        splits: Only questions of these splits (default all).
        slice: Only the questions with these ids (default all that the runs searched).
        candidates: Maximum number of passages shown for each question.
        people_needed: Number of annotators who judge each question.
        scores: A judge's probabilities. Without them, an estimate from the answer match, the subject and the rank is
        used.
        trained: The current training set's hard negatives by question id: passage ids, with the probability that a step
        of
            training draws each, or without one (1).
        scored_by: The name of the judge that `scores` are of. It sees no answers, so the answer match and the subject
        are taken into
            account besides.
        by: The person who makes the batch; see `backend.core.rights.require`.

    Raises:
        BadInput: no run, an unknown split, or a size, depth or share out of range.
        Missing: an unknown run or question, or no question with unlabelled candidates.
        Refused: the name is taken, or `by` may not make batches.
    """
    require(study, by, "make batches")
    mix = mix or ArmShares()
    _check(size, candidates, splits, mix)
    rule_named(rule)
    if progress:
        progress(0, None, "pooling")
    pools = Pools(study, runs, depth, rule)
    questions = _eligible(study, pools.question_ids(), splits, slice)
    builder = _BatchBuilder(study, pools, questions, candidates, seed, scores, trained or {}, progress)
    builder.scored_by = scored_by
    audit = builder.audit(round(size * mix.audit), people_needed)
    others = builder.second(round(size * mix.second)) + builder.repeats(round(size * mix.repeat))
    priority = builder.priority(size - len(audit) - len(others), people_needed)
    items = builder.mixed(priority, [*audit, *others])
    settings = {
        "runs": list(runs),
        "depth": depth,
        "splits": list(splits) if splits else None,
        "size": size,
        "candidates": candidates,
        "slice": None if slice is None else {"questions": len(slice), "sha256": text_sha256(*slice)},
        "rule": rule,
        "seed": seed,
        "mix": asdict(mix),
        "frame": len(builder.frame),
        "calibrated_on": builder.calibration.labels,
        "cross_encoder": scores is not None,
        "judge": scored_by,
    }
    Queue(study.labels_path).add_batch(name, items, settings, by=by)
    return _summary(name, items, len(builder.frame))


def batch_of_pairs(
    study: Study,
    name: str,
    pairs: Sequence[tuple[str, str]],
    *,
    people_needed: int = 1,
    practice: bool = False,
    origin: str = "",
    strata: Sequence[str] | None = None,
    by: str | None = None,
) -> BatchSummary:
    """Put (question id, passage id) pairs into the queue, in their order.

    The pairs may be a stratum of a training set, a selection on a map, or practice.

    Args:
        origin: Where the pairs come from.
        strata: The stratum of each pair. The Quality page shows the accuracy of each stratum; annotators do not see
        strata.

    Raises:
        Missing: a question or passage that is not in the study.
        Refused: no pairs, the name is taken, or `by` may not make batches.
    """
    require(study, by, "make batches")
    items = pair_items(study, pairs, people_needed=people_needed)
    settings: dict[str, Any] = {"pairs": len(pairs), "origin": origin}
    if strata is not None:
        settings["strata"] = [
            [question, passage, stratum] for (question, passage), stratum in zip(pairs, strata, strict=True)
        ]
    Queue(study.labels_path).add_batch(name, items, settings, practice=practice, by=by)
    return _summary(name, items, len(items))


def pair_items(
    study: Study,
    pairs: Sequence[tuple[str, str]],
    probabilities: Mapping[tuple[str, str], float] | None = None,
    people_needed: int = 1,
) -> list[Item]:
    """Return the items of a batch of (question id, passage id) pairs; a question comes where its first pair is.

    Args:
        probabilities: How probable each draw was, if the pairs are a random sample.

    Raises Missing for a question or passage that is not in the study.
    """
    passages_of: dict[str, dict[str, None]] = defaultdict(dict)
    for question, passage in pairs:
        passages_of[question][passage] = None
    study.questions.some(passages_of)
    ordinals = study.corpus.ordinals({passage for _, passage in pairs})
    if absent := next((passage for _, passage in pairs if passage not in ordinals), None):
        raise Missing(f"there is no passage {absent!r} in this study")
    drawn = probabilities or {}
    items = []
    for question, ids in passages_of.items():
        texts = [passage.text for passage in study.corpus.passages([ordinals[id] for id in ids])]
        chosen = [
            Candidate(id, group, inclusion_probability=drawn.get((question, id)))
            for id, group in zip(ids, near_duplicates(texts), strict=True)
        ]
        items.append(Item(question, tuple(_together(chosen)), people_needed=people_needed))
    return items


def questions_of(
    study: Study, relations: Sequence[str] = (), buckets: Sequence[str] = (), tags: Sequence[str] = ()
) -> list[str]:
    """Return the ids of the questions with these relations, buckets and tags, for `make_batch(slice=...)`.

    Args:
        buckets: Names as in reports ("bucket 3", "2-3 mentions", "frequency unknown"), or short ("3", "2-3").
        tags: People's tags; a question needs one of them.

    Raises:
        Missing: a relation, bucket or tag that no question has. The message lists those that exist.
    """
    questions = study.questions.all()
    groups = {question.id: bucket_group(question.bucket, question.frequency) for question in questions}
    _refuse_absent("relation", relations, {q.relation for q in questions if q.relation is not None})
    known = {
        name: group
        for group in groups.values()
        for name in (group, group.removeprefix("bucket ").removesuffix(" mentions"))
    }
    _refuse_absent("bucket", buckets, set(known))
    chosen = {known[bucket] for bucket in buckets}
    store = Tags(study.labels_path)
    tagged = {question for tag in tags for question in store.questions(tag)}
    return [
        question.id
        for question in questions
        if (not relations or question.relation in relations)
        and (not buckets or groups[question.id] in chosen)
        and (not tags or question.id in tagged)
    ]


def _eligible(
    study: Study, searched: AbstractSet[str], splits: Sequence[str] | None, slice: Sequence[str] | None
) -> list[Question]:
    """The questions that the runs searched, of these splits and this slice."""
    questions = study.questions.all() if slice is None else study.questions.some(dict.fromkeys(slice))
    return [q for q in questions if q.id in searched and (not splits or q.split in splits)]


class _BatchBuilder:
    """Builds one batch. Build the arms in the order audit, second, repeat, priority; no question is drawn twice."""

    def __init__(
        self,
        study: Study,
        pools: Pools,
        questions: list[Question],
        candidates: int,
        seed: int,
        scores: Scores | None,
        trained: TrainedNegatives,
        progress: Progress | None,
    ):
        self.study, self.scores, self.trained, self.progress = study, scores, trained, progress
        self.scored_by: str | None = None
        self.limit, self.random, self.queue = candidates, np.random.default_rng(seed), Queue(study.labels_path)
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
        self.used: set[str] = set()
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
        """Draw questions that exactly one annotator judged, with the passages that they judged, for another
        annotator.
        """
        free = [id for id in self._free() if len({given.annotator for given in self.judged.get(id, ())}) == 1]
        return [self._again(id, "second", None) for id in self._draw(free, count)]

    def repeats(self, count: int) -> list[Item]:
        """Draw settled questions, each for one of the active annotators who judged it."""
        active = {person.name for person in People(self.study.labels_path).all() if not person.paused}
        opened = {pair.question for pair in Labels(self.study.labels_path).consensus() if pair.state == "open"}
        judges = {
            id: sorted({given.annotator for given in self.judged.get(id, ())} & active)
            for id in self._free()
            if id not in opened
        }
        drawn = self._draw([id for id, names in judges.items() if names], count)
        return [self._again(id, "repeat", judges[id][int(self.random.integers(len(judges[id])))]) for id in drawn]

    def priority(self, count: int, people_needed: int) -> list[Item]:
        """Select the unsettled candidates with the highest P(false negative) x harm."""
        settled = {
            (pair.question, pair.passage) for pair in Labels(self.study.labels_path).consensus() if pair.state != "open"
        }
        known = self._ordinals({passage for _, passage in settled})
        done = {(question, known[passage]) for question, passage in settled if passage in known}
        trained = self._ordinals({passage for passages in self.trained.values() for passage in passages})
        scored = self._judge_scores()
        worth: dict[str, list[tuple[float, float, PooledPassage]]] = {}
        for id in self._free():
            negatives = self.trained.get(id, {})
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

    def _probability(self, judged: float | None, pooled: PooledPassage) -> float:
        """P(false negative): the estimate, pooled with the opinion of a named judge where it has one."""
        if judged is None:
            return self.calibration.probability(pooled.evidence, pooled.rank)
        if not self.scored_by:
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
        return tuple(_together(candidates))

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
        if self.scores is None:
            return {}
        probabilities: dict[tuple[str, int], float] = {}
        ids = self._free()
        for start in range(0, len(ids), _BLOCK):
            if self.progress:
                self.progress(start, len(ids), "reading scores")
            block = [(id, pooled.ordinal) for id in ids[start : start + _BLOCK] for pooled in self.pools[id]]
            names = [passage.id for passage in self.study.corpus.passages([ordinal for _, ordinal in block])]
            pairs = [(id, passage) for (id, _), passage in zip(block, names, strict=True)]
            known = self.scores(pairs)
            scored = zip(block, pairs, strict=True)
            probabilities.update((key, known[pair]) for key, pair in scored if pair in known)
        return probabilities

    def _ordinals(self, passages: Collection[str]) -> dict[str, int]:
        return self.study.corpus.ordinals(passages) if passages else {}


def _together(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Move near-duplicates next to each other, at the position of the group's first member."""
    first: dict[int, int] = {}
    for place, candidate in enumerate(candidates):
        first.setdefault(candidate.near_duplicates, place)
    return sorted(candidates, key=lambda candidate: first[candidate.near_duplicates])


def _refuse_absent(what: str, names: Sequence[str], known: AbstractSet[str]) -> None:
    if absent := next((name for name in names if name not in known), None):
        raise Missing(f"no question has the {what} {absent!r}; there are: {', '.join(sorted(known)) or 'none'}")


def _check(size: int, candidates: int, splits: Sequence[str] | None, mix: ArmShares) -> None:
    if size < 1 or candidates < 1:
        raise BadInput("a batch needs at least one question, and a question at least one passage")
    if unknown := [split for split in splits or () if split not in SPLITS]:
        raise BadInput(f"there is no split {unknown[0]!r}; there are: {', '.join(SPLITS)}")
    shares = (mix.audit, mix.second, mix.repeat)
    if min(shares) < 0 or sum(shares) > 1:
        raise BadInput("the shares of the arms and their sum must be between 0 and 1")


def _summary(name: str, items: Sequence[Item], frame: int) -> BatchSummary:
    arms: dict[str, int] = {}
    for item in items:
        arms[item.arm] = arms.get(item.arm, 0) + 1
    return BatchSummary(name, arms, sum(len(item.candidates) for item in items), frame)
