"""Compare rules that drop false negatives: estimate from the judged sample how many of the negatives kept by each rule
are false.

The rules are those of `sentence_transformers.util.mine_hard_negatives` (absolute and relative margin, `max_score`,
first rank) and a judge that learns from the labels. The negative pairs are sampled within strata ("cells") of similar
suspicion, so each drawn pair represents the pairs of its cell. A row of the comparison is one rule with one value. Its
interval is the confidence sequence of `blindspot.analysis.rate_sequence` over the drawn pairs that the rule keeps. The
bounds (`RuleBounds`) hold for all rows at once (Bonferroni), so they stay valid although a row is chosen with the same
labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from blindspot.analysis.intervals import LEVEL
from blindspot.analysis.weighted_draws import Cells
from blindspot.backend.checking.building import CheckedStudy
from blindspot.backend.checking.pairs import NegativePairs
from blindspot.backend.checking.sample import VAGUE, JudgedDraws, cell_of_each_pair, interval
from blindspot.backend.core.result_table import stated_interval
from blindspot.db.errors import BadInput

KEPT = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
"""Approximate shares of the negatives that the rows of a rule keep; approximate because thresholds are rounded."""
MARGINS = {"relative_margin": (0.0, 0.05, 0.1), "absolute_margin": (0.05, 0.1)}  # 0 is the same rule in both
RANKS = (1, 2, 3, 5, 10, 20)
UPPER = ("max_score", "judge")
"""Rules with an upper limit; their statistics are negated."""
FEWEST = 5
"""Minimum numbers of false and of true negatives among the labels for a comparison of rules."""
RESAMPLES = 400
FOLDS = 5


@dataclass(frozen=True)
class MiningRule:
    """A rule that keeps the pairs whose statistic `score` is at least `value`. argument: the argument of
    `mine_hard_negatives` that applies it; None for the judge.
    """

    name: str
    value: float
    argument: str | None

    @property
    def displayed_value(self) -> float:
        """The value as people write it. A rule with an upper limit keeps the pairs whose statistic is at most this
        value.
        """
        return -self.value if self.name in UPPER else self.value

    @property
    def is_on_scale(self) -> bool:
        """Whether the value means something only beside the scores of one retriever."""
        return self.name in ("max_score", "absolute_margin")

    def as_text(self) -> str:
        """Return the rule as an argument: `--rule` takes it, and `parse_rule` reads it."""
        return f"{self.name}={self.displayed_value:g}"

    @property
    def condition(self) -> str:
        """What a negative must fulfil that the rule keeps, in words."""
        distance, side = abs(self.displayed_value), "below" if self.displayed_value > 0 else "above"
        if self.name == "judge":
            return f"its chance of being false is at most {100 * self.displayed_value:g}% by a model of the labels"
        if self.name == "max_score":
            return f"its score is at most {self.displayed_value:g}"
        if self.name == "range_min":
            return (
                "it is not the first"
                if self.displayed_value == 1
                else f"it comes after the first {self.displayed_value:g}"
            )
        if not distance:
            return "its score is not above the positive's"
        amount = f"{distance:g}" if self.name == "absolute_margin" else f"{100 * distance:g}%"
        return f"its score is at {'least' if side == 'below' else 'most'} {amount} {side} the positive's"


@dataclass(frozen=True)
class RuleRow:
    """A rule with one value, and the negatives that it keeps and drops.

    Attributes:
        kept, dropped: Distinct negative pairs. questions, questions_emptied: Questions with a negative, and those of them
        whose last one it drops.
        false_share, low, high: Share of false negatives among the kept ones, with its interval.
        dropped_false, dropped_low, dropped_high: The same among the dropped ones.
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
    dropped_false: float
    dropped_low: float
    dropped_high: float
    false_dropped: float
    true_kept: float

    @property
    def gain(self) -> float:
        """(share of false negatives dropped) + (share of true negatives kept) − (share of questions left without a
        negative).

        A question without a negative cannot be trained on, so its positive is lost too. A rule that keeps everything
        has a gain of 1.
        """
        return self.false_dropped + self.true_kept - self.questions_emptied / max(self.questions, 1)

    def as_json(self) -> dict[str, Any]:
        plain = {**asdict(self), "gain": self.gain, "rule": self.rule.name, "value": self.rule.displayed_value}
        words = {"keeps_if": self.rule.condition, "argument": f"--rule {self.rule.as_text()}"}
        return {**plain, **words, "paste": self.rule.argument}


