"""Check gold passages and answer matches: do they really state the fact that the question asks for?

Gold passages that were found by matching an answer and a name are uncertain, and so are hits that count as relevant
because they contain an answer. A *claim* is a question with passages that should state the fact it asks for. A check
estimates the share of doubtful claims in one of three populations:

    misses    the gold passages of each question that a run misses at k
    hits      the relevant hits of each question that a run finds at k
    training  each gold positive of a training set, or of the training questions

A claim is doubtful if none of its passages states the fact. If it has many passages, only the PASSAGES most probable
ones according to a judge are considered. People judge a random sample of claims, in which claims with uncertain judge
scores are drawn more often. The share of doubtful claims is estimated with prediction-powered inference
(`blindspot.analysis.prediction_powered`): the judge's scores of all claims are corrected with people's labels of the
drawn claims. A bad judge widens the interval but does not bias the estimate.

The batch's settings contain the draws in their order. The estimate uses the draws before the first unsettled claim, so
it does not depend on which claims people judge first. A later batch of the same check continues the draws. The interval
assumes that the number of claims was fixed beforehand. If people stop because the result looks good, it covers the true
share less often than stated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import numpy as np

from blindspot.analysis.accuracy import Estimate, first_hit, success_from_ranks
from blindspot.analysis.prediction_powered import FEW, PoweredRate, ScoredSample, powered_rate
from blindspot.analysis.weighted_draws import draw_keys, inclusion_probabilities
from blindspot.backend.core.manifest import text_sha256
from blindspot.backend.core.require_right import require
from blindspot.backend.core.settings import Unit
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import units_of
from blindspot.backend.evaluation.relevance import relevant
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.batches import BatchSummary, pair_items
from blindspot.backend.text.answers import DEFAULT_RULE, has_answer, rule_for
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training_sets.check_settings import GoldCheck, Population
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.errors import BadInput, BlindspotError, Missing, Refused
from blindspot.db.gold import GoldMatches
from blindspot.db.judgements import labels_by_pair
from blindspot.db.labels import Labels
from blindspot.db.question_table import ids_of, take
from blindspot.db.queue import Queue

POPULATIONS: tuple[Population, ...] = get_args(Population)
KEY = "gold_check"  # of a batch's settings
SIZE = 40
PASSAGES = 5
SAMPLED = 200  # gold passages that are looked at for how gold was made
EVENLY = 0.25
"""Part of each draw's weight that is the same for all pairs; the rest, at most 0.5, is the standard deviation by the
judge's probability.
"""
REJECTED = ("related", "negative")


@dataclass(frozen=True, slots=True)
class Claim:
    """A question and the passages that should state the fact it asks for, most probable first. doubt: the judge's
    probability, from 0 to 1, that the claim is doubtful.
    """

    question: str
    passages: tuple[str, ...]
    doubt: float


@dataclass(frozen=True, slots=True)
class DrawnClaim:
    """A drawn claim with its weight, and its sort key in the order of the draws."""

    claim: Claim
    weight: float
    key: float


@dataclass(frozen=True)
class GoldEstimate:
    """The estimated share of doubtful claims in a population.

    Attributes:
        claims, units: in the population.
        asked: questions whose results were measured.
        drawn: claims.
        judged: the first so many, all settled.
        pairs: labelled pairs of these.
        doubtful: of these.
        share: None if `judged` is too few.
        batches: in which the claims are judged.
    """

    check: GoldCheck
    claims: int
    units: int
    unit: Unit
    asked: int
    drawn: int
    judged: int
    pairs: int
    unsettled: int
    doubtful: int
    share: PoweredRate | None
    batches: tuple[str, ...]

    @property
    def success(self) -> Estimate | None:
        """Return Success@k corrected for chance matches; None for other populations, or if there is no share."""
        if self.check.population != "hits" or self.share is None or self.share.value is None or not self.asked:
            return None
        found = self.claims / self.asked
        low, high = self.share.low, self.share.high
        if low is None or high is None:
            return None
        value, lowest, highest = (found * (1 - share) for share in (self.share.value, high, low))
        return Estimate(value, self.asked, lowest, highest, self.share.method)

    @property
    def unlabelled_draws(self) -> int:
        """The number of drawn claims that still need a label."""
        return self.drawn - self.judged

    def sentence(self) -> str:
        """Return a sentence with the estimated share, or a sentence that states what is missing."""
        check = self.check
        what = {
            "misses": f"{quantity(self.claims, 'miss', 'misses')} of {check.of} at {check.k}",
            "hits": f"{self.claims:,} questions that {check.of} finds at {check.k}",
            "training": f"{quantity(self.claims, 'gold passage')} of {check.of or 'the training questions'}",
        }[check.population]
        if self.share is None or self.share.value is None or self.share.low is None or self.share.high is None:
            left = (
                f"{self.unlabelled_draws:,} more are drawn in {', '.join(self.batches)}"
                if self.unlabelled_draws
                else "draw more"
            )
            return f"Of {what}, people judged {self.judged:,}; a share needs {FEW}: {left}."
        interval = f"{100 * self.share.low:.0f} to {100 * self.share.high:.0f}"
        shown = f"{100 * self.share.value:.0f}% ({'all were judged' if self.judged == self.claims else interval})"
        say = {
            "misses": "have doubtful gold: no gold passage states the fact",
            "hits": "are chance matches: no relevant hit states the fact",
            "training": "do not state the fact",
        }[check.population]
        judge = f" with the scores of {check.judge}" if check.judge else ""
        noun = {"misses": ("miss", "misses"), "hits": ("find", "finds"), "training": ("passage", "passages")}[
            check.population
        ]
        settled = self.judged - self.unsettled
        facts = f" of {quantity(self.share.units or 0, self.unit)}" if self.share.units != settled else ""
        left_open = f", {self.unsettled:,} left open" if self.unsettled else ""
        base = (
            f"From {self.judged:,} judged {noun[self.judged != 1]}{facts} ({quantity(self.pairs, 'labelled pair')}{left_open}), "
            f"drawn{judge or ' at random'}"
        )
        without = ""
        if (success := self.success) is not None:
            value, low, high = success.percent
            without = (
                f" Success@{check.k} without chance matches: {value:.1f}% ({low:.1f} to {high:.1f}), "
                f"{100 * self.claims / self.asked:.1f}% with them."
            )
        return f"Of {what}, {shown} {say}. {base}.{without}"


def claims_of(study: Study, check: GoldCheck) -> tuple[list[Claim], int]:
    """Return the claims of a check in the order of their questions, and the number of questions that were measured.

    Raises: Missing for an unknown run, training set or judge; BadInput for a k that the run is not deep enough for.
    """
    pairs, asked = _claim_pairs(study, check)
    known = ScoreStore.open(study, check.judge).scores_of({question for question, _ in pairs}) if check.judge else {}
    scores = [known.get(question, {}).get(passage) for question, passages in pairs for passage in passages]
    scored = [score for score in scores if score is not None]
    unknown = sum(scored) / len(scored) if scored else 0.5  # an unscored passage counts as the mean of the others

    def claim(question: str, passages: Sequence[str]) -> Claim:
        likely = {passage: known.get(question, {}).get(passage, unknown) for passage in passages}
        chosen = sorted(passages, key=lambda passage: -likely[passage])[:PASSAGES]
        return Claim(question, tuple(chosen), float(np.prod([1 - likely[passage] for passage in chosen])))

    return [claim(question, passages) for question, passages in pairs], asked


def _claim_pairs(study: Study, check: GoldCheck) -> tuple[list[tuple[str, list[str]]], int]:
    """Return each claim's question with all its passages, and the number of questions that were measured."""
    if check.population == "training":
        return _training_pairs(study, check.of)
    run = study.run(check.of)
    if not 1 <= check.k <= run.hits.k:
        raise BadInput(f"k must be from 1 to {run.hits.k}, the hits per question of run {check.of!r}, not {check.k}")
    measured = relevant(study, run, check.relevance, check.rule)
    found = success_from_ranks(first_hit(measured.relevant), check.k)
    asked = len(found)
    if check.population == "misses":
        questions = take(measured.questions, np.flatnonzero(~found))
        held = study.corpus.ordinals({passage for question in questions for passage in question.gold})
        rows = [(question.id, [passage for passage in question.gold if passage in held]) for question in questions]
        return [(question, passages) for question, passages in rows if passages], asked
    ordinals = np.asarray(run.hits.ordinals)[measured.rows[found], : check.k]
    right = np.asarray(measured.relevant)[found, : check.k]
    ids = study.corpus.ids(np.unique(ordinals[right]).tolist())
    names = ids_of(take(measured.questions, np.flatnonzero(found)))
    return [(name, [ids[row] for row in ordinals[i][right[i]].tolist()]) for i, name in enumerate(names)], asked


