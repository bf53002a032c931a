"""Which rule drops the false negatives: the false ones among the negatives that each rule keeps, from the judged sample.

The rules are those of `sentence_transformers.util.mine_hard_negatives` (absolute and relative margin, `max_score`, first
rank) and a judge that learns from the labels. A drawn pair stands for the pairs of its cell. The interval of a row is
the confidence sequence of `blindspot.analysis.rate_sequence` over the pairs that its rule keeps: within them, too, pairs
were drawn in proportion to their weights. The promise of the chosen row holds for all rows together (Bonferroni), so the
choice does not break it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from blindspot.analysis.intervals import LEVEL
from blindspot.analysis.weighted_draws import Cells
from blindspot.backend.checking.building import CheckedStudy
from blindspot.backend.checking.pairs import NegativePairs
from blindspot.backend.checking.sample import JudgedDraws, interval
from blindspot.db.errors import BadInput

KEPT = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
"""Approximate shares of the negatives that the rows of a rule keep; approximate because thresholds are rounded."""
MARGINS = (0.0, 0.05, 0.1)
RANKS = (1, 2, 3, 5, 10, 20)
UPPER = ("max_score", "judge")
"""Rules with an upper limit; their statistics are negated."""
FEWEST = 5
"""Minimum numbers of false and of true negatives among the labels for a comparison of rules."""
RESAMPLES = 400
FOLDS = 5


@dataclass(frozen=True)
class MiningRule:
    """A rule: it keeps the pairs whose `score` is at least `value`. argument: what to paste; None for the judge."""

    name: str
    value: float
    argument: str | None

    @property
    def shown(self) -> float:
        """The value as people write it: a rule with an upper limit keeps what is at most this."""
        return -self.value if self.name in UPPER else self.value

    def as_text(self) -> str:
        return f"{self.name}={self.shown:g}"


@dataclass(frozen=True)
class RuleRow:
    """A rule with one value, and what it leaves.

    Attributes:
        kept, dropped: Distinct negative pairs. questions, questions_emptied: Questions with a negative, and those of them
        whose last one it drops.
        false_share, low, high: Share of false negatives among the kept ones, with its interval.
        false_dropped, true_kept: Shares of the false negatives that go, and of the true ones that stay; estimates.
    """

    rule: MiningRule
    kept: int
    dropped: int
    questions: int
    questions_emptied: int
    false_share: float
    low: float
    high: float
    false_dropped: float
    true_kept: float

    @property
    def gain(self) -> float:
        """Share of the false negatives dropped, plus that of the true ones kept, less that of the questions emptied.

        A question without a negative is lost to training, its positive too. Keeping everything has the gain 1.
        """
        return self.false_dropped + self.true_kept - self.questions_emptied / max(self.questions, 1)

    def as_json(self) -> dict[str, Any]:
        plain = {**asdict(self), "gain": self.gain, "rule": self.rule.name, "value": self.rule.shown}
        return {**plain, "paste": self.rule.argument}


@dataclass(frozen=True)
class RuleQuality:
    """How well a rule's statistic tells false from true negatives. 0.5 is chance."""

    name: str
    auc: float
    low: float
    high: float


@dataclass(frozen=True)
class RuleCurve:
    """All rows, and the chosen one.

    Attributes:
        chosen: Place of the row; None if no rule tells false from true negatives. why: In words.
        promise: Upper bound on the share of false negatives that the chosen row keeps, for all rows together.
        to_paste: Place of the best row with an argument to paste: the chosen one, or the next if that is the judge's.
    """

    rows: list[RuleRow]
    qualities: list[RuleQuality]
    chosen: int | None
    why: str
    promise: float | None
    to_paste: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "rows": [row.as_json() for row in self.rows],
            "qualities": [asdict(each) for each in self.qualities],
            "chosen": None if self.chosen is None else self.rows[self.chosen].rule.as_text(),
            "why": self.why,
            "promise": self.promise,
            "paste": None if self.to_paste is None else self.rows[self.to_paste].rule.argument,
        }


