"""Calibrate a cross-encoder's scores to probabilities, and measure thresholds on these probabilities.

There are two methods, both from scikit-learn: Platt scaling (a logistic regression of the label on the score) and
isotonic regression (an increasing step function, which needs many pairs). The reported quality is cross-validated, with
all pairs of a question in the same fold. The probabilities are correct for pairs with the same share of positives as in
the calibration data; `positives` and `pairs` record that share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.intervals import wilson
from blindspot.db.errors import Refused

METHODS = ("platt", "isotonic")
ISOTONIC_PAIRS, ISOTONIC_EACH = 1000, 100  # below, isotonic regression fits noise
PENALTY = 100.0  # C of the logistic regression: next to none, yet finite where a score separates the classes
FOLDS = 5
BINS = 10
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class ProbabilityCalibration:
    """Maps scores (logits) to probabilities with a logistic curve, or by linear interpolation between `points`.

    method: platt: 1 / (1 + exp(-(slope * score + intercept))); isotonic: through the points (x, y), flat outside.
    """

    method: str
    slope: float = 1.0
    intercept: float = 0.0
    points: tuple[tuple[float, float], ...] = ()

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """Return the probabilities, (n,) float64, of scores (n,)."""
        scores = np.asarray(scores, np.float64)
        if self.method == "isotonic":
            x, y = np.array(self.points).T
            return np.interp(scores, x, y)
        return 1 / (1 + np.exp(-np.clip(self.slope * scores + self.intercept, -700, 700)))


def fit(scores: np.ndarray, positive: np.ndarray, method: str = "auto") -> ProbabilityCalibration:
    """Fit a calibration to the scores (n,) and labels (n,) bool of pairs.

    Raises:
        Refused: all pairs are of one class.
    """
    scores, positive = np.asarray(scores, np.float64), np.asarray(positive, bool)
    if positive.all() or not positive.any():
        kind = "positive" if len(positive) and positive.all() else "negative"
        raise Refused(
            f"all {len(positive):,} pairs are {kind}: probabilities need pairs of both kinds; "
            "hold out more questions, or label some"
        )
    if method == "auto":
        enough = len(positive) >= ISOTONIC_PAIRS and min(positive.sum(), (~positive).sum()) >= ISOTONIC_EACH
        method = "isotonic" if enough else "platt"
    if method == "isotonic":
        from sklearn.isotonic import IsotonicRegression

        fitted = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scores, positive)
        return ProbabilityCalibration(
            "isotonic", points=tuple(zip(fitted.X_thresholds_.tolist(), fitted.y_thresholds_.tolist(), strict=True))
        )
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=PENALTY).fit(scores[:, None], positive)
    return ProbabilityCalibration("platt", float(fitted.coef_[0, 0]), float(fitted.intercept_[0]))


def cross_validated_probabilities(
    scores: np.ndarray, positive: np.ndarray, questions: Sequence[str], method: str, seed: int = 0
) -> np.ndarray | None:
    """Return each pair's probability, (n,), from a calibration fitted to the pairs of other questions; None if there
    are too few pairs.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    smallest = min(len(set(questions)), int(positive.sum()), int((~positive).sum()), FOLDS)
    if smallest < 2:
        return None
    probabilities = np.empty(len(scores))
    for others, part in StratifiedGroupKFold(smallest, shuffle=True, random_state=seed).split(
        scores, positive, questions
    ):
        if len(set(positive[others].tolist())) < 2:
            return None
        probabilities[part] = fit(scores[others], positive[others], method)(scores[part])
    return probabilities


def measure_thresholds(
    probabilities: np.ndarray, positive: np.ndarray, thresholds: Sequence[float] = THRESHOLDS
) -> list[dict]:
    """Measure each threshold: pairs at or above it are taken as positives, and pairs below it as negatives.

    precision: positives among those above. recall: positives that are above. missed: positives among those below, which
    would train as false negatives. Each with n and a 95% Wilson interval; None where n is 0.
    """
    return [
        {
            "threshold": threshold,
            "precision": _share(positive[above]),
            "recall": _share(above[positive]),
            "missed": _share(positive[~above]),
        }
        for threshold in thresholds
        for above in (probabilities >= threshold,)
    ]


def reliability(probabilities: np.ndarray, positive: np.ndarray, bins: int = BINS) -> list[dict]:
    """Return the points of a reliability plot: for each bin of equal width, the mean probability and the share of
    positives. Empty bins are left out.
    """
    places = np.minimum((probabilities * bins).astype(int), bins - 1)
    return [
        {
            "from": number / bins,
            "to": (number + 1) / bins,
            "probability": float(probabilities[inside].mean()),
            "positive": _share(positive[inside]),
        }
        for number in range(bins)
        for inside in (places == number,)
        if inside.any()
    ]


def brier_score(probabilities: np.ndarray, positive: np.ndarray) -> float:
    """Return the Brier score: the mean squared difference between probability and label. Smaller is better."""
    return float(np.mean((probabilities - positive) ** 2))


def _share(hits: np.ndarray) -> dict:
    n, count = len(hits), int(hits.sum())
    low, high = wilson(count, n)
    return {"value": count / n if n else None, "n": n, "low": low, "high": high}
