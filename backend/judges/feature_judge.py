"""The feature judge: learns in seconds, from labelled questions, which passages of a retriever's list answer.

It needs no GPU and no pretrained model. Logistic regression learns from a few dozen questions, gradient boosting from hundreds
(scikit-learn). What it says of a question that it learned from is out of fold: a model that did not see this question says it.

The judge is kept as its examples, not as a pickle: opening it fits the same model again from the same examples and seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from backend.core.declared import Field, settings_class
from backend.judges.calibration import ProbabilityCalibration, fit
from backend.judges.features import FEATURES
from db.errors import Refused

if TYPE_CHECKING:
    from sklearn.base import ClassifierMixin

BOOSTING_QUESTIONS = 100  # labelled questions from which boosting beats logistic regression
LARGE_QUESTIONS = 300  # from here on the larger trees pay
POSITIVE, NEGATIVE, UNKNOWN = 1, 0, -1

ModelKind = Literal["auto", "logistic", "boosting"]


@settings_class
class FeatureJudgeSettings:
    """What the feature judge learns with."""

    depth: int = Field(
        20, title="Depth", description="Ranks of each list that the judge learns from and judges", ge=2, le=1000
    )
    model: ModelKind = Field(
        "auto",
        title="Model",
        description=f"Model; auto: logistic regression below {BOOSTING_QUESTIONS} labelled questions, else boosting",
    )
    folds: int = Field(5, title="Folds", description="Folds of questions for scores out of fold", ge=2, le=20)
    false_negatives: float = Field(
        0.01,
        title="False negatives kept",
        description="Highest share of false negatives among the negatives that are kept",
        gt=0,
        lt=0.5,
    )
    precision: float = Field(
        0.95,
        title="Precision of positives",
        description="Lowest precision of the positives that are added",
        gt=0.5,
        lt=1,
    )
    seed: int = Field(0, title="Seed", description="Seed of the folds and of boosting", ge=0, le=2**32 - 1)


@dataclass(frozen=True)
class Examples:
    """Labelled lists, flattened to pairs.

    features: (n, f) float32. truth: (n,) int8, POSITIVE, NEGATIVE or UNKNOWN. questions: (n,) int64, the number of each pair's
    question: pairs of one question are never split between folds.

    A pair is UNKNOWN if nobody labelled it and it may well answer (its passage holds an answer). The judge does not learn from it.
    """

    features: np.ndarray
    truth: np.ndarray
    questions: np.ndarray

    @cached_property
    def labelled_questions(self) -> int:
        """The number of questions with a known positive."""
        return len(np.unique(self.questions[self.truth == POSITIVE]))

    def __len__(self) -> int:
        return len(self.truth)


class FeatureModel:
    """A model over the features, fitted and calibrated.

    out_of_fold: (n,) float64, the calibrated probability of each example by the model of the folds that did not hold its question.
    """

    def __init__(self, examples: Examples, settings: FeatureJudgeSettings):
        """Fit the model. Raises Refused if there are too few labelled questions for it."""
        known = examples.truth != UNKNOWN
        if examples.labelled_questions < 2 or not (examples.truth == NEGATIVE).any():
            raise Refused(
                f"the judge needs at least 2 training questions with a known positive among the first {settings.depth} ranks, "
                f"and negatives beside it; there are {examples.labelled_questions}. Label some, or import gold passages"
            )
        self.settings = settings
        self.kind = settings.model
        if self.kind == "auto":
            self.kind = "boosting" if examples.labelled_questions >= BOOSTING_QUESTIONS else "logistic"
        # A feature that is known of no pair (there was no dense index) says nothing.
        self.columns = np.flatnonzero(~np.isnan(examples.features).all(axis=0))
        self._medians = np.nanmedian(examples.features[:, self.columns], axis=0)
        self._size = examples.labelled_questions
        raw = np.full(len(examples), np.nan)
        for fold in _folds(examples.questions, settings.folds, settings.seed):
            learn = known & ~fold
            if len(np.unique(examples.truth[learn])) == 2:
                raw[fold] = self._raw(self._fit(examples, learn), examples.features[fold])
        self._model = self._fit(examples, known)
        whole = ~np.isnan(raw)
        # Whole lists, so that the base rate is that of the lists that will be judged. An unlabelled passage counts as it is
        # counted wherever gold is the measure: as one that does not answer.
        positive = examples.truth[whole] == POSITIVE
        self.calibration: ProbabilityCalibration = fit(raw[whole], positive)
        self.base_rate = float(positive.mean())
        self.out_of_fold = np.full(len(examples), np.nan)
        self.out_of_fold[whole] = self.calibration(raw[whole])

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Return (n,) float64 from features (n, f)."""
        if not len(features):
            return np.zeros(0)
        return self.calibration(self._raw(self._model, features))

    def contributions(self, features: np.ndarray) -> np.ndarray:
        """Say how much each feature spoke for each pair: (n, f) float64 in log-odds; NaN where a feature is not used.

        A contribution is what the score loses when the feature takes its median over all examples (occlusion), so contributions of
        features that tell the same need not add up.
        """
        found = np.full((len(features), len(FEATURES)), np.nan)
        score = self._raw(self._model, features)
        for place, column in enumerate(self.columns):
            without = features.copy()
            without[:, column] = self._medians[place]
            found[:, column] = score - self._raw(self._model, without)
        return found

    def _fit(self, examples: Examples, rows: np.ndarray) -> ClassifierMixin:
        features, truth = examples.features[rows][:, self.columns], examples.truth[rows]
        if self.kind == "logistic":
            from sklearn.linear_model import LogisticRegression
            from sklearn.pipeline import make_pipeline
            from sklearn.preprocessing import StandardScaler

            model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
            return model.fit(self._filled(features), truth)
        from sklearn.ensemble import HistGradientBoostingClassifier

        large = self._size > LARGE_QUESTIONS
        return HistGradientBoostingClassifier(
            max_iter=150 if large else 80,
            max_leaf_nodes=15 if large else 8,
            learning_rate=0.06,
            early_stopping=False,
            random_state=self.settings.seed,
        ).fit(features, truth)

    def _raw(self, model: Any, features: np.ndarray) -> np.ndarray:
        """(n,) log-odds before calibration."""
        features = features[:, self.columns]
        return model.decision_function(self._filled(features) if self.kind == "logistic" else features)

    def _filled(self, features: np.ndarray) -> np.ndarray:
        """Unknown values become the median: logistic regression takes no NaN."""
        return np.where(np.isnan(features), self._medians, features)


