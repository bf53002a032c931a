"""Replace the names of people in a copy of labels.db."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path


def people_named(path: Path) -> list[str]:
    """Return the names of the people in a labels.db, without machines, in the order in which they were added."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT name FROM annotator WHERE kind = 'person' ORDER BY made, name")
        return [name for (name,) in rows]


def rename_people(path: Path, names: Mapping[str, str]) -> None:
    """Replace names everywhere in a labels.db that no other process has open.

    Notes stay as people wrote them. The triggers that prevent changes to events are removed first and created again
    afterwards.

    Args:
        names: name to its replacement.
    """
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f'DROP TRIGGER "{name}"')
        for table, column in [("annotator", "name"), *_columns_with_names(connection)]:
            connection.executemany(
                f'UPDATE "{table}" SET "{column}" = ? WHERE "{column}" = ?', [(new, old) for old, new in names.items()]
            )
        for number, settings in connection.execute("SELECT number, settings FROM batch").fetchall():
            renamed = json.dumps(replace_names(json.loads(settings), names), ensure_ascii=False)
            connection.execute("UPDATE batch SET settings = ? WHERE number = ?", (renamed, number))
        for _, sql in triggers:
            connection.execute(sql)
        connection.commit()
        connection.execute("VACUUM")


def replace_names(content: object, names: Mapping[str, str]) -> object:
    """Return JSON content with every string and key that is a name replaced."""
    if isinstance(content, str):
        return names.get(content, content)
    if isinstance(content, list):
        return [replace_names(each, names) for each in content]
    if isinstance(content, dict):
        return {names.get(key, key): replace_names(value, names) for key, value in content.items()}
    return content


def _columns_with_names(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """The (table, column) of everything that refers to an annotator's name."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [
        (table, key[3])
        for table in tables
        for key in connection.execute(f'PRAGMA foreign_key_list("{table}")').fetchall()
        if key[2] == "annotator"
    ]
