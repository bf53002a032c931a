"""The schema of labels.db. A file holds these tables, indexes, views and triggers and no others, or it is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

from blindspot.db.connection import connect, error_name, readable_sqlite_errors, write_transaction
from blindspot.db.errors import BadInput, Refused

SCHEMA = """
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
) STRICT;

CREATE INDEX question_by_split ON question (split, dataset, relation, position);

CREATE INDEX question_by_subject ON question (subject);

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
) STRICT;

CREATE TABLE gold_match (
    number INTEGER PRIMARY KEY,
    question TEXT NOT NULL REFERENCES question (id) ON DELETE CASCADE,
    passage TEXT,
    how TEXT NOT NULL CHECK (how IN ('id', 'same text', 'overlap', 'none', 'qrels')),
    score REAL,
    reason TEXT
) STRICT;

CREATE INDEX gold_match_by_question ON gold_match (question);

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
    result TEXT CHECK (result IS NULL OR json_valid(result)),
    function TEXT, -- where the job's function is defined
    heavy INTEGER NOT NULL DEFAULT 1,
    boot TEXT, -- with `process`, the identity of its process
    process TEXT
) STRICT;

CREATE TABLE annotator (
    name TEXT PRIMARY KEY CHECK (name <> ''),
    role TEXT NOT NULL CHECK (role IN ('annotator', 'adjudicator', 'lead')),
    paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    email TEXT UNIQUE,
    invitation TEXT UNIQUE, -- sha256 of the secret in the link; the link itself is not kept
    kind TEXT NOT NULL DEFAULT 'person' CHECK (kind IN ('person', 'machine')), -- only people's labels are judgements
    made REAL NOT NULL
) STRICT;

CREATE TABLE sign_in ( -- browsers that are signed in by a personal link
    token TEXT PRIMARY KEY, -- sha256 of the token in the browser's cookie
    annotator TEXT NOT NULL REFERENCES annotator (name),
    invitation TEXT NOT NULL, -- the link that opened the session; a new link ends it
    expires REAL NOT NULL
) STRICT, WITHOUT ROWID;

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
) STRICT;

CREATE INDEX label_event_by_question ON label_event (question, passage, annotator, number);

CREATE INDEX label_event_by_annotator ON label_event (annotator, question);

CREATE TRIGGER label_event_no_update BEFORE UPDATE ON label_event
    BEGIN SELECT RAISE(ABORT, 'label events are append-only'); END;

CREATE TRIGGER label_event_no_delete BEFORE DELETE ON label_event
    BEGIN SELECT RAISE(ABORT, 'label events are append-only'); END;

CREATE TRIGGER label_event_no_replace BEFORE INSERT ON label_event
WHEN EXISTS (SELECT 1 FROM label_event WHERE number = NEW.number OR undoes = NEW.undoes
             OR (gesture = NEW.gesture AND part = NEW.part))
BEGIN SELECT RAISE(ABORT, 'label events are append-only: this one is there already'); END;

CREATE TRIGGER label_event_one_gesture BEFORE INSERT ON label_event
WHEN EXISTS (SELECT 1 FROM label_event WHERE gesture = NEW.gesture
             AND (annotator <> NEW.annotator OR kind <> NEW.kind OR question <> NEW.question))
BEGIN SELECT RAISE(ABORT, 'the events of a gesture are of one kind, annotator and question'); END;

CREATE TRIGGER label_event_undo BEFORE INSERT ON label_event
WHEN NEW.kind = 'undo' AND NOT EXISTS (
    SELECT 1 FROM label_event WHERE number = NEW.undoes AND kind <> 'undo' AND annotator = NEW.annotator
    AND question = NEW.question AND passage IS NEW.passage AND practice = NEW.practice)
BEGIN SELECT RAISE(ABORT, 'an undo takes back an event of the same annotator, which is no undo'); END;

CREATE VIEW live_event AS -- what is not undone
SELECT * FROM label_event e
WHERE kind <> 'undo' AND NOT EXISTS (SELECT 1 FROM label_event u WHERE u.undoes = e.number);

