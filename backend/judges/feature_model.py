"""The model of the feature judge: trained in seconds on labelled questions, it predicts which passages of a retriever's
list answer the question.

It needs no GPU. Its score is the mean of a logistic regression and gradient boosting (scikit-learn), in log-odds. The
regression has a prior: weights that were trained on generated encyclopedias (`prior.json`), so that few labels are
enough. For a question of the training data, the judge's probabilities are out-of-fold: they come from a model that was
trained without this question.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.core.processor import processors
from blindspot.backend.judges.calibration import ProbabilityCalibration
from blindspot.backend.judges.calibration import fit as fit_calibration
from blindspot.backend.judges.features import FEATURES, NAMES
from blindspot.backend.judges.scorers import ENSEMBLE, Ensemble, Linear, Scorer, Trees
from blindspot.backend.judges.settings import FeatureJudgeSettings
from blindspot.backend.judges.thresholds import find_threshold
from blindspot.db.errors import Refused

PRIOR = Path(__file__).with_name("prior.json")
PRECISION = 10.0  # of the prior's weights: as much as so many pairs whose class is uncertain
FIRST_PRECISION = 100.0  # more of it while the pairs are of few lists; divided by the labelled questions
TREE_QUESTIONS = 5  # fewer labelled questions teach no trees
FULL_RANKS, DEEP_SHARE = 20, 4  # below these ranks one negative of so many teaches, with so many times the weight
FOLD_QUESTIONS = 600  # labelled questions that teach a model out of fold; more change little
NEWTON_STEPS = 50
BINS = 63  # of a feature, for the trees
INTERCEPT = -4.0  # some 2% of a hundred ranks answer
RANK = NAMES.index("rank")
POSITIVE, NEGATIVE, UNKNOWN = 1, 0, -1


@dataclass(frozen=True)
class Examples:
    """Training examples: the pairs of labelled lists, flattened.

    Attributes:
        features: (n, f) float32.
        truth: (n,) int8, POSITIVE, NEGATIVE or UNKNOWN.
        questions: (n,) int64, the number of each pair's question: pairs of one question are never split between folds.
        answers: (n,) bool, whether the passage contains an answer; the model never sees it. The report uses it for the
            precision of positives that contain an answer.

    reference: (m, f) features of lists of the same run, labelled or not, by which features are standardised; default
    the examples' own.

    A pair is UNKNOWN if nobody labelled it and its passage may answer the question (for example, contains an answer).
    The judge is not trained on it.
    """

    features: np.ndarray
    truth: np.ndarray
    questions: np.ndarray
    answers: np.ndarray
    reference: np.ndarray | None = None

    @cached_property
    def labelled_questions(self) -> int:
        """Return the number of questions with a known positive."""
        return len(np.unique(self.questions[self.truth == POSITIVE]))

    def __len__(self) -> int:
        return len(self.truth)


@dataclass(frozen=True)
class FeatureRanker:
    """A fitted model that only ranks passages and gives no probabilities.

    Attributes:
        kind: "logistic", "boosting" or "ensemble"; "prior" without labels.
        columns: (c,) int64, the features that it uses.
    """

    kind: str
    columns: np.ndarray
    scorer: Scorer

    def ranking_scores(self, features: np.ndarray) -> np.ndarray:
        """Return log-odds for ranking, (n,) float64, from features (n, f)."""
        return self.scorer(features[:, self.columns])


@dataclass(frozen=True)
class FeatureModel(FeatureRanker):
    """A fitted and calibrated model over the features. Calibration is a step function, whose ties cannot rank.

    Attributes:
        medians: (c,) medians of its features over the examples.
        base_rate: share of positives among the known pairs of the first `depth` ranks, which calibrated it; its
            probabilities hold for such ranks.
    """

    medians: np.ndarray
    calibration: ProbabilityCalibration
    base_rate: float

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Return the probabilities, (n,) float64, from features (n, f)."""
        return self.calibration(self.ranking_scores(features))

    def contributions(self, features: np.ndarray) -> np.ndarray:
        """Return the contribution of each feature to each pair, (n, f) float64 in log-odds; NaN where a feature is not
        used.

        A contribution is the decrease of the score when the feature is replaced by its median over the examples
        (occlusion). Contributions of correlated features need not add up to the score.
        """
        contributions = np.full((len(features), len(FEATURES)), np.nan)
        score = self.ranking_scores(features)
        for column, median in zip(self.columns.tolist(), self.medians.tolist(), strict=True):
            without = features.copy()
            without[:, column] = median
            contributions[:, column] = score - self.ranking_scores(without)
        return contributions


