"""The questions whose results a person must not see yet because the person still has to judge them.

A label is blind if its annotator saw no ranks, scores or labels of other people before giving it. Every page that shows
such results therefore asks this module, and leaves out the questions that are hidden from the person.
"""

from __future__ import annotations

import sqlite3

from blindspot.db.leases import SKIPS_FOR_GOOD
from blindspot.db.people import Person, person

# A question is hidden from a person while they hold it in an open batch. From an annotator it is hidden earlier: as
# long as the queue may still hand it to them. People who settle disputes must see the rest, so for them only the
# questions they hold count.
_HIDDEN = f"""
    SELECT i.question FROM batch_question i JOIN batch b ON b.number = i.batch
    LEFT JOIN lease l ON l.batch = i.batch AND l.question = i.question AND l.annotator = :me
    WHERE b.state = 'open' AND (:question IS NULL OR i.question = :question) AND (
        (l.state = 'held' AND l.expires > :now)
        OR (:pending AND i.done = 0 AND (i.assigned_to IS NULL OR i.assigned_to = :me) AND (
            coalesce(l.state, 'held') = 'held' OR (l.state = 'skipped' AND l.skips < {SKIPS_FOR_GOOD}))))"""


def hidden_questions(connection: sqlite3.Connection, name: str, now: float) -> frozenset[str]:
    """Return the ids of all questions that are hidden from a person. Raises Missing."""
    return _hidden_ids(connection, person(connection, name), None, now)


def is_hidden(connection: sqlite3.Connection, person: Person, question: str, now: float) -> bool:
    """Return whether one question is hidden from a person."""
    return bool(_hidden_ids(connection, person, question, now))


def judged_before(connection: sqlite3.Connection, person: Person, batch: int, question: str) -> bool:
    """Return whether a person has finished or skipped a question of a batch, and so may have seen its results.

    A question that an annotator skipped once stays hidden from them, because they will get it again.
    """
    stays_hidden = 0 if person.is_allowed("see others' labels") else SKIPS_FOR_GOOD - 1
    row = connection.execute(
        "SELECT 1 FROM lease WHERE batch = ?1 AND question = ?2 AND annotator = ?3 "
        "AND (state = 'finished' OR skips > ?4) UNION ALL "
        "SELECT 1 FROM queue_act WHERE batch = ?1 AND question = ?2 AND annotator = ?3 AND kind = 'finish' LIMIT 1",
        (batch, question, person.name, stays_hidden),
    ).fetchone()
    return row is not None


def _hidden_ids(connection: sqlite3.Connection, person: Person, question: str | None, now: float) -> frozenset[str]:
    pending = not person.is_allowed("see others' labels")
    values = {"me": person.name, "now": now, "question": question, "pending": pending}
    return frozenset(row[0] for row in connection.execute(_HIDDEN, values))
