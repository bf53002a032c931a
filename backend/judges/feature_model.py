"""The feature judge: learns in seconds, from labelled questions, which passages of a retriever's list answer.

It needs no GPU and no pretrained model. Logistic regression learns from a few dozen questions, gradient boosting from
hundreds (scikit-learn). What it says of a question that it learned from is out of fold: a model that did not see this
question says it.

"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from blindspot.analysis.intervals import wilson
from blindspot.backend.judges.calibration import ProbabilityCalibration
from blindspot.backend.judges.calibration import fit as fit_calibration
from blindspot.backend.judges.features import FEATURES
from blindspot.backend.judges.scorers import Linear, Trees
from blindspot.backend.judges.settings import BOOSTING_QUESTIONS, FeatureJudgeSettings
from blindspot.db.errors import Refused

LARGE_QUESTIONS = 300  # from here on the larger trees pay
POSITIVE, NEGATIVE, UNKNOWN = 1, 0, -1


@dataclass(frozen=True)
class Examples:
    """Labelled lists, flattened to pairs.

    features: (n, f) float32. truth: (n,) int8, POSITIVE, NEGATIVE or UNKNOWN. questions: (n,) int64, the number of each
    pair's
    question: pairs of one question are never split between folds. answers: (n,) bool, whether the passage contains an
    answer; the model never sees it, the report measures with it how right a positive is that has both.

    A pair is UNKNOWN if nobody labelled it and it may answer the question (its passage contains an answer). The judge
    does not learn from it.
    """

    features: np.ndarray
    truth: np.ndarray
    questions: np.ndarray
    answers: np.ndarray

    @cached_property
    def labelled_questions(self) -> int:
        """The number of questions with a known positive."""
        return len(np.unique(self.questions[self.truth == POSITIVE]))

    def __len__(self) -> int:
        return len(self.truth)


@dataclass(frozen=True)
class FeatureModel:
    """A fitted and calibrated model over the features.

    kind: "logistic" or "boosting". columns: (c,) int64, the features that it uses. medians: (c,) their medians over the
    examples.
    base_rate: share of positives among the known pairs of the lists that calibrated it; its probabilities hold for
    lists like these.
    """

    kind: str
    columns: np.ndarray
    medians: np.ndarray
    scorer: Linear | Trees
    calibration: ProbabilityCalibration
    base_rate: float

    def ranking_scores(self, features: np.ndarray) -> np.ndarray:
        """Return (n,) float64 log-odds from features (n, f), to order by: calibration by steps would make ties."""
        return self.scorer(features[:, self.columns])

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Return (n,) float64 from features (n, f)."""
        return self.calibration(self.ranking_scores(features))

    def contributions(self, features: np.ndarray) -> np.ndarray:
        """Return the contribution of each feature to each pair, (n, f) float64 in log-odds; NaN where a feature is not
        used.

        A contribution is what the score loses when the feature takes its median over the examples (occlusion).
        Contributions of correlated features need not add up.
        """
        contributions = np.full((len(features), len(FEATURES)), np.nan)
        score = self.ranking_scores(features)
        for column, median in zip(self.columns.tolist(), self.medians.tolist(), strict=True):
            without = features.copy()
            without[:, column] = median
            contributions[:, column] = score - self.ranking_scores(without)
        return contributions


def fit_model(examples: Examples, settings: FeatureJudgeSettings) -> tuple[FeatureModel, np.ndarray]:
    """Fit a model; return it with (n,) float64 probabilities out of fold.

    A probability out of fold comes from the model that saw no pair of the same question. It is NaN where the other
    folds hold pairs of one class only.

    Raises Refused if there are too few labelled questions.
    """
    kind, columns, used = _prepared(examples, settings)
    known = examples.truth != UNKNOWN
    scores = np.full(len(examples), np.nan)
    for fold in _folds(examples.questions, settings.folds, settings.seed):
        learned = known & ~fold
        if len(np.unique(examples.truth[learned])) == 2:
            scores[fold] = _fit(kind, used, learned, settings.seed)(used.features[fold])
    seen = ~np.isnan(scores)
    # Whole lists calibrate, so the base rate is that of the lists that will be judged. UNKNOWN pairs are left out:
    # counted as negatives, they would teach the judge that a false negative is improbable.
    settled = seen & known
    positive = examples.truth[settled] == POSITIVE
    calibration = fit_calibration(scores[settled], positive)
    model = FeatureModel(
        kind,
        columns,
        np.nanmedian(used.features, axis=0),
        _fit(kind, used, known, settings.seed),
        calibration,
        float(positive.mean()),
    )
    out_of_fold = np.full(len(examples), np.nan)
    out_of_fold[seen] = calibration(scores[seen])
    return model, out_of_fold


