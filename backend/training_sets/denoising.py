"""What becomes of a mined negative, and of a positive: the policies, by name.

The order of trust is human label, then cross-encoder, then answer match. A policy is one of `BASES`, what a machine says, or one of
them with labels over it ("cross_encoder+labels"); "labels" is "none" with labels over it.

- none: every mined passage is a negative (DPR without its answer filter).
- answer_match: one that holds an answer is dropped (DPR, section 3.2).
- cross_encoder: kept where the probability is below 0.1, proposed as a positive above 0.9, dropped between and where there is
  no score (RocketQA, section 4.1.3). The two numbers were set for another model: look at its calibration before trusting them.
- positive_aware: kept where the score is under 95% of the positive's, or lower than it by a margin (NV-Retriever, Moreira et al. 2024).
  Of several positives the one that scores lowest counts.
- labels over any: a positive becomes a positive (relabelling gains more than dropping), a negative stays, related is dropped or
  a negative as the settings say, unsure and in dispute are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backend.training_sets.training_set import Role
from db.errors import BadInput, Refused

BASES = ("none", "answer_match", "cross_encoder", "positive_aware")
POLICIES = ("none", "answer_match", "cross_encoder", "positive_aware", "labels", "answer_match+labels", "cross_encoder+labels",
            "positive_aware+labels")  # fmt: skip
RELATED = ("drop", "negative")

# Reasons, as they stand in the pairs.
GOLD = "gold"
GOLD_UNUSED = "gold, which this set does not take as positives"
DISTANT = "the best passage of BM25 that holds an answer"
MINED = "mined, not looked at"
DRAWN = "drawn, not looked at"
NO_ANSWER = "holds no answer"
HOLDS_ANSWER = "holds an answer"
SURELY_NOT = "the cross-encoder is sure that it does not answer"
SURELY = "the cross-encoder is sure that it answers"
BETWEEN = "the cross-encoder is not sure"
UNKNOWN = "no score is known"
UNDER = "scores well under the positive"
NOT_UNDER = "scores about as high as the positive, or higher"
NO_POSITIVE_SCORE = "no score of the positive is known"
RELABELLED = "mined as a negative; people say it answers"
PEOPLE_POSITIVE = "people say it answers"
PEOPLE_NEGATIVE = "people say it does not answer"
GOLD_DENIED = "gold; people say it does not answer"
PEOPLE_RELATED = "people say it is related and does not answer"
UNSURE = "people are unsure"
OPEN = "people disagree"

PEOPLE_REASONS = (RELABELLED, PEOPLE_POSITIVE, PEOPLE_NEGATIVE, GOLD_DENIED, PEOPLE_RELATED, UNSURE, OPEN)


@dataclass(frozen=True, slots=True)
class Policy:
    """base: of BASES. labels: whether people's labels stand over it."""

    base: str
    labels: bool

    @property
    def name(self) -> str:
        if not self.labels:
            return self.base
        return "labels" if self.base == "none" else f"{self.base}+labels"


def policy_named(name: str) -> Policy:
    """Raises BadInput for a name that is none of POLICIES."""
    if name not in POLICIES:
        raise BadInput(f"there is no denoising policy {name!r}; there are: {', '.join(POLICIES)}")
    if name == "labels":
        return Policy("none", True)
    base, _, over = name.partition("+")
    return Policy(base, bool(over))


@dataclass(frozen=True, slots=True)
class Thresholds:
    """keep_below, propose_above: of `cross_encoder`, probabilities. share, margin: of `positive_aware`; `margin` takes the place of
    `share` where it is given, and is in the units of the run's scores. related: what a related passage becomes, of RELATED."""

    keep_below: float = 0.1
    propose_above: float = 0.9
    share: float = 0.95
    margin: float | None = None
    related: str = "drop"

    def check(self) -> None:
        """Raises BadInput for values out of range."""
        if not 0 <= self.keep_below <= self.propose_above <= 1:
            raise BadInput(
                f"the thresholds of the cross-encoder lie between 0 and 1, the lower first, not {self.keep_below} and "
                f"{self.propose_above}"
            )
        if not 0 < self.share <= 1:
            raise BadInput(f"the share of the positive's score lies above 0 and is at most 1, not {self.share}")
        if self.margin is not None and not self.margin >= 0:
            raise BadInput(f"the margin below the positive's score is 0 or more, not {self.margin}")
        if self.related not in RELATED:
            raise BadInput(f"a related passage is to become one of {', '.join(RELATED)}, not {self.related!r}")


