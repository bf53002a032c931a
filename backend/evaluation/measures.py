"""The registry of ranking measures. A measure gives each question's ranked list a value; the mean over questions is the
measure of a run.

Success@k is the default everywhere. The definitions are those of ir-measures (trec_eval), and the tests compare every
measure with it. To add a measure, register a `RankingMeasure` in `MEASURES`, here or in an installed package (entry
point group `blindspot.measures`). `report`, `compare` and the Compare page then offer it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np

from blindspot.analysis import accuracy
from blindspot.backend.core.registry import Registry, instance_check
from blindspot.backend.evaluation.relevance import Relevance
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.db.errors import BadInput


@dataclass(frozen=True, slots=True)
class RankingMeasure:
    """A measure of a ranked list.

    Attributes:
        name: the value of `--measure`.
        title: its name in tables, with {k} for the cut-off: "nDCG@{k}".
        help: one line that says what it is.
        values: returns the value of each measured question at k, (q,) bool or float64 from 0 to 1.
        needs_all: whether it needs all relevant passages of a question, which are unknown by answers.
        has_cut_off: whether it depends on k.
    """

    name: str
    title: str
    help: str
    values: Callable[[Relevance, int], np.ndarray]
    needs_all: bool = True
    has_cut_off: bool = True

    @property
    def default_k(self) -> int:
        """The default cut-off: 5 for Success@k, and 10 for the other measures."""
        return HEADLINE_K if self.name == "success" else 10

    def title_at(self, k: int | str) -> str:
        """Return the title with a cut-off, such as "nDCG@10"."""
        return self.title.format(k=k)

    def values_of(self, relevance: Relevance, k: int) -> np.ndarray:
        """Return the value of each question at k. Raises BadInput if the measure needs all relevant passages and
        relevance is by answers.
        """
        if self.needs_all and relevance.n_relevant is None:
            raise BadInput(
                f"{self.title_at(k)} needs all relevant passages of a question, which are unknown by answers; choose "
                "relevance by gold or by labels"
            )
        return self.values(relevance, k)


MEASURES: Registry[RankingMeasure] = Registry(
    "measure", group="blindspot.measures", check=instance_check(RankingMeasure)
)


def measure_named(name: str) -> RankingMeasure:
    """Return the measure of that name, ignoring case ("nDCG" is "ndcg"). Raises Refused for an unknown name."""
    spelled = next((each for each in MEASURES.names() if each.casefold() == name.casefold()), name)
    return MEASURES.get(spelled)


SUCCESS = MEASURES.register(
    RankingMeasure(
        "success",
        "Success@{k}",
        "share of questions with a relevant passage in the top k",
        lambda found, k: accuracy.success_at(found.relevant, k),
        needs_all=False,
    )
)
MEASURES.register(
    RankingMeasure(
        "mrr",
        "MRR@{k}",
        "mean of 1 / rank of the first relevant passage in the top k, 0 if there is none",
        lambda found, k: accuracy.reciprocal_rank(found.relevant, k),
        needs_all=False,
    )
)
MEASURES.register(
    RankingMeasure(
        "ndcg",
        "nDCG@{k}",
        "discounted gain of the top k divided by that of the ideal list; the gain is the grade of the qrels, else 1",
        lambda found, k: accuracy.ndcg_at(cast(np.ndarray, found.grades), cast(np.ndarray, found.ideal), k),
    )
)
MEASURES.register(
    RankingMeasure(
        "map",
        "MAP@{k}",
        "mean over relevant passages of the precision at the rank of each, 0 for those below the top k",
        lambda found, k: accuracy.average_precision(found.relevant, cast(np.ndarray, found.n_relevant), k),
    )
)
MEASURES.register(
    RankingMeasure(
        "recall",
        "Recall@{k}",
        "share of a question's relevant passages in the top k",
        lambda found, k: accuracy.recall_at(found.relevant, cast(np.ndarray, found.n_relevant), k),
    )
)
MEASURES.register(
    RankingMeasure(
        "r-precision",
        "R-precision",
        "share of relevant passages among the first R, where R is the question's number of relevant passages",
        lambda found, k: accuracy.r_precision(found.relevant, cast(np.ndarray, found.n_relevant)),
        has_cut_off=False,
    )
)
