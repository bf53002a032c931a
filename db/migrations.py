"""The schema of labels.db, as small steps. Each step is applied once, in one transaction together with the record that
it was applied.

To change the schema, add a function at the end; never edit a released one.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from blindspot.db.backup import backup, refuse_lost_labels
from blindspot.db.connection import connect, error_name, readable_sqlite_errors, write_transaction
from blindspot.db.errors import BadInput, Refused
from blindspot.db.events import MACHINE

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


@MIGRATIONS()
def m004_gold_matches_and_more_imports(db: Database) -> None:
    # SQLite cannot relax a CHECK, so the migration recreates the table.
    db.conn.execute("ALTER TABLE import_record RENAME TO import_record_before")
    db.conn.execute("""
        CREATE TABLE import_record (
            number INTEGER PRIMARY KEY,
            kind TEXT NOT NULL CHECK (kind IN ('passages', 'questions', 'frequencies', 'qrels', 'results')),
            file TEXT NOT NULL,
            sha256 TEXT NOT NULL,
            size INTEGER NOT NULL,
            rows INTEGER NOT NULL,
            left_out INTEGER NOT NULL,
            options TEXT NOT NULL DEFAULT '',
            imported_at TEXT NOT NULL
        ) STRICT""")
    db.conn.execute("INSERT INTO import_record SELECT * FROM import_record_before")
    db.conn.execute("DROP TABLE import_record_before")
    db.conn.execute("""
        CREATE TABLE gold_match (
            number INTEGER PRIMARY KEY,
            question TEXT NOT NULL REFERENCES question (id) ON DELETE CASCADE,
            passage TEXT,
            how TEXT NOT NULL CHECK (how IN ('id', 'same text', 'overlap', 'none', 'qrels')),
            score REAL,
            reason TEXT
        ) STRICT""")
    db.conn.execute("CREATE INDEX gold_match_by_question ON gold_match (question)")


@MIGRATIONS()
def m005_people(db: Database) -> None:
    db.conn.execute("""
        CREATE TABLE annotator (
            name TEXT PRIMARY KEY CHECK (name <> ''),
            role TEXT NOT NULL CHECK (role IN ('annotator', 'adjudicator', 'lead')),
            paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
            email TEXT UNIQUE,
            invitation TEXT UNIQUE, -- sha256 of the secret in the link; the link itself is not kept
            made REAL NOT NULL
        ) STRICT""")


@MIGRATIONS()
def m006_label_events(db: Database) -> None:
    db.conn.execute("""
        CREATE TABLE label_event (
            number INTEGER PRIMARY KEY AUTOINCREMENT, -- the only order there is; clocks may jump
            gesture TEXT NOT NULL CHECK (gesture <> ''), -- one key press, by the id that the browser gave it
            part INTEGER NOT NULL CHECK (part >= 0), -- which of the passages of the gesture
            kind TEXT NOT NULL CHECK (kind IN ('label', 'adjudicate', 'undo', 'note', 'bad_question')),
            question TEXT NOT NULL REFERENCES question (id),
            passage TEXT CHECK (passage <> ''),
            annotator TEXT NOT NULL REFERENCES annotator (name),
            label TEXT CHECK (label IN ('positive', 'related', 'negative', 'unsure')),
            note TEXT CHECK (note <> ''),
            undoes INTEGER UNIQUE REFERENCES label_event (number),
            batch TEXT CHECK (batch <> ''),
            practice INTEGER NOT NULL DEFAULT 0 CHECK (practice IN (0, 1)),
            blind INTEGER NOT NULL CHECK (blind IN (0, 1)),
            run TEXT CHECK (run <> ''),
            rank INTEGER CHECK (rank >= 1),
            score REAL,
            suggestion REAL,
            inclusion_probability REAL CHECK (inclusion_probability > 0 AND inclusion_probability <= 1),
            milliseconds INTEGER CHECK (milliseconds >= 0),
            guideline_version TEXT NOT NULL CHECK (guideline_version <> ''),
            client_time REAL,
            server_time REAL NOT NULL,
            UNIQUE (gesture, part),
            CHECK ((kind IN ('label', 'adjudicate')) = (label IS NOT NULL)),
            CHECK (kind NOT IN ('label', 'adjudicate') OR passage IS NOT NULL),
            CHECK (kind <> 'bad_question' OR passage IS NULL),
            CHECK (kind <> 'note' OR note IS NOT NULL),
            CHECK ((kind = 'undo') = (undoes IS NOT NULL))
        ) STRICT""")
    db.conn.execute("CREATE INDEX label_event_by_question ON label_event (question, passage, annotator, number)")
    db.conn.execute("CREATE INDEX label_event_by_annotator ON label_event (annotator, question)")
    for action in ("UPDATE", "DELETE"):
        db.conn.execute(f"""
            CREATE TRIGGER label_event_no_{action.lower()} BEFORE {action} ON label_event
            BEGIN SELECT RAISE(ABORT, 'label events are append-only'); END""")
    # INSERT OR REPLACE would delete the old row, and no DELETE trigger would hear of it.
    db.conn.execute("""
        CREATE TRIGGER label_event_no_replace BEFORE INSERT ON label_event
        WHEN EXISTS (SELECT 1 FROM label_event WHERE number = NEW.number OR undoes = NEW.undoes
                     OR (gesture = NEW.gesture AND part = NEW.part))
        BEGIN SELECT RAISE(ABORT, 'label events are append-only: this one is there already'); END""")
    db.conn.execute("""
        CREATE TRIGGER label_event_one_gesture BEFORE INSERT ON label_event
        WHEN EXISTS (SELECT 1 FROM label_event WHERE gesture = NEW.gesture
                     AND (annotator <> NEW.annotator OR kind <> NEW.kind OR question <> NEW.question))
        BEGIN SELECT RAISE(ABORT, 'the events of a gesture are of one kind, annotator and question'); END""")
    db.conn.execute("""
        CREATE TRIGGER label_event_undo BEFORE INSERT ON label_event
        WHEN NEW.kind = 'undo' AND NOT EXISTS (
            SELECT 1 FROM label_event WHERE number = NEW.undoes AND kind <> 'undo' AND annotator = NEW.annotator
            AND question = NEW.question AND passage IS NEW.passage AND practice = NEW.practice)
        BEGIN SELECT RAISE(ABORT, 'an undo takes back an event of the same annotator, which is no undo'); END""")


@MIGRATIONS()
def m007_judgements(db: Database) -> None:
    db.conn.execute("""
        CREATE VIEW live_event AS -- what is not undone
        SELECT * FROM label_event e
        WHERE kind <> 'undo' AND NOT EXISTS (SELECT 1 FROM label_event u WHERE u.undoes = e.number)""")
    for view, kind, per in (
        ("judgement", "label", "question, passage, annotator"),
        ("adjudication", "adjudicate", "question, passage"),
    ):
        db.conn.execute(f"""
            CREATE VIEW {view} AS -- the last {kind} that is not undone, for each {per}
            SELECT number, question, passage, annotator, label, batch, blind, inclusion_probability FROM (
                SELECT *, row_number() OVER (PARTITION BY {per} ORDER BY number DESC) AS nth
                FROM live_event WHERE kind = '{kind}' AND practice = 0)
            WHERE nth = 1""")
    db.conn.execute("""
        CREATE VIEW consensus AS -- adjudicated, else agreed, else open (and then without a label)
        SELECT question, passage, coalesce(adjudicated, CASE WHEN labels = 1 THEN label END) AS label,
            CASE WHEN adjudicated IS NOT NULL THEN 'adjudicated' WHEN labels = 1 THEN 'agreed' ELSE 'open' END AS state, people
        FROM (
            SELECT question, passage, max(adjudicated) AS adjudicated, count(DISTINCT label) AS labels, max(label) AS label,
                count(label) AS people
            FROM (
                SELECT question, passage, label, NULL AS adjudicated FROM judgement
                UNION ALL SELECT question, passage, NULL, label FROM adjudication)
            GROUP BY question, passage)""")
    db.conn.execute("""
        CREATE VIEW corrected_relevance AS -- the consensus, else the gold; unsure and in dispute are open
        SELECT p.question, p.passage, max(p.gold) AS gold, max(p.label) AS label, coalesce(max(p.state), 'gold') AS state,
            max(p.people) AS people,
            CASE WHEN max(p.state) IS NULL THEN 'positive' WHEN max(p.label) IS NULL OR max(p.label) = 'unsure' THEN 'open'
                ELSE max(p.label) END AS relevance,
            q.split, q.split NOT IN ('dev', 'test') AS trains -- held-out questions never train
        FROM (
            SELECT question.id AS question, gold.value AS passage, 1 AS gold, NULL AS label, NULL AS state, 0 AS people
            FROM question, json_each(question.gold) gold
            UNION ALL SELECT question, passage, 0, label, state, people FROM consensus) p
        JOIN question q ON q.id = p.question
        GROUP BY p.question, p.passage""")


@MIGRATIONS()
def m008_batches(db: Database) -> None:
    db.conn.execute("""
        CREATE TABLE batch (
            number INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE CHECK (name <> ''),
            state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
            practice INTEGER NOT NULL DEFAULT 0 CHECK (practice IN (0, 1)),
            settings TEXT NOT NULL CHECK (json_valid(settings)),
            made_by TEXT REFERENCES annotator (name),
            made REAL NOT NULL
        ) STRICT""")
    db.conn.execute("""
        CREATE TABLE batch_question (
            batch INTEGER NOT NULL REFERENCES batch (number),
            question TEXT NOT NULL REFERENCES question (id),
            position INTEGER NOT NULL,
            arm TEXT NOT NULL CHECK (arm IN ('priority', 'audit', 'second', 'repeat')),
            priority REAL NOT NULL DEFAULT 0,
            people_needed INTEGER NOT NULL DEFAULT 1 CHECK (people_needed >= 1),
            assigned_to TEXT REFERENCES annotator (name),
            inclusion_probability REAL CHECK (inclusion_probability > 0 AND inclusion_probability <= 1),
            done INTEGER NOT NULL DEFAULT 0 CHECK (done IN (0, 1)),
            PRIMARY KEY (batch, question),
            UNIQUE (batch, position),
            CHECK ((arm = 'audit') = (inclusion_probability IS NOT NULL))
        ) STRICT, WITHOUT ROWID""")
    db.conn.execute("CREATE INDEX batch_question_waiting ON batch_question (batch, position) WHERE done = 0")
    db.conn.execute("""
        CREATE TABLE candidate (
            batch INTEGER NOT NULL,
            question TEXT NOT NULL,
            passage TEXT NOT NULL CHECK (passage <> ''),
            position INTEGER NOT NULL,
            near_duplicates INTEGER NOT NULL, -- passages of a question with the same number say the same
            run TEXT,
            rank INTEGER CHECK (rank >= 1),
            score REAL,
            answer INTEGER CHECK (answer IN (0, 1)),
            probability REAL CHECK (probability BETWEEN 0 AND 1),
            inclusion_probability REAL CHECK (inclusion_probability > 0 AND inclusion_probability <= 1),
            PRIMARY KEY (batch, question, passage),
            FOREIGN KEY (batch, question) REFERENCES batch_question (batch, question)
        ) STRICT, WITHOUT ROWID""")


@MIGRATIONS()
def m009_leases(db: Database) -> None:
    db.conn.execute("""
        CREATE TABLE lease (
            batch INTEGER NOT NULL,
            question TEXT NOT NULL,
            annotator TEXT NOT NULL REFERENCES annotator (name),
            state TEXT NOT NULL CHECK (state IN ('held', 'finished', 'skipped')),
            expires REAL NOT NULL,
            surplus INTEGER NOT NULL DEFAULT 0 CHECK (surplus IN (0, 1)),
            PRIMARY KEY (batch, question, annotator),
            FOREIGN KEY (batch, question) REFERENCES batch_question (batch, question),
            CHECK (surplus = 0 OR state = 'finished')
        ) STRICT, WITHOUT ROWID""")
    db.conn.execute("CREATE INDEX lease_by_annotator ON lease (annotator, question)")
    db.conn.execute("CREATE INDEX lease_held ON lease (expires) WHERE state = 'held'")


@MIGRATIONS()
def m010_queue_acts(db: Database) -> None:
    db.conn.execute("""
        CREATE TABLE queue_act ( -- finishing, skipping and going back, by the ids that the browser gave them
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            gesture TEXT NOT NULL UNIQUE CHECK (gesture <> ''),
            kind TEXT NOT NULL CHECK (kind IN ('finish', 'skip', 'reopen')),
            batch INTEGER NOT NULL,
            question TEXT NOT NULL,
            annotator TEXT NOT NULL REFERENCES annotator (name),
            surplus INTEGER NOT NULL DEFAULT 0 CHECK (surplus IN (0, 1)),
            milliseconds INTEGER CHECK (milliseconds >= 0),
            client_time REAL,
            server_time REAL NOT NULL,
            FOREIGN KEY (batch, question) REFERENCES batch_question (batch, question),
            CHECK (surplus = 0 OR kind = 'finish')
        ) STRICT""")
    for action in ("UPDATE", "DELETE"):
        db.conn.execute(f"""
            CREATE TRIGGER queue_act_no_{action.lower()} BEFORE {action} ON queue_act
            BEGIN SELECT RAISE(ABORT, 'queue acts are append-only'); END""")
    db.conn.execute("""
        CREATE TRIGGER queue_act_no_replace BEFORE INSERT ON queue_act
        WHEN EXISTS (SELECT 1 FROM queue_act WHERE number = NEW.number OR gesture = NEW.gesture)
        BEGIN SELECT RAISE(ABORT, 'queue acts are append-only: this one is there already'); END""")


@MIGRATIONS()
def m011_sign_ins(db: Database) -> None:
    db.conn.execute("""
        CREATE TABLE sign_in ( -- browsers that are signed in by a personal link
            token TEXT PRIMARY KEY, -- sha256 of the token in the browser's cookie
            annotator TEXT NOT NULL REFERENCES annotator (name),
            invitation TEXT NOT NULL, -- the link that opened the session; a new link ends it
            expires REAL NOT NULL
        ) STRICT, WITHOUT ROWID""")


@MIGRATIONS()
def m012_jobs_of_functions(db: Database) -> None:
    """Add columns: where a job's function is defined, whether it is heavy, and the identity of its process."""
    db.conn.execute("ALTER TABLE job ADD COLUMN function TEXT")
    db.conn.execute("ALTER TABLE job ADD COLUMN heavy INTEGER NOT NULL DEFAULT 1")
    db.conn.execute("ALTER TABLE job ADD COLUMN boot TEXT")
    db.conn.execute("ALTER TABLE job ADD COLUMN process TEXT")


