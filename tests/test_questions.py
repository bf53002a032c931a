"""The questions of labels.db, its schema and transactions."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from blindspot.db.connection import connect, write_transaction
from blindspot.db.errors import Missing, Refused
from blindspot.db.imports import ImportRecord, Imports
from blindspot.db.questions import Questions
from blindspot.db.records import Question
from blindspot.db.schema import prepare

FULL = Question(
    "P19.dev.0", "Where was Ada born?", ("London", "Lōndon"), "P19", "Ada", "Where was [X] born?", 3, 7, "eq", "dev",
    ("p1", "p2"), "regex",
)  # fmt: skip
BARE = Question("q 2", "What is it?")


@pytest.fixture
def path(tmp_path):
    prepare(tmp_path / "labels.db")
    return tmp_path / "labels.db"


@pytest.fixture
def questions(path):
    return Questions(path)


def test_a_question_comes_back_whole(questions):
    questions.add([FULL, BARE])
    assert questions.get("P19.dev.0") == FULL
    assert questions.with_ids(["q 2", "P19.dev.0"]) == [BARE, FULL]
    with pytest.raises(Missing, match="nobody"):
        questions.with_ids(["q 2", "nobody"])


def test_order_of_import_is_kept_and_filters_narrow(questions):
    ids = [f"q{i * 7919 % 1000}" for i in range(1000)]
    questions.add([Question(id, "?", split="dev" if i % 2 else "train") for i, id in enumerate(ids)])
    questions.add([FULL])
    assert [q.id for q in questions.all()] == [*ids, FULL.id]
    assert [q.id for q in questions.all(split="dev")] == [*ids[1::2], FULL.id]
    assert questions.all(split="dev", dataset="eq") == [FULL]
    assert [q.id for q in questions.with_ids(reversed(ids))] == ids[::-1]
    assert questions.known_ids([*ids, "x"]) == set(ids)


def test_counts_by_data_set_and_split(questions):
    questions.add([FULL, BARE, Question("c", "?", answers=("x",))])
    assert questions.counts() == [
        {"dataset": "eq", "split": "dev", "questions": 1, "with_gold": 1, "with_answers": 1},
        {"dataset": "", "split": "unlabelled", "questions": 2, "with_gold": 0, "with_answers": 1},
    ]


def test_an_id_that_is_there_already_adds_nothing(questions):
    questions.add([BARE])
    with pytest.raises(Refused, match="'q 2'"):
        questions.add([FULL, BARE])
    with pytest.raises(Refused, match="twice"):
        questions.add([FULL, FULL])
    assert questions.all() == [BARE]


def test_rows_and_record_come_together_or_not_at_all(path, questions):
    record = ImportRecord("nonsense", "f", "s", 1, 1)
    with pytest.raises(sqlite3.IntegrityError):
        questions.add([FULL], record)
    assert len(questions) == 0 and Imports(path).all_records() == []
    questions.add([FULL], ImportRecord("questions", "f.jsonl", "aa", 10, 1, 2, "{}"))
    (kept,) = Imports(path).all_records("questions")
    assert (kept.file, kept.sha256, kept.size, kept.rows, kept.left_out) == ("f.jsonl", "aa", 10, 1, 2)
    assert Imports(path).find("questions", "aa", "{}") == kept
    assert Imports(path).find("questions", "aa") is None


def test_frequencies_by_subject(questions):
    questions.add([Question("a", "?", subject="S"), Question("b", "?", subject="S"), Question("c", "?", subject="T")])
    assert questions.frequency_source is None
    assert questions.set_frequencies({"S": 5, "elsewhere": 1}) == 2
    assert [q.frequency for q in questions.all()] == [5, 5, None]
    assert questions.subjects() == ["S", "T"] and questions.subjects(without_frequency=True) == ["T"]
    questions.set_frequencies({"S": 9, "T": 0}, ImportRecord("frequencies", "f.tsv", "", 0, 2), only_missing=True)
    assert [q.frequency for q in questions.all()] == [5, 5, 0]
    assert questions.frequency_source == "f.tsv"


def test_writers_wait_for_each_other(path):
    def work(name):
        store = Questions(path)
        for i in range(25):
            store.add([Question(f"{name}.{i}", "?")])

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Questions(path)) == 200


def test_a_transaction_is_rolled_back_on_ctrl_c(path):
    connection = connect(path)
    with pytest.raises(KeyboardInterrupt), write_transaction(connection):
        connection.execute("INSERT INTO question (id, position, text, split) VALUES ('a', 0, '?', 'dev')")
        raise KeyboardInterrupt
    assert not connection.in_transaction and len(Questions(path)) == 0


def test_connections_are_set_up_as_the_design_says(path):
    connection = connect(path)
    values = [
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "busy_timeout", "foreign_keys", "synchronous")
    ]
    assert values == ["wal", 10000, 1, 2]
    with pytest.raises(sqlite3.OperationalError, match="may not be written to"):
        connect(path, read_only=True).execute("DELETE FROM question")
    with pytest.raises(Missing):
        connect(path.parent / "absent.db", read_only=True)


@pytest.mark.parametrize("values", ["'a', 0, '?', 'later'", "'a', 'first', '?', 'dev'"])
def test_the_schema_itself_refuses_nonsense(path, values):
    with pytest.raises(sqlite3.IntegrityError):
        connect(path).execute(f"INSERT INTO question (id, position, text, split) VALUES ({values})")


def test_processes_that_start_at_the_same_time_make_one_schema(tmp_path):
    path, failed = tmp_path / "labels.db", []

    def start():
        try:
            prepare(path)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    Questions(path).add([FULL])
    prepare(path)
    assert Questions(path).all() == [FULL]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER spy AFTER INSERT ON label_event BEGIN DELETE FROM question; END",
        "CREATE TABLE notes (text TEXT)",
        "CREATE VIEW people AS SELECT * FROM annotator",
        "DROP TRIGGER label_event_no_update",
    ],
)
def test_a_file_with_another_schema_is_refused(path, statement):
    Questions(path).add([FULL])
    connect(path).execute(statement)
    with pytest.raises(Refused, match="labels.db"):
        prepare(path)


@pytest.mark.parametrize(("last", "word"), [("m017_question_fields", "labels export"), ("m999_later", "newer")])
def test_a_file_of_another_version_is_refused_and_not_touched(tmp_path, last, word):
    path = tmp_path / "labels.db"
    names = [f"m{number:03}_step" for number in range(1, 17)] if last.startswith("m0") else ["m101_schema"]
    connection = connect(path)
    connection.execute("CREATE TABLE _sqlite_migrations (id INTEGER PRIMARY KEY, name TEXT)")
    connection.executemany("INSERT INTO _sqlite_migrations (name) VALUES (?)", [(name,) for name in [*names, last]])
    connection.close()
    before = path.read_bytes()
    with pytest.raises(Refused, match=word):
        prepare(path)
    assert path.read_bytes() == before
