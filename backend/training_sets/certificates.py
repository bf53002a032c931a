"""Certify a training set with the labels of randomly drawn pairs: an upper bound on its share of false negatives, and a
lower bound on its share of correct positives.

Definition. A negative is *false* if people label it positive. To be conservative, a pair also counts as false if people
are unsure of it or disagree on it, or marked its question as bad. The set is finite. Its negatives are

- those with a label when the sample was planned, of which the false ones are counted;
- the others, from which the sample is drawn: `blindspot.analysis.certificates` bounds the number of false ones.

Two shares are reported. The denominator of each is the number of all negatives in the respective set:

- *as it is*: the bound on all false negatives of the set;
- *after*: the bound on the false negatives that remain when the found ones are removed, which `--policy ...+labels`
  does when the set is built again. This bound is the bound on all false negatives minus the number of found ones,
  because the found ones are certain.

The bounds hold simultaneously for every number of labels, so people may look at them, stop or continue at any time.
They are computed from the draws before the first unjudged pair. Each statement (negatives, positives, one stratum) has
the stated confidence by itself. A certificate refers to what these annotators would label positive. If they miss a
share of the true positives, independently of each other, then the bounds divided by one minus that share hold for the
true positives (`bounds_with_missed_positives`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from blindspot.analysis.certificate_plan import further_draws
from blindspot.analysis.certificates import bet_against_hits, remaining_share
from blindspot.analysis.weighted_draws import Cells
from blindspot.backend.core.manifest import read_object, text_sha256, write_json
from blindspot.backend.core.study import Study
from blindspot.backend.judging.quality import missed_positives
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training_sets.certificate_draws import (
    FOLDER,
    STATED,
    WRONG_POSITIVES,
    CertificatePlan,
    Draw,
    PairId,
    no_plan_message,
    read_plan,
)
from blindspot.backend.training_sets.training_set import PAIRS, TrainingSet
from blindspot.db.errors import BadInput, Missing
from blindspot.db.judgements import labels_by_pair
from blindspot.db.labels import Labels

SHOWN = 3  # changed labels that a withdrawal names
FEW = 10
"""With fewer labels of positives, the share of positives that people miss cannot be estimated."""
ASSUMED = 0.05
"""The share of missed positives that is assumed for the bound if it cannot be estimated."""


@dataclass(frozen=True, slots=True)
class StratumBound:
    """The upper bound on the share of false negatives in one stratum of the unjudged negatives, at the stated
    confidence for this stratum by itself.
    """

    stratum: str
    pairs: int
    judged: int
    false: int
    upper: float


@dataclass(frozen=True)
class Certificate:
    """The bounds proven by the labels up to a given event.

    Attributes:
        at_most, confidence, judge: As in the plan.
        negatives: Negatives of the set. known: Of these, the ones with a label at the time of the plan. drawn: Drawn
        negatives. judged: The first so many draws, all judged. unsettled: Of the judged and known ones, those that count
        as false because people did not settle them. false: False negatives found, unsettled ones included.
        upper: Bound on the share of false negatives as the set is. upper_after: Once the found ones are taken out.
        positives, positives_judged, right: Positives of the set, judged ones (known and drawn), right ones among them.
        right_at_least: Lower bound on the share of right positives.
        more: Further negatives to judge until the target is likely met; 0 if it is met, None if that cannot be said.
        missed, of_positives: Of so many labels of positives that people settled after more than one label, so many said
        otherwise (`blindspot.backend.judging.quality.missed_positives`). cleaned_by: The judge that chose the set's pairs.
        label_event: The last label event. pairs_sha256: Of the set's pairs. labels_sha256: Of the labels it rests on.
    """

    training_set: str
    at_most: float
    confidence: float
    judge: str | None
    seed: int
    negatives: int
    known: int
    drawn: int
    judged: int
    unsettled: int
    false: int
    upper: float
    upper_after: float
    positives: int
    positives_judged: int
    right: int
    right_at_least: float
    strata: list[StratumBound]
    more: int | None
    label_event: int
    pairs_sha256: str
    labels_sha256: str
    withdrawn: list[str] = field(default_factory=list)
    missed: int = 0
    of_positives: int = 0
    cleaned_by: str | None = None

    @property
    def missed_share(self) -> float | None:
        """Return the measured share of true positives that annotators labelled otherwise; None with fewer than FEW
        labels of positives.
        """
        return self.missed / self.of_positives if self.of_positives >= FEW else None

    def bounds_with_missed_positives(self, share: float) -> tuple[float, float]:
        """Return `upper` and `upper_after` if people miss this share of the positives, from 0 to below 1."""
        upper = min(1.0, self.upper / (1 - share))
        return upper, remaining_share(upper, self.false, self.negatives)

    @property
    def meets_target(self) -> bool:
        """Whether the current set meets the target."""
        return self.upper <= self.at_most

    @property
    def holds_after(self) -> bool:
        """Whether the set meets the target after the found false negatives are removed."""
        return self.upper_after <= self.at_most

    @property
    def unlabelled_draws(self) -> int:
        """The number of drawn negatives from the first unjudged one on."""
        return self.drawn - self.judged

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def certify(study: Study, name: str, at_most: float | None = None, store: bool = True) -> Certificate:
    """Compute the certificate from the current labels, and store it in the set's folder.

    Args:
        at_most: The share to compare with; default the plan's. The bounds hold for every share.

    Raises:
        Missing: no such set, or no pairs of it were drawn. BadInput: its pairs are not those of the plan.
    """
    training_set = TrainingSet.open(study, name)
    plan = read_plan(training_set)
    if plan is None:
        raise Missing(no_plan_message(name))
    if plan.pairs_sha256 != training_set.manifest["sha256"][PAIRS]:
        raise BadInput(f"the pairs of training set {name!r} changed since they were drawn; build another set")
    pairs = [*(draw[:2] for draw in (*plan.draws, *plan.positive_draws)), *plan.known_negatives, *plan.known_positives]
    labels = _labels_of(study, pairs)
    certificate = _certificate_state(study, name, plan, plan.at_most if at_most is None else at_most, labels)
    if store and certificate.judged + certificate.known:
        unused = {draw[:2] for draw in plan.draws[certificate.judged :]}
        rests_on = [[*pair, label] for pair, label in sorted(labels.items()) if pair not in unused]
        write_json(training_set.folder / FOLDER / STATED, {**certificate.as_json(), "labels": rests_on})
    return certificate


def stated_certificate(study: Study, training_set: TrainingSet) -> Certificate | None:
    """Return the stored certificate of a set, or None.

    If the set's pairs or a label used by the certificate has changed since, the field `withdrawn` states what changed.
    Raises BadInput for a damaged file.
    """
    path = training_set.folder / FOLDER / STATED
    if not path.is_file():
        return None
    plain = read_object(path)
    try:
        before = {(question, passage): label for question, passage, label in plain.pop("labels")}
        strata = [StratumBound(**each) for each in plain.pop("strata")]
        stated = Certificate(**{**plain, "training_set": training_set.name}, strata=strata)
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"is not a certificate ({error}); certify the set again", path) from None
    if stated.pairs_sha256 != training_set.manifest["sha256"][PAIRS]:
        stated.withdrawn.append("the pairs of the set changed")
    now = _labels_of(study, before)
    changed = [pair for pair, label in before.items() if now.get(pair, "") != label]
    stated.withdrawn.extend(
        f"question {question} passage {passage} was {before[question, passage]} and is now "
        f"{now.get((question, passage)) or 'without a label'}"
        for question, passage in changed[:SHOWN]
    )
    if len(changed) > SHOWN:
        stated.withdrawn.append(f"{len(changed) - SHOWN:,} more labels changed")
    return stated


def percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def proof_sentences(certificate: Certificate) -> list[str]:
    """Return the sentences about the proven bounds for the command, the page and an export's card."""
    return [_bound_line(certificate), sensitivity_sentence(certificate), _positives_line(certificate)]


