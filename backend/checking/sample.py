"""Draw a probability sample of a file's negative pairs, and estimate the share of false negatives from its labels.

The sample is drawn from the distinct negative pairs that are positive in no row. Negatives that another row of the same
question has as a positive count as false without being judged. `check/sample.json` holds the strata ("cells") and the
sequence of draws. Later draws extend the sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np

from blindspot.analysis.intervals import LEVEL
from blindspot.analysis.rate_sequence import expected_half_widths, rate_sequence
from blindspot.analysis.weighted_draws import Cells, draw_order
from blindspot.backend.checking.building import CheckedStudy, passage_id, question_id
from blindspot.backend.checking.pairs import NegativePairs, negative_pairs
from blindspot.backend.checking.settings import DRAWS
from blindspot.backend.checking.suspicion import cells_by_suspicion, pair_similarity, suspicion
from blindspot.backend.core.manifest import read_object, write_json
from blindspot.backend.judging.batches import pair_items
from blindspot.backend.progress import Progress
from blindspot.db.errors import BadInput, Refused
from blindspot.db.judgements import labels_by_pair
from blindspot.db.labels import Labels
from blindspot.db.queue import Queue

PLAN = "sample.json"
CELLS = "cells.npy"
BATCH = "check"

FIRST_BLOCK = 25  # draws of the first batch; each further one is twice as large
MOST_DRAWS = 5000
FURTHER = (50, 100)  # further labels that a forecast speaks of
PLANNED = (50, 150)  # labels that the outlook before the first label speaks of
ASSUMED = (0.05, 0.4)  # rates that this outlook assumes, since nothing is known of the file's
OUTLOOK_STUDIES, OUTLOOK_SEED = 20, 0
VAGUE = 0.15  # half-width of the interval above which no rate is stated and no rule chosen
FEWEST_JUDGED = 20  # labels before a forecast: fewer say little of the rate
FALSE, OPEN = "positive", "open"
PairId = tuple[str, str]


@dataclass(frozen=True)
class SamplePlan:
    """The sample of a file: its strata and the pairs drawn from them.

    Attributes:
        cells: Of the pairs that may be drawn. draws: (n,) int64 place of each draw among `negative_pairs`. member: (n,)
        cell of each draw. suspicion: What the suspicion is made of. batches: Names of the batches.
    """

    cells: Cells
    draws: np.ndarray
    member: np.ndarray
    seed: int
    suspicion: list[str]
    batches: list[str]

    def as_json(self) -> dict[str, Any]:
        cells = {name: getattr(self.cells, name).tolist() for name in ("counts", "chances", "weights")}
        arrays = {"draws": self.draws.tolist(), "member": self.member.tolist()}
        return {"cells": cells, **arrays, "seed": self.seed, "suspicion": self.suspicion, "batches": self.batches}


@dataclass(frozen=True)
class RateEstimate:
    """The share of false negatives among the distinct negative pairs of a file, estimated from the labels so far.

    Attributes:
        pairs: Distinct negative pairs. known_false: Of them, those that the file itself calls positive. judged: Drawn
        pairs that have a label, up to the first one without. false: Those of them that are positive. unsettled: Judged
        pairs that people disagree on or are unsure of; they count as not false in `low`, and as false in `high`.
        estimate, low, high: The share, and an interval that is valid whenever one stops. None before the first label.
        level: Of the interval. by: Who judged. drawn: Pairs that were drawn. later: See `JudgedDraws`.
    """

    pairs: int
    known_false: int
    drawn: int
    judged: int
    false: int
    unsettled: int
    estimate: float | None
    low: float | None
    high: float | None
    level: float
    by: str
    later: int = 0

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def is_vague(self) -> bool:
        """Whether the interval is too wide to state a rate or to choose a rule."""
        return self.half_width is None or self.half_width > VAGUE

    @property
    def of_drawable(self) -> tuple[float, float, float] | None:
        """The share and its interval among the pairs that the file itself does not call positive."""
        if self.estimate is None or self.low is None or self.high is None:
            return None
        shares = (self.estimate, self.low, self.high)
        part = max(self.pairs - self.known_false, 1)
        of_estimate, of_low, of_high = (max(share * self.pairs - self.known_false, 0.0) / part for share in shares)
        return of_estimate, of_low, of_high

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "half_width": self.half_width}


@dataclass(frozen=True, slots=True)
class WidthForecast:
    """The half-width of the rate's interval that so many further labels are expected to leave, with a 90% interval."""

    labels: int
    half_width: float
    low: float
    high: float


@dataclass(frozen=True)
class JudgedDraws:
    """The judged draws: all draws before the first one without a label.

    Attributes:
        pairs: All negative pairs of the file. plan: The whole sample. false, unsettled: (n,) bool of the first n draws.
        later: The number of labelled pairs that are drawn after the first one without a label only. They count as soon as
            the pairs before them are judged.
    """

    pairs: NegativePairs
    plan: SamplePlan
    false: np.ndarray
    unsettled: np.ndarray
    later: int = 0

    def __len__(self) -> int:
        return len(self.false)

    @property
    def pair_rows(self) -> np.ndarray:
        """(n,) index of each judged draw in the array of negative pairs."""
        return self.plan.draws[: len(self)]

    @property
    def cells(self) -> np.ndarray:
        return self.plan.member[: len(self)]


