"""The records of the label store: an event, and what the views make of the events (see `db.migrations`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from db.connection import connect
from db.gestures import Kind, Label

VIEWS = ("live_event", "judgement", "adjudication", "consensus", "corrected_relevance")


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the store. `number` is its place in the order; `undoes` the number of the event it takes back."""

    number: int
    gesture: str
    part: int
    kind: Kind
    question: str
    passage: str | None
    annotator: str
    label: Label | None
    note: str | None
    undoes: int | None
    batch: str | None
    practice: int
    blind: int
    run: str | None
    rank: int | None
    score: float | None
    suggestion: float | None
    inclusion_probability: float | None
    milliseconds: int | None
    guideline_version: str
    client_time: float | None
    server_time: float


COLUMNS = tuple(field.name for field in fields(Event))
SELECT = f"SELECT {', '.join(COLUMNS)} FROM label_event"
INSERT = f"INSERT INTO label_event ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The label that an annotator last gave a pair, and has not taken back."""

    number: int
    question: str
    passage: str
    annotator: str
    label: Label
    batch: str | None
    blind: bool
    inclusion_probability: float | None


@dataclass(frozen=True, slots=True)
class Consensus:
    """What is held of a pair: adjudicated, else agreed by all who judged it (maybe one), else open and without a label."""

    question: str
    passage: str
    label: Label | None
    state: Literal["adjudicated", "agreed", "open"]
    people: int


@dataclass(frozen=True, slots=True)
class Relevance:
    """A pair as corrected by labels: `relevance` is the consensus, else the gold; "open" in dispute or unsure.

    state: "gold" where nobody judged it. trains: whether training may take it; never true of dev and test questions.
    """

    question: str
    passage: str
    relevance: Literal["positive", "related", "negative", "open"]
    gold: bool
    state: Literal["adjudicated", "agreed", "open", "gold"]
    people: int
    split: str
    trains: bool


def events_where(connection: sqlite3.Connection, where: str, values: tuple) -> list[Event]:
    return [Event(*row) for row in connection.execute(f"{SELECT} {where}", values)]


@contextmanager
def as_of(path: str | Path, number: int) -> Iterator[sqlite3.Connection]:
    """A connection on which the views show the store as it was when event `number` was the last.

    A temporary view takes the place of the table of events; the other views are made again over it from their own definitions.
    """
    connection = connect(path, read_only=True)
    try:
        connection.execute(
            f"CREATE TEMP VIEW label_event AS SELECT * FROM main.label_event WHERE number <= {int(number)}"
        )
        for view in VIEWS:
            sql = connection.execute(
                "SELECT sql FROM main.sqlite_master WHERE type = 'view' AND name = ?", (view,)
            ).fetchone()[0]
            connection.execute(sql.replace("CREATE VIEW", "CREATE TEMP VIEW", 1))
        yield connection
    finally:
        connection.close()
