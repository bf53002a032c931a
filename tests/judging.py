"""A small study to judge, and helpers for annotators' actions."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import numpy as np

from blindspot.backend.core.runs import write_run
from blindspot.backend.core.study import Study
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.questions import Questions
from blindspot.db.queue import Candidate, Item, Queue
from blindspot.db.records import Hits, Passage, Question
from blindspot.db.schema import prepare
from tests.studies import make_study

PEOPLE = {"ann": "annotator", "ben": "annotator", "cid": "annotator", "ada": "adjudicator", "lea": "lead"}
PASSAGES = tuple(f"p{i}" for i in range(6))


class Clock:
    """A clock that advances only when set."""

    def __init__(self, now: float = 1_000_000.0):
        self.now = now

    def __call__(self) -> float:
        return self.now


class Desk:
    """Every store of one labels.db, over questions q0, q1, ...; all are training questions except q1 (dev) and q2
    (test).
    """

    def __init__(self, folder: Path, questions: int = 5, people: dict[str, str] = PEOPLE):
        self.path = folder / "labels.db"
        prepare(self.path)
        self.clock = Clock()
        self.questions, self.people = Questions(self.path), People(self.path)
        self.labels = Labels(self.path, passages=lambda ids: {id: 0 for id in ids if id in PASSAGES}, clock=self.clock)
        self.queue = Queue(self.path, clock=self.clock)
        splits = {1: "dev", 2: "test"}
        self.questions.add(
            [
                Question(f"q{i}", f"What is {i}?", ("x",), gold=("p0",), split=splits.get(i, "train"))
                for i in range(questions)
            ]
        )
        for name, role in people.items():
            self.people.add(name, role)
        self._numbers = count(1)

    def id(self) -> str:
        return f"key-{next(self._numbers)}"

    def label(self, who: str, question: str, labels: dict[str, str], kind: str = "label", **more) -> str:
        """Store labels in one event and return its id."""
        gesture = LabelEvent(
            more.pop("id", None) or self.id(),
            kind,
            question,
            tuple(Choice(p, label) for p, label in labels.items()),
            **more,
        )
        self.labels.add(who, gesture)
        return gesture.id

    def undo(self, who: str, question: str, gesture: str) -> str:
        undo = LabelEvent(self.id(), "undo", question, undoes=gesture)
        self.labels.add(who, undo)
        return undo.id

    def batch(self, name: str = "b1", questions: int = 3, needed: int = 1, practice: bool = False, **item) -> None:
        shown = tuple(Candidate(p, n, "bm25", n + 1, 9.0 - n) for n, p in enumerate(PASSAGES[1:4]))
        items = [Item(f"q{i}", shown, people_needed=needed, **item) for i in range(questions)]
        self.queue.add_batch(name, items, {"seed": 0}, practice)

    def work(self, who: str, batch: str, question: str, label: str = "negative") -> bool:
        """Label the whole question and finish it; return whether it was surplus."""
        self.label(who, question, dict.fromkeys(PASSAGES[1:4], label), batch=batch)
        return self.queue.finish(who, batch, question)

    def claim(self, who: str, count: int = 1) -> list[str]:
        return [lease.question for lease in self.queue.claim(who, count)]

    def act(self, kind: str, question: str, batch: str = "b1", **more) -> dict:
        """Return the message of a browser for a whole question."""
        return {"id": self.id(), "kind": kind, "question": question, "batch": batch, **more}

    def sent(self, question: str, labels: dict[str, str], batch: str | None = "b1") -> dict:
        """Return the message of a browser for one label key."""
        return {
            "id": self.id(),
            "kind": "label",
            "question": question,
            "batch": batch,
            "choices": [{"passage": passage, "label": label} for passage, label in labels.items()],
        }

    def standing(self) -> dict[tuple[str, str], tuple[str | None, str]]:
        return {(pair.question, pair.passage): (pair.label, pair.state) for pair in self.labels.consensus()}


def searched_study(folder: Path, questions: int = 120, passages: int = 300, k: int = 10, seed: int = 0) -> Study:
    """A study whose runs `a` and `b` put random passages at each rank; passage p(2i+1) nearly repeats p(2i).

    Question q<i> has gold p<2i>, which both runs find at rank 3; a third of the questions each are of train, dev and
    test,
    half of relation P1 and half of P2, and their subjects are mentioned 1, 5, 20 or 200 times.
    """
    random = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(400)]
    texts = [" ".join(random.choice(words, 30)) for _ in range((passages + 1) // 2)]
    held = [
        Passage(f"p{i}", f"Title {i}", texts[i // 2] + (" and more" if i % 2 else "") + (" Oslo" if i % 3 == 0 else ""))
        for i in range(passages)
    ]
    asked = [
        Question(
            f"q{i}",
            f"Where is {i}?",
            ("Oslo",),
            relation=f"P{1 + i % 2}",
            subject=f"s{i}",
            frequency=(1, 5, 20, 200)[i % 4],
            dataset="d",
            split=("train", "dev", "test")[i % 3],
            gold=(f"p{2 * i}",),
        )
        for i in range(questions)
    ]
    study = make_study(folder, held, asked)
    for name in ("a", "b"):
        rows = np.stack([random.permutation(passages)[:k] for _ in asked]).astype(np.int32)
        for i, row in enumerate(rows):
            row[row == 2 * i] = -1
            row[2] = 2 * i
        scores = np.tile(np.linspace(9, 1, k, dtype=np.float32), (questions, 1))
        write_run(study, name, [question.id for question in asked], Hits(rows, scores), {"retriever": name})
    return study