@MIGRATIONS()
def m013_skipped_questions_return(db: Database) -> None:
    """Add how often a person skipped a question: it comes back to them once. Skips recorded before this version were
    final.
    """
    db.conn.execute("ALTER TABLE lease ADD COLUMN skips INTEGER NOT NULL DEFAULT 0 CHECK (skips >= 0)")
    db.conn.execute("""
        UPDATE lease SET skips = 2 WHERE state = 'skipped' OR EXISTS (
            SELECT 1 FROM queue_act a WHERE a.batch = lease.batch AND a.question = lease.question
            AND a.annotator = lease.annotator AND a.kind = 'skip')""")


@MIGRATIONS()
def m014_descriptions(db: Database) -> None:
    db.conn.execute("""
        CREATE TABLE description ( -- what people say about the parts of a study
            kind TEXT NOT NULL CHECK (kind <> ''),
            name TEXT NOT NULL CHECK (name <> ''),
            text TEXT NOT NULL DEFAULT '',
            tags TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tags)),
            changed_by TEXT REFERENCES annotator (name),
            changed REAL NOT NULL,
            PRIMARY KEY (kind, name)
        ) STRICT, WITHOUT ROWID""")


@MIGRATIONS()
def m015_machine_annotators(db: Database) -> None:
    """Add the kind of an annotator: a person or a machine. Only people's labels are judgements; only they count for
    consensus and agreement.

    Before this step, the labels of an imported qrels file counted as a person's. An annotator with no other labels,
    whom nobody invited, becomes a machine; 'blindspot people kind NAME person' turns it back into a person.
    """
    db.conn.execute(
        "ALTER TABLE annotator ADD COLUMN kind TEXT NOT NULL DEFAULT 'person' CHECK (kind IN ('person', 'machine'))"
    )
    db.conn.execute(f"""
        UPDATE annotator SET kind = 'machine'
        WHERE role = 'annotator' AND invitation IS NULL AND email IS NULL
        AND EXISTS (SELECT 1 FROM label_event e WHERE e.annotator = name)
        AND NOT EXISTS (SELECT 1 FROM label_event e WHERE e.annotator = name AND e.guideline_version <> '{MACHINE}')""")
    db.conn.execute("DROP VIEW judgement")
    db.conn.execute("""
        CREATE VIEW judgement AS -- a person's last label that is not undone, for each question, passage, annotator
        SELECT number, question, passage, annotator, label, batch, blind, inclusion_probability FROM (
            SELECT e.*, row_number() OVER (PARTITION BY question, passage, annotator ORDER BY number DESC) AS nth
            FROM live_event e JOIN annotator a ON a.name = e.annotator
            WHERE e.kind = 'label' AND e.practice = 0 AND a.kind = 'person')
        WHERE nth = 1""")


