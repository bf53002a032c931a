"""Making batches to judge: pooled from runs, and mixed of four arms.

- priority: by P(false negative) x harm, each frequency bucket in its turn.
- audit: questions drawn uniformly from the whole frame, and of each pool uniformly drawn passages in random order. False-negative
  rates are estimated from this arm alone. A passage's inclusion probability is the question's times its share of the pool.
- second: questions that one person judged, for another. repeat: settled questions, for one who judged them, to see drift.

An audit question may have been judged before: leaving those out would leave the easy ones, and the estimate would be wrong.
Questions that an earlier audit drew are left out, so that audits add up to one larger sample without replacement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from analysis.buckets import bucket_group
from backend.core.jobs import job
from backend.core.manifest import text_sha256
from backend.core.rights import require
from backend.judging.near_duplicates import near_duplicates
from backend.judging.pools import Pools
from backend.judging.priority import Calibration, Pooled, harm, served
from backend.progress import Progress
from backend.text.answers import DEFAULT_RULE, rule_named
from db.errors import BadInput, Missing
from db.judgements import Judgement
from db.labels import Labels
from db.people import People
from db.queue import Candidate, Item, Queue
from db.records import SPLITS

if TYPE_CHECKING:
    from backend.core.study import Study

Scores = Callable[[Sequence[tuple[str, str]]], Mapping[tuple[str, str], float]]
"""Pairs of (question id, passage id) to a cross-encoder's probability; a pair that is absent is not known."""

DEPTH = 20
CANDIDATES = 8
_BLOCK = 500


@dataclass(frozen=True, slots=True)
class Mix:
    """The shares of the arms. Priority gets what is left, and what the others cannot fill."""

    audit: float = 0.10
    second: float = 0.10
    repeat: float = 0.05


@dataclass(frozen=True, slots=True)
class BatchMade:
    """What was made: questions of each arm, passages in all, and how many questions could have been drawn."""

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
    mix: Mix | None = None,
    seed: int = 0,
    rule: str = DEFAULT_RULE,
    scores: Scores | None = None,
    trained: Mapping[str, AbstractSet[str]] | None = None,
    by: str | None = None,
    progress: Progress | None = None,
) -> BatchMade:
    """Make a batch of `size` questions and put it into the queue.

    Args:
        runs: what the candidates are pooled from, the first `depth` ranks of each.
        splits, slice: only questions of these splits, of these ids; default all that the runs searched.
        candidates: passages shown of a question, at most.
        scores: a cross-encoder's probabilities, once there is one; else a calibrated guess from answer match and rank is used.
        trained: passages that the current training set has as hard negatives, by question.
        by: who asks; see `backend.core.rights.require`.

    Raises:
        BadInput: no run, an unknown split, a size, depth or share that is out of range.
        Missing: an unknown run or question, or no question with unlabelled candidates.
        Refused: the name is taken, or `by` may not make batches.
    """
    require(study, by, "make batches")
    mix = mix or Mix()
    _check(size, candidates, splits, mix)
    rule_named(rule)
    if progress:
        progress(0, None, "pooling")
    maker = _Maker(
        study, Pools(study, runs, depth, rule), splits, slice, candidates, seed, scores, trained or {}, progress
    )
    audit = maker.audit(round(size * mix.audit), people_needed)
    others = maker.second(round(size * mix.second)) + maker.repeats(round(size * mix.repeat))
    priority = maker.priority(size - len(audit) - len(others), people_needed)
    items = maker.mixed(priority, [*audit, *others])
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
        "frame": len(maker.frame),
        "calibrated_on": maker.calibration.labels,
        "cross_encoder": scores is not None,
    }
    Queue(study.labels_path).add_batch(name, items, settings, by=by)
    return _made(name, items, len(maker.frame))


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
) -> BatchMade:
    """Put (question id, passage id) pairs into the queue in their order: a stratum of a training set, what a map selected, practice.

    Args:
        strata: the stratum of each pair, whose accuracy Quality shows; annotators are not told.

    Raises:
        Missing: a question or passage that the study does not hold.
        Refused: no pairs, the name is taken, or `by` may not make batches.
    """
    require(study, by, "make batches")
    asked: dict[str, dict[str, None]] = defaultdict(dict)
    for question, passage in pairs:
        asked[question][passage] = None
    study.questions.some(asked)
    ordinals = study.corpus.ordinals({passage for _, passage in pairs})
    if absent := next((passage for _, passage in pairs if passage not in ordinals), None):
        raise Missing(f"there is no passage {absent!r} in this study")
    items = []
    for question, wanted in asked.items():
        texts = [passage.text for passage in study.corpus.passages([ordinals[id] for id in wanted])]
        chosen = [Candidate(id, group) for id, group in zip(wanted, near_duplicates(texts), strict=True)]
        items.append(Item(question, tuple(_together(chosen)), people_needed=people_needed))
    settings: dict = {"pairs": len(pairs), "origin": origin}
    if strata is not None:
        settings["strata"] = [
            [question, passage, stratum] for (question, passage), stratum in zip(pairs, strata, strict=True)
        ]
    Queue(study.labels_path).add_batch(name, items, settings, practice=practice, by=by)
    return _made(name, items, len(items))