CREATE VIEW judgement AS -- a person's last label that is not undone, for each question, passage, annotator
SELECT number, question, passage, annotator, label, batch, blind, inclusion_probability FROM (
    SELECT e.*, row_number() OVER (PARTITION BY question, passage, annotator ORDER BY number DESC) AS nth
    FROM live_event e JOIN annotator a ON a.name = e.annotator
    WHERE e.kind = 'label' AND e.practice = 0 AND a.kind = 'person')
WHERE nth = 1;

CREATE VIEW adjudication AS -- the last adjudicate that is not undone, for each question, passage
    SELECT number, question, passage, annotator, label, batch, blind, inclusion_probability FROM (
        SELECT *, row_number() OVER (PARTITION BY question, passage ORDER BY number DESC) AS nth
        FROM live_event WHERE kind = 'adjudicate' AND practice = 0)
    WHERE nth = 1;

CREATE VIEW consensus AS -- adjudicated, else agreed, else open (and then without a label)
SELECT question, passage, coalesce(adjudicated, CASE WHEN labels = 1 THEN label END) AS label,
    CASE WHEN adjudicated IS NOT NULL THEN 'adjudicated' WHEN labels = 1 THEN 'agreed' ELSE 'open' END AS state, people
FROM (
    SELECT question, passage, max(adjudicated) AS adjudicated, count(DISTINCT label) AS labels, max(label) AS label,
        count(label) AS people
    FROM (
        SELECT question, passage, label, NULL AS adjudicated FROM judgement
        UNION ALL SELECT question, passage, NULL, label FROM adjudication)
    GROUP BY question, passage);

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
GROUP BY p.question, p.passage;

CREATE TABLE batch (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE CHECK (name <> ''),
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
    practice INTEGER NOT NULL DEFAULT 0 CHECK (practice IN (0, 1)),
    settings TEXT NOT NULL CHECK (json_valid(settings)),
    made_by TEXT REFERENCES annotator (name),
    made REAL NOT NULL
) STRICT;

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
) STRICT, WITHOUT ROWID;

CREATE INDEX batch_question_waiting ON batch_question (batch, position) WHERE done = 0;

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
) STRICT, WITHOUT ROWID;

CREATE TABLE lease (
    batch INTEGER NOT NULL,
    question TEXT NOT NULL,
    annotator TEXT NOT NULL REFERENCES annotator (name),
    state TEXT NOT NULL CHECK (state IN ('held', 'finished', 'skipped')),
    expires REAL NOT NULL,
    surplus INTEGER NOT NULL DEFAULT 0 CHECK (surplus IN (0, 1)),
    skips INTEGER NOT NULL DEFAULT 0 CHECK (skips >= 0), -- a skipped question comes back to a person once
    PRIMARY KEY (batch, question, annotator),
    FOREIGN KEY (batch, question) REFERENCES batch_question (batch, question),
    CHECK (surplus = 0 OR state = 'finished')
) STRICT, WITHOUT ROWID;

CREATE INDEX lease_by_annotator ON lease (annotator, question);

CREATE INDEX lease_held ON lease (expires) WHERE state = 'held';

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
) STRICT;

CREATE TRIGGER queue_act_no_update BEFORE UPDATE ON queue_act
    BEGIN SELECT RAISE(ABORT, 'queue acts are append-only'); END;

CREATE TRIGGER queue_act_no_delete BEFORE DELETE ON queue_act
    BEGIN SELECT RAISE(ABORT, 'queue acts are append-only'); END;

CREATE TRIGGER queue_act_no_replace BEFORE INSERT ON queue_act
WHEN EXISTS (SELECT 1 FROM queue_act WHERE number = NEW.number OR gesture = NEW.gesture)
BEGIN SELECT RAISE(ABORT, 'queue acts are append-only: this one is there already'); END;

CREATE TABLE tag_event ( -- people's own words on questions; the tags that stand follow from the events in order
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('add', 'remove')),
    tag TEXT NOT NULL CHECK (tag <> ''),
    question TEXT NOT NULL REFERENCES question (id),
    annotator TEXT NOT NULL REFERENCES annotator (name),
    server_time REAL NOT NULL
) STRICT;

CREATE TRIGGER tag_event_no_update BEFORE UPDATE ON tag_event
    BEGIN SELECT RAISE(ABORT, 'tag events are append-only'); END;

