"""The schema of labels.db, as small steps. Each is applied once, in one transaction with the record of it.

To change the schema, add a function at the end; one that has been released is never edited.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from db.backup import backup
from db.connection import connect, writing
from db.errors import BadInput, Refused

MIGRATIONS = Migrations("blindspot")


@MIGRATIONS()
def m001_questions(db: Database) -> None:
    db.conn.execute("""
        CREATE TABLE question (
            id TEXT PRIMARY KEY,
            position INTEGER NOT NULL UNIQUE,
            text TEXT NOT NULL,
            answers TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(answers)),
            relation TEXT,
            subject TEXT,
            template TEXT,
            frequency INTEGER CHECK (frequency >= 0),
            bucket INTEGER,
            dataset TEXT NOT NULL DEFAULT '',
            split TEXT NOT NULL CHECK (split IN ('train', 'dev', 'test', 'unlabelled')),
            gold TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(gold)),
            answer_rule TEXT NOT NULL DEFAULT 'string' CHECK (answer_rule IN ('string', 'regex'))
        ) STRICT""")
    db.conn.execute("CREATE INDEX question_by_split ON question (split, dataset, relation, position)")
    db.conn.execute("CREATE INDEX question_by_subject ON question (subject)")


@MIGRATIONS()
def m002_import_records(db: Database) -> None:
    db.conn.execute("""
        CREATE TABLE import_record (
            number INTEGER PRIMARY KEY,
            kind TEXT NOT NULL CHECK (kind IN ('passages', 'questions', 'frequencies')),
            file TEXT NOT NULL,
            sha256 TEXT NOT NULL,
            size INTEGER NOT NULL,
            rows INTEGER NOT NULL,
            left_out INTEGER NOT NULL,
            options TEXT NOT NULL DEFAULT '',
            imported_at TEXT NOT NULL
        ) STRICT""")


@MIGRATIONS()
def m003_jobs(db: Database) -> None:
    db.conn.execute("""
        CREATE TABLE job (
            id TEXT PRIMARY KEY,
            kind TEXT NOT NULL,
            arguments TEXT NOT NULL CHECK (json_valid(arguments)),
            state TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'done', 'failed', 'cancelled')),
            pid INTEGER,
            host TEXT,
            started TEXT,
            ended TEXT,
            heartbeat TEXT,
            done INTEGER NOT NULL DEFAULT 0,
            total INTEGER,
            doing TEXT NOT NULL DEFAULT '',
            error TEXT,
            result TEXT CHECK (result IS NULL OR json_valid(result))
        ) STRICT""")


def migrate(path: str | Path) -> None:
    """Bring a labels.db, new or old, to the newest schema.

    An existing one is backed up first, to `backups/` beside it. Processes that come at the same time wait for each other.

    Raises:
        BadInput: the file is no SQLite database.
        Refused: the file was written by a newer version of the program.
    """
    path = Path(path)
    try:
        connection = connect(path)
        try:
            db = Database(connection, execute_plugins=False)
            _refuse_newer(db, path)
            if not MIGRATIONS.applied(db):
                # A new file gets all of them at once, or whoever comes meanwhile would back up a schema half made.
                with writing(connection):
                    MIGRATIONS.apply(db)
            applied = MIGRATIONS.applied(db)
            if MIGRATIONS.pending(db):
                now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
                backup(connection, path.parent / "backups" / f"{path.stem}-after-{applied[-1].name}-{now}.db")
            while MIGRATIONS.pending(db):
                _apply_next(db)
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        if "not a database" not in str(error):
            raise
        raise BadInput("this is no SQLite database; put it away, or restore it from backups/", path) from error


def _refuse_newer(db: Database, path: Path) -> None:
    known = {migration.name for migration in MIGRATIONS._migrations}
    unknown = [migration.name for migration in MIGRATIONS.applied(db) if migration.name not in known]
    if unknown:
        raise Refused(
            f"{path}: was written by a newer Blindspot (its schema has {unknown[-1]}, unknown here); "
            "install that version or newer"
        )


def _apply_next(db: Database) -> None:
    """Apply one migration. What is pending is asked inside the transaction: another process may have been quicker."""
    with writing(db.conn):
        pending = MIGRATIONS.pending(db)
        if pending:
            MIGRATIONS.apply(db, stop_before=[later.name for later in pending[1:]])