@dataclass(frozen=True)
class RuleQuality:
    """How well a rule's statistic separates true from false negatives, as an AUC: 0.5 is chance."""

    name: str
    auc: float
    low: float
    high: float


class RuleBounds(NamedTuple):
    """Bounds that hold for all rows together, so that the same labels may choose the row: the ends of the interval of
    `RuleRow.false_share`, and the lower end of that of `dropped_false`.
    """

    least: float
    most: float
    drops_at_least: float


@dataclass(frozen=True)
class RuleCurve:
    """The comparison of all rules, and the chosen row.

    Attributes:
        chosen: Place of the row; None if no rule tells false from true negatives. why: In words.
        to_paste: Place of the best row with an argument to paste: the chosen one, or the next if that is the judge's.
    """

    rows: list[RuleRow]
    qualities: list[RuleQuality]
    chosen: int | None
    why: str
    to_paste: int | None = None
    _comparison: _Comparison | None = field(default=None, repr=False, compare=False)
    _bounds: dict[MiningRule, RuleBounds] = field(default_factory=dict, repr=False, compare=False)

    def bounds(self, row: RuleRow) -> RuleBounds:
        """Return a row's bounds, which are computed when they are first asked for."""
        assert self._comparison is not None  # where there are rows
        if row.rule not in self._bounds:
            self._bounds[row.rule] = self._comparison.bounds(row.rule, len(self.rows))
        return self._bounds[row.rule]

    def is_established(self, row: RuleRow) -> bool:
        """Return whether by the bounds a larger share of the dropped ones than of the kept ones is false."""
        bounds = self.bounds(row)
        return bounds.drops_at_least > bounds.most

    @property
    def best(self) -> RuleRow | None:
        """The chosen row."""
        return None if self.chosen is None else self.rows[self.chosen]

    def row_of(self, rule: MiningRule | None) -> RuleRow | None:
        """Return the row of a rule; None if it is not compared."""
        return next((row for row in self.rows if row.rule == rule), None)

    def as_json(self) -> dict[str, Any]:
        best = self.best
        return {
            "rows": [row.as_json() for row in self.rows],
            "qualities": [asdict(each) for each in self.qualities],
            "chosen": best and best.rule.as_text(),
            "chosen_keeps_if": best and best.rule.condition,
            "why": self.why,
            "promise": best and self.bounds(best).most,
            "drops_at_least": best and self.bounds(best).drops_at_least,
            "established": best and self.is_established(best),
            "paste": None if self.to_paste is None else self.rows[self.to_paste].rule.argument,
        }


def statistics(pairs: NegativePairs) -> dict[str, np.ndarray]:
    """Return the statistic of each rule, (m,) float64, for all rules but the judge. A rule keeps pairs with high
    values.
    """
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


def judge_of_labels(judged_draws: JudgedDraws) -> tuple[np.ndarray, np.ndarray] | None:
    """Train a model on the labels that predicts the probability that a pair is a false negative. Returns the
    predictions for all m pairs, and cross-fitted predictions for the n judged pairs, by models that did not see the
    labels of the same question. Returns None if there are too few labels.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if not _is_enough(judged_draws):
        return None
    pairs, places = judged_draws.pairs, judged_draws.pair_rows
    table = _feature_table(pairs)
    weights = _weights(judged_draws)
    questions = pairs.question[places]
    folds = min(FOLDS, len(np.unique(questions)))
    if folds < 2:
        return None
    own = np.full(len(judged_draws), judged_draws.false.mean())

    def fit(rows: np.ndarray) -> Any:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.3))
        return model.fit(table[places[rows]], judged_draws.false[rows], logisticregression__sample_weight=weights[rows])

    for learned, held in GroupKFold(folds).split(places, groups=questions):
        if judged_draws.false[learned].any() and not judged_draws.false[learned].all():
            own[held] = fit(learned).predict_proba(table[places[held]])[:, 1]
    whole: np.ndarray = fit(np.arange(len(judged_draws))).predict_proba(table)[:, 1]
    return whole, own


def _feature_table(pairs: NegativePairs) -> np.ndarray:
    """Return the input features of the judge's model, (m, features)."""
    columns = [*pairs.features.T, np.log(pairs.rank)]
    score, positive = pairs.score.astype(np.float64), pairs.positive_score.astype(np.float64)
    if np.isfinite(score).any():
        columns.append(np.where(np.isfinite(score), score, np.nanmean(score)))
        if np.isfinite(positive).any():
            gap = positive - score
            columns.append(np.where(np.isfinite(gap), gap, np.nanmean(gap)))
    return np.stack(columns, axis=1).astype(np.float64)