def questions_of(study: Study, relations: Sequence[str] = (), buckets: Sequence[str] = ()) -> list[str]:
    """The ids of the questions of these relations, and of these buckets: what a batch takes as `slice`.

    Args:
        buckets: as reports name them ("bucket 3", "2-3 mentions", "frequency unknown"), or short ("3", "2-3").

    Raises:
        Missing: a relation or bucket that no question has; says which there are.
    """
    questions = study.questions.all()
    groups = {question.id: bucket_group(question.bucket, question.frequency) for question in questions}
    _refuse_absent("relation", relations, {question.relation for question in questions} - {None})
    known = {
        name: group
        for group in groups.values()
        for name in (group, group.removeprefix("bucket ").removesuffix(" mentions"))
    }
    _refuse_absent("bucket", buckets, set(known))
    wanted = {known[bucket] for bucket in buckets}
    return [
        question.id
        for question in questions
        if (not relations or question.relation in relations) and (not buckets or groups[question.id] in wanted)
    ]


class _Maker:
    """One batch in the making. Arms are made in the order audit, second and repeat, priority: no question comes twice."""

    def __init__(
        self,
        study: Study,
        pools: Pools,
        splits: Sequence[str] | None,
        slice: Sequence[str] | None,
        candidates: int,
        seed: int,
        scores: Scores | None,
        trained: Mapping[str, AbstractSet[str]],
        progress: Progress | None,
    ):
        self.study, self.scores, self.trained, self.progress = study, scores, trained, progress
        self.most, self.random, self.queue = candidates, np.random.default_rng(seed), Queue(study.labels_path)
        searched = pools.question_ids()
        questions = study.questions.all() if slice is None else study.questions.some(dict.fromkeys(slice))
        chosen = [q for q in questions if q.id in searched and (not splits or q.split in splits)]
        self.pools: dict[str, list[Pooled]] = {}
        for start in range(0, len(chosen), _BLOCK):
            if progress:
                progress(start, len(chosen), "pooling")
            self.pools.update(pools.of(chosen[start : start + _BLOCK]))
        self.frame = {q.id: q for q in chosen if self.pools[q.id]}
        if not self.frame:
            raise Missing(
                "none of these questions has an unlabelled passage in these runs; choose other runs, splits or a greater depth"
            )
        self.calibration = Calibration(self.queue.outcomes())
        self.waiting, self.used = self.queue.waiting() | self.queue.practised(), set()
        self.judged: dict[str, list[Judgement]] = defaultdict(list)
        for judgement in Labels(study.labels_path).judgements():
            self.judged[judgement.question].append(judgement)

    def audit(self, count: int, people_needed: int) -> list[Item]:
        audited = self.queue.audited()
        free = [id for id in self.frame if id not in audited]
        count = min(count, len(free))
        items = []
        for index in self.random.choice(len(free), count, replace=False).tolist() if count else ():
            id, pool = free[index], self.pools[free[index]]
            shown = self.random.permutation(len(pool))[: self.most].tolist()
            share = count / len(free)
            chosen = self._candidates(id, [pool[each] for each in shown], inclusion=share * len(shown) / len(pool))
            items.append(Item(id, chosen, "audit", people_needed=people_needed, inclusion_probability=share))
        self.used.update(item.question for item in items)
        return items

    def second(self, count: int) -> list[Item]:
        """Questions that exactly one person judged: what that one judged, for another."""
        free = [id for id in self._free() if len({each.annotator for each in self.judged.get(id, ())}) == 1]
        return [self._again(id, "second", None) for id in self._draw(free, count)]

    def repeats(self, count: int) -> list[Item]:
        """Settled questions, each for one of those who judged it."""
        active = {who.name for who in People(self.study.labels_path).all() if not who.paused}
        opened = {pair.question for pair in Labels(self.study.labels_path).consensus() if pair.state == "open"}
        judges = {
            id: sorted({each.annotator for each in self.judged.get(id, ())} & active)
            for id in self._free()
            if id not in opened
        }
        drawn = self._draw([id for id, names in judges.items() if names], count)
        return [self._again(id, "repeat", judges[id][int(self.random.integers(len(judges[id])))]) for id in drawn]

    def priority(self, count: int, people_needed: int) -> list[Item]:
        settled = {
            (pair.question, pair.passage) for pair in Labels(self.study.labels_path).consensus() if pair.state != "open"
        }
        known = self._ordinals({passage for _, passage in settled})
        done = {(question, known[passage]) for question, passage in settled if passage in known}
        trained = self._ordinals({passage for passages in self.trained.values() for passage in passages})
        given = self._cross_encoded()
        worth: dict[str, list[tuple[float, float, Pooled]]] = {}
        for id in self._free():
            hard = {trained[passage] for passage in self.trained.get(id, ()) if passage in trained}
            rows = []
            for pooled in self.pools[id]:
                if (id, pooled.ordinal) not in done:
                    p = given.get((id, pooled.ordinal), self.calibration.probability(pooled.answer, pooled.rank))
                    rows.append((p * harm(pooled, pooled.ordinal in hard), p, pooled))
            if rows:
                worth[id] = sorted(rows, key=lambda row: (-row[0], row[2].rank, row[2].ordinal))[: self.most]
        totals = {id: sum(row[0] for row in rows) for id, rows in worth.items()}
        chosen = served([self.frame[id] for id in worth], totals, count)
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

    def mixed(self, priority: list[Item], others: list[Item]) -> list[Item]:
        """The others strewn among the priority items, which keep their order: a place does not betray an arm."""
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

    def _again(self, id: str, arm: str, assigned_to: str | None) -> Item:
        """The passages of a question that were judged (by the one it is for, where it is for one), in random order."""
        passages = dict.fromkeys(each.passage for each in self.judged[id] if assigned_to in (None, each.annotator))
        ordinals = self._ordinals(passages)
        pooled = {each.ordinal: each for each in self.pools[id]}
        known = [ordinals[passage] for passage in passages if passage in ordinals]
        rows = [pooled.get(ordinal, Pooled(ordinal, "", 0, 0.0, None, False)) for ordinal in known]
        rows = [rows[index] for index in self.random.permutation(len(rows)).tolist()]
        return Item(id, self._candidates(id, rows), arm, assigned_to=assigned_to)

    def _candidates(
        self,
        question: str,
        rows: Sequence[Pooled],
        probabilities: Sequence[float] | None = None,
        inclusion: float | None = None,
    ) -> tuple[Candidate, ...]:
        passages = self.study.corpus.passages([row.ordinal for row in rows])
        groups = near_duplicates([passage.text for passage in passages])
        if probabilities is None:
            probabilities = [self.calibration.probability(row.answer, row.rank) if row.rank else None for row in rows]
        made = [
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
        return tuple(_together(made))

    def _cross_encoded(self) -> dict[tuple[str, int], float]:
        """A cross-encoder's probabilities by (question, ordinal), where there is one."""
        if self.scores is None:
            return {}
        found: dict[tuple[str, int], float] = {}
        ids = self._free()
        for start in range(0, len(ids), _BLOCK):
            if self.progress:
                self.progress(start, len(ids), "reading scores")
            block = [(id, each.ordinal) for id in ids[start : start + _BLOCK] for each in self.pools[id]]
            names = [passage.id for passage in self.study.corpus.passages([ordinal for _, ordinal in block])]
            pairs = [(id, passage) for (id, _), passage in zip(block, names, strict=True)]
            known = self.scores(pairs)
            found.update((key, known[pair]) for key, pair in zip(block, pairs, strict=True) if pair in known)
        return found

    def _ordinals(self, passages) -> dict[str, int]:
        return self.study.corpus.ordinals(passages) if passages else {}


def _together(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Near-duplicates one after the other, each group where its first member stands."""
    first: dict[int, int] = {}
    for place, each in enumerate(candidates):
        first.setdefault(each.near_duplicates, place)
    return sorted(candidates, key=lambda each: first[each.near_duplicates])


def _refuse_absent(what: str, asked: Sequence[str], known: AbstractSet[str]) -> None:
    if absent := next((each for each in asked if each not in known), None):
        raise Missing(f"no question has the {what} {absent!r}; there are: {', '.join(sorted(known)) or 'none'}")


def _check(size: int, candidates: int, splits: Sequence[str] | None, mix: Mix) -> None:
    if size < 1 or candidates < 1:
        raise BadInput("a batch has one question at least, and a question one passage")
    if unknown := [split for split in splits or () if split not in SPLITS]:
        raise BadInput(f"there is no split {unknown[0]!r}; there are: {', '.join(SPLITS)}")
    shares = (mix.audit, mix.second, mix.repeat)
    if min(shares) < 0 or sum(shares) > 1:
        raise BadInput("the shares of a batch's arms lie between 0 and 1, and so does their sum")


def _made(name: str, items: Sequence[Item], frame: int) -> BatchMade:
    arms: dict[str, int] = {}
    for item in items:
        arms[item.arm] = arms.get(item.arm, 0) + 1
    return BatchMade(name, arms, sum(len(item.candidates) for item in items), frame)