def fit_model(examples: Examples, settings: FeatureJudgeSettings) -> tuple[FeatureModel, np.ndarray]:
    """Fit a model. Return it, and out-of-fold probabilities of the examples, (n,) float64.

    An out-of-fold probability comes from a model that was trained without pairs of the same question. It is NaN if the
    other folds have pairs of only one class, and for ranks below `depth`.

    Raises Refused if there are too few labelled questions.
    """
    from threadpoolctl import threadpool_limits

    if examples.labelled_questions < 2 or not (examples.truth == NEGATIVE).any():
        raise Refused(
            "the judge needs at least 2 training questions with a known positive in their list, and negatives beside "
            f"it; there are {examples.labelled_questions}. Label some, or import gold passages"
        )
    known = examples.truth != UNKNOWN
    judged = ~(examples.features[:, RANK] > settings.depth)
    scores = np.full(len(examples), np.nan)
    folds = _folds(examples.questions, settings.folds, settings.seed)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(processors()) as pool:
        whole = pool.submit(fit_ranker, examples, settings)
        rankers = list(pool.map(lambda fold: _fit_without(examples, fold, settings), folds))
        ranker = whole.result()
    for fold, fold_ranker in zip(folds, rankers, strict=True):
        if fold_ranker is not None:
            scores[fold & judged] = fold_ranker.ranking_scores(examples.features[fold & judged])
    seen = ~np.isnan(scores)
    # The first ranks calibrate, so the base rate is that of the ranks that will be judged. UNKNOWN pairs are left out:
    # counted as negatives, they would teach the judge that a false negative is improbable.
    settled = seen & known
    positive = examples.truth[settled] == POSITIVE
    calibration = fit_calibration(scores[settled], positive)
    medians = np.nanmedian(examples.features[:, ranker.columns], axis=0)
    model = FeatureModel(ranker.kind, ranker.columns, ranker.scorer, medians, calibration, float(positive.mean()))
    out_of_fold = np.full(len(examples), np.nan)
    out_of_fold[seen] = calibration(scores[seen])
    return model, out_of_fold


def _fit_without(examples: Examples, fold: np.ndarray, settings: FeatureJudgeSettings) -> FeatureRanker | None:
    """Fit a model to the known pairs of the questions outside a fold, (n,) bool. Return None if they have pairs of only
    one class.
    """
    known = examples.truth != UNKNOWN
    others = np.setdiff1d(examples.questions[known], examples.questions[fold])
    if len(others) > FOLD_QUESTIONS:
        others = np.random.default_rng(settings.seed).choice(others, FOLD_QUESTIONS, replace=False)
    learned = known & np.isin(examples.questions, others)
    return _fit(examples, learned, settings) if len(np.unique(examples.truth[learned])) == 2 else None


def fit_ranker(examples: Examples, settings: FeatureJudgeSettings) -> FeatureRanker:
    """Fit a model for ranking on all known pairs at once. If there are not pairs of both classes, the model is just the
    prior.
    """
    return _fit(examples, examples.truth != UNKNOWN, settings)


def _fit(examples: Examples, rows: np.ndarray, settings: FeatureJudgeSettings) -> FeatureRanker:
    """Fit the kind of model named in the settings to pairs with known labels."""
    reference = examples.features if examples.reference is None else examples.reference
    # A feature without values (no dense index) contributes nothing.
    columns = np.flatnonzero(~np.isnan(reference).all(axis=0))
    rows, weights = _thin_negatives(examples, rows, settings.seed)
    features, truth = examples.features[rows][:, columns], examples.truth[rows] == POSITIVE
    questions = len(np.unique(examples.questions[rows][truth]))
    linear = _linear_model(features, truth, weights, reference[:, columns], columns, questions)
    if not questions or truth.all():
        return FeatureRanker("prior", columns, linear)
    if settings.model == "boosting":
        return FeatureRanker("boosting", columns, _tree_model(features, truth, weights, settings.seed))
    if settings.model == "logistic" or questions < TREE_QUESTIONS:
        return FeatureRanker("logistic", columns, linear)
    return FeatureRanker(ENSEMBLE, columns, Ensemble(linear, _tree_model(features, truth, weights, settings.seed)))