def _is_enough(judged_draws: JudgedDraws) -> bool:
    false = int(judged_draws.false.sum())
    return min(false, len(judged_draws) - false) >= FEWEST


def _weights(judged_draws: JudgedDraws) -> np.ndarray:
    """Return the weight of each judged pair, (n,): the number of pairs of its cell that it represents."""
    drawn = np.bincount(judged_draws.cells, minlength=len(judged_draws.plan.cells.counts))
    result: np.ndarray = (judged_draws.plan.cells.counts / np.maximum(drawn, 1))[judged_draws.cells]
    return result


def compare_rules(checked_study: CheckedStudy, judged_draws: JudgedDraws | None, level: float = LEVEL) -> RuleCurve:
    """Compare the rules, using the labels so far."""
    if judged_draws is None or not _is_enough(judged_draws):
        false = 0 if judged_draws is None else int(judged_draws.false.sum())
        true = 0 if judged_draws is None else len(judged_draws) - false
        why = (
            f"too early to choose a rule: judge until the rate is known within {200 * VAGUE:.0f} points, and at least {FEWEST} false and "
            f"{FEWEST} true negatives are found (so far {false:,} and {true:,})"
        )
        return RuleCurve([], [], None, why)
    scores = statistics(judged_draws.pairs)
    own = {name: values[judged_draws.pair_rows] for name, values in scores.items()}
    learned = judge_of_labels(judged_draws)
    if learned is not None:
        # The judge keeps a judged pair by the model that did not see it, and the file's pairs by the whole model.
        scores["judge"], own["judge"] = -learned[0], -learned[1]
    comparison = _Comparison(judged_draws, scores, own, cell_of_each_pair(checked_study), level)
    rows = [comparison.row(rule) for name in scores for rule in _candidate_rules(name, scores[name])]
    return replace(comparison.choose(rows, [comparison.quality(name) for name in scores]), _comparison=comparison)


def _candidate_rules(name: str, values: np.ndarray) -> list[MiningRule]:
    """Return the values of a rule to compare: rounded values that keep about the shares in `KEPT` of the pairs."""
    if name == "range_min":
        return [_rule(name, float(rank)) for rank in RANKS if rank < values.max() + 1]
    wanted = [float(np.quantile(values, 1 - share)) for share in KEPT]
    found = {float(f"{each:.2g}") for each in wanted}
    if name.endswith("margin"):  # below 0 a negative may score higher than the positive: nobody mines so
        found = {each for each in found if each > 0} | set(MARGINS[name])
    return [_rule(name, each) for each in sorted(found) if (values < each).any() and (values >= each).any()]


def _rule(name: str, value: float) -> MiningRule:
    if name == "max_score":
        return MiningRule(name, value, f"mine_hard_negatives(..., max_score={-value:g})")
    if name == "range_min":
        return MiningRule(name, value, f"mine_hard_negatives(..., range_min={value:g})")
    return MiningRule(name, value, None if name == "judge" else f"mine_hard_negatives(..., {name}={value:g})")


def parse_rule(text: str) -> MiningRule:
    """Parse a rule such as "relative_margin=0.08". Raises BadInput for any other text."""
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


