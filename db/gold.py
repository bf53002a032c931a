"""How gold passages were found: one record for each pair of question and passage that a file named."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from db.connection import PerThread


@dataclass(frozen=True, slots=True)
class GoldMatch:
    """A question's gold passage.

    passage: its id; None where the collection holds none that fits, and `reason` says why.
    how: "id", "same text", "overlap" (see `backend.text.gold_matching`), "none", or "qrels".
    score: of a match by text, the share of it that is the same (0 to 1); of qrels, the grade.
    """

    question: str
    passage: str | None
    how: str
    score: float | None = None
    reason: str | None = None


def insert_matches(connection: sqlite3.Connection, matches: Iterable[GoldMatch]) -> None:
    """Write matches; the transaction is the caller's."""
    connection.executemany(
        "INSERT INTO gold_match (question, passage, how, score, reason) VALUES (?, ?, ?, ?, ?)",
        ((m.question, m.passage, m.how, m.score, m.reason) for m in matches),
    )


class GoldMatches(PerThread):
    """The matches of a labels.db, in the order of import."""

    def of(self, question: str) -> list[GoldMatch]:
        rows = self.connection.execute(
            "SELECT question, passage, how, score, reason FROM gold_match WHERE question = ? ORDER BY number",
            (question,),
        )
        return [GoldMatch(*row) for row in rows]

    def counts(self) -> dict[str, int]:
        """How many pairs were found in each way; those that were not, by reason."""
        rows = self.connection.execute(
            "SELECT coalesce(reason, how), count(*) FROM gold_match GROUP BY 1 ORDER BY min(number)"
        )
        return dict(rows.fetchall())

    def grades(self) -> dict[tuple[str, str], int]:
        """The grade of every pair that qrels named."""
        rows = self.connection.execute(
            "SELECT question, passage, score FROM gold_match WHERE how = 'qrels' ORDER BY number"
        )
        return {(question, passage): int(grade) for question, passage, grade in rows}
