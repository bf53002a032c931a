"""Descriptions of the parts of a study by people: a text and keywords for a run, a batch, a training set and so on."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from blindspot.db.connection import PerThread, insert, store_transaction
from blindspot.db.errors import BadInput
from blindspot.db.names import name_problem, text_problem
from blindspot.db.people import require

MAX_TEXT, MAX_KEYWORDS = 2000, 20


@dataclass(frozen=True, slots=True)
class Description:
    """The text that describes a part, and the part's keywords in alphabetical order."""

    text: str = ""
    keywords: tuple[str, ...] = ()


class Descriptions(PerThread):
    """The descriptions in one labels.db, by kind of part and name. `by` is explained in `blindspot.db.people.People`.

    The table stores the keywords in its column `tags`. Elsewhere, "tags" are words that people give to questions
    (`blindspot.db.tags`).
    """

    def of_kind(self, kind: str) -> dict[str, Description]:
        """Return the descriptions of a kind of part, by name."""
        rows = self.connection.execute("SELECT name, text, tags FROM description WHERE kind = ? ORDER BY name", (kind,))
        return {name: Description(text, tuple(json.loads(keywords))) for name, text, keywords in rows}

    def description_of(self, kind: str, name: str) -> Description:
        """Return the description of a part; an empty one if nobody described it."""
        return self.of_kind(kind).get(name, Description())

    def write(self, kind: str, name: str, text: str, keywords: Iterable[str], actor: str | None = None) -> None:
        """Replace the description of a part; an empty text without keywords removes it.

        Raises:
            BadInput: The text is too long, or a keyword is not a word.
        """
        text, keywords = text.strip(), sorted({keyword.strip() for keyword in keywords} - {""})
        _check_length(text, keywords)
        with store_transaction(self) as connection:
            require(connection, actor, "manage parts")
            delete_description(connection, kind, name)
            if text or keywords:
                tags = json.dumps(keywords, ensure_ascii=False)
                row = {"kind": kind, "name": name, "text": text, "tags": tags}
                insert(connection, "description", **row, changed_by=actor, changed=self._clock())

    def rename(self, kind: str, old_name: str, new_name: str, actor: str | None = None) -> None:
        """Move a description to the new name of its part."""
        with store_transaction(self) as connection:
            require(connection, actor, "manage parts")
            move_description(connection, kind, old_name, new_name)

    def remove(self, kind: str, name: str, actor: str | None = None) -> None:
        """Remove the description of a part that is deleted."""
        with store_transaction(self) as connection:
            require(connection, actor, "manage parts")
            delete_description(connection, kind, name)


def move_description(connection: sqlite3.Connection, kind: str, old_name: str, new_name: str) -> None:
    """Rename a part's description inside the caller's transaction. If a description exists under the new name, it is
    replaced.
    """
    delete_description(connection, kind, new_name)
    connection.execute("UPDATE description SET name = ? WHERE kind = ? AND name = ?", (new_name, kind, old_name))


def delete_description(connection: sqlite3.Connection, kind: str, name: str) -> None:
    """Remove a description inside the caller's transaction."""
    connection.execute("DELETE FROM description WHERE kind = ? AND name = ?", (kind, name))


def _check_length(text: str, keywords: list[str]) -> None:
    if text and (problem := text_problem(text, MAX_TEXT)):
        raise BadInput(f"the description {problem}")
    if len(keywords) > MAX_KEYWORDS:
        raise BadInput(f"{len(keywords)} keywords are too many; {MAX_KEYWORDS} are allowed")
    for keyword in keywords:
        if problem := name_problem(keyword) or ("contains a comma" if "," in keyword else None):
            raise BadInput(f"the keyword {keyword[:80]!r} {problem}; a keyword is a word or two without commas")
