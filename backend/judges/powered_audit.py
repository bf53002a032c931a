"""Estimate false-negative rates from an audit together with the scores of a judge for all pairs from which the audit
was drawn (prediction-powered inference).

`blindspot.backend.judging.audits` computes the classical rates, which use only labels. Both are shown side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.analysis.buckets import bucket_group, bucket_order
from blindspot.analysis.prediction_powered import PoweredRate, ScoredSample, powered_rate, powered_rates_by
from blindspot.analysis.relations import relation_order
from blindspot.backend.core.units import units_by_id
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.audits import RANK_GROUPS, SETTLED, AuditSample, audit_samples
from blindspot.backend.judging.pools import Pools
from blindspot.backend.judging.priority import rank_group
from blindspot.db.errors import BlindspotError, Missing
from blindspot.db.labels import Labels
from blindspot.db.records import Question

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

_BLOCK = 500
FrameRow = tuple[str, str, int]
"""(question id, passage id, best rank in the pooled runs)."""


@dataclass(frozen=True)
class JudgeAssistedAudit:
    """The rates estimated with one judge's scores.

    Attributes:
        overall: None if `reason` says why there is no rate. scored: Pairs of the frame with a score. pairs: Pairs of the
        frame. by: The rates by "relation", "bucket" and "rank", each by group.
    """

    judge: str
    pairs: int
    scored: int
    overall: PoweredRate | None
    reason: str = ""
    by: dict[str, dict[str, PoweredRate]] = field(default_factory=dict)


def powered_audits(
    study: Study, batch: str | None = None, judges: Sequence[str] | None = None
) -> list[JudgeAssistedAudit]:
    """Return the rates estimated with each judge that has scores, or with some judges; [] if no question is completely
    judged.

    Raises Missing for an unknown batch or a judge without scores.
    """
    stores = score_stores(study, judges)
    samples = [sample for sample in audit_samples(study, batch) if sample.complete]
    if not samples or not stores:
        return []
    if len(samples) > 1:
        reason = "the audits were drawn from different questions or pools; choose one batch"
        return [JudgeAssistedAudit(name, 0, 0, None, reason) for name in stores]
    frame = audited_frame(study, samples[0].settings)
    if isinstance(frame, str):
        return [JudgeAssistedAudit(name, 0, 0, None, frame) for name in stores]
    questions = {question.id: question for question in study.questions.with_ids(dict.fromkeys(row[0] for row in frame))}
    return [
        _rates(study, name, store, samples[0], frame, questions) for name, store in stores.items() if store is not None
    ]


def audited_frame(study: Study, settings: Mapping[str, Any]) -> list[FrameRow] | str:
    """Return every pair that an audit could have drawn, or a sentence that explains why these pairs are not known."""
    if settings.get("slice") is not None:
        return "the audit was drawn from a slice, whose questions the batch does not list"
    try:
        pools = Pools(study, settings["runs"], settings["depth"], settings["rule"])
    except BlindspotError as error:
        return str(error)
    splits = settings.get("splits")
    searched = pools.question_ids()
    questions = [q for q in study.questions.all() if q.id in searched and (not splits or q.split in splits)]
    rows: list[tuple[str, int, int]] = []
    found = 0
    for start in range(0, len(questions), _BLOCK):
        for id, pool in pools.pools_of(questions[start : start + _BLOCK], subjects=False).items():
            found += bool(pool)
            rows += [(id, pooled.ordinal, pooled.rank) for pooled in pool]
    if found != settings["frame"]:
        return (
            f"the audit was drawn from {settings['frame']:,} questions, and its runs now give {found:,}: the runs or the "
            "questions have changed since"
        )
    ids = passage_ids(study, [ordinal for _, ordinal, _ in rows])
    return [(question, ids[ordinal], rank) for question, ordinal, rank in rows]


def passage_ids(study: Study, ordinals: Iterable[int]) -> dict[int, str]:
    """Return the id of each row's passage."""
    wanted = sorted(set(ordinals))
    ids: dict[int, str] = {}
    for start in range(0, len(wanted), 10_000):
        block = wanted[start : start + 10_000]
        ids.update(zip(block, (passage.id for passage in study.corpus.passages(block)), strict=True))
    return ids


def score_stores(study: Study, judges: Sequence[str] | None) -> dict[str, ScoreStore | None]:
    """Return the score stores of some judges, or of all; None for scores that refer to another collection. Raises
    Missing for a judge without scores.
    """
    names = list(judges) if judges is not None else list(study.parts("scores"))
    return {name: _store(study, name, judges is not None) for name in names}


def _store(study: Study, name: str, required: bool) -> ScoreStore | None:
    try:
        return ScoreStore.open(study, name)
    except BlindspotError:
        if required:
            raise
        return None


def _rates(
    study: Study,
    name: str,
    store: ScoreStore,
    sample: AuditSample,
    frame: Sequence[FrameRow],
    questions: Mapping[str, Question],
) -> JudgeAssistedAudit:
    known = store.scores_of(questions)
    scores = np.array([known.get(question, {}).get(passage, np.nan) for question, passage, _ in frame])
    scored = int(np.isfinite(scores).sum())
    if scored < len(frame):
        reason = f"{name} scored {scored:,} of the {len(frame):,} pairs that the audit was drawn from"
        return JudgeAssistedAudit(name, len(frame), scored, None, reason)
    rows = [
        (item.question, candidate, is_good)
        for items, is_good in ((sample.complete, True), (sample.bad, False))
        for item in items
        for candidate in item.candidates
    ]
    if absent := next((c.passage for q, c, _ in rows if c.passage not in known.get(q, {})), None):
        raise Missing(f"{name} has no score of the audited passage {absent!r}")
    labels = _settled(study, {question for question, _, _ in rows})
    label = np.array([labels.get((q, c.passage), "") if good else "" for q, c, good in rows], dtype=str)
    drawn = ScoredSample(
        label == "positive",
        np.isin(label, SETTLED),
        np.array([known[q][c.passage] for q, c, _ in rows]),
        np.array([c.inclusion_probability for _, c, _ in rows], np.float64),
        np.array([q for q, _, _ in rows], dtype=str),
        units_by_id(study, [q for q, _, _ in rows]),
    )
    groups: dict[str, tuple[Callable[[str, int | None], str | None], Callable[[str], Any]]] = {
        "relation": (lambda q, _: questions[q].relation, relation_order),
        "bucket": (lambda q, _: bucket_group(questions[q].bucket, questions[q].frequency), bucket_order),
        "rank": (lambda _, rank: None if rank is None else RANK_GROUPS[rank_group(rank)], RANK_GROUPS.index),
    }
    by = {}
    for kind, (group_of, order) in groups.items():
        rates = powered_rates_by(
            [group_of(q, c.rank) for q, c, _ in rows], drawn, [group_of(q, rank) for q, _, rank in frame], scores
        )
        by[kind] = {group: rates[group] for group in sorted(rates, key=order)}
    return JudgeAssistedAudit(name, len(frame), scored, powered_rate(drawn, scores), "", by)


def _settled(study: Study, questions: set[str]) -> dict[tuple[str, str], str]:
    return {(pair.question, pair.passage): pair.label or "" for pair in Labels(study.labels_path).consensus(questions)}