@dataclass(frozen=True)
class FeatureRanker:
    """A fitted model without probabilities: it only orders. kind, columns: as in `FeatureModel`."""

    kind: str
    columns: np.ndarray
    scorer: Linear | Trees

    def ranking_scores(self, features: np.ndarray) -> np.ndarray:
        """Return (n,) float64 log-odds from features (n, f)."""
        return self.scorer(features[:, self.columns])


def fit_ranker(examples: Examples, settings: FeatureJudgeSettings) -> FeatureRanker:
    """Fit a model for ranking on all pairs at once, without out-of-fold measurements. Raises Refused as `fit_model`
    does.
    """
    kind, columns, used = _prepared(examples, settings)
    return FeatureRanker(kind, columns, _fit(kind, used, examples.truth != UNKNOWN, settings.seed))


def _prepared(examples: Examples, settings: FeatureJudgeSettings) -> tuple[str, np.ndarray, Examples]:
    """Return the kind of model, the columns that it uses, and the examples with these columns alone."""
    if examples.labelled_questions < 2 or not (examples.truth == NEGATIVE).any():
        raise Refused(
            f"the judge needs at least 2 training questions with a known positive among the first {settings.depth} "
            f"ranks, and negatives beside it; there are {examples.labelled_questions}. Label some, or import gold "
            "passages"
        )
    kind = settings.model
    if kind == "auto":
        kind = "boosting" if examples.labelled_questions >= BOOSTING_QUESTIONS else "logistic"
    # A feature without values (no dense index) contributes nothing.
    columns = np.flatnonzero(~np.isnan(examples.features).all(axis=0))
    return kind, columns, replace(examples, features=examples.features[:, columns])


def _fit(kind: str, examples: Examples, rows: np.ndarray, seed: int) -> Linear | Trees:
    features, truth = examples.features[rows], examples.truth[rows]
    if kind == "logistic":
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler

        medians = np.nanmedian(features, axis=0)
        filled = np.where(np.isnan(features), medians, features)
        scaler = StandardScaler().fit(filled)
        model = LogisticRegression(max_iter=1000).fit(scaler.transform(filled), truth)
        return Linear.of(model, scaler, medians)
    from sklearn.ensemble import HistGradientBoostingClassifier

    large = examples.labelled_questions > LARGE_QUESTIONS
    return Trees.of(
        HistGradientBoostingClassifier(
            max_iter=150 if large else 80,
            max_leaf_nodes=15 if large else 8,
            learning_rate=0.06,
            early_stopping=False,
            random_state=seed,
        ).fit(features, truth)
    )


