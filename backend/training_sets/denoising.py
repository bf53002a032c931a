"""Denoising policies decide the role of each mined passage in a training set. People's labels can override the
decision.

People's labels are trusted most, then the cross-encoder, then the answer match. Each policy is a registered
`DenoisingPolicy`. Every policy also exists in a version that people's labels override, such as "cross_encoder+labels";
"labels" is this version of "none". An installed package adds a policy through the entry point group
`blindspot.denoising`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.core.registry import Registry, instance_check
from blindspot.backend.training_sets.training_set import Role, Source
from blindspot.db.errors import BadInput, Refused

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

# Reasons, as the pairs store them.
GOLD = "gold"
GOLD_UNUSED = "gold, but this set takes no gold as positives"
DISTANT = "the highest BM25 passage that contains an answer"
MINED = "mined, not checked"
DRAWN = "drawn, not checked"
NO_ANSWER = "contains no answer"
HOLDS_ANSWER = "contains an answer"
SURE_NEGATIVE = "the cross-encoder is sure it does not answer"
SURE_POSITIVE = "the cross-encoder is sure it answers"
BETWEEN = "the cross-encoder is not sure"
JUDGE_SURELY_NOT = "the judge is sure it does not answer"
JUDGE_SURE_POSITIVE = "the judge is sure it answers"
JUDGE_BETWEEN = "the judge is not sure"
UNKNOWN = "no score is known"
UNDER = "scores well below the positive"
TOO_HIGH = "scores about as high as the positive, or higher"
NO_POSITIVE_SCORE = "no score of the positive is known"
RELABELLED = "mined as a negative; people say it answers"
PEOPLE_POSITIVE = "people say it answers"
PEOPLE_NEGATIVE = "people say it does not answer"
GOLD_DENIED = "gold; people say it does not answer"
PEOPLE_RELATED = "people say it is related but does not answer"
UNSURE = "people are unsure"
OPEN = "people disagree"

PEOPLE_REASONS = (RELABELLED, PEOPLE_POSITIVE, PEOPLE_NEGATIVE, GOLD_DENIED, PEOPLE_RELATED, UNSURE, OPEN)


class OwnThresholds(NamedTuple):
    """A policy's default thresholds on the probability, used if the user gives none. None: the policy has no such
    threshold.

    Attributes:
        propose_above_with_answer: applies to passages that contain an answer, besides `propose_above`.
        keep_below_with_answer: applies to passages that contain an answer, besides `keep_below`; 0 keeps none of them.
    """

    keep_below: float | None = None
    propose_above: float | None = None
    propose_above_with_answer: float | None = None
    keep_below_with_answer: float | None = None


KEEP_BELOW, PROPOSE_ABOVE = 0.1, 0.9
"""RocketQA's thresholds of a cross-encoder (section 4.1.3), set for its own model."""
CROSS_ENCODER_THRESHOLDS = OwnThresholds(KEEP_BELOW, PROPOSE_ABOVE)


