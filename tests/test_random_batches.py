"""Batches in the order random."""

import numpy as np
import pytest

from blindspot.backend.core.runs import write_run
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.judging.settings import ArmShares
from blindspot.db.errors import BadInput
from blindspot.db.people import People
from blindspot.db.queue import Queue
from blindspot.db.records import Hits, Passage, Question
from tests.studies import make_study


@pytest.fixture
def study(tmp_path):
    """12 questions of two relations. In run r each has its gold first; of the five passages below, those at ranks 2
    and 3 contain the answer and name the subject, and only the one at rank 2 is about it.
    """
    passages, questions, rows = [], [], []
    for i in range(12):
        texts = [f"S{i} is A{i}", f"indeed S{i} was always A{i}", f"list: S{i} A{i} of many", "x", "y", "z"]
        passages += [Passage(f"p{i}-{j}", f"Title {i}", f"{text} number {i} {j}") for j, text in enumerate(texts)]
        questions.append(
            Question(
                f"q{i:02}",
                f"What is S{i}?",
                (f"A{i}",),
                f"P{i % 2}",
                f"S{i}",
                split="train",
                gold=(f"p{i}-0",),
                dataset="d",
            )
        )
        rows.append(list(range(6 * i, 6 * i + 6)))
    study = make_study(tmp_path / "s", passages, questions)
    scores = np.tile(np.arange(6, 0, -1, dtype=np.float32), (12, 1))
    hits = Hits(np.array(rows, np.int32), scores)
    write_run(study, "r", [q.id for q in questions], hits, {"retriever": "bm25", "split": "train"}, rule="dpr")
    People(study.labels_path).add("ann")
    return study


NO_MIX = ArmShares(audit=0, second=0, repeat=0)


def test_orders_that_do_not_exist(study):
    for order in ("best", "gain"):
        with pytest.raises(BadInput, match=f"order must be one of priority, random, not '{order}'"):
            make_batch(study, "b", ["r"], order=order)
    with pytest.raises(BadInput, match="the order priority chooses whole questions"):
        make_batch(study, "b", ["r"], pairs=3)


def test_random_pairs(study):
    make_batch(study, "b", ["r"], size=12, order="random", pairs=30, mix=NO_MIX, seed=1)
    items = Queue(study.labels_path).items("b")
    ranks = {candidate.rank for item in items for candidate in item.candidates}
    assert sum(len(item.candidates) for item in items) == 30 and ranks == {2, 3, 4, 5, 6}
