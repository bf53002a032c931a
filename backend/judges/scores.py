"""Store the scores of judges: a probability for each (question, passage) pair, in `scores/<model>/`.

A missing pair is unknown, never zero. Pairs are added in transactions, so a killed job resumes with the missing pairs.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.manifest import read_manifest, write_manifest
from blindspot.backend.core.settings import check_name
from blindspot.db.connection import PerThread, write_transaction
from blindspot.db.errors import BadInput, Missing, Refused

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

PairKey = tuple[str, str]
"""(question id, passage id)."""

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS score (
        question TEXT NOT NULL, passage TEXT NOT NULL, probability REAL NOT NULL CHECK (probability BETWEEN 0 AND 1),
        PRIMARY KEY (question, passage)) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS state (digest TEXT NOT NULL) STRICT;
"""


class ScoreStore(PerThread):
    """The scores of one model. Threads may share a store.

    manifest: `model`, `calibrated` (whether the probabilities were fitted to labels), and what the scorer added.
    """

    def __init__(self, study: Study, model: str, manifest: dict):
        super().__init__(study.path("scores", model) / "scores.db")
        self.model, self.manifest = model, manifest

    @classmethod
    def open(cls, study: Study, model: str) -> ScoreStore:
        """Open the stored scores of a model.

        Raises Missing if the model has no scores, and Refused if they refer to another collection.
        """
        check_name(model, "model")
        manifest = read_manifest(study.path("scores", model))
        if manifest is None:
            known = ", ".join(study.parts("scores")) or "none yet"
            raise Missing(f"there are no scores of a model {model!r}; models with scores: {known}")
        if manifest["corpus"] != study.corpus.digest:
            raise Refused(f"the scores of {model!r} are of other passages than this study holds; score again")
        return cls(study, model, manifest)

    @classmethod
    def create(
        cls, study: Study, model: str, calibrated: bool, description: Mapping[str, Any] | None = None
    ) -> ScoreStore:
        """Open the scores of a model for adding, and create the store if necessary.

        Args:
            calibrated: whether the probabilities are calibrated on labels; `positive_aware` requires it.
            description: the origin of the scores, such as the model's hash; part of the manifest.

        Raises:
            Refused: this name holds scores of another model, or of another calibration.
        """
        check_name(model, "model")
        folder = study.path("scores", model)
        wanted = {
            "kind": "scores",
            "model": model,
            "calibrated": calibrated,
            "corpus": study.corpus.digest,
            **(description or {}),
        }
        manifest = read_manifest(folder)
        if manifest is None:
            folder.mkdir(parents=True, exist_ok=True)
            store = cls(study, model, wanted)
            store.connection.executescript(_SCHEMA)
            store.manifest = write_manifest(folder, wanted)
            return store
        if differs := [key for key, value in wanted.items() if manifest.get(key) != value]:
            raise Refused(f"the scores stored as {model!r} differ in {', '.join(differs)}; take another name")
        return cls(study, model, manifest)

    @staticmethod
    def remove(study: Study, model: str) -> None:
        """Delete all scores of a model, if there are any. Code that replaces the model calls this first."""
        shutil.rmtree(study.path("scores", check_name(model, "model")), ignore_errors=True)

    def add(self, rows: Iterable[tuple[str, str, float]]) -> int:
        """Store (question id, passage id, probability) rows in one transaction, and return their number.

        A new probability replaces an old one.

        Raises:
            BadInput: a value that is not a probability.
        """
        rows = [(question, passage, float(probability)) for question, passage, probability in rows]
        for question, passage, probability in rows:
            if not (math.isfinite(probability) and 0 <= probability <= 1):
                raise BadInput(
                    f"the score of question {question!r} and passage {passage!r} is {probability}; a probability "
                    "must be between 0 and 1"
                )
        with write_transaction(self.connection) as connection:
            connection.executemany("INSERT OR REPLACE INTO score VALUES (?, ?, ?)", rows)
            digest = hashlib.sha256(self._digest(connection).encode())
            for question, passage, probability in rows:
                digest.update(f"{question}\0{passage}\0".encode() + struct.pack("<d", probability))
            connection.execute("DELETE FROM state")
            connection.execute("INSERT INTO state VALUES (?)", (digest.hexdigest(),))
        return len(rows)

    def __len__(self) -> int:
        return self.connection.execute("SELECT count(*) FROM score").fetchone()[0]

    def __call__(self, pairs: Sequence[PairKey]) -> dict[PairKey, float]:
        """Return the stored probabilities of these pairs; other pairs are absent."""
        known = self.scores_of({question for question, _ in pairs})
        return {pair: known[pair[0]][pair[1]] for pair in pairs if pair[1] in known.get(pair[0], ())}

    def scores_of(self, questions: Iterable[str]) -> dict[str, dict[str, float]]:
        """Return all stored probabilities for some questions: question id to passage id to probability."""
        rows = self.connection.execute(
            "SELECT question, passage, probability FROM score WHERE question IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(questions)),),
        )
        by_question: dict[str, dict[str, float]] = {}
        for question, passage, probability in rows:
            by_question.setdefault(question, {})[passage] = probability
        return by_question

    def questions(self) -> set[str]:
        """Return the ids of the questions with at least one scored pair."""
        return {question for (question,) in self.connection.execute("SELECT DISTINCT question FROM score")}

    @property
    def digest(self) -> str:
        """Return a hash that changes with every added pair. Manifests record it to identify the scores that a part was
        made from.
        """
        return self._digest(self.connection)

    @staticmethod
    def _digest(connection) -> str:
        row = connection.execute("SELECT digest FROM state").fetchone()
        return row[0] if row else ""
