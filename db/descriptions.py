"""What people say about the parts of a study: a description and tags of a run, a batch, a training set and so on."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass

from blindspot.db.connection import PerThread, saving
from blindspot.db.errors import BadInput
from blindspot.db.names import name_problem, text_problem
from blindspot.db.people import require

MAX_TEXT, MAX_TAGS = 2000, 20


@dataclass(frozen=True, slots=True)
class Description:
    """A free text about a part, and its tags in alphabetical order."""

    text: str = ""
    tags: tuple[str, ...] = ()


class Descriptions(PerThread):
    """The descriptions in one labels.db, by kind of part and name. For `by` see `blindspot.db.people.People`."""

    def of_kind(self, kind: str) -> dict[str, Description]:
        """Return the descriptions of a kind of part, by name."""
        rows = self.connection.execute("SELECT name, text, tags FROM description WHERE kind = ? ORDER BY name", (kind,))
        return {name: Description(text, tuple(json.loads(tags))) for name, text, tags in rows}

    def get(self, kind: str, name: str) -> Description:
        """Return the description of a part; an empty one if nobody described it."""
        return self.of_kind(kind).get(name, Description())

    def write(self, kind: str, name: str, text: str, tags: Iterable[str], by: str | None = None) -> None:
        """Replace the description of a part; an empty text without tags removes it.

        Raises:
            BadInput: The text is too long, or a tag is not a word.
        """
        text, tags = text.strip(), sorted({tag.strip() for tag in tags} - {""})
        _check(text, tags)
        with saving(self) as connection:
            require(connection, by, "manage parts")
            forget(connection, kind, name)
            if text or tags:
                connection.execute(
                    "INSERT INTO description (kind, name, text, tags, changed_by, changed) VALUES (?, ?, ?, ?, ?, ?)",
                    (kind, name, text, json.dumps(tags, ensure_ascii=False), by, time.time()),
                )

    def rename(self, kind: str, old: str, new: str, by: str | None = None) -> None:
        """Move a description to the new name of its part."""
        with saving(self) as connection:
            require(connection, by, "manage parts")
            move(connection, kind, old, new)

    def remove(self, kind: str, name: str, by: str | None = None) -> None:
        """Remove the description of a part that is deleted."""
        with saving(self) as connection:
            require(connection, by, "manage parts")
            forget(connection, kind, name)


def move(connection: sqlite3.Connection, kind: str, old: str, new: str) -> None:
    """Move a description inside the caller's transaction. A description left under the new name is replaced."""
    forget(connection, kind, new)
    connection.execute("UPDATE description SET name = ? WHERE kind = ? AND name = ?", (new, kind, old))


def forget(connection: sqlite3.Connection, kind: str, name: str) -> None:
    """Remove a description inside the caller's transaction."""
    connection.execute("DELETE FROM description WHERE kind = ? AND name = ?", (kind, name))


def _check(text: str, tags: list[str]) -> None:
    if text and (problem := text_problem(text, MAX_TEXT)):
        raise BadInput(f"the description {problem}")
    if len(tags) > MAX_TAGS:
        raise BadInput(f"{len(tags)} tags are too many; {MAX_TAGS} are allowed")
    for tag in tags:
        if problem := name_problem(tag) or ("contains a comma" if "," in tag else None):
            raise BadInput(f"the tag {tag[:80]!r} {problem}; a tag is a word or two without commas")