def _folds(questions: np.ndarray, folds: int, seed: int) -> list[np.ndarray]:
    """Masks (n,) bool of the pairs in each fold; the pairs of one question are in one fold."""
    distinct, places = np.unique(questions, return_inverse=True)
    folds = min(folds, len(distinct))
    of_question = np.random.default_rng(seed).permutation(len(distinct)) % folds
    return [of_question[places] == fold for fold in range(folds)]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A probability threshold, and its effect on held-out questions.

    value: the threshold; None if no threshold reaches the aim. pairs: those on the side that is used. share: of false
    negatives (dropping) or of right positives (adding) among them, with a 95% interval over questions. left_out: pairs
    of unknown truth on the same side, which none of these figures counts.
    """

    value: float | None
    pairs: int
    share: float | None
    low: float | None
    high: float | None
    left_out: int = 0


def drop_threshold(probabilities: np.ndarray, positive: np.ndarray, questions: np.ndarray, aim: float) -> Threshold:
    """Find the highest threshold below which at most `aim` of the pairs are positives, by the upper end of the
    interval.

    A pair at or above the threshold is not used as a negative.
    """
    return _threshold(probabilities, positive, questions, lambda low, high: high <= aim, below=True)


def add_threshold(probabilities: np.ndarray, positive: np.ndarray, questions: np.ndarray, aim: float) -> Threshold:
    """Find the lowest threshold at or above which at least `aim` of the pairs are positives, by the lower end of the
    interval.
    """
    return _threshold(probabilities, positive, questions, lambda low, high: low >= aim, below=False)


def _threshold(
    probabilities: np.ndarray,
    positive: np.ndarray,
    questions: np.ndarray,
    reached: Callable[[float, float], bool],
    below: bool,
) -> Threshold:
    if not len(probabilities):
        return Threshold(None, 0, None, None, None)
    grid = np.unique(np.quantile(probabilities, np.linspace(0, 1, 201)))
    best = Threshold(None, 0, None, None, None)
    places = np.unique(questions, return_inverse=True)[1]
    for value in grid if below else grid[::-1]:
        side = probabilities < value if below else probabilities >= value
        if not side.any():
            continue
        share, low, high = _share(positive[side], places[side])
        if reached(low, high) and int(side.sum()) >= best.pairs:
            best = Threshold(float(value), int(side.sum()), share, low, high)
    return best


def clustered_share(hits: np.ndarray, clusters: np.ndarray) -> tuple[float, float, float]:
    """Return a share with its 95% interval, when the pairs of one question are alike.

    The interval is Wilson's with the effective sample size n / deff, where deff compares the variance of a ratio over
    clusters with that of independent pairs (Kish 1965, section 5.4); deff is at least 1.
    """
    return _share(hits, np.unique(clusters, return_inverse=True)[1])


def _share(hits: np.ndarray, places: np.ndarray) -> tuple[float, float, float]:
    """As `clustered_share`, with clusters from 0 to some number, of which some may have no pair."""
    n, count = len(hits), int(hits.sum())
    share = count / n
    sizes = np.bincount(places).astype(np.float64)
    clusters = np.count_nonzero(sizes)
    residuals = np.bincount(places, weights=hits.astype(np.float64)) - share * sizes
    independent = share * (1 - share) / n
    if independent == 0 or clusters < 2:
        return share, *_wilson(count, n)
    variance = clusters / (clusters - 1) * float((residuals**2).sum()) / n**2
    effective = max(1, round(n / max(1.0, variance / independent)))
    return share, *_wilson(round(share * effective), effective)


def _wilson(count: int, n: int) -> tuple[float, float]:
    low, high = wilson(count, n)
    assert low is not None and high is not None  # n is at least 1
    return low, high


def report(
    examples: Examples, model: FeatureModel, out_of_fold: np.ndarray, settings: FeatureJudgeSettings
) -> dict[str, Any]:
    """Measure the judge on questions out of fold: area under the curve, average precision, thresholds for the stated
    aims.

    The thresholds below which pairs are dropped leave out pairs of unknown truth, and say how many. The thresholds from
    which positives are added count such pairs as wrong: all labelled passages that contain an answer may be positives,
    and then a figure without the unlabelled ones would be 100% for every judge.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    seen = ~np.isnan(out_of_fold)
    probabilities, questions = out_of_fold[seen], examples.questions[seen]
    truth, answers = examples.truth[seen], examples.answers[seen]
    positive, unknown = truth == POSITIVE, truth == UNKNOWN

    def drop(among: np.ndarray) -> dict[str, Any]:
        known = among & ~unknown
        threshold = drop_threshold(probabilities[known], positive[known], questions[known], settings.false_negatives)
        below = 0 if threshold.value is None else int((among & unknown & (probabilities < threshold.value)).sum())
        return asdict(replace(threshold, left_out=below))

    def add(among: np.ndarray) -> dict[str, Any]:
        return asdict(add_threshold(probabilities[among], positive[among], questions[among], settings.precision))

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


def spoke_for(contributions: np.ndarray, count: int = 3) -> list[tuple[str, float]]:
    """Return the features with the largest contributions for or against one pair: (label, log-odds), the largest first.

    Args:
        contributions: (f,) of one pair, as `FeatureModel.contributions` gives them.
    """
    order: Sequence[int] = np.argsort(-np.abs(np.nan_to_num(contributions)), kind="stable")[:count].tolist()
    return [(FEATURES[i].label, float(contributions[i])) for i in order if np.nan_to_num(contributions[i]) != 0]