def _thin_negatives(examples: Examples, rows: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indexes (m,) of the pairs to train on, and their weights. Of the many negatives at deep ranks, only a
    sample is used, with higher weights.
    """
    places = np.flatnonzero(rows)
    deep = (examples.features[places, RANK] > FULL_RANKS) & (examples.truth[places] == NEGATIVE)
    kept = ~deep | (np.random.default_rng(seed).integers(DEEP_SHARE, size=len(places)) == 0)
    return places[kept], np.where(deep, float(DEEP_SHARE), 1.0)[kept]


def _tree_model(features: np.ndarray, truth: np.ndarray, weights: np.ndarray, seed: int) -> Trees:
    """Return boosted trees over the features (n, c), which are binned here at weighted quantiles.

    scikit-learn bins features too, but with weights it sorts a feature anew for each quantile, which took longer than
    the trees. The fit uses one OpenMP thread: with more, it waits at thousands of barriers, and beside other work this
    took twenty times as long.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    edges = [_bin_edges(column, weights) for column in features.T]
    bins = np.empty(features.shape, np.float32)
    for place, column in enumerate(features.T):
        bins[:, place] = np.where(np.isnan(column), np.nan, np.searchsorted(edges[place], column))
    model = HistGradientBoostingClassifier(
        max_iter=150,
        max_bins=BINS,
        max_leaf_nodes=16,
        max_depth=4,
        learning_rate=0.06,
        l2_regularization=5.0,
        min_samples_leaf=30,
        early_stopping=False,
        random_state=seed,
    )
    with threadpool_limits(1, user_api="openmp"):  # of this thread only
        trees = Trees.from_model(model.fit(bins, truth, weights))
    threshold = trees.threshold.copy()
    for node in np.flatnonzero(np.isfinite(threshold)):
        threshold[node] = edges[trees.feature[node]][int(threshold[node])]
    return replace(trees, threshold=threshold)


def _bin_edges(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the upper edges of all bins of a feature but the last, (at most BINS - 1,) float64, ascending: a value in
    bin i is at most edge i. Few distinct values get a bin each; many are divided at weighted quantiles.

    Args:
        values: (n,), NaN where there is none. weights: (n,) of the pairs.
    """
    known = ~np.isnan(values)
    order = np.argsort(values[known], kind="stable")
    ascending, cumulative = values[known][order].astype(np.float64), np.cumsum(weights[known][order])
    distinct = np.unique(ascending)
    if len(distinct) <= BINS:
        return (distinct[:-1] + distinct[1:]) / 2
    quantiles = np.arange(1, BINS) / BINS * cumulative[-1]
    return np.unique(ascending[np.searchsorted(cumulative, quantiles)])


def _linear_model(
    features: np.ndarray,
    truth: np.ndarray,
    weights: np.ndarray,
    reference: np.ndarray,
    columns: np.ndarray,
    questions: int,
) -> Linear:
    """Return the maximum-a-posteriori logistic regression, found with Newton's method starting at the
    prior's weights.
    """
    medians = np.nanmedian(reference, axis=0)
    filled = np.where(np.isnan(reference), medians, reference)
    mean, scale = filled.mean(axis=0), np.maximum(filled.std(axis=0), 1e-9)
    prior = prior_weights(columns)
    precision = np.append(np.full(len(columns), PRECISION + FIRST_PRECISION / max(questions, 1)), 1e-3)
    x = np.column_stack([(np.where(np.isnan(features), medians, features) - mean) / scale, np.ones(len(features))])
    start = np.append(prior, INTERCEPT)
    both = truth.any() and not truth.all()
    point = newton_steps(x, truth.astype(np.float64), weights, start, precision) if both else start
    return Linear(point[:-1], point[-1:], mean, scale, medians.astype(np.float64))


def newton_steps(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, start: np.ndarray, precision: np.ndarray
) -> np.ndarray:
    """Return the weights (f,) of a logistic regression whose prior is normal around `start`.

    Args:
        x: (n, f). y: (n,) 0 or 1. weights: (n,) of the pairs. start, precision: (f,) mean and inverse variances.
    """
    from scipy.special import expit

    def loss(point: np.ndarray) -> float:
        margins = x @ point
        likelihood = weights @ (np.logaddexp(0, margins) - y * margins)
        return float(likelihood + precision @ (point - start) ** 2 / 2)

    point, value = start.copy(), loss(start)
    for _ in range(NEWTON_STEPS):
        p = expit(x @ point)
        gradient = x.T @ (weights * (p - y)) + precision * (point - start)
        hessian = (x * (weights * p * (1 - p))[:, None]).T @ x + np.diag(precision)
        step = np.linalg.solve(hessian, gradient)
        length = 1.0
        while (after := loss(point - length * step)) > value and length > 1e-6:
            length /= 2
        if value - after < 1e-9 * (1 + abs(value)):
            break
        point, value = point - length * step, after
    return point


@cache
def _prior_weights() -> dict[str, dict[str, float]]:
    return json.loads(PRIOR.read_text(encoding="utf-8"))["weights"]


def prior_weights(columns: np.ndarray) -> np.ndarray:
    """Return the prior weight of each standardised feature, (c,) float64; 0 for features without one."""
    names = [FEATURES[column].name for column in columns]
    known = _prior_weights()["with_dense" if "dense_rank" in names else "without_dense"]
    return np.array([known.get(name, 0.0) for name in names])


def _folds(questions: np.ndarray, folds: int, seed: int) -> list[np.ndarray]:
    """Return for each fold a mask (n,) bool of its pairs. All pairs of a question are in the same fold."""
    distinct, places = np.unique(questions, return_inverse=True)
    folds = min(folds, len(distinct))
    of_question = np.random.default_rng(seed).permutation(len(distinct)) % folds
    return [of_question[places] == fold for fold in range(folds)]


def report(
    examples: Examples, model: FeatureModel, out_of_fold: np.ndarray, settings: FeatureJudgeSettings
) -> dict[str, Any]:
    """Measure the judge with its out-of-fold probabilities: area under the ROC curve, average precision, and thresholds
    for the required precisions.

    Pairs with unknown label are treated differently by the two kinds of thresholds. Thresholds for dropping negatives
    leave such pairs out and report their number. Thresholds for adding positives count such pairs as negatives: if all
    labelled passages that contain an answer are positive, the precision without the unlabelled ones would be 100% for
    every judge.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    seen = ~np.isnan(out_of_fold)
    probabilities, questions = out_of_fold[seen], examples.questions[seen]
    truth, answers = examples.truth[seen], examples.answers[seen]
    positive, unknown = truth == POSITIVE, truth == UNKNOWN

    def drop(pairs: np.ndarray) -> dict[str, Any]:
        known = pairs & ~unknown
        aim = settings.false_negatives
        threshold = find_threshold(probabilities[known], positive[known], questions[known], aim, "below")
        below = 0 if threshold.value is None else int((pairs & unknown & (probabilities < threshold.value)).sum())
        return asdict(replace(threshold, left_out=below))

    def add(pairs: np.ndarray) -> dict[str, Any]:
        aim = settings.precision
        return asdict(find_threshold(probabilities[pairs], positive[pairs], questions[pairs], aim, "above"))

    everything = np.ones(len(truth), bool)
    return {
        "model": model.kind,
        "settings": asdict(settings),
        "features": [FEATURES[column].name for column in model.columns],
        "questions": len(np.unique(questions)),
        "labelled_questions": examples.labelled_questions,
        "pairs": int(seen.sum()),
        "positives": int(positive.sum()),
        "unknown": int(unknown.sum()),
        "base_rate": model.base_rate,
        "auc": float(roc_auc_score(positive, probabilities)),
        "average_precision": float(average_precision_score(positive, probabilities)),
        "drop": drop(everything),
        "drop_with_answer": drop(answers),
        "add": add(everything),
        "add_with_answer": add(answers),
        "measured_on": "training questions out of fold",
    }


def strongest_contributions(contributions: np.ndarray, count: int = 3) -> list[tuple[str, float]]:
    """Return the features with the largest contributions for or against one pair: (label, log-odds), the largest first.

    Args:
        contributions: (f,) of one pair, as `FeatureModel.contributions` gives them.
    """
    order: Sequence[int] = np.argsort(-np.abs(np.nan_to_num(contributions)), kind="stable")[:count].tolist()
    return [(FEATURES[i].label, float(contributions[i])) for i in order if np.nan_to_num(contributions[i]) != 0]
