"""The next step that follows from a comparison of two runs: the questions that only the better run answers."""

from __future__ import annotations

import numpy as np

from blindspot.analysis.flips import FlipTable, flip_table
from blindspot.app import study, url
from blindspot.app.selection import Selection
from blindspot.app.study import Comparison
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training.before_after import run_before
from blindspot.backend.upkeep.study_path import NextStep


def step_of_selection(
    open_study: Study, comparison: Comparison, selection: Selection, subset: np.ndarray, where: str = ""
) -> NextStep | None:
    """Return the step to the questions of a selection that only the better run answers; after a training, to those that
    got worse. None if the runs answer the same questions.

    Args:
        subset: the questions that pass the filters, (q,) bool. where: what is said of these questions, such as "of this
            slice".
    """
    counts = flip_table(comparison.first_ranks_a[subset], comparison.first_ranks_b[subset], selection.k)
    if worse := _cell_of_losses(open_study, selection.a, selection.b):
        if not (lost := getattr(counts, worse)):
            return None
        words = f"Read the {quantity(lost, 'question')}{where} that got worse"
        return NextStep(words, url.QUESTION, parameters=selection.parameters(page=1, sort="", cell=worse))
    return step_of_cells(counts, selection, where)


def step_of_cells(counts: FlipTable, selection: Selection, where: str = "", the: str = "the ") -> NextStep | None:
    """Return the step to the questions that only one of the two runs answers: of the run that has more such questions.

    Args:
        where: what is said of these questions. the: the article; "" in long labels.
    """
    cell, run = ("only_a", selection.a) if counts.only_a >= counts.only_b else ("only_b", selection.b)
    if not (count := getattr(counts, cell)):
        return None
    words = f"Read {the}{quantity(count, 'question')}{where} that only {run} answers"
    return NextStep(words, url.QUESTION, parameters=selection.parameters(page=1, sort="", cell=cell))


def _cell_of_losses(open_study: Study, run_a: str, run_b: str) -> str:
    """Return the cell of the questions that a training lost, if the runs are those before and after it; else ""."""
    runs, models = study.runs(open_study), study.models(open_study)
    for before, after, cell in ((run_a, run_b, "only_a"), (run_b, run_a, "only_b")):
        about = models.get(str(runs[after].get("retriever")))
        if about is not None and run_before(open_study, about, after, str(runs[after].get("split")), runs) == before:
            return cell
    return ""