def _training_pairs(study: Study, name: str) -> tuple[list[tuple[str, list[str]]], int]:
    if name:
        groups = TrainingSet.open(study, name).groups()
        pairs = [
            (p.question, [p.passage]) for _, of in groups for p in of if p.role == "positive" and p.origin == "gold"
        ]
        return pairs, len({question for question, _ in pairs})
    questions = study.questions.all(split="train")
    held = study.corpus.ordinals({passage for question in questions for passage in question.gold})
    pairs = [(question.id, [passage]) for question in questions for passage in question.gold if passage in held]
    return pairs, len(questions)


def best_judge(study: Study, check: GoldCheck) -> str:
    """Return the calibrated judge that has scores for the most claims of a check; "" if no judge has any."""
    wanted = {question for question, _ in _claim_pairs(study, check)[0]}
    covered = {}
    for name in study.parts("scores"):
        try:
            store = ScoreStore.open(study, name)
        except BlindspotError:
            continue
        if store.manifest.get("calibrated"):
            covered[name] = len(store.questions() & wanted)
    return max(covered, key=lambda name: covered[name]) if any(covered.values()) else ""


def queue_gold_check(
    study: Study, name: str, check: GoldCheck, size: int = SIZE, actor: str | None = None
) -> BatchSummary:
    """Draw claims and queue them as the batch `name`. Another batch with the same check continues the draws.

    Raises:
        Missing: as `claims_of`, or no claim. Refused: the name is taken, every claim was drawn, or `actor` may not.
        BadInput: a size below 1.
    """
    require(study, actor, "make batches")
    if size < 1:
        raise BadInput(f"--size must be at least 1, not {size}")
    claims, asked = claims_of(study, check)
    if not claims:
        raise Missing(
            f"there is nothing to check: no {check.population} of {check.of or 'training questions'} with passages"
        )
    weights = EVENLY + np.sqrt([claim.doubt * (1 - claim.doubt) for claim in claims])
    keys = draw_keys(weights, check.seed)
    order = np.argsort(keys, kind="stable")
    content = text_sha256(json.dumps([[*asdict(claim).values()] for claim in claims]))
    before = [each for each in stored_checks(study) if each.check == check and each.content == content]
    start = sum(len(each.draws) for each in before)
    places = order[start : start + size]
    if not len(places):
        raise Refused(f"all {len(claims):,} were drawn already")
    draws = [DrawnClaim(claims[place], float(weights[place]), float(keys[place])) for place in places.tolist()]
    after = start + len(draws)
    of_questions = {
        question.id: question for question in study.questions.with_ids({claim.question for claim in claims})
    }
    asking = [of_questions[claim.question] for claim in claims]
    stored = {
        **asdict(check),
        "content": content,
        "claims": len(claims),
        "units": units_of(asking, study.settings.unit).count,
        "asked": asked,
        "predicted": float(np.mean([claim.doubt for claim in claims])),
        "next_key": float(keys[order[after]]) if after < len(order) else None,
        "draws": [[*asdict(draw.claim).values(), draw.weight, draw.key] for draw in draws],
    }
    pairs = [(draw.claim.question, passage) for draw in draws for passage in draw.claim.passages]
    items = pair_items(study, pairs)
    origin = f"{check.population} of {check.of or 'training questions'}: is the fact stated?"
    Queue(study.labels_path).add_batch(name, items, {KEY: stored, "origin": origin, "size": len(draws)}, actor=actor)
    return BatchSummary(name, {"priority": len(items)}, len(pairs), len(claims))