def pairs_kept_by(rule: MiningRule, pairs: NegativePairs, judged_draws: JudgedDraws | None) -> np.ndarray:
    """Return which pairs a rule keeps, (m,) bool. Raises BadInput for a rule that needs scores or labels that are
    missing.
    """
    if rule.name == "judge":
        learned = None if judged_draws is None else judge_of_labels(judged_draws)
        if learned is None:
            raise BadInput(f"the judge needs labels: at least {FEWEST} false and {FEWEST} true negatives")
        return -learned[0] >= rule.value
    scores = statistics(pairs)
    if rule.name not in scores:
        raise BadInput(f"{rule.name} needs scores in the file; mine with output_scores=True")
    return scores[rule.name] >= rule.value


@dataclass(frozen=True)
class _Comparison:
    """The data on which rules are compared.

    Attributes:
        draws: The judged pairs. scores, own: For each rule, its statistic of all m pairs, and of the n judged ones.
        member: (m,) the cell of each pair. level: Of the intervals.
    """

    draws: JudgedDraws
    scores: dict[str, np.ndarray]
    own: dict[str, np.ndarray]
    member: np.ndarray
    level: float

    def row(self, rule: MiningRule) -> RuleRow:
        keeps = self.scores[rule.name] >= rule.value
        question = self.draws.pairs.question
        questions = len(np.unique(question))
        shares = [self.interval(rule, self.level, of_dropped) for of_dropped in (False, True)]
        return RuleRow(
            rule,
            int(keeps.sum()),
            int((~keeps).sum()),
            questions,
            questions - len(np.unique(question[keeps])),
            *shares[0],
            *shares[1],
            *_shares_dropped_and_kept(int(keeps.sum()), int((~keeps).sum()), shares[0][0], shares[1][0]),
        )

    def interval(self, rule: MiningRule, level: float, of_dropped: bool = False) -> tuple[float, float, float]:
        """Return the share of false negatives among the pairs that a rule keeps, or drops: estimate, low, high. The estimate
        is the weighted share of the judged pairs, within the interval.
        """
        part, judged = (
            (values >= rule.value) != of_dropped for values in (self.scores[rule.name], self.own[rule.name])
        )
        if not judged.any():
            return float("nan"), 0.0, 1.0
        all_cells = self.draws.plan.cells
        counts = np.bincount(self.member[part], minlength=len(all_cells.counts))
        # For the judge, draws of the part may lie in cells that the whole model empties: such cells hold these draws.
        counts = np.maximum(counts, np.bincount(self.draws.cells[judged], minlength=len(counts)))
        used = counts > 0
        cells = Cells(counts[used], all_cells.chances[used], all_cells.weights[used])
        places = (np.cumsum(used) - 1)[self.draws.cells[judged]]
        _, low, high = interval(self.draws.false[judged], self.draws.unsettled[judged], places, cells, level)
        share = np.average(self.draws.false[judged], weights=_weights(self.draws)[judged])
        return float(np.clip(share, low, high)), low, high

    def bounds(self, rule: MiningRule, row_count: int) -> RuleBounds:
        """Return the bounds of one of so many rows, by Bonferroni's method."""
        together = 1 - (1 - self.level) / row_count
        _, least, most = self.interval(rule, together)
        return RuleBounds(least, most, self.interval(rule, together, of_dropped=True)[1])

    @cached_property
    def resampled(self) -> list[np.ndarray]:
        """How often each judged draw is in each resample of the questions that has false and true negatives, (n,) each."""
        _, owner = np.unique(self.draws.pairs.question[self.draws.pair_rows], return_inverse=True)
        rng, count, false = np.random.default_rng(0), owner.max() + 1, self.draws.false
        found = [np.bincount(rng.integers(count, size=count), minlength=count)[owner] for _ in range(RESAMPLES)]
        return [times for times in found if (times * false).any() and (times * ~false).any()]

    def quality(self, name: str) -> RuleQuality:
        """Return the weighted AUC of a rule's statistic, with a bootstrap interval over questions."""
        own, weights, false = self.own[name], _weights(self.draws), self.draws.false
        low, high = _middle_95([_auc(own, false, weights * times) for times in self.resampled])
        return RuleQuality(name, _auc(own, false, weights), low, high)

    def words_of_shares(self, row: RuleRow) -> str:
        """Say which shares of the false and of the true negatives a row drops and keeps, with 95% bootstrap intervals over
        questions.
        """
        kept, false = self.own[row.rule.name] >= row.rule.value, self.draws.false
        found = []
        for times in self.resampled:
            weights = _weights(self.draws) * times
            parts = [weights[part] @ false[part] / max(weights[part].sum(), 1e-12) for part in (kept, ~kept)]
            found.append(_shares_dropped_and_kept(row.kept, row.dropped, *parts))
        words = []
        for share, values in zip((row.false_dropped, row.true_kept), zip(*found, strict=True), strict=True):
            low, high = _middle_95(values)
            words.append(f"{share:.0%} {stated_interval(100 * low, 100 * high)}")
        dropped, stays = words
        return f"drops {dropped} of the false negatives, keeps {stays} of the true ones (for this row alone, bootstrap over questions)"

    def choose(self, rows: list[RuleRow], qualities: list[RuleQuality]) -> RuleCurve:
        """Choose the row with the largest gain among the rules whose AUC is above chance, unless the rate is too vague."""
        _, low, high = interval(
            self.draws.false, self.draws.unsettled, self.draws.cells, self.draws.plan.cells, self.level
        )
        if high - low > 2 * VAGUE:
            why = (
                f"too early to choose a rule: the rate is only known within {100 * (high - low):.0f} points; judge until it is known "
                f"within {200 * VAGUE:.0f}"
            )
            return RuleCurve(rows, qualities, None, why)
        separating = {each.name for each in qualities if each.low > 0.5}
        places = [place for place, row in enumerate(rows) if row.rule.name in separating and row.kept and row.dropped]
        others = [each for each in qualities if each.name not in separating]
        if not places:
            why = (
                "no rule tells false from true negatives: "
                + _unusable_rules_sentence(others)
                + ". Take out the false ones that were found, or judge more"
            )
            return RuleCurve(rows, qualities, None, why)

        def gain(position: int) -> float:
            return rows[position].gain

        best = max(places, key=gain)
        row = rows[best]
        if row.gain <= 1:
            why = "every rule costs more true negatives and questions than it drops false ones; take out those that were found"
            return RuleCurve(rows, qualities, None, why)
        to_paste = max((place for place in places if rows[place].rule.argument), key=gain, default=None)
        is_close = sum(f"{each.gain:.2f}" == f"{row.gain:.2f}" for each in rows) > 1
        emptied = f"{row.questions_emptied / row.questions:.1%}" if row.questions_emptied else "none"
        why = (
            f"it {self.words_of_shares(row)} and by itself leaves {emptied} of the questions without a negative. Of all {len(rows)} rows it has "
            f"the largest sum of the first two shares less the third{', before rounding' if is_close else ''}"
        )
        if others:
            why += "; " + _unusable_rules_sentence(others)
        return RuleCurve(rows, qualities, best, why, to_paste)


