"""A judge's opinion of the hits on Question: a probability, and the features with the largest effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import streamlit as st

from blindspot.app import study
from blindspot.app.markup import Html, div, span
from blindspot.backend.core.result_table import signed_number
from blindspot.backend.core.study import Study
from blindspot.backend.judges.feature_judge import ABOUT, FeatureJudge, feature_judges
from blindspot.backend.judges.feature_model import strongest_contributions
from blindspot.backend.judges.lists import Lists, lists_of
from blindspot.backend.judges.scores import ScoreStore
from blindspot.db.errors import BlindspotError
from blindspot.db.records import Question


@dataclass(frozen=True, slots=True)
class JudgeMark:
    """A judge's probability for a passage, and its three features with the largest effect: (label, log-odds)."""

    judge: str
    probability: float
    contributions: list[tuple[str, float]]

    def badge(self) -> Html:
        tooltip = f"Judge {self.judge}: {self.probability:.0%} probable that this passage answers the question. The judge never saw the answers."
        return span(f"judge {self.probability:.0%}", cls="badge judge", title=tooltip)

    def reasons(self) -> Html:
        """The features, largest effect first: + for features in favour of "answers", - for features against it."""
        words = "; ".join(f"{label} {signed_number(value)}" for label, value in self.contributions)
        return div(
            f"{self.judge}: {words}",
            cls="judge-said soft",
            title="Change of the judge's log-odds: + for an answer, - against it",
        )


def judge_marks(open_study: Study, question: Question, runs: Sequence[str]) -> dict[int, JudgeMark]:
    """Return the opinions of the newest judge of these runs' retriever on their hits, by row; empty if it judged none
    of them.
    """
    manifests = study.runs(open_study)
    for about in sorted(
        feature_judges(open_study), key=lambda about: _scores_version(open_study, about["name"]), reverse=True
    ):
        run = next((name for name in runs if manifests[name].get("retriever") == about["retriever"]), None)
        if run is None:
            continue
        with suppress(BlindspotError):  # a damaged judge, or one whose index is gone, says nothing here
            store = ScoreStore.open(open_study, about["name"])
            known = store.scores_of([question.id]).get(question.id)
            if known:
                return _marks_of_hits(
                    open_study,
                    _judge(open_study, about["name"], _scores_version(open_study, about["name"])),
                    run,
                    question,
                    known,
                )
    return {}


def _marks_of_hits(
    open_study: Study, judge: FeatureJudge, run: str, question: Question, probabilities: Mapping[str, float]
) -> dict[int, JudgeMark]:
    found = open_study.run(run)
    if found.row(question.id) is None:
        return {}
    lists: Lists = lists_of(found, [question], judge.depth)
    rows = lists.rows[0]
    present = np.flatnonzero(rows >= 0)
    contributions = judge.model.contributions(judge.features(lists)[0][present])
    passages = open_study.corpus.passages(rows[present].tolist())
    return {
        int(row): JudgeMark(judge.name, probabilities[passage.id], strongest_contributions(contribution))
        for row, passage, contribution in zip(rows[present], passages, contributions, strict=True)
        if passage.id in probabilities
    }


def _scores_version(open_study: Study, name: str) -> int:
    return open_study.path("models", name, ABOUT).stat().st_mtime_ns


@st.cache_resource(max_entries=4, show_spinner=False)
def _judge(_study: Study, name: str, scores_version: int) -> FeatureJudge:
    return FeatureJudge(_study, name)