def _bound_line(certificate: Certificate) -> str:
    return (
        f"False negatives: at most {percent(certificate.upper)} of {quantity(certificate.negatives, 'negative')} as the set is, at most "
        f"{percent(certificate.upper_after)} after the found ones are taken out ({percent(certificate.confidence)} confidence, "
        f"{certificate.judged:,} drawn and {certificate.known:,} earlier labels, {_judge_words(certificate)}, "
        f"seed {certificate.seed})."
    )


def _judge_words(certificate: Certificate) -> str:
    if certificate.judge is None:
        return "no judge"
    return f"judge {certificate.judge}" + (
        ", which also cleaned this set" if certificate.judge == certificate.cleaned_by else ""
    )


def _positives_line(certificate: Certificate) -> str:
    return (
        f"Right positives: at least {percent(certificate.right_at_least)} of {quantity(certificate.positives, 'positive')} "
        f"({certificate.right:,} of {certificate.positives_judged:,} judged ones are right)."
    )


def sensitivity_sentence(certificate: Certificate) -> str:
    """Return one sentence with the bounds in case people miss a share of the positives: the measured share if there is
    one, or else an example.
    """
    share = ASSUMED if certificate.missed_share is None else certificate.missed_share
    if share >= 1:
        return "Every label of a settled positive was different from the settled one, so these labels prove nothing about the positives."
    upper, after = certificate.bounds_with_missed_positives(share)
    bounds = f"at most {percent(upper)} as the set is, at most {percent(after)} after"
    if certificate.missed_share is None:
        return f"If people miss {100 * ASSUMED:.0f}% of the positives: {bounds}. Repeats and settled disputes would make it possible to measure that share."
    return (
        f"People missed {certificate.missed:,} of {certificate.of_positives:,} labels of settled positives ({100 * share:.1f}%): with such misses "
        f"{bounds}."
    )


