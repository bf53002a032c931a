"""Store the answers of language models in `judges/answers.db`, so that no pair is paid for twice.

An answer is stored by model, recipe (prompt, temperature), sample number, and the texts of question and passage. Judges
with the same model and recipe share answers, and a killed run resumes with the missing answers. An answer that cannot
be parsed is stored as unknown, and `judge run` asks again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields

from blindspot.backend.core.manifest import text_sha256
from blindspot.backend.core.study import Study
from blindspot.db.connection import PerThread, write_transaction
from blindspot.db.records import Passage

FILE = "answers.db"
_SCHEMA = """
    CREATE TABLE IF NOT EXISTS answer (
        model TEXT NOT NULL, recipe TEXT NOT NULL, sample INTEGER NOT NULL, pair TEXT NOT NULL,
        grade INTEGER, reply TEXT NOT NULL, served TEXT NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL,
        requests INTEGER NOT NULL, seconds REAL NOT NULL, made REAL NOT NULL,
        PRIMARY KEY (model, recipe, sample, pair)) STRICT, WITHOUT ROWID;
"""
LONGEST_REPLY = 2000  # characters of a reply that are kept


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One model's answer for a pair.

    Attributes:
        pair: `pair_hash` of the texts.
        grade: None if the answers could not be read.
        served: The model that the endpoint says has answered.
        tokens_in, tokens_out, requests, seconds: What the answer cost, repeated requests included.
    """

    model: str
    recipe: str
    sample: int
    pair: str
    grade: int | None
    reply: str
    served: str
    tokens_in: int
    tokens_out: int
    requests: int
    seconds: float
    made: float


def pair_hash(question: str, passage: Passage) -> str:
    """Return a hash of a pair's texts."""
    return text_sha256(question, passage.title, passage.text)[:32]


class AnswerStore(PerThread):
    """The stored answers of a study."""

    def __init__(self, study: Study, read_only: bool = False):
        folder = study.path("judges")
        if not read_only:
            folder.mkdir(exist_ok=True)
        super().__init__(folder / FILE, read_only)
        if not read_only:
            self.connection.executescript(_SCHEMA)

    def add(self, answers: Iterable[StoredAnswer]) -> None:
        """Store answers in one transaction. If an answer replaces an unreadable one, their costs are added."""
        names = [field.name for field in fields(StoredAnswer)]
        summed = ("tokens_in", "tokens_out", "requests", "seconds")
        changes = (f"{name} = excluded.{name}" + (f" + answer.{name}" if name in summed else "") for name in names)
        with write_transaction(self.connection) as connection:
            connection.executemany(
                f"INSERT INTO answer ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "
                f"ON CONFLICT DO UPDATE SET {', '.join(changes)}",
                (astuple(answer) for answer in answers),
            )

    def answers_about(
        self, models: Sequence[str], recipe: str, pairs: Iterable[str]
    ) -> dict[tuple[str, str, int], StoredAnswer]:
        """Return the stored answers for some pairs, by pair, model and sample."""
        rows = self.connection.execute(
            f"SELECT {', '.join(field.name for field in fields(StoredAnswer))} FROM answer WHERE recipe = ? "
            "AND model IN (SELECT value FROM json_each(?)) AND pair IN (SELECT value FROM json_each(?))",
            (recipe, json.dumps(list(models)), json.dumps(list(pairs))),
        )
        found = (StoredAnswer(*row) for row in rows)
        return {(answer.pair, answer.model, answer.sample): answer for answer in found}

    def mean_cost(self, models: Sequence[str], recipe: str) -> tuple[float, float, float] | None:
        """Return the mean input tokens, output tokens and seconds of the stored answers; None if there are none."""
        row = self.connection.execute(
            "SELECT avg(tokens_in), avg(tokens_out), avg(seconds), count(*) FROM answer WHERE recipe = ? "
            "AND model IN (SELECT value FROM json_each(?)) AND tokens_in > 0",
            (recipe, json.dumps(list(models))),
        ).fetchone()
        return None if not row[3] else (float(row[0]), float(row[1]), float(row[2]))

    def tokens(self, models: Sequence[str], recipe: str) -> tuple[int, int]:
        """Return the input and output tokens of all stored answers of some models and a recipe."""
        row = self.connection.execute(
            "SELECT coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0) FROM answer WHERE recipe = ? "
            "AND model IN (SELECT value FROM json_each(?))",
            (recipe, json.dumps(list(models))),
        ).fetchone()
        return int(row[0]), int(row[1])