def _shares_dropped_and_kept(
    kept: int, dropped: int, false_of_kept: float, false_of_dropped: float
) -> tuple[float, float]:
    """Return the share of the false negatives that a rule drops, and that of the true ones that it keeps."""
    of_kept, of_dropped = (0.0 if np.isnan(each) else each for each in (false_of_kept, false_of_dropped))
    false, true = kept * of_kept + dropped * of_dropped, kept * (1 - of_kept) + dropped * (1 - of_dropped)
    return dropped * of_dropped / max(false, 1e-12), kept * (1 - of_kept) / max(true, 1e-12)


def _middle_95(values: Sequence[float]) -> tuple[float, float]:
    low, high = np.quantile(values, [0.025, 0.975]).tolist()
    return low, high


def _auc(values: np.ndarray, false: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted AUC: the probability that a true negative has a higher value than a false one, with ties
    counted as a half.
    """
    order = np.argsort(values, kind="stable")
    values, false, weights = values[order], false[order], weights[order]
    _, place = np.unique(values, return_inverse=True)
    of_false = np.bincount(place, weights * false)
    below = np.cumsum(of_false) - of_false / 2
    true = np.bincount(place, weights * ~false)
    return float(below @ true / (of_false.sum() * true.sum()))


def _unusable_rules_sentence(qualities: Sequence[RuleQuality]) -> str:
    """Describe the rules that are not usable: those that drop true negatives first, and those that cannot separate true
    from false ones.
    """
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
