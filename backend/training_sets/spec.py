"""The specification of a training set: its questions, the runs to mine, and the policy that cleans the negatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.declared import Field, build_settings, settings_class
from blindspot.backend.core.settings import check_name
from blindspot.backend.text.default_rule import DEFAULT_RULE
from blindspot.backend.training_sets.denoising import DENOISING, Policy, Thresholds, check_scale, policy_named
from blindspot.db.errors import BadInput, Refused

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study
    from blindspot.backend.judges.scores import ScoreStore


def positive_names() -> tuple[str, ...]:
    """Return the values of `positives`: gold, distant supervision, and the positives that policies propose."""
    proposed = [policy.proposes for policy in DENOISING if policy.proposes]
    return ("gold", "distant", *dict.fromkeys(proposed))


@settings_class
class TrainingSetSpec:
    """The settings from which a training set is built.

    name: name of the set and of its folder. runs: empty if all negatives are drawn. positives: from `positive_names()`.
        A policy with labels also uses people's positives. gold: the question's own gold. distant: for a question without
        another positive, the highest BM25 passage that contains an answer. cross_encoder, judge: mined passages that the
        policy of that name proposes.
    relations: only questions about these; empty for all. limit: maximum number of questions, drawn with `seed`.
    """

    name: str
    runs: tuple[str, ...]
    policy: str = Field(
        default="none",
        description="Denoising policy for mined negatives ('blindspot training-set policies' lists them). With +labels "
        "after it, people's labels override the policy",
        json_schema_extra={"metavar": "POLICY"},
    )
    questions: tuple[str, ...] = Field(default=("train",), description="Questions: train, unlabelled or SET/train")
    positives: tuple[str, ...] = Field(
        default=("gold",),
        description="Source of positives besides people's labels",
        json_schema_extra={"metavar": "gold|distant|cross_encoder|judge"},
    )
    first: int = 1
    last: int = 100
    model: str | None = Field(default=None, description="Cross-encoder or judge whose scores the policy uses")
    thresholds: Thresholds = Thresholds()
    random: int = Field(default=0, description="Number of random negatives for each question", ge=0)
    other_gold: int = Field(
        default=0, description="Number of negatives for each question taken from the gold of other questions", ge=0
    )
    rule: str = Field(
        default=DEFAULT_RULE, description="Answer matching rule: dpr, regex, entityquestions or rocketqa_mining"
    )
    seed: int = Field(default=0, description="Seed of the random draw", ge=0)
    until: int | None = Field(default=None, description="Last label event to use; default all events", ge=0)
    relations: tuple[str, ...] = ()
    limit: int | None = Field(default=None, ge=1)

    @classmethod
    def from_values(
        cls, name: str, runs: Sequence[str], thresholds: dict[str, Any] | None = None, **more: Any
    ) -> TrainingSetSpec:
        """Build a specification from plain values, as in a job."""
        return build_settings(cls, {"name": name, "runs": tuple(runs), "thresholds": thresholds or {}, **more})

    @property
    def cleaning(self) -> Policy:
        return policy_named(self.policy)

    def check(self, scores: ScoreStore | None, cosine: bool = False) -> None:
        """Raise BadInput for invalid values, and Refused for a policy that cannot be applied to these scores.

        cosine: whether the scores of every run are cosines.
        """
        from blindspot.backend.text.answers import rule_named

        check_name(self.name, "training set")
        rule_named(self.rule)
        policy = self.cleaning.definition
        self.thresholds.check(policy.own)
        if not self.runs and not self.random + self.other_gold:
            raise BadInput(
                "a training set needs at least one run to mine; make one with 'blindspot retrieve --split train'"
            )
        if not 1 <= self.first <= self.last:
            raise BadInput(
                f"ranks start at 1 and the first must not be above the last, not {self.first} to {self.last}"
            )
        if unknown := [positive for positive in self.positives if positive not in positive_names()]:
            raise BadInput(f"there are no positives {unknown[0]!r}; known: {', '.join(positive_names())}")
        if not self.questions:
            raise BadInput("name the questions: train, unlabelled, or SET/train")
        if policy.uses_model and scores is None:
            hint = f"; {policy.scores_help.format(model='NAME')}" if policy.scores_help else ""
            raise BadInput(
                f"the policy {policy.name} needs a model's scores, and no model is named; give --model{hint}"
            )
        proposing = {each.proposes: each.name for each in DENOISING if each.proposes}
        for positive in self.positives:
            if positive in proposing and policy.proposes != positive:
                raise BadInput(
                    f"only the policy {proposing[positive]} proposes the positives {positive!r}; choose it, or leave "
                    "them out"
                )
        if policy.uses_ceiling:
            calibrated = None if scores is None else bool(scores.manifest["calibrated"])
            check_scale(self.thresholds, calibrated, policy.name, cosine)

    def with_own_thresholds(self, study: Study) -> TrainingSetSpec:
        """Return this specification, with missing thresholds filled from the policy's own.

        Raises:
            Missing: the policy reads its thresholds from a model that does not exist.
            Refused: the model has no threshold that this set needs.
        """
        policy = self.cleaning.definition
        thresholds = self.thresholds.filled(policy.own_thresholds(study, self.model))
        if policy.uses_model and thresholds.keep_below is None:
            raise Refused(
                f"{self.model!r} has no threshold below which a passage is surely a negative; label more questions "
                f"and learn it again ('blindspot judge learn {self.model} --run RUN --replace'), or give --keep-below"
            )
        limits = (thresholds.propose_above, thresholds.propose_above_with_answer)
        if policy.proposes in self.positives and limits == (None, None):
            raise Refused(
                f"{self.model!r} has no threshold above which a passage surely answers; label more questions and "
                f"learn it again ('blindspot judge learn {self.model} --run RUN --replace'), give --propose-above, "
                f"or leave the positives {policy.proposes!r} out"
            )
        return replace(self, thresholds=thresholds)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"thresholds": self.thresholds.as_dict()}
