"""Compute a run's accuracy before and after correction by labels, and the share of its hits that have been judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.judged import NONE, OTHER, POSITIVE, JudgedFigures, judged_figures
from blindspot.backend.core.gold import gold_matrix
from blindspot.backend.core.runs import Run
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import Units, units_of
from blindspot.backend.evaluation.relevance import Kind, relevant
from blindspot.backend.text.answers import DEFAULT_RULE
from blindspot.db.events import SETTLED
from blindspot.db.labels import Labels
from blindspot.db.records import Question


@dataclass(frozen=True, slots=True)
class CorrectedRun:
    """The hits of the q measurable questions, in the format of `blindspot.analysis.judged`.

    Attributes:
        questions: The q questions.
        kind: The kind of relevance, see `blindspot.backend.evaluation.relevance.Relevance`.
        relevant, gold, present: (q, k) bool: relevant by `kind`; a gold passage; a hit and not padding.
        labels: (q, k) int8 codes of `blindspot.analysis.judged`.
        ordinals: (q, k) int32 passage rows of the hits; -1 pads.
        last_event: Number of the newest label event included.
        units: The unit of observation of each question.
    """

    questions: Sequence[Question]
    kind: Kind
    relevant: np.ndarray
    gold: np.ndarray
    labels: np.ndarray
    ordinals: np.ndarray
    last_event: int
    units: Units

    @property
    def is_filled(self) -> np.ndarray:
        hits: np.ndarray = self.ordinals >= 0
        return hits

    def figures_at(self, ks: Sequence[int]) -> list[JudgedFigures]:
        """Return the figures at each cut-off in `ks` that does not exceed the run's depth."""
        within = [k for k in ks if k <= self.relevant.shape[1]]
        return judged_figures(self.relevant, self.gold, self.labels, self.is_filled, within, self.units.codes)


def corrected_run(study: Study, run: Run, relevance: Kind = "answers", rule: str = DEFAULT_RULE) -> CorrectedRun:
    """Read a run's hits with their relevance, gold and labels. Raises the same errors as
    `blindspot.backend.evaluation.relevance.relevant`.
    """
    measured = relevant(study, run, relevance, rule, as_imported=True)
    ordinals = np.asarray(run.hits.ordinals)[measured.rows]
    store = Labels(study.labels_path)
    last = store.last_event
    return CorrectedRun(
        measured.questions,
        measured.kind,
        np.asarray(measured.relevant),
        gold_matrix(study.corpus, ordinals, measured.questions)[0],
        label_matrix(study, store, measured.questions, ordinals),
        ordinals,
        last,
        units_of(measured.questions, study.settings.unit),
    )


def label_matrix(study: Study, store: Labels, questions: Sequence[Question], ordinals: np.ndarray) -> np.ndarray:
    """Return the settled label of each hit as (q, k) int8 codes of `blindspot.analysis.judged`. Pairs labelled unsure
    and disputed pairs count as unlabelled.
    """
    settled = [pair for pair in store.consensus(question.id for question in questions) if pair.label in SETTLED]
    known = study.corpus.ordinals({pair.passage for pair in settled}) if settled else {}
    rows = {question.id: row for row, question in enumerate(questions)}
    codes = np.full(ordinals.shape, NONE, np.int8)
    for pair in settled:
        if pair.passage in known:
            row = rows[pair.question]
            codes[row, ordinals[row] == known[pair.passage]] = POSITIVE if pair.label == "positive" else OTHER
    return codes