@MIGRATIONS()
def m016_question_tags(db: Database) -> None:
    db.conn.execute("""
        CREATE TABLE tag_event ( -- people's own words on questions; the tags that stand follow from the events in order
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            kind TEXT NOT NULL CHECK (kind IN ('add', 'remove', 'rename', 'delete')),
            tag TEXT NOT NULL CHECK (tag <> ''),
            question TEXT REFERENCES question (id),
            run TEXT CHECK (run <> ''), -- the run that the tag is about; NULL: the question itself
            author TEXT REFERENCES annotator (name), -- whose tag; NULL: the command line
            new_tag TEXT CHECK (new_tag <> ''),
            annotator TEXT REFERENCES annotator (name), -- who did it; NULL: the command line
            server_time REAL NOT NULL,
            CHECK ((kind IN ('add', 'remove')) = (question IS NOT NULL)),
            CHECK ((kind = 'rename') = (new_tag IS NOT NULL)),
            CHECK (run IS NULL OR question IS NOT NULL)
        ) STRICT""")
    db.conn.execute("CREATE INDEX tag_event_by_question ON tag_event (question)")
    for action in ("UPDATE", "DELETE"):
        db.conn.execute(f"""
            CREATE TRIGGER tag_event_no_{action.lower()} BEFORE {action} ON tag_event
            BEGIN SELECT RAISE(ABORT, 'tag events are append-only'); END""")
    # INSERT OR REPLACE would delete the old row, and no DELETE trigger would hear of it.
    db.conn.execute("""
        CREATE TRIGGER tag_event_no_replace BEFORE INSERT ON tag_event
        WHEN EXISTS (SELECT 1 FROM tag_event WHERE number = NEW.number)
        BEGIN SELECT RAISE(ABORT, 'tag events are append-only: this one is there already'); END""")