def _certificate_state(
    study: Study, name: str, plan: CertificatePlan, at_most: float, labels: dict[PairId, str]
) -> Certificate:
    n = _judged_draw_count(plan.draws, labels)
    hits = np.array([_is_false(labels[draw[:2]]) for draw in plan.draws[:n]], dtype=bool)
    cells = np.array([draw.cell for draw in plan.draws[:n]], np.int64)
    known_false = sum(_is_false(labels.get(pair, "")) for pair in plan.known_negatives)
    false = known_false + int(hits.sum())
    upper = _upper_bounds(hits, cells, plan.cells, plan.target, plan.horizon, plan.confidence) if n else 1.0
    whole = (known_false + upper * plan.cells.size) / plan.negatives
    after = remaining_share(whole, false, plan.negatives)
    positives = [labels.get(pair, "") for pair in plan.known_positives]
    drawn_positives = [
        labels[draw[:2]] for draw in plan.positive_draws[: _judged_draw_count(plan.positive_draws, labels)]
    ]
    right = sum(label == "positive" for label in (*positives, *drawn_positives))
    judged_pairs = [*(draw[:2] for draw in plan.draws[:n]), *plan.known_negatives]
    missed, of_positives = missed_positives(Labels(study.labels_path, read_only=True))
    scores = TrainingSet.open(study, name).manifest["inputs"].get("scores")
    return Certificate(
        name,
        at_most,
        plan.confidence,
        plan.judge,
        plan.seed,
        plan.negatives,
        len(plan.known_negatives),
        len(plan.draws),
        n,
        sum(labels.get(pair) in ("open", "unsure") for pair in judged_pairs),
        false,
        whole,
        after,
        plan.positives,
        len(positives) + len(drawn_positives),
        right,
        _correct_positives_bound(plan, positives, drawn_positives),
        _strata(plan, hits, cells, n),
        _further_draws(plan, at_most, hits, cells, after),
        Labels(study.labels_path, read_only=True).last_event,
        plan.pairs_sha256,
        text_sha256(json.dumps(sorted([*pair, labels.get(pair, "")] for pair in set(judged_pairs)))),
        missed=missed,
        of_positives=of_positives,
        cleaned_by=scores["model"] if scores else None,
    )