CREATE TRIGGER tag_event_no_delete BEFORE DELETE ON tag_event
    BEGIN SELECT RAISE(ABORT, 'tag events are append-only'); END;

CREATE TRIGGER tag_event_no_replace BEFORE INSERT ON tag_event
WHEN EXISTS (SELECT 1 FROM tag_event WHERE number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'tag events are append-only: this one is there already'); END;
"""
"""The statements, with an empty line after each."""
NAME = "m101_schema"
_RECORD = "_sqlite_migrations"
"""The table in which sqlite-utils records what was applied to a file."""
Objects = dict[tuple[str, str], str]
"""SQL of each table, index, view and trigger, by type and name."""


def prepare(path: str | Path) -> None:
    """Make the tables of a labels.db that is absent or empty. Processes that do so at the same time wait for each other.

    Raises:
        BadInput: The file is not an SQLite database.
        Refused: Another version of the program wrote the file, or it holds something that is not Blindspot's.
        DatabaseUnavailable: The file cannot be read or written now.
    """
    path = Path(path)
    try:
        if not _has_tables(path):
            _create(path)
        with closing(connect(path, read_only=True)) as connection, readable_sqlite_errors(path):
            if problems := schema_problems(connection):
                raise Refused(f"{path}: {problems[0]}")
    except sqlite3.DatabaseError as error:
        if not error_name(error).startswith("SQLITE_NOTADB"):
            raise
        raise BadInput(
            "this is not an SQLite database; restore a backup with 'blindspot labels restore FILE' (see backups/)", path
        ) from error


def _has_tables(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with closing(connect(path, read_only=True)) as connection, readable_sqlite_errors(path):
        return connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None


def _create(path: Path) -> None:
    """Make the tables in one transaction, which waits for another process that makes them, and then makes none."""
    from sqlite_utils import Database  # imported late: it loads pandas if that is installed
    from sqlite_utils.migrations import Migrations

    migrations = Migrations("blindspot")

    @migrations(name=NAME)
    def schema(db: Database) -> None:
        for statement in _statements():
            db.conn.execute(statement)

    with closing(connect(path)) as connection, readable_sqlite_errors(path), write_transaction(connection):
        migrations.apply(Database(connection, execute_plugins=False))


def schema_problems(connection: sqlite3.Connection) -> list[str]:
    """Return why no SQL of a file may run, one line each: another version's schema, and objects that are not ours, are
    changed or are missing. No SQL of the file is run: only its list of objects is read.
    """
    found = _objects(connection)
    if found.pop(("table", _RECORD), None) is None:
        return ["it has no record of its version: Blindspot did not make it"]
    try:
        names = [str(row[0]) for row in connection.execute(f"SELECT name FROM {_RECORD} ORDER BY id")]
    except sqlite3.OperationalError:
        return [f"the table {_RECORD} is not as Blindspot makes it"]
    if names and all(name < NAME for name in names):
        return [
            "Blindspot 0.3 or older made this study, and this version does not open it. To take its labels along: "
            "'blindspot labels export' with that version, and 'blindspot labels import' here, in a new study"
        ]
    if names != [NAME]:
        return [f"a newer Blindspot wrote it (its schema has {names[-1:]}); install that version or newer"]
    expected = _expected()
    problems = [
        f"the {kind} {name[:80]!r} is not ours: Blindspot does not make it"
        if (kind, name) not in expected
        else f"the {kind} {name} is not as Blindspot makes it"
        for (kind, name), sql in found.items()
        if expected.get((kind, name)) != sql
    ]
    return sorted(problems + [f"the {kind} {name} is missing" for kind, name in expected.keys() - found.keys()])


def _statements() -> list[str]:
    return SCHEMA.strip().split("\n\n")


@cache
def _expected() -> Objects:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in _statements():
            connection.execute(statement)
        return _objects(connection)


def _objects(connection: sqlite3.Connection) -> Objects:
    """Return the objects of a file without those that SQLite and sqlite-utils make for themselves."""
    rows = connection.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!' "
        f"AND NOT (type = 'index' AND tbl_name = '{_RECORD}')"
    )
    return {(kind, name): sql for kind, name, sql in rows}
