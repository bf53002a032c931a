"""Fields of questions that people define by name, such as the source, session or date of a log entry. Slices, filters
and the slice finder use these fields.
"""

from __future__ import annotations

from collections.abc import Mapping

from blindspot.db.connection import PerThread, write_transaction


class QuestionFields(PerThread):
    """The fields of the questions in one labels.db. Threads may share it."""

    def add(self, fields: Mapping[str, Mapping[str, str]]) -> None:
        """Add fields by question id, all or none. If a question already has a field, the new value replaces the old
        one.
        """
        rows = [(name, question, value) for question, named in fields.items() for name, value in named.items()]
        with write_transaction(self.connection) as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO question_field (name, question, value) VALUES (?, ?, ?)", rows
            )

    def field_names(self) -> list[str]:
        """Return the names of all fields."""
        return [name for (name,) in self.connection.execute("SELECT DISTINCT name FROM question_field ORDER BY name")]

    def values(self, name: str) -> dict[str, str]:
        """Return the value of a field for each question that has it."""
        sql = "SELECT question, value FROM question_field WHERE name = ?"
        return dict(self.connection.execute(sql, (name,)).fetchall())

    def fields_of(self, question: str) -> dict[str, str]:
        """Return the fields of one question, by name."""
        sql = "SELECT name, value FROM question_field WHERE question = ? ORDER BY name"
        return dict(self.connection.execute(sql, (question,)).fetchall())