@MIGRATIONS()
def m017_question_fields(db: Database) -> None:
    db.conn.execute("""
        CREATE TABLE question_field ( -- own facts of questions, such as the source or the session of a log
            name TEXT NOT NULL CHECK (name <> ''),
            question TEXT NOT NULL REFERENCES question (id),
            value TEXT NOT NULL CHECK (value <> ''),
            PRIMARY KEY (name, question)
        ) STRICT, WITHOUT ROWID""")
    db.conn.execute("CREATE INDEX question_field_by_question ON question_field (question)")


def migrate(path: str | Path, is_new: bool = False) -> None:
    """Bring a labels.db of any version to the newest schema.

    An existing file is first backed up to `backups/` beside it. Processes that start at the same time wait for each
    other. An up-to-date file that is not writable (a read-only study) is left unchanged.

    Args:
        is_new: Create the file even if the study around it has been in use.

    Raises:
        BadInput: The file is not an SQLite database.
        Refused: A newer version of the program wrote the file, or it is missing or empty in a study that has been in
            use.
        DatabaseUnavailable: The file cannot be read or written now.
    """
    path = Path(path)
    if not is_new:
        refuse_lost_labels(path)
    try:
        if path.exists() and not _is_writable(path):
            _refuse_pending(path)
            return
        with closing(connect(path)) as connection, readable_sqlite_errors(path):
            _migrate(connection, path)
    except sqlite3.DatabaseError as error:
        if not error_name(error).startswith("SQLITE_NOTADB"):
            raise
        raise BadInput(
            "this is not an SQLite database; restore a backup with 'blindspot labels restore FILE' (see backups/)", path
        ) from error


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    db = Database(connection, execute_plugins=False)
    _refuse_newer(db, path)
    if not MIGRATIONS.applied(db):
        # A new file gets all migrations at once. Otherwise a second process would back up a half-made schema.
        with write_transaction(connection):
            MIGRATIONS.apply(db)
    applied = MIGRATIONS.applied(db)
    if MIGRATIONS.pending(db):
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        backup(connection, path.parent / "backups" / f"{path.stem}-after-{applied[-1].name}-{now}.db")
    while MIGRATIONS.pending(db):
        _apply_next(db)


