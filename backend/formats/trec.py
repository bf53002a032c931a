"""TREC runs: `question Q0 passage rank score run`, space separated, ranks from 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from backend.formats.files import written_whole
from db.errors import Refused


def write_run(
    path: str | Path,
    run_name: str,
    question_ids: Sequence[str],
    passage_ids: Iterable[Sequence[str]],
    scores: Sequence[np.ndarray],
) -> int:
    """Write a run. Gives the number of lines.

    Evaluation tools order by score and break ties each in its own way. So the scores written fall strictly: one that does
    not is lowered to the next smaller float32. Numbers are written so that they read back as the same float32.

    Args:
        passage_ids: for each question the ids in rank order; a row may be shorter than the scores' row.
        scores: (q, k) float32, not rising along a row.

    Raises:
        Refused: white space in the name or an id, or scores that rise or are not numbers.
    """
    _refuse_space("the run's name", run_name)
    lines = 0
    with written_whole(path) as file:
        for question_id, ids, row in zip(question_ids, passage_ids, scores, strict=True):
            _refuse_space("a question id", question_id)
            values = falling(row[: len(ids)], question_id)
            for rank, (passage_id, score) in enumerate(zip(ids, values, strict=True), 1):
                _refuse_space("a passage id", passage_id)
                file.write(f"{question_id} Q0 {passage_id} {rank} {score:.9g} {run_name}\n")
            lines += len(ids)
    return lines


def falling(scores: np.ndarray, question_id: str = "") -> np.ndarray:
    """The scores (k,) as float32, each below the one before it."""
    values = np.array(scores, dtype=np.float32)
    if not np.isfinite(values).all() or (np.diff(values) > 0).any():
        raise Refused(f"question {question_id!r}: its scores are not falling numbers; retrieve the run again")
    for i in range(1, len(values)):
        if values[i] >= values[i - 1]:
            values[i] = np.nextafter(values[i - 1], np.float32(-np.inf))
    return values


def _refuse_space(what: str, value: str) -> None:
    if not value or value.split() != [value]:
        raise Refused(f"{what} is {value!r}; TREC files are separated by spaces, so it must hold none")