def statistics(pairs: NegativePairs) -> dict[str, np.ndarray]:
    """Return for each rule its statistic, (m,) float64, higher for pairs that it rather keeps. Without the judge."""
    found: dict[str, np.ndarray] = {}
    score, positive = pairs.score.astype(np.float64), pairs.positive_score.astype(np.float64)
    if np.isfinite(score).all():
        if np.isfinite(positive).all():
            found["relative_margin"] = (positive - score) / np.maximum(np.abs(positive), 1e-12)
            found["absolute_margin"] = positive - score
        found["max_score"] = -score
    if (pairs.rank > 1).any():
        found["range_min"] = pairs.rank.astype(np.float64) - 1
    return found


def judge_of_labels(judged: JudgedDraws, seed: int = 0) -> tuple[np.ndarray, np.ndarray] | None:
    """Learn from the labels which pairs are false. Returns (m,) probabilities of all pairs, and (n,) those of the judged
    pairs by models that did not see the question's labels; None with too few labels.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if not _is_enough(judged):
        return None
    pairs, places = judged.pairs, judged.places
    table = _table(pairs)
    weights = _weights(judged)
    questions = pairs.question[places]
    folds = min(FOLDS, len(np.unique(questions)))
    if folds < 2:
        return None
    own = np.full(len(judged), judged.false.mean())

    def fit(rows: np.ndarray) -> Any:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.3))
        return model.fit(table[places[rows]], judged.false[rows], logisticregression__sample_weight=weights[rows])

    for learned, held in GroupKFold(folds).split(places, groups=questions):
        if judged.false[learned].any() and not judged.false[learned].all():
            own[held] = fit(learned).predict_proba(table[places[held]])[:, 1]
    whole: np.ndarray = fit(np.arange(len(judged))).predict_proba(table)[:, 1]
    return whole, own


def _table(pairs: NegativePairs) -> np.ndarray:
    """Return the features of the judge, (m, features)."""
    columns = [*pairs.features.T, np.log(pairs.rank)]
    score, positive = pairs.score.astype(np.float64), pairs.positive_score.astype(np.float64)
    if np.isfinite(score).any():
        columns.append(np.where(np.isfinite(score), score, np.nanmean(score)))
        if np.isfinite(positive).any():
            gap = positive - score
            columns.append(np.where(np.isfinite(gap), gap, np.nanmean(gap)))
    return np.stack(columns, axis=1).astype(np.float64)


def _is_enough(judged: JudgedDraws) -> bool:
    false = int(judged.false.sum())
    return min(false, len(judged) - false) >= FEWEST


def _weights(judged: JudgedDraws) -> np.ndarray:
    """Return the weight of each judged pair: the number of pairs of its cell that it represents, (n,)."""
    drawn = np.bincount(judged.cells, minlength=len(judged.plan.cells.counts))
    result: np.ndarray = (judged.plan.cells.counts / np.maximum(drawn, 1))[judged.cells]
    return result


def compare_rules(checked_study: CheckedStudy, judged: JudgedDraws | None, level: float = LEVEL) -> RuleCurve:
    """Compare the rules by the labels so far."""
    if judged is None or not _is_enough(judged):
        why = f"judge until at least {FEWEST} false and {FEWEST} true negatives are found; then the rules are compared"
        return RuleCurve([], [], None, why, None)
    scores = statistics(judged.pairs)
    own = {name: values[judged.places] for name, values in scores.items()}
    learned = judge_of_labels(judged)
    if learned is not None:
        scores["judge"], own["judge"] = -learned[0], -learned[1]
    member = np.load(checked_study.folder / "cells.npy").astype(np.int64)
    rows = [
        _row(judged, rule, scores[rule.name], own[rule.name], member, level)
        for name in scores
        for rule in _values(name, scores[name])
    ]
    qualities = [_quality(name, own[name], judged) for name in scores]
    return _choose(judged, rows, qualities, scores, own, member, level)


def _values(name: str, values: np.ndarray) -> list[MiningRule]:
    """Return the values of a rule to compare: round ones that keep about the shares of `KEPT`."""
    if name == "range_min":
        return [_rule(name, float(rank)) for rank in RANKS if rank < values.max() + 1]
    wanted = [float(np.quantile(values, 1 - share)) for share in KEPT]
    found = {float(f"{each:.2g}") for each in wanted}
    if name.endswith("margin"):  # below 0 a negative may score higher than the positive: nobody mines so
        found = {each for each in found if each >= 0} | set(MARGINS)
    return [_rule(name, each) for each in sorted(found) if (values < each).any() and (values >= each).any()]


def _rule(name: str, value: float) -> MiningRule:
    if name == "max_score":
        return MiningRule(name, value, f"mine_hard_negatives(..., max_score={-value:g})")
    if name == "range_min":
        return MiningRule(name, value, f"mine_hard_negatives(..., range_min={value:g})")
    return MiningRule(name, value, None if name == "judge" else f"mine_hard_negatives(..., {name}={value:g})")


def parse_rule(text: str) -> MiningRule:
    """Return the rule that "relative_margin=0.08" names. Raises BadInput."""
    name, sign, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        sign = ""
    if not sign or name not in ("relative_margin", "absolute_margin", "max_score", "range_min", "judge"):
        raise BadInput(
            f"{text!r} is no rule; give one as in relative_margin=0.08, max_score=0.7, range_min=2 or judge=0.3"
        )
    return _rule(name, -value if name in UPPER else value)


def kept_by(rule: MiningRule, pairs: NegativePairs, judged: JudgedDraws | None) -> np.ndarray:
    """Return which pairs a rule keeps, (m,) bool. Raises BadInput for a rule that the file or the labels do not allow."""
    if rule.name == "judge":
        learned = None if judged is None else judge_of_labels(judged)
        if learned is None:
            raise BadInput(f"the judge needs labels: at least {FEWEST} false and {FEWEST} true negatives")
        return -learned[0] >= rule.value
    scores = statistics(pairs)
    if rule.name not in scores:
        raise BadInput(f"{rule.name} needs scores in the file; mine with output_scores=True")
    return scores[rule.name] >= rule.value


def _row(
    judged: JudgedDraws, rule: MiningRule, scores: np.ndarray, own: np.ndarray, member: np.ndarray, level: float
) -> RuleRow:
    keeps, kept = scores >= rule.value, own >= rule.value
    # A judged pair stands for its cell, and is kept by the model that did not see it; the set by the whole model.
    kept = kept if rule.name == "judge" else keeps[judged.places]
    middle, low, high = _interval(judged, kept, keeps, member, level)
    weights = _weights(judged)
    false, true = weights * judged.false, weights * ~judged.false
    questions = len(np.unique(judged.pairs.question))
    emptied = questions - len(np.unique(judged.pairs.question[keeps]))
    return RuleRow(
        rule,
        int(keeps.sum()),
        int((~keeps).sum()),
        questions,
        emptied,
        middle,
        low,
        high,
        float(false[~kept].sum() / max(false.sum(), 1e-12)),
        float(true[kept].sum() / max(true.sum(), 1e-12)),
    )


def _interval(
    judged: JudgedDraws, subset: np.ndarray, keeps: np.ndarray, member: np.ndarray, level: float
) -> tuple[float, float, float]:
    """Return estimate and interval of the share of false negatives among the pairs that a rule keeps."""
    all_cells = judged.plan.cells
    counts = np.bincount(member[keeps], minlength=len(all_cells.counts))
    # For the judge, kept draws may lie in cells that the whole model empties: such cells hold these draws.
    counts = np.maximum(counts, np.bincount(judged.cells[subset], minlength=len(counts)))
    used = counts > 0
    if not subset.any():
        return float("nan"), 0.0, 1.0
    part = Cells(counts[used], all_cells.chances[used], all_cells.weights[used])
    places = (np.cumsum(used) - 1)[judged.cells[subset]]
    return interval(judged.false[subset], judged.unsettled[subset], places, part, level)


def _quality(name: str, own: np.ndarray, judged: JudgedDraws, seed: int = 0) -> RuleQuality:
    """Return the weighted AUC with an interval by the bootstrap over questions."""
    weights, false = _weights(judged), judged.false
    questions = judged.pairs.question[judged.places]
    _, owner = np.unique(questions, return_inverse=True)
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(RESAMPLES):
        times = np.bincount(rng.integers(owner.max() + 1, size=owner.max() + 1), minlength=owner.max() + 1)[owner]
        if (times * false).any() and (times * ~false).any():
            found.append(_auc(own, false, weights * times))
    low, high = np.quantile(found, [0.025, 0.975])
    return RuleQuality(name, _auc(own, false, weights), float(low), float(high))


def _auc(values: np.ndarray, false: np.ndarray, weights: np.ndarray) -> float:
    """Return how probably a true negative has a higher value than a false one; half for equal ones."""
    order = np.argsort(values, kind="stable")
    values, false, weights = values[order], false[order], weights[order]
    _, place = np.unique(values, return_inverse=True)
    of_false = np.bincount(place, weights * false)
    below = np.cumsum(of_false) - of_false / 2
    true = np.bincount(place, weights * ~false)
    return float(below @ true / (of_false.sum() * true.sum()))


def _choose(
    judged: JudgedDraws,
    rows: list[RuleRow],
    qualities: list[RuleQuality],
    scores: dict[str, np.ndarray],
    own: dict[str, np.ndarray],
    member: np.ndarray,
    level: float,
) -> RuleCurve:
    """Choose the row with the largest gain, of the rules that tell false from true negatives."""
    separating = {each.name for each in qualities if each.low > 0.5}
    places = [place for place, row in enumerate(rows) if row.rule.name in separating and row.kept and row.dropped]
    others = [each for each in qualities if each.name not in separating]
    if not places:
        why = (
            "no rule tells false from true negatives: "
            + _unfit(others)
            + ". Take out the false ones that were found, or judge more"
        )
        return RuleCurve(rows, qualities, None, why, None)

    def gain(place: int) -> float:
        return rows[place].gain

    best = max(places, key=gain)
    row = rows[best]
    if row.gain <= 1:
        why = "every rule costs more true negatives and questions than it drops false ones; take out those that were found"
        return RuleCurve(rows, qualities, None, why, None)
    to_paste = max((place for place in places if rows[place].rule.argument), key=gain, default=None)
    keeps = scores[row.rule.name] >= row.rule.value
    kept = own[row.rule.name] >= row.rule.value if row.rule.name == "judge" else keeps[judged.places]
    promise = _interval(judged, kept, keeps, member, 1 - (1 - level) / len(rows))[2]
    why = (
        f"it drops {row.false_dropped:.0%} of the false negatives, keeps {row.true_kept:.0%} of the true ones and leaves "
        f"{row.questions_emptied / row.questions:.1%} of the questions without a negative, the best sum of all rows"
    )
    if others:
        why += "; " + _unfit(others)
    return RuleCurve(rows, qualities, best, why, promise, to_paste)


def _unfit(qualities: Sequence[RuleQuality]) -> str:
    """Say which rules drop true negatives before false ones, and which cannot distinguish them."""
    kinds = {
        "drops the true ones first": [each for each in qualities if each.high < 0.5],
        "no better than chance": [each for each in qualities if each.high >= 0.5],
    }
    return "; ".join(
        f"{words}: "
        + ", ".join(f"{each.name} (AUC {each.auc:.2f}, {each.low:.2f} to {each.high:.2f})" for each in some)
        for words, some in kinds.items()
        if some
    )
