"""How gold passages were matched: one record for each pair of question and passage in an imported file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from blindspot.db.connection import PerThread


@dataclass(frozen=True, slots=True)
class GoldMatch:
    """A gold passage of a question.

    Attributes:
        passage: The passage id; None if no passage of the collection matches, and `reason` says why.
        how: "id", "same text", "overlap" (see `blindspot.backend.text.gold_matching`), "none", or "qrels".
        score: For a match by text, the shared fraction of the text (0 to 1); for qrels, the grade.
    """

    question: str
    passage: str | None
    how: str
    score: float | None = None
    reason: str | None = None


def insert_matches(connection: sqlite3.Connection, matches: Iterable[GoldMatch]) -> None:
    """Insert matches inside the caller's transaction."""
    connection.executemany(
        "INSERT INTO gold_match (question, passage, how, score, reason) VALUES (?, ?, ?, ?, ?)",
        ((m.question, m.passage, m.how, m.score, m.reason) for m in matches),
    )


class GoldMatches(PerThread):
    """The gold matches of a labels.db, in the order of import."""

    def counts(self) -> dict[str, int]:
        """Count the gold pairs by how they were matched, and the unmatched pairs by reason."""
        rows = self.connection.execute(
            "SELECT coalesce(reason, how), count(*) FROM gold_match WHERE how <> 'qrels' OR score > 0 "
            "GROUP BY 1 ORDER BY min(number)"
        )
        return dict(rows.fetchall())

    def grades(self) -> dict[tuple[str, str], int]:
        """Return the grade of each pair in imported qrels."""
        rows = self.connection.execute(
            "SELECT question, passage, score FROM gold_match WHERE how = 'qrels' ORDER BY number"
        )
        return {(question, passage): int(grade) for question, passage, grade in rows}