def _upper_bounds(
    hits: np.ndarray, draws: np.ndarray, cells: Cells, target: float, horizon: int, confidence: float
) -> float:
    betting = bet_against_hits(hits[None], draws[None], cells, target, max(1, horizon), confidence)
    if len(hits) == cells.size:  # a census
        return float(hits.sum() / cells.size)
    return float(betting.upper_bounds(confidence=confidence)[0])


def _further_draws(
    plan: CertificatePlan, at_most: float, hits: np.ndarray, draws: np.ndarray, rounds_after: float
) -> int | None:
    if rounds_after <= at_most:
        return 0
    if len(hits) < len(plan.draws):
        return len(plan.draws) - len(hits)
    target = at_most * plan.negatives / plan.cells.size
    return further_draws(hits, draws, plan.cells, target, plan.horizon, plan.confidence)


def _strata(plan: CertificatePlan, hits: np.ndarray, draws: np.ndarray, n: int) -> list[StratumBound]:
    """Return the bound for each stratum. It is valid because pairs within a stratum were also drawn in proportion to
    their weights.
    """
    place = np.array([draw.stratum for draw in plan.draws[:n]], np.int64)
    result = []
    for stratum, counts in enumerate(plan.counts):
        inside, kept = place == stratum, counts > 0
        part = Cells(counts[kept], plan.cells.chances[kept], plan.cells.weights[kept])
        renumbered = np.cumsum(kept) - 1
        share = float(counts @ plan.cells.weights / (plan.cells.counts @ plan.cells.weights))
        upper = (
            _upper_bounds(
                hits[inside], renumbered[draws[inside]], part, plan.target, int(plan.horizon * share), plan.confidence
            )
            if inside.any()
            else 1.0
        )
        result.append(StratumBound(plan.strata[stratum], part.size, int(inside.sum()), int(hits[inside].sum()), upper))
    return result


def _correct_positives_bound(plan: CertificatePlan, known_labels: Sequence[str], drawn_labels: Sequence[str]) -> float:
    """Return the lower bound on the share of correct positives: the labelled ones are counted, and the number among the
    others is bounded.
    """
    if not plan.positives:
        return 0.0
    unjudged = plan.positives - len(known_labels)
    wrong = float(sum(label != "positive" for label in known_labels))
    if unjudged:
        hits = np.array([label != "positive" for label in drawn_labels], dtype=bool)
        cells = Cells(np.array([unjudged]), np.zeros(1), np.ones(1))
        where = np.zeros(len(hits), np.int64)
        horizon = max(1, len(plan.positive_draws))
        wrong += unjudged * (
            _upper_bounds(hits, where, cells, WRONG_POSITIVES, horizon, plan.confidence) if len(hits) else 1.0
        )
    return max(0.0, 1 - wrong / plan.positives)


def _is_false(label: str) -> bool:
    """Return whether a negative with this label counts as false: it is labelled positive or not settled."""
    return label not in ("negative", "related")


def _judged_draw_count(draws: Sequence[Draw], labels: dict[PairId, str]) -> int:
    """Return the number of draws before the first unjudged one."""
    return next((place for place, draw in enumerate(draws) if draw[:2] not in labels), len(draws))


def _labels_of(study: Study, pairs: Sequence[PairId] | dict[PairId, str]) -> dict[PairId, str]:
    """Return the label of each judged pair: "open" if people disagree or marked its question as bad."""
    wanted = set(pairs)
    store = Labels(study.labels_path, read_only=True)
    known = labels_by_pair(store.consensus({question for question, _ in wanted}))
    labels = {pair: label for pair, label in known.items() if pair in wanted}
    bad = set(store.bad_questions())
    return labels | {pair: "open" for pair in wanted if pair[0] in bad}