@dataclass(frozen=True)
class StoredCheck:
    """The draws of one batch, as stored in its settings. content: hash of the claims. next_key: sort key of the first
    claim that was not drawn, or None if all were drawn.
    """

    batch: str
    check: GoldCheck
    content: str
    claims: int
    units: int
    asked: int
    predicted: float
    next_key: float | None
    draws: list[DrawnClaim]


def stored_checks(study: Study) -> list[StoredCheck]:
    """Return the gold checks of a study by batch, oldest first."""
    found = []
    for batch in Queue(study.labels_path).batches():
        if KEY not in batch.settings or batch.practice:
            continue
        stored: Mapping[str, Any] = batch.settings[KEY]
        check = GoldCheck(**{name: stored[name] for name in GoldCheck.__dataclass_fields__})
        draws = [
            DrawnClaim(Claim(q, tuple(passages), doubt), weight, key)
            for q, passages, doubt, weight, key in stored["draws"]
        ]
        numbers = (stored["claims"], stored["units"], stored["asked"], stored["predicted"], stored["next_key"])
        found.append(StoredCheck(batch.name, check, stored["content"], *numbers, draws))
    return found


def gold_estimates(study: Study, population_name: str | None = None) -> list[GoldEstimate]:
    """Return the estimates for all checked populations, newest last, or only those for the named run or training set.

    If a population has several checks (with different judges or scores), the one with the most judged claims is used.
    """
    merged: dict[tuple[GoldCheck, str], list[StoredCheck]] = {}
    for each in stored_checks(study):
        if population_name is None or each.check.of == population_name:
            merged.setdefault((each.check, each.content), []).append(each)
    best: dict[tuple[object, ...], GoldEstimate] = {}
    for batches in merged.values():
        found = _estimate(study, batches)
        if (known := best.get(found.check.about)) is None or found.judged >= known.judged:
            best[found.check.about] = found
    return list(best.values())


