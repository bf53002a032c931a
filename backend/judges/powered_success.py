"""Estimate the Success@k that a run would have if people had labelled all its hits, from random audits and the scores
of judges.

The estimated quantity is the corrected Success@k of `blindspot.backend.judging.corrected` if people had judged all of
the first k hits that are not gold. A question is in the sample if a random audit drew it and showed all these hits to
annotators. This depends only on the random draw and not on the labels, so the sample is random. Labels from priority
batches do not add questions to the sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from blindspot.analysis.accuracy import success_at
from blindspot.analysis.expected_success import (
    QuestionCounts,
    SuccessSample,
    SuccessShare,
    expected_success,
    labelled_success,
    powered_success,
    probability_all_shown,
)
from blindspot.analysis.judged import corrected_relevance, is_judged, relevance_bounds
from blindspot.analysis.prediction_powered import FEW
from blindspot.backend.core.gold import gold_matrix
from blindspot.backend.core.study import Study
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.audits import AuditSample, audit_samples
from blindspot.backend.judging.corrected import CorrectedRun
from blindspot.backend.judging.pools import Pools
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BlindspotError
from blindspot.db.queue import Item, Queue


@dataclass(frozen=True)
class JudgedSuccess:
    """Success@k estimated with one judge's scores. share: the estimate, or None if there is none; then `reason` states
    why.
    """

    judge: str
    share: SuccessShare | None
    reason: str = ""


@dataclass(frozen=True)
class RunSuccess:
    """Success@k of a run, estimated from a random sample.

    Attributes:
        labelled: From labels alone; None if `reason` says what is missing. todo: The command that brings it; "" for none.
        open: Questions that gold does not settle; only their share of successes is estimated.
        judges: With each judge's scores; empty without judges.
    """

    run: str
    k: int
    labelled: SuccessShare | None
    open: int = 0
    judges: list[JudgedSuccess] = field(default_factory=list)
    reason: str = ""
    todo: str = ""

    def sentences(self) -> list[str]:
        """Return the figures in words: one line for each judge whose scores can be used, or else one line that states
        what is missing.
        """
        name = f"Success@{self.k} of {self.run} if people judged every hit"
        if self.labelled is None:
            return [f"{name}: no estimate. {'; '.join(filter(None, (self.reason, self.todo)))}."]
        base = f"{quantity(self.labelled.labelled, 'random question')} of the {self.open:,} that gold leaves open"
        lines = [
            f"{name}: {percent_words(each.share)} from the labels of {base}, and the scores of {each.share.scored:,}, judge "
            f"{each.judge}, lambda {each.share.weight:.2f} (its scores alone say {100 * each.share.predicted:.1f}%)"
            f"{_bounds(each.share)}; labels alone {percent_words(self.labelled)}."
            for each in self.judges
            if each.share is not None and each.share.predicted is not None
        ]
        if lines:
            return lines
        missing = "; ".join(f"judge {each.judge}: {each.reason}" for each in self.judges)
        missing = missing or f"no judge has scores; {_score_all('NAME', self.run)}"
        return [
            f"{name}: {percent_words(self.labelled)} from the labels of {base}{_bounds(self.labelled)}. With a judge's scores: "
            f"no estimate ({missing})."
        ]


@dataclass(frozen=True)
class _TopHits:
    """The hits of a run up to one cut-off.

    Attributes:
        needed: (q, k) bool, the hits that people have to judge: hits that are not gold.
        is_certain: (q,) bool, successes by gold. is_open: (q,) bool, questions that gold does not settle.
        lowest, highest, settled: (q,) bool, see `SuccessSample`.
    """

    run: CorrectedRun
    k: int
    needed: np.ndarray
    is_certain: np.ndarray
    is_open: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    settled: np.ndarray

    @classmethod
    def at_cutoff(cls, run: CorrectedRun, k: int) -> _TopHits:
        relevant, gold, labels, present = (each[:, :k] for each in (run.relevant, run.gold, run.labels, run.is_filled))
        needed = present & ~gold
        certain = (gold & corrected_relevance(relevant, labels)).any(axis=1)
        lowest, highest = (success_at(each, k) for each in relevance_bounds(relevant, gold, labels, present))
        settled = (is_judged(gold, labels) | ~present).all(axis=1)
        return cls(run, k, needed, certain, ~certain & needed.any(axis=1), lowest, highest, settled)


@dataclass(frozen=True)
class _Estimate:
    """The input of the estimates: the questions of one audit that were shown completely.

    Attributes:
        rows: Rows of the sample's questions in the run. from_other_arms: (q,) bool, open questions that other audits took before.
    """

    top_hits: _TopHits
    rows: np.ndarray
    from_other_arms: np.ndarray
    sample: SuccessSample
    counts: QuestionCounts

    @classmethod
    def from_draws(
        cls, top_hits: _TopHits, draws: Sequence[tuple[int, bool, float]], drawn_elsewhere: set[str]
    ) -> _Estimate:
        """draws: of each drawn question its row in the run, whether it is marked as bad, and its probability."""
        ids = np.array([question.id for question in top_hits.run.questions], dtype=str)
        elsewhere = top_hits.is_open & np.isin(ids, sorted(drawn_elsewhere))
        rows = np.array([row for row, _, _ in draws], np.int64)
        sample = SuccessSample(
            top_hits.lowest[rows],
            top_hits.highest[rows],
            top_hits.settled[rows],
            np.array([is_bad for _, is_bad, _ in draws], bool),
            np.array([probability for _, _, probability in draws], np.float64),
            ids[rows],
            top_hits.run.units.codes[rows],
        )
        counts = QuestionCounts(
            len(ids), int(top_hits.is_certain.sum()), int(top_hits.is_open.sum()), int(elsewhere.sum())
        )
        return cls(top_hits, rows, elsewhere, sample, counts)

    @property
    def settled(self) -> int:
        return int((self.sample.settled & ~self.sample.bad).sum())


def run_successes(
    study: Study,
    name: str,
    measured: CorrectedRun,
    ks: Sequence[int],
    batch: str | None = None,
    judges: Sequence[str] | None = None,
) -> list[RunSuccess]:
    """Estimate Success@k of the run `name` at each cut-off that does not exceed its depth.

    Args:
        measured: The run, as `corrected_run` reads it. batch: Only the audit of this batch. judges: Only these judges.

    Raises Missing for an unknown batch, or a judge without scores.
    """
    samples, stores = audit_samples(study, batch), _score_stores(study, judges)
    return [
        _success(study, name, _TopHits.at_cutoff(measured, k), samples, stores)
        for k in ks
        if k <= measured.relevant.shape[1]
    ]


def _score_stores(study: Study, judges: Sequence[str] | None) -> dict[str, ScoreStore]:
    """Return the scores of some judges, or of all whose scores are of this collection. Raises Missing for a named judge
    without scores.
    """
    found = {}
    for name in study.parts("scores") if judges is None else judges:
        try:
            found[name] = ScoreStore.open(study, name)
        except BlindspotError:
            if judges is not None:
                raise
    return found


def _success(
    study: Study, name: str, top_hits: _TopHits, samples: Sequence[AuditSample], stores: Mapping[str, ScoreStore]
) -> RunSuccess:
    if not top_hits.is_open.any():
        return RunSuccess(
            name, top_hits.k, None, reason="Gold passages settle every question; nothing is left to estimate"
        )
    todo = f"draw one and judge it: blindspot batch new BATCH --run {name} --depth {top_hits.k} --candidates {top_hits.k} --size 300"
    found = _largest_audit(study, name, top_hits, samples)
    if isinstance(found, str):
        return RunSuccess(name, top_hits.k, None, reason=found, todo=todo)
    if (few := found.settled) < FEW:
        said = f"Random audits settled all of the first {top_hits.k} hits of {quantity(few, 'question')}, and {FEW} are needed"
        return RunSuccess(name, top_hits.k, None, reason=said, todo=todo)
    powered = [_with_judge(study, name, judge, store, found) for judge, store in stores.items()]
    return RunSuccess(name, top_hits.k, labelled_success(found.sample, found.counts), found.counts.open, powered)


def _largest_audit(study: Study, name: str, top_hits: _TopHits, samples: Sequence[AuditSample]) -> _Estimate | str:
    """Return the audit that showed the most questions completely, or a sentence that explains why no audit is
    representative of the run's questions.

    Audits of different sampling frames are not combined. The choice depends only on what was shown, not on people's
    labels.
    """
    estimates, reasons = [], []
    for sample in samples:
        if name in sample.settings.get("runs", ()) and sample.settings["depth"] >= top_hits.k and sample.complete:
            estimate = _estimate_of_audit(study, top_hits, sample)
            if isinstance(estimate, str):
                reasons.append(estimate)
            else:
                estimates.append(estimate)
    if estimates:
        return max(estimates, key=lambda each: len(each.rows))
    return reasons[-1] if reasons else f"No judged random audit drew from the first {top_hits.k} hits of {name}"


def _with_judge(study: Study, name: str, judge: str, store: ScoreStore, audit: _Estimate) -> JudgedSuccess:
    """Return Success@k estimated with one judge. The judge must have scored all hits to be judged of all questions that
    could have been drawn.
    """
    cut = audit.top_hits
    places = np.argwhere(cut.needed & (cut.is_open & ~audit.from_other_arms)[:, None]).tolist()
    ordinals = cut.run.ordinals[:, : cut.k]
    ids = study.corpus.ids(sorted({int(ordinals[row, rank]) for row, rank in places}))
    known = store.scores_of({cut.run.questions[row].id for row, _ in places})
    scores = np.full(ordinals.shape, np.nan)
    for row, rank in places:
        scores[row, rank] = known.get(cut.run.questions[row].id, {}).get(ids[int(ordinals[row, rank])], np.nan)
    if missing := sum(bool(np.isnan(scores[row, rank])) for row, rank in places):
        scored = f"it scored {len(places) - missing:,} of the {len(places):,} hits that gold leaves open"
        return JudgedSuccess(judge, None, f"{scored}; {_score_all(judge, name)}")
    expected = expected_success(scores, cut.needed)
    return JudgedSuccess(
        judge,
        powered_success(
            audit.sample, expected[audit.rows], expected[cut.is_open & ~audit.from_other_arms], audit.counts
        ),
    )


def _estimate_of_audit(study: Study, top_hits: _TopHits, sample: AuditSample) -> _Estimate | str:
    """Return the input of an estimate from one audit, or a sentence that explains why the audit is not representative of
    the run's questions.
    """
    settings, changed = sample.settings, "The run or the questions have changed since the audit was drawn"
    if settings.get("slice") is not None:
        return "The random audit was drawn from a slice, not from all questions of the run"
    try:
        frame = _frame(study, settings["runs"], settings["depth"], settings.get("splits"))
        pools = Pools(study, settings["runs"], settings["depth"], settings["rule"])
    except BlindspotError as error:
        return f"The runs of the random audit cannot be read: {error}"
    if len(frame) != settings["frame"]:
        return changed
    row_of = {question.id: row for row, question in enumerate(top_hits.run.questions) if top_hits.is_open[row]}
    if not row_of.keys() <= frame:
        return "The random audit was drawn from some splits only, and the run has questions of others"
    widest = int(top_hits.needed[top_hits.is_open].sum(axis=1).max())
    if settings["candidates"] < widest:
        return f"The random audit shows at most {settings['candidates']} passages of a question, too few for its {widest} hits"
    items = [(item, bad) for group, bad in ((sample.complete, False), (sample.bad, True)) for item in group]
    items = [(item, bad) for item, bad in items if item.question in row_of]
    asked = [top_hits.run.questions[row_of[item.question]] for item, _ in items]
    pooled = pools.pools_of(asked, subjects=False)
    known = study.corpus.ordinals({candidate.passage for item, _ in items for candidate in item.candidates})
    draws = []
    for item, bad in items:
        row = row_of[item.question]
        pool = {each.ordinal for each in pooled[item.question]}
        shown = {known[candidate.passage] for candidate in item.candidates if candidate.passage in known}
        if not _drawn_from(item, shown, pool):
            return changed
        if len(shown) < min(widest, len(pool)):
            return f"The random audit shows {len(shown)} passages of a question, too few for {widest} hits"
        needed = set(top_hits.run.ordinals[row, : top_hits.k][top_hits.needed[row]].tolist())
        if needed <= shown:
            probability = item.inclusion_probability or 0
            draws.append((row, bad, probability * probability_all_shown(len(pool), len(shown), len(needed))))
    return _Estimate.from_draws(top_hits, draws, _drawn_elsewhere(study, sample.batches))


def _drawn_from(item: Item, shown_rows: set[int], pool: set[int]) -> bool:
    """Return whether the shown passages can have been drawn from this pool with the inclusion probability that they
    record.
    """
    recorded, question = item.candidates[0].inclusion_probability, item.inclusion_probability
    if recorded is None or question is None or len(shown_rows) < len(item.candidates) or not shown_rows <= pool:
        return False
    return abs(recorded * len(pool) - question * len(shown_rows)) < 1e-6


def _frame(study: Study, runs: Sequence[str], depth: int, splits: Sequence[str] | None) -> set[str]:
    """Return the ids of the questions for which at least one run has a non-gold hit in its top `depth`."""
    found: set[str] = set()
    for run in map(study.run, dict.fromkeys(runs)):
        questions = list(study.questions.with_ids(run.question_ids))
        ordinals = np.asarray(run.hits.ordinals)[:, :depth]
        to_judge = ((ordinals >= 0) & ~gold_matrix(study.corpus, ordinals, questions)[0]).any(axis=1)
        found |= {
            question.id
            for question, some in zip(questions, to_judge.tolist(), strict=True)
            if some and (not splits or question.split in splits)
        }
    return found


def _drawn_elsewhere(study: Study, batches: Sequence[str]) -> set[str]:
    """Return the questions that other audits drew before the last of these batches was drawn."""
    queue = Queue(study.labels_path)
    names = [batch.name for batch in queue.batches()]
    before = names[: max(names.index(name) for name in batches)]
    return {
        item.question for name in before if name not in batches for item in queue.items(name) if item.arm == "audit"
    }


def _score_all(judge: str, run: str) -> str:
    return f"score all hits: blindspot judge run {judge} --run {run}"


def percent_words(share: SuccessShare) -> str:
    """Return an estimated share and its interval in words."""
    if share.value is None or share.low is None or share.high is None:
        return "no figure"
    return f"{100 * share.value:.1f}% ({100 * share.low:.1f} to {100 * share.high:.1f})"


def _bounds(share: SuccessShare) -> str:
    """Return a phrase on how far the questions that are not part of the estimate could change it; "" if
    there are none.
    """
    if share.lower_bound is None or share.upper_bound is None or share.lower_bound == share.upper_bound:
        return ""
    return (
        f" ({100 * share.lower_bound:.1f}% to {100 * share.upper_bound:.1f}% if the questions with unsettled labels, and those that "
        "other audits drew, were all misses or all successes)"
    )
