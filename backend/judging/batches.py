"""Make batches of questions to judge. Candidate passages are pooled from runs, and each question belongs to one of four
arms:

- priority: questions selected by P(false negative) x harm and spread over frequency buckets and relations; or pairs
  drawn at random.
- audit: questions drawn uniformly from the whole sampling frame, each with passages drawn uniformly from its pool, in
  random order. False-negative rates are estimated from this arm alone. A passage's inclusion probability is the
  question's probability times the drawn share of its pool.
- second: questions that one annotator has judged, for another annotator.
- repeat: settled questions, for an annotator who judged them before, to measure drift.

An audit may draw questions that have been judged before. Excluding them would bias the estimate, because annotators and
priority arms do not choose questions at random. Questions that an earlier audit drew are excluded, so all audits
together form one larger sample without replacement. db/leases.py decides when a question of a batch is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import Any

from blindspot.analysis.buckets import bucket_group
from blindspot.backend.core.declared import named_settings
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import text_sha256
from blindspot.backend.core.require_right import require
from blindspot.backend.core.study import Study
from blindspot.backend.judging.batch_builder import (
    BatchBuilder,
    PriorityEvidence,
    Scores,
    TrainedNegatives,
    group_duplicates,
)
from blindspot.backend.judging.batch_order import mix_arms
from blindspot.backend.judging.near_duplicates import near_duplicates
from blindspot.backend.judging.pools import Pools
from blindspot.backend.judging.settings import BatchSettings
from blindspot.backend.progress import Progress
from blindspot.backend.text.answers import rule_named
from blindspot.db.errors import BadInput, Missing
from blindspot.db.queue import Candidate, Item, Queue
from blindspot.db.records import Question


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """The size of a new batch.

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
@named_settings(BatchSettings)
def make_batch(
    study: Study,
    name: str,
    runs: Sequence[str],
    settings: BatchSettings,
    *,
    scores: Scores | None = None,
    trained: TrainedNegatives | None = None,
    scored_by: str | None = None,
    by: str | None = None,
    progress: Progress | None = None,
) -> BatchSummary:
    """Make a batch and put it into the queue.

    Args:
        runs: The runs to pool candidates from.
        scores: A judge's probabilities. Without them, an estimate from the answer match, the subject and the rank is
        used.
        trained: The current training set's hard negatives by question id: passage ids, with the probability that a step
            of training draws each, or without one (1).
        scored_by: The name of the judge that `scores` are of. It sees no answers, so the answer match and the subject
            are taken into account besides.
        by: The person who makes the batch; see `blindspot.backend.core.require_right.require`.

    Raises:
        BadInput: no run, or a setting out of range.
        Missing: an unknown run or question, or no question with unlabelled candidates.
        Refused: the name is taken, or `by` may not make batches.
    """
    require(study, by, "make batches")
    _check_settings(settings)
    rule_named(settings.rule)
    evidence = PriorityEvidence(scores, scored_by is not None, trained or {})
    if progress:
        progress(0, None, "pooling")
    pools = Pools(study, runs, settings.depth, settings.rule)
    builder = BatchBuilder(
        study, pools, _eligible_questions(study, pools.question_ids(), settings), settings, evidence, progress
    )
    items = _build_items(builder, settings)
    asked = settings.slice
    recorded = {
        "runs": list(runs),
        **{key: getattr(settings, key) for key in ("depth", "size", "rule", "candidates", "seed")},
        "splits": list(settings.splits) if settings.splits else None,
        "slice": None if asked is None else {"questions": len(asked), "sha256": text_sha256(*asked)},
        "mix": asdict(settings.mix),
        "judge": scored_by,
        "frame": len(builder.frame),
        "calibrated_on": builder.calibration.labels,
        "cross_encoder": scores is not None,
        **({} if settings.order == "priority" else {"order": settings.order, "pairs": settings.pairs}),
    }
    Queue(study.labels_path).add_batch(name, items, recorded, actor=by)
    return _summary(name, items, len(builder.frame))


def _build_items(builder: BatchBuilder, settings: BatchSettings) -> list[Item]:
    """Build all arms of a batch and mix their items."""
    size, mix, people = settings.size, settings.mix, settings.people_needed
    audit = builder.audit(round(size * mix.audit), people)
    others = builder.second_opinions(round(size * mix.second)) + builder.repeat_items(round(size * mix.repeat))
    priority = builder.priority(size - len(audit) - len(others), people)
    return mix_arms(priority, [*audit, *others], builder.random)