def _estimate(study: Study, batches: Sequence[StoredCheck]) -> GoldEstimate:
    last, draws = batches[-1], [draw for each in batches for draw in each.draws]
    store = Labels(study.labels_path, read_only=True)
    asked = {draw.claim.question for draw in draws}
    labels = labels_by_pair(store.consensus(asked))
    bad = store.bad_questions().keys()
    outcomes = [outcome_of(draw.claim, labels, draw.claim.question in bad) for draw in draws]
    judged = next((place for place, outcome in enumerate(outcomes) if outcome == "waiting"), len(outcomes))
    chosen, outcomes = draws[:judged], outcomes[:judged]
    is_doubtful = np.array([outcome == "doubtful" for outcome in outcomes], bool)
    settled = np.array([outcome != "unsettled" for outcome in outcomes], bool)
    share = None
    if settled.sum() >= FEW:
        limit = draws[judged].key if judged < len(draws) else last.next_key
        weights = np.array([draw.weight for draw in chosen])
        questions = study.questions.with_ids([draw.claim.question for draw in chosen])
        sample = ScoredSample(
            is_doubtful,
            settled,
            np.array([draw.claim.doubt for draw in chosen]),
            inclusion_probabilities(weights, limit),
            np.array([question.id for question in questions], dtype=str),
            units_of(questions, study.settings.unit).codes,
        )
        share = powered_rate(sample, np.full(last.claims, last.predicted))
        if settled.sum() == last.claims:  # a census: nothing is estimated
            known = float(is_doubtful.mean())
            share = replace(share, value=known, low=known, high=known)
    pairs = sum((draw.claim.question, passage) in labels for draw in chosen for passage in draw.claim.passages)
    return GoldEstimate(
        last.check,
        last.claims,
        last.units,
        study.settings.unit,
        last.asked,
        len(draws),
        judged,
        pairs,
        int((~settled).sum()),
        int(is_doubtful.sum()),
        share,
        tuple(each.batch for each in batches),
    )


def outcome_of(claim: Claim, labels: Mapping[tuple[str, str], str], is_bad: bool) -> str:
    """Return the outcome of a claim: "stated", "doubtful", "unsettled" (unsure, disputed, or a bad question) or
    "waiting".
    """
    given = [labels.get((claim.question, passage)) for passage in claim.passages]
    if is_bad:
        return "unsettled"
    if "positive" in given:
        return "stated"
    if None in given:
        return "waiting"
    return "doubtful" if all(label in REJECTED for label in given) else "unsettled"


def unchecked_gold_sentence(study: Study) -> str:
    """Return a sentence if the study's gold passages appear to come from answer matching; "" if they were judged.

    Gold passages imported from qrels count as judged. Other gold passages appear to be matched if each of SAMPLED
    sampled ones contains an answer.
    """
    judged = GoldMatches(study.labels_path).grades()
    pairs = [pair for pair in study.questions.gold_pairs() if pair not in judged]
    if not pairs:
        return ""
    chosen = np.random.default_rng(0).permutation(len(pairs))[:SAMPLED].tolist()
    held = study.corpus.ordinals({pairs[place][1] for place in chosen})
    drawn = [pairs[place] for place in chosen if pairs[place][1] in held]
    questions = study.questions.with_ids([id for id, _ in drawn])
    passages = study.corpus.passages([held[passage] for _, passage in drawn])
    holding = sum(
        has_answer(passage.text, question.answers, rule_for(question, DEFAULT_RULE), passage.title)
        for question, passage in zip(questions, passages, strict=True)
    )
    if not drawn or holding < len(drawn):
        return ""
    return (
        f"All of {quantity(len(drawn), 'passage')} sampled from the study's gold contain an answer, as gold that was made by matching does. "
        "Nobody checked whether they state the fact."
    )


def with_default_judge(study: Study, check: GoldCheck) -> GoldCheck:
    """Return the check, filled in with the best judge if it names none."""
    return check if check.judge else replace(check, judge=best_judge(study, check))
