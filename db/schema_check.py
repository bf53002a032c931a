"""The schema that each version of labels.db has, and what a file contains beyond it: triggers, views and tables that
Blindspot did not make.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from functools import lru_cache
from pathlib import Path

_RECORD = "_sqlite_migrations"
"""The table of sqlite-utils that lists the migrations applied to a file. Its SQL differs between versions of that
library.
"""
_RECORD_COLUMNS = ("id", "migration_set", "name", "applied_at")
_OF_SQLITE = re.compile(r"sqlite_(sequence|stat[1-4]|autoindex_.*)")
_PIECE = re.compile(r"(?P<text>'(?:[^']|'')*')|--[^\n]*|/\*.*?\*/|\s+|[\"`\[\]]", re.DOTALL)
NEWEST = (17, "m017_question_fields")
"""The number of migrations that an up-to-date file has, and the name of the last one."""
GUARDS = ("trigger", "index")
Objects = dict[tuple[str, str], str]
"""SQL of each table, index, view and trigger, by type and name."""


def is_newest(path: Path) -> bool:
    """Return whether all migrations have been applied to a labels.db. The result is False also if this cannot be read
    now.

    The commands call this first, because sqlite-utils, which does the migrations, loads pandas.
    """
    if not path.is_file():
        return False
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute(
                f"SELECT COUNT(*), MAX(name) FROM {_RECORD} WHERE migration_set = 'blindspot'"
            ).fetchone()
    except sqlite3.Error:
        return False
    return tuple(found) == NEWEST


def compare_schema(connection: sqlite3.Connection) -> tuple[list[str], list[str]]:
    """Return the differences between a labels.db and the schema of its version, one line each: objects because of
    which no SQL of the file may run, and missing guards.

    No SQL of the file is run: only its list of objects is read.
    """
    found = _objects(connection)
    applied, problem = _applied_migrations(connection, found)
    if problem:
        return [problem], []
    expected = _expected_objects(len(applied))
    problems: list[str] = []
    missing: list[str] = []
    for (kind, name), sql in found.items():
        ours = expected.get((kind, name))
        if ours is None:
            problems.append(f"the {kind} {name[:80]!r} is not ours: no version of Blindspot makes it")
        elif ours != sql:
            problems.append(f"the {kind} {name} is not as Blindspot makes it")
    for kind, name in expected.keys() - found.keys():
        why = ", so recorded events could be changed" if kind == "trigger" else ""
        (missing if kind in GUARDS else problems).append(f"the {kind} {name} is missing{why}")
    return sorted(problems), sorted(missing)


def _applied_migrations(connection: sqlite3.Connection, objects: Objects) -> tuple[list[str], str]:
    """Return the migrations that a file lists as applied, and what is wrong with the list; it must be the first part of
    ours.
    """
    if objects.pop(("table", _RECORD), None) is None:
        return [], "it has no record of its version"
    columns = tuple(row[1] for row in connection.execute(f"PRAGMA table_info({_RECORD})"))
    if columns != _RECORD_COLUMNS:
        return [], f"the table {_RECORD} is not as Blindspot makes it"
    names = [row[0] for row in connection.execute(f"SELECT name FROM {_RECORD} ORDER BY id")]
    known = _migration_names()
    if names == known[: len(names)]:
        return names, ""
    newer = [name for name in names if name not in known]
    if newer:
        return [], f"a newer Blindspot wrote it (its schema has {str(newer[-1])[:80]}); install that version or newer"
    return [], "its record of migrations is not one that Blindspot writes"


def _migration_names() -> list[str]:
    from blindspot.db.migrations import MIGRATIONS

    return [migration.name for migration in MIGRATIONS._migrations]


@lru_cache
def _expected_objects(count: int) -> Objects:
    """Return the objects that a file has after the first `count` migrations."""
    from sqlite_utils import Database

    from blindspot.db.migrations import MIGRATIONS

    with closing(sqlite3.connect(":memory:")) as connection:
        later = _migration_names()[count:]
        MIGRATIONS.apply(Database(connection, execute_plugins=False), stop_before=later)
        objects = _objects(connection)
    objects.pop(("table", _RECORD), None)
    return objects


def _objects(connection: sqlite3.Connection) -> Objects:
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    return {(kind, name): _normalised_sql(sql) for kind, name, sql in rows if not _OF_SQLITE.fullmatch(str(name))}


def _normalised_sql(sql: str | None) -> str:
    """Return SQL with comments and white space reduced to one space and without quotes around names, because versions
    differ in these.

    String literals stay unchanged, because what looks like a comment inside one is text.
    """

    def replacement(match: re.Match[str]) -> str:
        return match["text"] or ("" if match[0] in '"`[]' else " ")

    return re.sub(" +", " ", _PIECE.sub(replacement, sql or "")).strip()
