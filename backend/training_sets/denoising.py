"""Denoising policies: the role of each mined passage, decided by a machine, and how people's labels override it.

The order of trust is human label, then cross-encoder, then answer match. Each policy is a registered
`DenoisingPolicy`. Every policy also
exists with labels over it: "cross_encoder+labels"; "labels" is "none" with labels over it. An installed package adds a
policy through the entry point group `blindspot.denoising`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from backend.core.declared import Field, settings_class
from backend.core.registry import Registry, must_be
from backend.training_sets.training_set import Role
from db.errors import BadInput, Refused

# Reasons, as the pairs store them. A changed text needs an entry in `training_set.RENAMED_REASONS`.
GOLD = "gold"
GOLD_UNUSED = "gold, but this set takes no gold as positives"
DISTANT = "the highest BM25 passage that contains an answer"
MINED = "mined, not checked"
DRAWN = "drawn, not checked"
NO_ANSWER = "contains no answer"
HOLDS_ANSWER = "contains an answer"
SURELY_NOT = "the cross-encoder is sure it does not answer"
SURELY = "the cross-encoder is sure it answers"
BETWEEN = "the cross-encoder is not sure"
UNKNOWN = "no score is known"
UNDER = "scores well below the positive"
NOT_UNDER = "scores about as high as the positive, or higher"
NO_POSITIVE_SCORE = "no score of the positive is known"
RELABELLED = "mined as a negative; people say it answers"
PEOPLE_POSITIVE = "people say it answers"
PEOPLE_NEGATIVE = "people say it does not answer"
GOLD_DENIED = "gold; people say it does not answer"
PEOPLE_RELATED = "people say it is related but does not answer"
UNSURE = "people are unsure"
OPEN = "people disagree"

PEOPLE_REASONS = (RELABELLED, PEOPLE_POSITIVE, PEOPLE_NEGATIVE, GOLD_DENIED, PEOPLE_RELATED, UNSURE, OPEN)


@settings_class
class Thresholds:
    """The numbers that policies decide by, and what becomes of related passages."""

    keep_below: float = Field(
        0.1,
        title="Keep below",
        description="cross_encoder: probability below which a passage is a negative",
        ge=0,
        le=1,
    )
    propose_above: float = Field(
        0.9,
        title="Propose above",
        description="cross_encoder: probability above which a passage is a pseudo-positive",
        ge=0,
        le=1,
    )
    share: float = Field(
        0.95,
        title="Share",
        description="positive_aware: share of the positive's probability below which a passage is a negative",
        gt=0,
        le=1,
    )
    margin: float | None = Field(
        None,
        title="Margin",
        description="positive_aware: distance below the positive's score in the run, instead of the share",
        ge=0,
    )
    related: Literal["drop", "negative"] = Field(
        "drop", title="Related passages", description="What becomes of passages that people call related"
    )

    def check(self) -> None:
        """Raises BadInput if the two thresholds of the cross-encoder are in the wrong order."""
        if self.keep_below > self.propose_above:
            raise BadInput(
                f"give the cross-encoder's thresholds lower first, not {self.keep_below} and {self.propose_above}"
            )


@dataclass(frozen=True, slots=True)
class PassageEvidence:
    """What machines know about a candidate passage.

    answer: whether the passage contains an answer; None if the question has no answers.
    score: the run's score; None is unknown. probability: the cross-encoder's probability; None is unknown.
    easy: the passage was drawn at random or is another question's gold, so an unknown score does not drop it.
    """

    answer: bool | None = None
    score: float | None = None
    probability: float | None = None
    easy: bool = False


@dataclass(frozen=True, slots=True)
class ScoreCeiling:
    """The score below which `positive_aware` keeps a candidate as a negative.

    value: None if the positive's score is unknown. margin: True if `value` is a score of the run, False if it is a
    probability.
    """

    value: float | None
    margin: bool


Decision = tuple[Role, str]
"""(role, reason)."""


@dataclass(frozen=True)
class DenoisingPolicy:
    """One way to decide the role of a mined passage.

    decide: from the evidence, the thresholds and the question's ceiling (None unless `uses_ceiling`).
    uses_model: the policy needs a cross-encoder's scores. uses_ceiling: it compares with the score of the question's
    positives.
    """

    name: str
    title: str
    help: str
    decide: Callable[[PassageEvidence, Thresholds, ScoreCeiling | None], Decision]
    uses_model: bool = False
    uses_ceiling: bool = False


DENOISING: Registry[DenoisingPolicy] = Registry(
    "denoising policy",
    modules=(__name__,),
    group="blindspot.denoising",
    check=must_be(DenoisingPolicy),
)


def _unchecked(evidence: PassageEvidence) -> Decision:
    return "negative", DRAWN if evidence.easy else MINED


def _keep_all(evidence: PassageEvidence, thresholds: Thresholds, ceiling: ScoreCeiling | None) -> Decision:
    return _unchecked(evidence)


def _by_answer(evidence: PassageEvidence, thresholds: Thresholds, ceiling: ScoreCeiling | None) -> Decision:
    if evidence.answer is None:
        return _unchecked(evidence)
    return ("dropped", HOLDS_ANSWER) if evidence.answer else ("negative", NO_ANSWER)


def _by_cross_encoder(evidence: PassageEvidence, thresholds: Thresholds, ceiling: ScoreCeiling | None) -> Decision:
    if evidence.probability is None:
        return _unchecked(evidence) if evidence.easy else ("dropped", UNKNOWN)
    if evidence.probability < thresholds.keep_below:
        return "negative", SURELY_NOT
    return ("positive", SURELY) if evidence.probability > thresholds.propose_above else ("dropped", BETWEEN)


def _by_positive(evidence: PassageEvidence, thresholds: Thresholds, ceiling: ScoreCeiling | None) -> Decision:
    assert ceiling is not None
    score = evidence.score if ceiling.margin else evidence.probability
    if score is None:
        return _unchecked(evidence) if evidence.easy else ("dropped", UNKNOWN)
    if ceiling.value is None:
        return "dropped", NO_POSITIVE_SCORE
    return ("negative", UNDER) if score < ceiling.value else ("dropped", NOT_UNDER)


DENOISING.register(
    DenoisingPolicy("none", "None", "Every mined passage is a negative (DPR without its answer filter).", _keep_all)
)
DENOISING.register(
    DenoisingPolicy(
        "answer_match",
        "Answer match",
        "A mined passage that contains an answer is dropped (DPR, section 3.2).",
        _by_answer,
    )
)
DENOISING.register(
    DenoisingPolicy(
        "cross_encoder",
        "Cross-encoder",
        "A mined passage is a negative below the lower threshold and a pseudo-positive above the upper one. Between the two, and "
        "without a score, the passage is dropped (RocketQA, section 4.1.3). RocketQA set the thresholds for its own model: check the "
        "calibration of yours.",
        _by_cross_encoder,
        uses_model=True,
    )
)
DENOISING.register(
    DenoisingPolicy(
        "positive_aware",
        "Positive-aware",
        "A mined passage is a negative if its score is below a share of the positive's score, or below it by a margin (NV-Retriever, "
        "Moreira et al. 2024). If a question has several positives, the lowest-scoring one counts.",
        _by_positive,
        uses_ceiling=True,
    )
)


@dataclass(frozen=True, slots=True)
class Policy:
    """A denoising policy as a training set uses it. base: a name in `DENOISING`. labels: people's labels override
    the base.
    """

    base: str
    labels: bool

    @property
    def name(self) -> str:
        if not self.labels:
            return self.base
        return "labels" if self.base == "none" else f"{self.base}+labels"


def policy_names() -> tuple[str, ...]:
    """The name of every policy, without and then with labels."""
    return tuple(Policy(base, labels).name for labels in (False, True) for base in DENOISING.names())


def policy_help() -> str:
    """One sentence or two for each policy, and for labels."""
    lines = [f"{policy.name}: {policy.help}" for policy in DENOISING]
    return " ".join([*lines, "labels, or +labels after another policy: people's labels override the policy."])


def policy_named(name: str) -> Policy:
    """Parse the name of a policy. Raises BadInput for an unknown name."""
    if name not in policy_names():
        raise BadInput(f"there is no denoising policy {name!r}; known: {', '.join(policy_names())}")
    if name == "labels":
        return Policy("none", True)
    base, _, labels = name.partition("+")
    return Policy(base, bool(labels))


def check_scale(thresholds: Thresholds, calibrated: bool | None) -> None:
    """Check that `positive_aware` has a meaning on the scores at hand.

    Args:
        calibrated: whether the cross-encoder's probabilities are calibrated; None if there are only the run's own
            scores.

    Raises:
        Refused: a share of raw scores, or of probabilities that nobody calibrated.
    """
    if thresholds.margin is not None:
        return
    if calibrated is None:
        raise Refused(
            "positive_aware takes a share of the positive's score, and raw retrieval scores have no zero: 95% of a dot product "
            "of 80 is 4 below it, 95% of -2 is above it; give a model with calibrated scores, or a margin"
        )
    if not calibrated:
        raise Refused(
            "positive_aware takes a share of the positive's probability, and this model's probabilities are not calibrated; "
            "calibrate the model on labels, or give a margin"
        )


def score_ceiling(positives: Sequence[float], thresholds: Thresholds) -> ScoreCeiling:
    """The ceiling from the known scores of a question's positives: probabilities, or the run's scores if there is a
    margin.
    """
    margin = thresholds.margin
    if not positives:
        return ScoreCeiling(None, margin is not None)
    if margin is None:
        return ScoreCeiling(min(positives) * thresholds.share, False)
    return ScoreCeiling(min(positives) - margin, True)


def machine_role(
    base: str, evidence: PassageEvidence, thresholds: Thresholds, ceiling: ScoreCeiling | None = None
) -> Decision:
    """(role, reason) of a mined passage by the policy named `base`."""
    return DENOISING.get(base).decide(evidence, thresholds, ceiling)


def label_role(label: str, related: str, mined: bool, gold: bool = False) -> Decision:
    """(role, reason) of a passage that people judged.

    A positive label makes a positive (relabelling helps more than dropping) and a negative label keeps a negative.
    `related` says what a related passage becomes. Unsure and disputed passages are dropped.

    Args:
        label: one of positive, related, negative, unsure, or open (in dispute).
    """
    if label == "positive":
        return "positive", RELABELLED if mined else PEOPLE_POSITIVE
    if label == "negative":
        return "negative", GOLD_DENIED if gold else PEOPLE_NEGATIVE
    if label == "related":
        return ("negative" if related == "negative" else "dropped"), PEOPLE_RELATED
    return "dropped", UNSURE if label == "unsure" else OPEN
