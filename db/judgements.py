"""What follows from the label events: judgements, consensus and corrected relevance, read from SQL views (see
`blindspot.db.schema`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from blindspot.db.connection import connect
from blindspot.db.events import Label

VIEWS = ("live_event", "judgement", "adjudication", "consensus", "corrected_relevance")


@dataclass(frozen=True, slots=True)
class Judgement:
    """The last label that an annotator gave a pair and has not undone."""

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
    """The label of a pair, from all its annotators.

    It is the adjudicated label if there is one, else the label that all annotators (perhaps only one) agree on.
    Otherwise the pair is "open" and `label` is None.
    """

    question: str
    passage: str
    label: Label | None
    state: Literal["adjudicated", "agreed", "open"]
    people: int


def labels_by_pair(pairs: Iterable[Consensus]) -> dict[tuple[str, str], str]:
    """Return the label of each pair, by (question id, passage id); "open" if the annotators disagree."""
    return {(pair.question, pair.passage): pair.label or "open" for pair in pairs}


@dataclass(frozen=True, slots=True)
class CorrectedRelevance:
    """The relevance of a pair after correction by labels.

    Attributes:
        relevance: The consensus, or gold where nobody judged the pair. "open" if the annotators disagree or are unsure.
        state: "gold" where nobody judged the pair.
        trains: Whether training may use the pair. Always false for dev and test questions.
    """

    question: str
    passage: str
    relevance: Literal["positive", "related", "negative", "open"]
    gold: bool
    state: Literal["adjudicated", "agreed", "open", "gold"]
    people: int
    split: str
    trains: bool


@contextmanager
def views_as_of(path: str | Path, number: int) -> Iterator[sqlite3.Connection]:
    """Open a connection whose views show the store as it was when event `number` was the last one.

    A temporary view hides the later rows of the event table. The other views are created again on top of that view.
    """
    connection = connect(path, read_only=True)
    try:
        connection.execute(
            f"CREATE TEMP VIEW label_event AS SELECT * FROM main.label_event WHERE number <= {int(number)}"
        )
        for view in VIEWS:
            sql: str = connection.execute(
                "SELECT sql FROM main.sqlite_master WHERE type = 'view' AND name = ?", (view,)
            ).fetchone()[0]
            connection.execute(sql.replace("CREATE VIEW", "CREATE TEMP VIEW", 1))
        yield connection
    finally:
        connection.close()
