"""Determine which of a run's hits are gold passages of their questions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blindspot.db.corpus import Corpus
from blindspot.db.question_table import gold_of
from blindspot.db.records import Question


def gold_matrix(corpus: Corpus, rows: np.ndarray, questions: Sequence[Question]) -> tuple[np.ndarray, np.ndarray]:
    """Mark the hits that are gold passages.

    Args:
        corpus: asked once, for all gold ids together.
        rows: (q, k) int32 passage rows of the hits; -1 pads.

    Returns:
        (q, k) bool, and (q,) int64: the number of each question's gold passages that the collection holds.
    """
    of_questions = gold_of(questions)
    known = corpus.ordinals({id for ids in of_questions for id in ids})
    gold = [sorted({known[id] for id in ids if id in known}) for ids in of_questions]
    counts = np.array([len(row) for row in gold], dtype=np.int64)
    rows = np.asarray(rows)
    is_gold = np.zeros(rows.shape, dtype=bool)
    # One pass for the first gold passage of every question, one for the second, ...: few passes, since most questions
    # have few.
    for place in range(int(counts.max(initial=0))):
        with_place = np.flatnonzero(counts > place)
        passages = np.array([gold[question][place] for question in with_place.tolist()], dtype=np.int64)
        is_gold[with_place] |= rows[with_place] == passages[:, None]
    return is_gold, counts