def read_sample(checked_study: CheckedStudy) -> SamplePlan | None:
    """Return the stored sample, or None. Raises BadInput for a damaged file."""
    path = checked_study.folder / PLAN
    if not path.is_file():
        return None
    try:
        plain = read_object(path)
        cells = Cells(**{name: np.array(values) for name, values in plain.pop("cells").items()})
        draws, member = (np.array(plain.pop(name), np.int64) for name in ("draws", "member"))
        return SamplePlan(cells, draws, member, **plain)
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"is not a sample ({error}); delete the study and check the file again", path) from None


def draw_sample(
    checked_study: CheckedStudy,
    count: int = DRAWS,
    encoder: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> SamplePlan:
    """Draw `count` pairs and queue them, or extend an existing sample to `count` pairs.

    They are queued in blocks of growing size, a batch each: the interval holds for pairs in the order of the draws, and
    within a batch the drawn passages of a question are judged together, out of that order.

    Args:
        encoder: An encoder of the study. Similar pairs are drawn more often. Only the first call uses it.

    Raises:
        Refused: the file has no negatives, or too many are asked for.
    """
    if not 1 <= count <= MOST_DRAWS:
        raise Refused(f"draw 1 to {MOST_DRAWS:,} pairs, not {count:,}")
    pairs = negative_pairs(checked_study.occurrences)
    if not len(pairs):
        raise Refused("the file has no negatives, so there is nothing to judge")
    made = read_sample(checked_study)
    if made is not None and len(made.draws) >= min(count, len(pairs)):
        return made
    if made is None:
        similarity = None if encoder is None else pair_similarity(checked_study, encoder, progress)
        suspicions, used = suspicion(pairs, similarity)
        cells, member = cells_by_suspicion(suspicions)
        np.save(checked_study.folder / CELLS, member.astype(np.int16))
        made = SamplePlan(cells, np.zeros(0, np.int64), np.zeros(0, np.int64), seed, used, [])
    member = cell_of_each_pair(checked_study)
    order, _ = draw_order(made.cells.weights[member], made.seed, min(count, len(pairs)))
    queue, names, begin = Queue(checked_study.study.labels_path), list(made.batches), len(made.draws)
    queued = {batch.name for batch in queue.batches()}
    for end in block_ends(begin, len(order)):
        names.append(BATCH if not names else f"{BATCH}-{len(names) + 1}")
        if names[-1] not in queued:  # else it was queued before an interruption
            ids = _pair_ids(pairs, order[begin:end])
            settings = {"pairs": len(ids), "origin": "check", "seed": made.seed, "size": len(ids)}
            queue.add_batch(names[-1], pair_items(checked_study.study, ids), settings)
        begin = end
    drawn = replace(made, draws=order, member=member[order], batches=names)
    write_json(checked_study.folder / PLAN, drawn.as_json())
    return drawn


def block_ends(begin: int, stop: int) -> list[int]:
    """Return where the blocks of draws end, from `begin` to `stop`: after 25, 75, 175, ... draws, and at `stop`."""
    ends, size = [0], FIRST_BLOCK
    while ends[-1] < stop:
        ends.append(min(ends[-1] + size, stop))
        size *= 2
    return [end for end in ends if end > begin]


def cell_of_each_pair(checked_study: CheckedStudy) -> np.ndarray:
    """Return the cell of each negative pair, (m,) int64, as it was when the first pairs were drawn."""
    result: np.ndarray = np.load(checked_study.folder / CELLS).astype(np.int64)
    return result


def _pair_ids(pairs: NegativePairs, pair_rows: np.ndarray) -> list[PairId]:
    return [
        (question_id(question), passage_id(passage))
        for question, passage in zip(pairs.question[pair_rows].tolist(), pairs.passage[pair_rows].tolist(), strict=True)
    ]


def judged_draws(checked_study: CheckedStudy, labels: Mapping[PairId, str]) -> JudgedDraws | None:
    """Return the draws before the first one without a label; None if no sample is drawn.

    Args:
        labels: Label of each judged pair; "open" where people disagree or are unsure.
    """
    made = read_sample(checked_study)
    if made is None:
        return None
    pairs = negative_pairs(checked_study.occurrences)
    drawn = _pair_ids(pairs, made.draws)
    found = [labels[pair] for pair in takewhile(labels.__contains__, drawn)]
    later = sum(pair in labels for pair in drawn[len(found) :])
    false = np.array([label == FALSE for label in found], bool)
    return JudgedDraws(pairs, made, false, np.array([label == OPEN for label in found], bool), later)


def peoples_labels(checked_study: CheckedStudy) -> dict[PairId, str]:
    """Return people's labels. A pair is "open" if people disagree, are unsure or marked the question as bad."""
    store = Labels(checked_study.study.labels_path, read_only=True)
    bad = set(store.bad_questions())
    return {
        pair: OPEN if pair[0] in bad or label == "unsure" else label
        for pair, label in labels_by_pair(store.consensus()).items()
    }


def estimate_rate(
    checked_study: CheckedStudy, labels: Mapping[PairId, str], by: str = "people", level: float = LEVEL
) -> RateEstimate | None:
    """Estimate the share of false negatives from labels; None if no sample is drawn."""
    judged = judged_draws(checked_study, labels)
    if judged is None:
        return None
    places = checked_study.occurrences
    known = len(np.unique(places.keys[places.known_false]))
    total = len(judged.pairs) + known
    unsettled = int(judged.unsettled.sum())
    counts = (total, known, len(judged.plan.draws), len(judged), int(judged.false.sum()), unsettled)
    none = RateEstimate(*counts, None, None, None, level, by, judged.later)
    if not len(judged):
        return none
    of_drawn = interval(judged.false, judged.unsettled, judged.cells, judged.plan.cells, level)
    middle, low, high = ((known + share * len(judged.pairs)) / total for share in of_drawn)
    return replace(none, estimate=middle, low=low, high=high)


def forecast_widths(judged_draws: JudgedDraws, rate: RateEstimate) -> list[WidthForecast]:
    """Forecast the interval of the rate after the next labels of the drawn pairs; nothing before FEWEST_JUDGED labels."""
    count, member = len(judged_draws), judged_draws.plan.member
    further = [labels for labels in FURTHER if count + labels <= len(member)]
    if count < FEWEST_JUDGED or not further:
        return []
    more = member[count : count + further[-1]]
    widths = expected_half_widths(judged_draws.false, judged_draws.cells, more, judged_draws.plan.cells, rate.level)
    after = widths[:, np.array(further) - 1] * len(judged_draws.pairs) / rate.pairs
    low, high = np.quantile(after, (0.05, 0.95), axis=0).tolist()
    return [WidthForecast(*each) for each in zip(further, after.mean(axis=0).tolist(), low, high, strict=True)]


def planned_widths(checked_study: CheckedStudy) -> list[tuple[int, float, float]]:
    """Return the half-widths of the interval that the first labels of the drawn pairs leave, as (labels, smallest,
    largest): the means over simulated samples at each assumed rate. Suspicious cells have more false negatives there, as
    the draws assume.
    """
    plan = read_sample(checked_study)
    labels = [] if plan is None else [count for count in PLANNED if count <= len(plan.draws)]
    if plan is None or not labels:
        return []
    rng, draws = np.random.default_rng(OUTLOOK_SEED), plan.member[: labels[-1]]
    rates = np.array(ASSUMED)[:, None] * plan.cells.chances / plan.cells.mean_chance
    hits = rng.random((len(ASSUMED), OUTLOOK_STUDIES, len(draws))) < np.minimum(rates, 0.95)[:, draws][:, None]
    studies = hits.reshape(-1, len(draws))
    widths = rate_sequence(studies, np.tile(draws, (len(studies), 1)), plan.cells).half_width
    after = widths[:, np.array(labels) - 1].reshape(*hits.shape[:2], -1).mean(axis=1)
    return list(zip(labels, after.min(axis=0).tolist(), after.max(axis=0).tolist(), strict=True))


def interval(
    false: np.ndarray, is_unsettled: np.ndarray, draws: np.ndarray, cells: Cells, level: float = LEVEL
) -> tuple[float, float, float]:
    """Return the estimate and the two ends of the interval after n draws.

    Pairs without a settled label count as true negatives for the lower end, and as false negatives for the upper end.
    """
    if not is_unsettled.any():
        found = rate_sequence(false[None], draws[None], cells, level)
        return float(found.estimate[0, -1]), float(found.low[0, -1]), float(found.high[0, -1])
    both = np.stack([false, false | is_unsettled])
    found = rate_sequence(both, np.stack([draws, draws]), cells, level)
    middle = float(found.estimate[:, -1].mean())
    return middle, float(found.low[0, -1]), float(found.high[1, -1])


def trace(judged_draws: JudgedDraws, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for a chart the estimate and the ends of the interval after each label, three arrays (n,). They refer to
    the pairs that the sample is drawn from.

    Pairs without a settled label count as in `interval`.
    """
    both = np.stack([judged_draws.false, judged_draws.false | judged_draws.unsettled])
    found = rate_sequence(both, np.stack([judged_draws.cells, judged_draws.cells]), judged_draws.plan.cells, level)
    return found.estimate.mean(axis=0), found.low[0], found.high[1]


def unjudged_pairs(plan: SamplePlan, pairs: NegativePairs, labels: Mapping[PairId, str]) -> Sequence[PairId]:
    """Return the drawn pairs without a label, in the order of the draws."""
    return [pair for pair in _pair_ids(pairs, plan.draws) if pair not in labels]
