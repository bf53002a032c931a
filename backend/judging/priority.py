"""Rank candidate passages by P(false negative) x harm. (The order of the questions of a batch is in `batch_order.py`.)

A passage that contains an answer and mentions the question's subject is likely to answer the question. A passage that
contains an answer but not the subject may match only by chance.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

RANK_STEPS = (1, 5, 20)  # the last rank of each group; deeper ranks form one more group
Evidence = tuple[bool | None, bool | None]
"""(contains an answer, mentions the subject); None if that is not known. In passages without an answer, the subject is
not looked for.
"""

_PRIOR: dict[Evidence, tuple[float, ...]] = {
    (True, True): (0.6, 0.5, 0.4, 0.3),
    (True, None): (0.5, 0.35, 0.2, 0.1),
    (True, False): (0.2, 0.12, 0.05, 0.03),
    (None, None): (0.3, 0.15, 0.08, 0.04),
    (False, None): (0.1, 0.05, 0.03, 0.02),
}
"""The probability that a passage is a false negative, by evidence and rank group, as assumed before any labels."""
_PRIOR_WEIGHT = 10  # the number of labels that the prior counts as

JUDGE_WEIGHT = (
    0.25  # of a judge's log-odds; at 1 a judge that knows one gold passage a question outvotes the answer match
)
_SURE = 1e-4  # a judge's probability counts as no surer than this

HARM_TRAINED = 2.0  # added for a hard negative that every step of training pushes away from the question
HARM_ABOVE_GOLD = 1.0  # added for a passage ranked above all gold, because it lowers the measured accuracy


@dataclass(frozen=True, slots=True)
class PooledPassage:
    """An unlabelled passage of a question's pool.

    Attributes:
        ordinal: Row of the passage.
        run: The run that ranks the passage best; `rank` and `score` are from it.
        answer: Whether the passage contains an answer; None if that is not known.
        above_gold: Whether a run ranks the passage above all of the question's gold.
        subject: Whether a passage that contains an answer also mentions the question's subject; None if that is not
        known.
    """

    ordinal: int
    run: str
    rank: int
    score: float
    answer: bool | None
    above_gold: bool
    subject: bool | None = None

    @property
    def answer_evidence(self) -> Evidence:
        return self.answer, self.subject


class Calibration:
    """Estimates P(false negative) for each kind of evidence and rank group, as the share of positives among settled
    candidates, smoothed with a prior.

    Args:
        outcomes: (evidence, rank, label) of settled candidates.

    Attributes:
        labels: Number of labels that the estimate uses.
    """

    def __init__(self, outcomes: Iterable[tuple[Evidence, int | None, str]] = ()):
        cells: dict[tuple[Evidence, int], list[int]] = defaultdict(lambda: [0, 0])
        self.labels = 0
        for evidence, rank, label in outcomes:
            if rank is None or label == "unsure":
                continue
            cell = cells[evidence, rank_group(rank)]
            cell[0] += label == "positive"
            cell[1] += 1
            self.labels += 1
        self._table = {
            (evidence, group): _posterior(prior, *cells[evidence, group])
            for evidence, row in _PRIOR.items()
            for group, prior in enumerate(row)
        }

    def probability(self, evidence: Evidence, rank: int) -> float:
        """Return P(false negative) of a candidate at this rank (from 1)."""
        return self._table[evidence, rank_group(rank)]

    def with_judge(self, probability: float, evidence: Evidence, rank: int) -> float:
        """Combine this estimate of P(false negative) with a judge's probability, using a logarithmic opinion pool.

        The judge does not know the answers, whereas this estimate uses only the answer match, the subject and the rank.
        The judge's log-odds have the weight JUDGE_WEIGHT.
        """
        judged = min(max(probability, _SURE), 1 - _SURE)
        odds = _posterior_odds(self.probability(evidence, rank)) * _posterior_odds(judged) ** JUDGE_WEIGHT
        return odds / (1 + odds)


def rank_group(rank: int) -> int:
    """Return the index of the rank group (see `RANK_STEPS`) to which a rank belongs."""
    return bisect_left(RANK_STEPS, rank)


def false_negative_cost(passage: PooledPassage, expected_draws: float) -> float:
    """Return the cost if this passage is a false negative: 1, plus HARM_TRAINED if training uses it as a negative, plus
    HARM_ABOVE_GOLD if a run ranks it above the gold passages.

    Args:
        expected_draws: how likely a step of training draws the passage as a negative, from 0 to 1.
    """
    return 1.0 + HARM_TRAINED * expected_draws + HARM_ABOVE_GOLD * passage.above_gold


def _posterior_odds(probability: float) -> float:
    return probability / (1 - probability)


def _posterior(prior: float, positives: int, count: int) -> float:
    return (prior * _PRIOR_WEIGHT + positives) / (_PRIOR_WEIGHT + count)