def _folds(questions: np.ndarray, folds: int, seed: int) -> list[np.ndarray]:
    """Masks (n,) bool of the pairs in each fold; the pairs of one question are in one fold."""
    distinct, places = np.unique(questions, return_inverse=True)
    folds = min(folds, len(distinct))
    of_question = np.random.default_rng(seed).permutation(len(distinct)) % folds
    return [of_question[places] == fold for fold in range(folds)]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A probability at which pairs are told apart, and what that does on held-out questions.

    value: the threshold; None if no threshold reaches the aim. pairs: those on the side that is used. share: of false negatives
    (dropping) or of right positives (adding) among them, with a 95% interval over questions.
    """

    value: float | None
    pairs: int
    share: float | None
    low: float | None
    high: float | None


def drop_threshold(probabilities: np.ndarray, positive: np.ndarray, questions: np.ndarray, aim: float) -> Threshold:
    """Find the highest threshold below which at most `aim` of the pairs are positives, by the upper end of the interval.

    A pair at or above the threshold is no negative to train on.
    """
    return _threshold(probabilities, positive, questions, lambda low, high: high <= aim, below=True)


def add_threshold(probabilities: np.ndarray, positive: np.ndarray, questions: np.ndarray, aim: float) -> Threshold:
    """Find the lowest threshold at or above which at least `aim` of the pairs are positives, by the lower end of the interval."""
    return _threshold(probabilities, positive, questions, lambda low, high: low >= aim, below=False)


def _threshold(probabilities, positive, questions, reached, below: bool) -> Threshold:
    grid = np.unique(np.quantile(probabilities, np.linspace(0, 1, 201)))
    best = Threshold(None, 0, None, None, None)
    for value in grid if below else grid[::-1]:
        side = probabilities < value if below else probabilities >= value
        if not side.any():
            continue
        share, low, high = clustered_share(positive[side], questions[side])
        if reached(low, high) and int(side.sum()) >= best.pairs:
            best = Threshold(float(value), int(side.sum()), share, low, high)
    return best


def clustered_share(hits: np.ndarray, clusters: np.ndarray) -> tuple[float, float, float]:
    """Return a share with its 95% interval, when the pairs of one question are alike.

    The interval is Wilson's with the effective sample size n / deff, where deff compares the variance of a ratio over clusters
    with that of independent pairs (Kish 1965, section 5.4); deff is at least 1.
    """
    from analysis.accuracy import wilson

    n, count = len(hits), int(hits.sum())
    share = count / n
    _, places = np.unique(clusters, return_inverse=True)
    sizes = np.bincount(places).astype(np.float64)
    residuals = np.bincount(places, weights=hits.astype(np.float64)) - share * sizes
    independent = share * (1 - share) / n
    if independent == 0 or len(sizes) < 2:
        return (share, *wilson(count, n))
    variance = len(sizes) / (len(sizes) - 1) * float((residuals**2).sum()) / n**2
    effective = max(1, round(n / max(1.0, variance / independent)))
    return (share, *wilson(round(share * effective), effective))


def report(examples: Examples, model: FeatureModel) -> dict[str, Any]:
    """Measure the judge on questions out of fold: area under the curve, average precision, thresholds for the stated aims."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    seen = ~np.isnan(model.out_of_fold)
    probabilities, questions = model.out_of_fold[seen], examples.questions[seen]
    positive = examples.truth[seen] == POSITIVE
    settings = model.settings
    return {
        "model": model.kind,
        "settings": asdict(settings),
        "features": [FEATURES[column].name for column in model.columns],
        "questions": len(np.unique(questions)),
        "labelled_questions": examples.labelled_questions,
        "pairs": int(seen.sum()),
        "positives": int(positive.sum()),
        "unknown": int((examples.truth[seen] == UNKNOWN).sum()),
        "base_rate": model.base_rate,
        "auc": float(roc_auc_score(positive, probabilities)),
        "average_precision": float(average_precision_score(positive, probabilities)),
        "drop": asdict(drop_threshold(probabilities, positive, questions, settings.false_negatives)),
        "add": asdict(add_threshold(probabilities, positive, questions, settings.precision)),
        "measured_on": "training questions out of fold",
    }


def spoke_for(contributions: np.ndarray, count: int = 3) -> list[tuple[str, float]]:
    """Return the features that spoke loudest for or against one pair: (label, log-odds), the loudest first.

    Args:
        contributions: (f,) of one pair, as `FeatureModel.contributions` gives them.
    """
    order: Sequence[int] = np.argsort(-np.abs(np.nan_to_num(contributions)), kind="stable")[:count].tolist()
    return [(FEATURES[i].label, float(contributions[i])) for i in order if np.nan_to_num(contributions[i]) != 0]
