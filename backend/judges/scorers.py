"""The feature judge's models as plain arrays, which can be opened in milliseconds without scikit-learn and without a
pickle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

ROWS_PER_STEP = 2048  # so that the places in all trees fit in the processor's cache

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler


@dataclass(frozen=True)
class Linear:
    """Logistic regression on standardised features. A missing value is replaced by the median over the examples."""

    weights: np.ndarray
    intercept: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    medians: np.ndarray

    @classmethod
    def from_model(cls, model: LogisticRegression, scaler: StandardScaler, medians: np.ndarray) -> Linear:
        return cls(model.coef_[0], model.intercept_, scaler.mean_, scaler.scale_, np.asarray(medians, np.float64))

    def __call__(self, features: np.ndarray) -> np.ndarray:
        filled = np.where(np.isnan(features), self.medians, features)
        return (filled - self.mean) / self.scale @ self.weights + self.intercept[0]


@dataclass(frozen=True)
class Trees:
    """Boosted trees in one table of nodes. A leaf is its own child, so that all rows can take the same number of steps.

    Attributes:
        feature, left, right: (nodes,) int32.
        threshold, value: (nodes,) float64; a row goes left where its feature is at most the threshold.
        missing_left: (nodes,) bool, where a NaN goes left.
        roots, depths: (trees,) int32.
        baseline: (1,) float64.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    missing_left: np.ndarray
    value: np.ndarray
    roots: np.ndarray
    depths: np.ndarray
    baseline: np.ndarray

    @classmethod
    def from_model(cls, model: HistGradientBoostingClassifier) -> Trees:
        """Extract the trees from a fitted binary classifier."""
        # scikit-learn has no public way to read the trees; a test holds this against its `decision_function`.
        tables = [iteration[0].nodes for iteration in model._predictors]
        begins = np.concatenate([[0], np.cumsum([len(table) for table in tables])]).astype(np.int32)
        nodes = np.concatenate(tables)
        offset = np.repeat(begins[:-1], [len(table) for table in tables])
        leaf, own = nodes["is_leaf"].astype(bool), np.arange(len(nodes))
        return cls(
            feature=np.where(leaf, 0, nodes["feature_idx"]).astype(np.int32),
            threshold=np.where(leaf, np.inf, nodes["num_threshold"]),
            left=np.where(leaf, own, nodes["left"] + offset).astype(np.int32),
            right=np.where(leaf, own, nodes["right"] + offset).astype(np.int32),
            missing_left=nodes["missing_go_to_left"].astype(bool),
            value=np.where(leaf, nodes["value"], 0.0),
            roots=begins[:-1],
            depths=np.array([table["depth"].max() for table in tables], dtype=np.int32),
            baseline=np.asarray(model._baseline_prediction, np.float64).reshape(1),
        )

    def __call__(self, features: np.ndarray) -> np.ndarray:
        total = np.empty(len(features))
        for begin in range(0, len(features), ROWS_PER_STEP):
            block = features[begin : begin + ROWS_PER_STEP]
            node = np.broadcast_to(self.roots, (len(block), len(self.roots)))
            for _ in range(int(self.depths.max(initial=0))):
                value = np.take_along_axis(block, self.feature[node], 1)
                goes_left = np.where(np.isnan(value), self.missing_left[node], value <= self.threshold[node])
                node = np.where(goes_left, self.left[node], self.right[node])
            total[begin : begin + ROWS_PER_STEP] = self.baseline[0] + self.value[node].sum(axis=1)
        return total


@dataclass(frozen=True)
class Ensemble:
    """The mean of logistic regression and boosted trees, both in log-odds."""

    linear: Linear
    trees: Trees

    def __call__(self, features: np.ndarray) -> np.ndarray:
        return (self.linear(features) + self.trees(features)) / 2


Scorer = Linear | Trees | Ensemble
KINDS: Mapping[str, type[Linear] | type[Trees]] = {"logistic": Linear, "boosting": Trees}
ENSEMBLE = "ensemble"


def to_arrays(scorer: Scorer) -> dict[str, np.ndarray]:
    """Return the arrays of a scorer by name, for np.savez."""
    if isinstance(scorer, Ensemble):
        linear, trees = to_arrays(scorer.linear), to_arrays(scorer.trees)
        return {f"linear.{name}": a for name, a in linear.items()} | {f"trees.{name}": a for name, a in trees.items()}
    return asdict(scorer)


def from_arrays(kind: str, arrays: Mapping[str, np.ndarray]) -> Scorer:
    """Make a scorer of KINDS, or an ensemble, from its arrays. Raises ValueError if the arrays do not fit such a
    scorer.
    """
    if kind == ENSEMBLE:
        linear, trees = (
            from_arrays(each, {n.removeprefix(f"{part}."): a for n, a in arrays.items() if n.startswith(f"{part}.")})
            for part, each in (("linear", "logistic"), ("trees", "boosting"))
        )
        assert isinstance(linear, Linear) and isinstance(trees, Trees)
        return Ensemble(linear, trees)
    cls = KINDS[kind]
    names = set(cls.__dataclass_fields__)
    if missing := names - set(arrays):
        raise ValueError(f"no {', '.join(sorted(missing))}")
    scorer = cls(**{name: np.asarray(arrays[name]) for name in names})
    if isinstance(scorer, Trees):
        for children in (scorer.left, scorer.right, scorer.roots):
            if len(children) and not (children.min() >= 0 and children.max() < len(scorer.value)):
                raise ValueError("a tree that points outside its nodes")
    return scorer