def _is_writable(path: Path) -> bool:
    """Return whether SQLite could write to a database: to the file, its side files and their folder."""
    side_files = [Path(f"{path}{end}") for end in ("-wal", "-shm")]
    return all(
        os.access(file, os.W_OK) for file in (path, path.parent, *(file for file in side_files if file.exists()))
    )


def _refuse_pending(path: Path) -> None:
    """Refuse a read-only file whose schema must be migrated before it can be read."""
    with closing(connect(path, read_only=True)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = '_sqlite_migrations'").fetchone():
            raise Refused(f"{path}: has no tables of a study yet, and is not writable; give the right to write")
        db = Database(connection, execute_plugins=False)
        _refuse_newer(db, path)
        if MIGRATIONS.pending(db):
            raise Refused(
                f"{path}: an older version wrote this study, and it may not be written to, so it cannot be brought up "
                "to date; give the right to write once, or open a copy"
            )


def _refuse_newer(db: Database, path: Path) -> None:
    known = {migration.name for migration in MIGRATIONS._migrations}
    unknown = [migration.name for migration in MIGRATIONS.applied(db) if migration.name not in known]
    if unknown:
        raise Refused(
            f"{path}: was written by a newer Blindspot (its schema has {unknown[-1]}, unknown here); "
            "install that version or newer"
        )


def _apply_next(db: Database) -> None:
    """Apply one migration. The pending migrations are looked up inside the transaction, because another process may
    have applied them.
    """
    with write_transaction(db.conn):
        pending = MIGRATIONS.pending(db)
        if pending:
            MIGRATIONS.apply(db, stop_before=[later.name for later in pending[1:]])
