"""Estimate the false-negative rate among unlabelled passages from the audit arms of batches, and report the progress of
batches.

A drawn question is included in the estimate as soon as all its sampled passages have a label from the audit's own
batch. If labels from other batches were accepted, questions that were also in priority arms would be included earlier,
and these are not representative. The label used for a passage is the consensus, including adjudication.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from blindspot.analysis.audit import Rate, rate, rates_by
from blindspot.analysis.buckets import bucket_group, bucket_order
from blindspot.analysis.relations import relation_order
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import units_by_id
from blindspot.backend.judging.priority import RANK_STEPS, rank_group
from blindspot.backend.judging.quality import labels_in_force
from blindspot.db.events import SETTLED
from blindspot.db.judgements import labels_by_pair
from blindspot.db.labels import Labels
from blindspot.db.queue import Batch, Candidate, Item, Queue

_SAMPLING_SETTINGS = ("runs", "depth", "splits", "slice", "rule", "frame")  # they define what an audit was drawn from
RANK_GROUPS = tuple(
    f"rank {low}" if low == high else f"ranks {low}-{high}"
    for low, high in zip((1, *(step + 1 for step in RANK_STEPS)), RANK_STEPS, strict=False)
) + (f"rank {RANK_STEPS[-1] + 1} and below",)


@dataclass(frozen=True, slots=True)
class AuditRates:
    """The share of sampled passages that are positive (false negatives), and the share that are positive or related."""

    positive: Rate
    with_related: Rate


@dataclass(frozen=True, slots=True)
class Audit:
    """The rates estimated from the audit arms.

    Attributes:
        batches: Names of the batches that have an audit arm.
        drawn: Number of questions drawn. All count except `bad` and `waiting` ones.
        bad: Number of drawn questions that an annotator called bad.
        waiting: Number of drawn questions with passages that still lack a label.
        overall: The rates over all counted questions; None if no question counts.
        by: The rates by "relation", "bucket" and "rank", each by group. A passage's rank is its best in the pooled
        runs.
    """

    batches: tuple[str, ...]
    drawn: int
    bad: int
    waiting: int
    overall: AuditRates | None
    by: dict[str, dict[str, AuditRates]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """A batch with the number of its questions by arm."""

    batch: Batch
    arms: dict[str, int]


def audit(study: Study, batch: str | None = None) -> Audit:
    """Estimate the rates from the audit arms of all batches, or of one batch. Raises Missing for an unknown batch.

    Audits that were drawn from the same questions and pools form one larger sample. If batches have pools from
    different runs or depths, the rates refer to all these pools together. To see the rates of one batch, name that
    batch.
    """
    labels = Labels(study.labels_path)
    drawn = _audited_items(study, batch)
    audited = tuple(dict.fromkeys(name for name, _ in drawn))
    if not drawn:
        return Audit(audited, 0, 0, 0, None)
    good, complete = _completely_judged(labels, drawn)
    bad_count, waiting = len(drawn) - len(good), len(good) - len(complete)
    if not complete:
        return Audit(audited, len(drawn), bad_count, waiting, None)
    rows = [(item.question, candidate) for item in complete for candidate in item.candidates]
    sample = _Sample(study, labels, rows, np.array([_probability(candidate) for _, candidate in rows]))
    records = {question.id: question for question in study.questions.with_ids({item.question for item in complete})}
    questions = [records[question] for question, _ in rows]
    ranks = [None if each.rank is None else RANK_GROUPS[rank_group(each.rank)] for _, each in rows]
    by = {
        "relation": sample.rates_by_group([q.relation for q in questions], relation_order),
        "bucket": sample.rates_by_group([bucket_group(q.bucket, q.frequency) for q in questions], bucket_order),
        "rank": sample.rates_by_group(ranks, RANK_GROUPS.index),
    }
    return Audit(audited, len(drawn), bad_count, waiting, sample.overall_rates(), by)


def audited_candidates(study: Study) -> list[tuple[str, Candidate]]:
    """Return (question id, candidate) of the completely judged questions of all audits, as one sample."""
    drawn = _audited_items(study, None)
    complete = _completely_judged(Labels(study.labels_path), drawn)[1] if drawn else []
    return [(item.question, candidate) for item in complete for candidate in item.candidates]


def audited_pairs(study: Study) -> list[tuple[tuple[str, str], float]]:
    """Return the pairs of completely judged audit questions, each with its inclusion probability.

    A pair that two audits drew occurs once, with the inclusion probability of the first audit.
    """
    probabilities: dict[tuple[str, str], float] = {}
    for question, candidate in audited_candidates(study):
        probabilities.setdefault((question, candidate.passage), _probability(candidate))
    return list(probabilities.items())


def _frame_key(settings: dict[str, Any], name: str) -> str:
    """Return a key that identifies the sampling frame of a batch."""
    return json.dumps([settings.get(key, name) for key in _SAMPLING_SETTINGS], default=str)


def _audited_items(study: Study, batch: str | None) -> list[tuple[str, Item]]:
    """Return the questions of all audit arms as one sample, each with the name of its batch."""
    queue = Queue(study.labels_path)
    batches = queue.batches()
    names = [stored.name for stored in batches if not stored.practice] if batch is None else [batch]
    drawn = [(name, item) for name in names for item in queue.items(name) if item.arm == "audit"]
    return as_one_sample(drawn, {stored.name: stored.settings for stored in batches})


def _completely_judged(labels: Labels, draws: list[tuple[str, Item]]) -> tuple[list[tuple[str, Item]], list[Item]]:
    """Return the drawn questions that nobody marked as bad, and those of them that are completely judged."""
    questions = {item.question for _, item in draws}
    done = {
        (event.batch, event.question, event.passage) for event in labels_in_force(labels.events(questions=questions))
    }
    bad = labels.bad_questions()
    good = [(name, item) for name, item in draws if item.question not in bad]
    complete = [
        item
        for name, item in good
        if all((name, item.question, candidate.passage) in done for candidate in item.candidates)
    ]
    return good, complete


def batch_progress(study: Study) -> list[BatchProgress]:
    """Return the progress of every batch, oldest first."""
    queue = Queue(study.labels_path)
    batches = []
    for batch in queue.batches():
        items = queue.items(batch.name)
        arms: dict[str, int] = dict(Counter(item.arm for item in items))
        batches.append(BatchProgress(batch, arms))
    return batches


def as_one_sample(draws: list[tuple[str, Item]], settings: dict[str, dict[str, Any]]) -> list[tuple[str, Item]]:
    """Return the items with their inclusion probabilities in the combined sample of all audits from the same sampling
    frame.

    Each audit draws from the questions that earlier audits did not draw, so drawing n1 and then n2 of N questions is
    equivalent to drawing n1 + n2 at once. If each audit kept its own probabilities, a question of a small later audit
    would have a much larger weight than a question of the first audit, and additional labels would widen the interval.
    """
    frames: dict[str, list[tuple[str, Item]]] = defaultdict(list)
    for name, item in draws:
        frames[_frame_key(settings[name], name)].append((name, item))
    combined = []
    for sample in frames.values():
        first, item = sample[0]
        frame_size = sum(name == first for name, _ in sample) / _probability(item)
        share = min(1.0, len(sample) / frame_size)
        combined += [(name, _with_probability(item, share)) for name, item in sample]
    return combined


def _probability(item: Item | Candidate) -> float:
    """Return the inclusion probability of a question or passage, which is always set in an audit arm."""
    if item.inclusion_probability is None:
        raise ValueError(f"{item} was not sampled")
    return item.inclusion_probability


def _with_probability(item: Item, share: float) -> Item:
    factor = share / _probability(item)
    candidates = tuple(
        replace(candidate, inclusion_probability=min(1.0, _probability(candidate) * factor))
        for candidate in item.candidates
    )
    return replace(item, candidates=candidates, inclusion_probability=share)


class _Sample:
    """Sampled passages with their consensus labels, as arrays."""

    def __init__(
        self, study: Study, labels: Labels, rows: list[tuple[str, Candidate]], probabilities: np.ndarray | None = None
    ):
        """Read the labels of some passages. probabilities: the inclusion probability of each; default the same."""
        asked = [question for question, _ in rows]
        settled = labels_by_pair(labels.consensus(set(asked)))
        label = np.array([settled.get((question, item.passage), "") for question, item in rows], dtype=str)
        self._hits = {"positive": label == "positive", "with_related": (label == "positive") | (label == "related")}
        weights = np.ones(len(rows)) if probabilities is None else probabilities
        self._rest = (np.isin(label, SETTLED), weights, np.array(asked, dtype=str))
        self._units = units_by_id(study, asked)

    def overall_rates(self) -> AuditRates:
        return AuditRates(**{name: rate(hits, *self._rest, units=self._units) for name, hits in self._hits.items()})

    def rates_by_group(self, groups: list[str | None], order: Callable[[str], Any]) -> dict[str, AuditRates]:
        """Return the rates by group, sorted by the key function `order`. `groups`: the group of each
        passage, or None.
        """
        rates = {name: rates_by(groups, hits, *self._rest, units=self._units) for name, hits in self._hits.items()}
        return {
            group: AuditRates(**{name: rates[name][group] for name in rates})
            for group in sorted(rates["positive"], key=order)
        }