@settings_class
class Thresholds:
    """The thresholds of a policy, and the treatment of passages labelled related. None: use the policy's
    own threshold.
    """

    keep_below: float | None = Field(
        default=None,
        description="Probability below which a passage is a negative (default: 0.1 for cross_encoder, "
        "the judge's own for judge)",
        ge=0,
        le=1,
    )
    propose_above: float | None = Field(
        default=None,
        description="Probability above which a passage is a pseudo-positive (default: 0.9 for cross_encoder, "
        "the judge's own for judge)",
        ge=0,
        le=1,
    )
    share: float = Field(
        default=0.95,
        description="positive_aware: share of the best positive's probability, or cosine, below which a passage is a "
        "negative",
        gt=0,
        le=1,
    )
    margin: float | None = Field(
        default=None,
        description="positive_aware: distance below the best positive's score in the run, instead of the share",
        ge=0,
    )
    related: Literal["drop", "negative"] = Field(
        default="drop", title="Related passages", description="What becomes of passages that people call related"
    )
    propose_above_with_answer: float | None = Field(
        default=None,
        title="Propose above, with an answer",
        description="judge: probability from which a passage that contains an answer is a pseudo-positive "
        "(default: the judge's own)",
        ge=0,
        le=1,
    )
    keep_below_with_answer: float | None = Field(
        default=None,
        title="Keep below, with an answer",
        description="judge: probability below which a passage that contains an answer is a negative "
        "(default: the judge's own; 0 keeps none)",
        ge=0,
        le=1,
    )

    def filled(self, own_thresholds: OwnThresholds) -> Thresholds:
        """Return these thresholds, with missing values filled from the policy's own.

        A given `propose_above` or `keep_below` applies to all passages, so it also replaces the policy's own threshold
        for passages that contain an answer.
        """
        propose_with_answer, keep_with_answer = self.propose_above_with_answer, self.keep_below_with_answer
        if propose_with_answer is None and self.propose_above is None:
            propose_with_answer = own_thresholds.propose_above_with_answer
        if keep_with_answer is None and self.keep_below is None:
            keep_with_answer = own_thresholds.keep_below_with_answer
        return replace(
            self,
            keep_below=own_thresholds.keep_below if self.keep_below is None else self.keep_below,
            propose_above=own_thresholds.propose_above if self.propose_above is None else self.propose_above,
            propose_above_with_answer=propose_with_answer,
            keep_below_with_answer=keep_with_answer,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the thresholds as a dict for a manifest.

        Unused thresholds for passages with an answer are left out.
        """
        plain = asdict(self)
        for name in ("propose_above_with_answer", "keep_below_with_answer"):
            if plain[name] is None:
                del plain[name]
        return plain

    def check(self, own_thresholds: OwnThresholds = CROSS_ENCODER_THRESHOLDS) -> None:
        """Raise BadInput if the two thresholds of a policy are in the wrong order."""
        both = self.filled(own_thresholds)
        if both.keep_below is None or both.propose_above is None:
            return
        if both.keep_below > both.propose_above:
            raise BadInput(f"give the thresholds lower first, not {both.keep_below} and {both.propose_above}")


class PassageEvidence(NamedTuple):
    """The evidence about a candidate passage, apart from people's labels.

    Attributes:
        answer: whether the passage contains an answer; None if the question has no answers.
        score: the run's score; None is unknown.
        probability: the model's probability; None is unknown.
        easy: the passage was drawn at random or is another question's gold, so an unknown score does not drop it.
    """

    answer: bool | None = None
    score: float | None = None
    probability: float | None = None
    easy: bool = False


@dataclass(frozen=True, slots=True)
class ScoreCeiling:
    """The score below which a policy that uses a ceiling keeps a candidate as a negative.

    Attributes:
        value: None if the positive's score is unknown.
        from_run: True if `value` is a score of the run, False if it is a probability.
    """

    value: float | None
    from_run: bool


Decision = tuple[Role, str]
"""(role, reason)."""


@dataclass(frozen=True)
class DenoisingPolicy:
    """One way to decide the role of a mined passage.

    Attributes:
        decide: from the evidence, the thresholds and the question's ceiling (None unless `uses_ceiling`).
        uses_model: the policy needs the probabilities of a model.
        uses_ceiling: it compares with the score of the question's positives.
        by_answer: `decide` looks only at `answer` and `easy`, so it is asked once for each of their values.
        proposes: the source of the pseudo-positives that the policy proposes, a value of `--positives`; None if it
            proposes none.
        own: the policy's own thresholds.
        read_own: reads them from the model instead, by the model's name.
        scores_help: how to make the scores that the policy needs, with {model} for the name of the model.
    """

    name: str
    title: str
    help: str
    decide: Callable[[PassageEvidence, Thresholds, ScoreCeiling | None], Decision]
    uses_model: bool = False
    uses_ceiling: bool = False
    by_answer: bool = False
    proposes: Source | None = None
    own: OwnThresholds = CROSS_ENCODER_THRESHOLDS
    read_own: Callable[[Study, str], OwnThresholds] | None = None
    scores_help: str = ""

    def own_thresholds(self, study: Study, model: str | None) -> OwnThresholds:
        """Return the policy's own thresholds: those in the model's report, or fixed ones. Raises Missing for an unknown
        model.
        """
        return self.own if self.read_own is None or model is None else self.read_own(study, model)


DENOISING: Registry[DenoisingPolicy] = Registry(
    "denoising policy",
    modules=(__name__,),
    group="blindspot.denoising",
    check=instance_check(DenoisingPolicy),
)


def _decide_unchecked(passage_evidence: PassageEvidence) -> Decision:
    return "negative", DRAWN if passage_evidence.easy else MINED


def _keep_all(passage_evidence: PassageEvidence, thresholds: Thresholds, ceiling: ScoreCeiling | None) -> Decision:
    return _decide_unchecked(passage_evidence)


def _decide_by_answer(
    passage_evidence: PassageEvidence, thresholds: Thresholds, ceiling: ScoreCeiling | None
) -> Decision:
    if passage_evidence.answer is None:
        return _decide_unchecked(passage_evidence)
    return ("dropped", HOLDS_ANSWER) if passage_evidence.answer else ("negative", NO_ANSWER)


def _decide_by_cross_encoder(
    passage_evidence: PassageEvidence, thresholds: Thresholds, ceiling: ScoreCeiling | None
) -> Decision:
    if passage_evidence.probability is None:
        return _decide_unchecked(passage_evidence) if passage_evidence.easy else ("dropped", UNKNOWN)
    keep_below, propose_above = thresholds.keep_below, thresholds.propose_above
    if passage_evidence.probability < (KEEP_BELOW if keep_below is None else keep_below):
        return "negative", SURE_NEGATIVE
    if passage_evidence.probability > (PROPOSE_ABOVE if propose_above is None else propose_above):
        return "positive", SURE_POSITIVE
    return "dropped", BETWEEN


def _decide_by_judge(
    passage_evidence: PassageEvidence, thresholds: Thresholds, ceiling: ScoreCeiling | None
) -> Decision:
    if passage_evidence.probability is None:
        return _decide_unchecked(passage_evidence) if passage_evidence.easy else ("dropped", UNKNOWN)
    if thresholds.keep_below is not None and passage_evidence.probability < thresholds.keep_below:
        # Unlabelled passages with an answer were left out when `keep_below` was chosen, so it says nothing about them.
        with_answer = thresholds.keep_below_with_answer
        if passage_evidence.answer and with_answer is not None and passage_evidence.probability >= with_answer:
            return "dropped", HOLDS_ANSWER
        return "negative", JUDGE_SURELY_NOT
    # The judge needs less confidence where the passage contains an answer, because the two agree.
    limits = [thresholds.propose_above, thresholds.propose_above_with_answer if passage_evidence.answer else None]
    if any(limit is not None and passage_evidence.probability >= limit for limit in limits):
        return "positive", JUDGE_SURE_POSITIVE
    return "dropped", JUDGE_BETWEEN


def _judge_thresholds(study: Study, model: str) -> OwnThresholds:
    from blindspot.backend.judges.feature_judge import feature_judge_manifest
    from blindspot.backend.judges.judge import stored_thresholds

    if (stored := stored_thresholds(study, model)) is not None:
        return OwnThresholds(*stored)
    about = feature_judge_manifest(study, model)
    drop, add, add_with_answer, drop_with_answer = (
        about.get(key, {}).get("value") for key in ("drop", "add", "add_with_answer", "drop_with_answer")
    )
    return OwnThresholds(drop, add, add_with_answer, drop_with_answer or 0.0)


def _decide_by_positive(
    passage_evidence: PassageEvidence, thresholds: Thresholds, ceiling: ScoreCeiling | None
) -> Decision:
    assert ceiling is not None
    score = passage_evidence.score if ceiling.from_run else passage_evidence.probability
    if score is None:
        return _decide_unchecked(passage_evidence) if passage_evidence.easy else ("dropped", UNKNOWN)
    if ceiling.value is None:
        return "dropped", NO_POSITIVE_SCORE
    return ("negative", UNDER) if score < ceiling.value else ("dropped", TOO_HIGH)


DENOISING.register(
    DenoisingPolicy(
        "none",
        "None",
        "Every mined passage is a negative (DPR without its answer filter).",
        _keep_all,
        by_answer=True,
    )
)
DENOISING.register(
    DenoisingPolicy(
        "answer_match",
        "Answer match",
        "A mined passage that contains an answer is dropped (DPR, section 3.2).",
        _decide_by_answer,
        by_answer=True,
    )
)
DENOISING.register(
    DenoisingPolicy(
        "cross_encoder",
        "Cross-encoder",
        "A mined passage is a negative below the lower threshold and a pseudo-positive above the upper one. Between "
        "the two, and without a score, the passage is dropped (RocketQA, section 4.1.3). RocketQA chose the thresholds for its own model: check the calibration of yours.",
        _decide_by_cross_encoder,
        uses_model=True,
        proposes="cross_encoder",
    )
)
DENOISING.register(
    DenoisingPolicy(
        "positive_aware",
        "Positive-aware",
        "A mined passage is a negative if its score is below a share of the positive's score, or below it by a "
        "margin (NV-Retriever, Moreira et al. 2024). If a question has several positives, the one with the highest score counts. A share needs calibrated probabilities, or a run that ranks by cosine.",
        _decide_by_positive,
        uses_ceiling=True,
    )
)


DENOISING.register(
    DenoisingPolicy(
        "judge",
        "Judge",
        "A mined passage is a negative if its score is below the drop threshold of a feature judge, and a pseudo-positive if it is at least the add threshold. A passage that contains an answer has separate thresholds. Such a passage is kept as a negative only if enough labels of such passages show that the judge recognises false ones. Between the two, and without a "
        "score, the passage is dropped. The judge's own report sets the thresholds ('blindspot judge learn'). For a language model or an imported judge, the thresholds are 0.5 and the score of the lowest positive grade.",
        _decide_by_judge,
        uses_model=True,
        proposes="judge",
        own=OwnThresholds(),
        read_own=_judge_thresholds,
        scores_help="run 'blindspot judge learn {model} --run RUN' to learn a judge, and 'blindspot judge run "
        "{model} --run RUN' "
        "to score the lists of a run",
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

    @property
    def definition(self) -> DenoisingPolicy:
        return DENOISING.get(self.base)


def policy_names() -> tuple[str, ...]:
    """Return the names of all policies, first without labels and then with labels."""
    return tuple(Policy(base, labels).name for labels in (False, True) for base in DENOISING.names())


def policy_help() -> str:
    """Return the help text: one or two sentences for each policy and for the suffix for labels."""
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


def check_scale(
    thresholds: Thresholds, calibrated: bool | None, policy: str = "positive_aware", cosine: bool = False
) -> None:
    """Check that a policy with a score ceiling is meaningful for these scores.

    Args:
        calibrated: whether the cross-encoder's probabilities are calibrated; None if there are only the run's own
            scores.
        cosine: whether the scores of every run are cosines.

    Raises:
        Refused: a share of raw scores other than cosines, or of probabilities that nobody calibrated.
    """
    if thresholds.margin is not None or (calibrated is None and cosine):
        return
    if calibrated is None:
        raise Refused(
            f"{policy} takes a share of the positive's score, and raw retrieval scores have no zero: 95% of a dot "
            "product of 80 is 4 below it, 95% of -2 is above it; give a model with calibrated scores, a run that "
            "ranks by cosine, or a margin"
        )
    if not calibrated:
        raise Refused(
            f"{policy} takes a share of the positive's probability, and this model's probabilities are not calibrated; "
            "calibrate the model on labels, or give a margin"
        )


def score_ceiling(positives: Sequence[float], thresholds: Thresholds, from_run: bool | None = None) -> ScoreCeiling:
    """Return the ceiling below the best of a question's positives.

    With a relative threshold, the ceiling is the score minus (1 - share) times its absolute value. For positive scores
    this equals share x score. For a negative cosine the ceiling is still below the positive's score.

    Args:
        positives: the known scores of the positives: probabilities, or scores of the run.
        from_run: whether they are scores of the run; default if there is a margin.
    """
    margin = thresholds.margin
    from_run = margin is not None if from_run is None else from_run
    if not positives:
        return ScoreCeiling(None, from_run)
    best = max(positives)
    below = (1 - thresholds.share) * abs(best) if margin is None else margin
    return ScoreCeiling(best - below, from_run)


def label_role(label: str, related_policy: str, is_mined: bool, gold: bool = False) -> Decision:
    """Return the role and the reason for a passage that people judged.

    A passage labelled positive becomes a positive, because relabelling helps more than dropping. A passage labelled
    negative stays a negative. `related_policy` determines the role of a related passage. Unsure and disputed passages
    are dropped.

    Args:
        label: one of positive, related, negative, unsure, or open (in dispute).
    """
    if label == "positive":
        return "positive", RELABELLED if is_mined else PEOPLE_POSITIVE
    if label == "negative":
        return "negative", GOLD_DENIED if gold else PEOPLE_NEGATIVE
    if label == "related":
        return ("negative" if related_policy == "negative" else "dropped"), PEOPLE_RELATED
    return "dropped", UNSURE if label == "unsure" else OPEN