def batch_of_pairs(
    study: Study,
    name: str,
    pairs: Sequence[tuple[str, str]],
    *,
    people_needed: int = 1,
    origin: str = "",
    actor: str | None = None,
) -> BatchSummary:
    """Add a batch of (question id, passage id) pairs to the queue, in the given order.

    The pairs may come from a selection on a map.

    Args:
        origin: Where the pairs come from.

    Raises:
        Missing: a question or passage that is not in the study.
        Refused: no pairs, the name is taken, or `actor` may not make batches.
    """
    require(study, actor, "make batches")
    items = pair_items(study, pairs, people_needed=people_needed)
    settings: dict[str, Any] = {"pairs": len(pairs), "origin": origin}
    Queue(study.labels_path).add_batch(name, items, settings, actor=actor)
    return _summary(name, items, len(items))


def pair_items(
    study: Study,
    pairs: Sequence[tuple[str, str]],
    probabilities: Mapping[tuple[str, str], float] | None = None,
    people_needed: int = 1,
) -> list[Item]:
    """Return the items of a batch of (question id, passage id) pairs, ordered by each question's first pair.

    Args:
        probabilities: How probable each draw was, if the pairs are a random sample.

    Raises Missing for a question or passage that is not in the study.
    """
    passages_of: dict[str, dict[str, None]] = defaultdict(dict)
    for question, passage in pairs:
        passages_of[question][passage] = None
    study.questions.with_ids(passages_of)
    passages = study.corpus.by_id(passage for _, passage in pairs)
    if absent := next((passage for _, passage in pairs if passage not in passages), None):
        raise Missing(f"there is no passage {absent!r} in this study")
    drawn = probabilities or {}
    items = []
    for question, ids in passages_of.items():
        texts = [passages[id].text for id in ids]
        chosen = [
            Candidate(id, group, inclusion_probability=drawn.get((question, id)))
            for id, group in zip(ids, near_duplicates(texts), strict=True)
        ]
        items.append(Item(question, tuple(group_duplicates(chosen)), people_needed=people_needed))
    return items


def questions_of(study: Study, relations: Sequence[str] = (), buckets: Sequence[str] = ()) -> list[str]:
    """Return the ids of the questions with these relations and buckets, for `make_batch(slice=...)`.

    Args:
        buckets: Names as in reports ("bucket 3", "2-3 mentions", "frequency unknown"), or short ("3", "2-3").

    Raises:
        Missing: a relation or bucket that no question has. The message lists those that exist.
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
    return [
        question.id
        for question in questions
        if (not relations or question.relation in relations) and (not buckets or groups[question.id] in chosen)
    ]


def _eligible_questions(study: Study, searched_ids: AbstractSet[str], settings: BatchSettings) -> list[Question]:
    """Return the questions that the runs searched and that are in the splits and the slice of the settings."""
    asked = settings.slice
    questions = study.questions.all() if asked is None else study.questions.with_ids(dict.fromkeys(asked))
    return [q for q in questions if q.id in searched_ids and (not settings.splits or q.split in settings.splits)]


def _refuse_absent(noun: str, names: Sequence[str], known_names: AbstractSet[str]) -> None:
    if absent := next((name for name in names if name not in known_names), None):
        raise Missing(f"no question has the {noun} {absent!r}; there are: {', '.join(sorted(known_names)) or 'none'}")


def _check_settings(settings: BatchSettings) -> None:
    if settings.pairs is not None and settings.order == "priority":
        raise BadInput("the order priority chooses whole questions; limit the pairs of the order random")
    shares = (settings.mix.audit, settings.mix.second, settings.mix.repeat)
    if min(shares) < 0 or sum(shares) > 1:
        raise BadInput("the shares of the arms and their sum must be between 0 and 1")


def _summary(name: str, items: Sequence[Item], frame: int) -> BatchSummary:
    arms: dict[str, int] = {}
    for item in items:
        arms[item.arm] = arms.get(item.arm, 0) + 1
    return BatchSummary(name, arms, sum(len(item.candidates) for item in items), frame)
