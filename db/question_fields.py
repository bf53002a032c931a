"""Own facts of questions, by name: the source, session or date of a log. Slices, filters and the slice finder use them."""

from __future__ import annotations

from collections.abc import Mapping

from blindspot.db.connection import PerThread, writing


class QuestionFields(PerThread):
    """The fields of one labels.db. Threads may share it."""

    def add(self, fields: Mapping[str, Mapping[str, str]]) -> None:
        """Add fields by question id, all or none. A field that a question has already gets the new value."""
        rows = [(name, question, value) for question, named in fields.items() for name, value in named.items()]
        with writing(self.connection) as connection:
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
        """Return the fields of a question by name."""
        sql = "SELECT name, value FROM question_field WHERE question = ? ORDER BY name"
        return dict(self.connection.execute(sql, (question,)).fetchall())