def check_scale(thresholds: Thresholds, calibrated: bool | None) -> None:
    """Whether `positive_aware` means anything on the scores there are.

    Args:
        calibrated: of the cross-encoder's probabilities; None where only the run's own scores are at hand.

    Raises:
        Refused: a share of raw scores, or of probabilities that nobody calibrated.
    """
    if thresholds.margin is not None:
        return
    if calibrated is None:
        raise Refused(
            "positive_aware takes a share of the positive's score, and raw retrieval scores have no zero: 95% of a dot product "
            "of 80 lies 4 below it, 95% of one of -2 above it; give a model with calibrated scores, or a margin"
        )
    if not calibrated:
        raise Refused(
            "positive_aware takes a share of the positive's probability, and this model's are not calibrated; calibrate it on "
            "labels, or give a margin"
        )


@dataclass(frozen=True, slots=True)
class PassageEvidence:
    """What the machines know of a candidate. answer: None where the question has no answers. score: the run's; probability: the
    cross-encoder's; None is unknown. easy: drawn at random or another question's gold, so that an unknown score drops it not."""

    answer: bool | None = None
    score: float | None = None
    probability: float | None = None
    easy: bool = False


@dataclass(frozen=True, slots=True)
class ScoreCeiling:
    """The score that a candidate must stay under to be a negative by `positive_aware`; None where the positive's is not known.

    margin: whether it is of the run's scores (else of probabilities).
    """

    value: float | None
    margin: bool


def score_ceiling(positives: Sequence[float], thresholds: Thresholds) -> ScoreCeiling:
    """The bar from the scores of a question's positives that are known: probabilities, or with a margin the run's scores."""
    margin = thresholds.margin
    if not positives:
        return ScoreCeiling(None, margin is not None)
    return (
        ScoreCeiling(min(positives) * thresholds.share, False)
        if margin is None
        else ScoreCeiling(min(positives) - margin, True)
    )


def machine_role(
    base: str, seen: PassageEvidence, thresholds: Thresholds, bar: ScoreCeiling | None = None
) -> tuple[Role, str]:
    """(role, reason) of a mined passage by a policy of BASES."""
    unlooked = DRAWN if seen.easy else MINED
    if base == "none" or (base == "answer_match" and seen.answer is None):
        return "negative", unlooked
    if base == "answer_match":
        return ("dropped", HOLDS_ANSWER) if seen.answer else ("negative", NO_ANSWER)
    value = seen.score if base == "positive_aware" and bar.margin else seen.probability
    if value is None:
        return ("negative", unlooked) if seen.easy else ("dropped", UNKNOWN)
    if base == "cross_encoder":
        if value < thresholds.keep_below:
            return "negative", SURELY_NOT
        return ("positive", SURELY) if value > thresholds.propose_above else ("dropped", BETWEEN)
    if bar.value is None:
        return "dropped", NO_POSITIVE_SCORE
    return ("negative", UNDER) if value < bar.value else ("dropped", NOT_UNDER)


def label_role(label: str, related: str, mined: bool, gold: bool = False) -> tuple[Role, str]:
    """(role, reason) of a passage that people judged.

    Args:
        label: positive, related, negative, unsure, or open (in dispute).
    """
    if label == "positive":
        return "positive", RELABELLED if mined else PEOPLE_POSITIVE
    if label == "negative":
        return "negative", GOLD_DENIED if gold else PEOPLE_NEGATIVE
    if label == "related":
        return ("negative" if related == "negative" else "dropped"), PEOPLE_RELATED
    return "dropped", UNSURE if label == "unsure" else OPEN
