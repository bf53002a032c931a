"""How many of the unlabelled passages answer their question: from the audit arm of the batches alone. And the progress of batches.

Which questions count is decided by the audit itself: a drawn question counts once each of its sampled passages has a label that
was given in the audit's batch. Were labels from elsewhere enough, those questions would count first that a priority arm had
brought up, and they are not like the others. What is held of a passage is then the consensus, adjudication included.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.audit import WIDTH, Rate, rate, rates_by
from analysis.buckets import bucket_group, bucket_order
from analysis.relations import relation_order
from backend.judging.priority import RANK_STEPS, rank_group
from backend.judging.quality import standing_labels
from db.labels import Labels
from db.queue import Batch, Candidate, Item, Queue

if TYPE_CHECKING:
    from backend.core.study import Study

_DRAWN_FROM = ("runs", "depth", "splits", "slice", "rule", "frame")  # settings that say from what an audit was drawn
SETTLED = ("positive", "related", "negative")
RANK_GROUPS = tuple(
    f"rank {low}" if low == high else f"ranks {low}-{high}"
    for low, high in zip((1, *(step + 1 for step in RANK_STEPS)), RANK_STEPS, strict=False)
) + (f"rank {RANK_STEPS[-1] + 1} and below",)


@dataclass(frozen=True, slots=True)
class Rates:
    """Of sampled passages: the share that are positive (false negatives), and that are positive or related."""

    positive: Rate
    with_related: Rate


@dataclass(frozen=True, slots=True)
class Audit:
    """What the audit arm says.

    batches: that have one. drawn: questions drawn; bad: of these, called bad by somebody; waiting: not all their passages are
    labelled yet; the others count. overall: None where none counts. by: "relation", "bucket" and "rank", each by group; a
    passage's rank is the best that it has in the runs it was pooled from.
    """

    batches: tuple[str, ...]
    drawn: int
    bad: int
    waiting: int
    overall: Rates | None
    by: dict[str, dict[str, Rates]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """A batch, how many questions of each arm it has, and the rates of its strata where it was made of pairs.

    A stratum's rates are over the passages judged so far, each of the same weight: the share of right pseudo-labels, or of
    negatives that are none. They stand for the stratum where the batch's pairs were drawn from it at random.
    """

    batch: Batch
    arms: dict[str, int]
    strata: dict[str, Rates]


def audit(study: Study, batch: str | None = None, target: float = WIDTH) -> Audit:
    """The rates from the audit arms of all batches, or of one. Raises Missing for a batch that is not there.

    Audits that were drawn alike, from the same questions and pools, add up to one larger sample. Where batches were pooled from
    other runs or depths, the rates are of all these pools together; choose one batch to see its own.
    """
    queue, labels = Queue(study.labels_path), Labels(study.labels_path)
    names = [each.name for each in queue.batches() if not each.practice] if batch is None else [batch]
    drawn = [(name, item) for name in names for item in queue.items(name) if item.arm == "audit"]
    drawn = as_one_sample(drawn, {each.name: each.settings for each in queue.batches()})
    held = tuple(dict.fromkeys(name for name, _ in drawn))
    if not drawn:
        return Audit(held, 0, 0, 0, None)
    questions = {item.question for _, item in drawn}
    done = {
        (event.batch, event.question, event.passage) for event in standing_labels(labels.events(questions=questions))
    }
    bad = labels.bad_questions()
    good = [(name, item) for name, item in drawn if item.question not in bad]
    counted = [
        item for name, item in good if all((name, item.question, each.passage) in done for each in item.candidates)
    ]
    about = (held, len(drawn), len(drawn) - len(good), len(good) - len(counted))
    if not counted:
        return Audit(*about, None)
    return Audit(*about, *_rates(study, labels, counted, target))


def batch_progress(study: Study) -> list[BatchProgress]:
    """Every batch, oldest first."""
    queue, labels = Queue(study.labels_path), Labels(study.labels_path)
    made = []
    for batch in queue.batches():
        items = queue.items(batch.name)
        arms = dict(Counter(item.arm for item in items))
        made.append(BatchProgress(batch, arms, _strata(labels, batch.settings, items)))
    return made


def as_one_sample(drawn: list[tuple[str, Item]], settings: dict[str, dict[str, Any]]) -> list[tuple[str, Item]]:
    """The items with the probabilities that they have in all audits that were drawn alike, taken together.

    Each audit draws from the questions that earlier ones left, so n1 and then n2 of N questions are n1 + n2 drawn of N at once.
    By its own probability, a question of a small later audit would weigh as much as many of the first, and more labels would
    make the interval wider.
    """
    alike: dict[str, list[tuple[str, Item]]] = defaultdict(list)
    for name, item in drawn:
        made = settings[name]
        alike[json.dumps([made.get(key, name) for key in _DRAWN_FROM], default=str)].append((name, item))
    together = []
    for family in alike.values():
        first, item = family[0]
        questions = (
            sum(name == first for name, _ in family) / item.inclusion_probability
        )  # that the first could draw from
        share = min(1.0, len(family) / questions)
        together += [(name, _with_probability(item, share)) for name, item in family]
    return together


def _with_probability(item: Item, share: float) -> Item:
    factor = share / item.inclusion_probability
    candidates = tuple(
        replace(each, inclusion_probability=min(1.0, each.inclusion_probability * factor)) for each in item.candidates
    )
    return replace(item, candidates=candidates, inclusion_probability=share)


def _rates(study: Study, labels: Labels, items: list[Item], target: float) -> tuple[Rates, dict[str, dict[str, Rates]]]:
    rows = [(item.question, each) for item in items for each in item.candidates]
    arrays = _Sampled(labels, rows, np.array([each.inclusion_probability for _, each in rows], np.float64), target)
    records = {question.id: question for question in study.questions.some({item.question for item in items})}
    asked = [records[question] for question, _ in rows]
    groups = {
        "relation": ([q.relation for q in asked], relation_order),
        "bucket": ([bucket_group(q.bucket, q.frequency) for q in asked], bucket_order),
        "rank": (
            [None if each.rank is None else RANK_GROUPS[rank_group(each.rank)] for _, each in rows],
            RANK_GROUPS.index,
        ),
    }
    by = {name: arrays.by(members, order) for name, (members, order) in groups.items()}
    return arrays.all(), by


class _Sampled:
    """Passages with what is held of them, as arrays."""

    def __init__(self, labels: Labels, rows: list[tuple[str, Candidate]], probabilities: np.ndarray, target: float):
        held = _held(labels, {question for question, _ in rows})
        label = np.array([held.get((question, each.passage)) or "" for question, each in rows], dtype=str)
        self._hits = {"positive": label == "positive", "with_related": (label == "positive") | (label == "related")}
        self._rest = (np.isin(label, SETTLED), probabilities, np.array([question for question, _ in rows], dtype=str))
        self._target = target

    def all(self) -> Rates:
        return Rates(**{name: rate(hits, *self._rest, target=self._target) for name, hits in self._hits.items()})

    def by(self, groups: list[str | None], order: Any) -> dict[str, Rates]:
        found = {name: rates_by(groups, hits, *self._rest, target=self._target) for name, hits in self._hits.items()}
        return {
            group: Rates(**{name: found[name][group] for name in found})
            for group in sorted(found["positive"], key=order)
        }


def _held(labels: Labels, questions: Iterable[str]) -> dict[tuple[str, str], str | None]:
    return {(pair.question, pair.passage): pair.label for pair in labels.consensus(questions)}


def _strata(labels: Labels, settings: dict[str, Any], items: list[Item]) -> dict[str, Rates]:
    if "pairs" not in settings:
        return {}
    held = _held(labels, {item.question for item in items})
    of = {(question, passage): stratum for question, passage, stratum in settings.get("strata", ())}
    strata: dict[str, list[tuple[str, Candidate]]] = defaultdict(list)
    for item in items:
        for each in item.candidates:
            name = of.get((item.question, each.passage)) or each.run or settings.get("origin") or ""
            if name and (item.question, each.passage) in held:
                strata[name].append((item.question, each))
    return {name: _Sampled(labels, rows, np.ones(len(rows)), WIDTH).all() for name, rows in strata.items()}
