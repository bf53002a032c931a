"""What an open batch waits for: its unfinished questions, the people who can still judge them, and how a lead reassigns
them.

A question waits only for active people (`blindspot.db.people.Person.active`). It is blocked if it needs more people
than the active ones who can judge it. The others are paused or simulated, or have already judged or skipped it.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

from blindspot.db.errors import Refused
from blindspot.db.leases import SKIPS_FOR_GOOD, batch_number, judged_elsewhere_condition, update_finished_state
from blindspot.db.people import ACTIVE_PERSON

_PLACES = (
    "(SELECT count(*) FROM lease l WHERE l.batch = i.batch AND l.question = i.question AND l.state = 'finished' "
    "AND l.surplus = 0)"
)
# The active people who can still judge question `i`. One who holds it can, whatever they judged before.
_WHO = f"""(
    SELECT json_group_array(a.name) FROM annotator a WHERE {ACTIVE_PERSON}
    AND (i.assigned_to IS NULL OR i.assigned_to = a.name)
    AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.batch = i.batch AND l.question = i.question AND l.annotator = a.name
        AND (l.state = 'finished' OR (l.state = 'skipped' AND l.skips >= {SKIPS_FOR_GOOD})))
    AND (:again OR i.arm IN ('audit', 'repeat') OR NOT {judged_elsewhere_condition("a.name")} OR EXISTS (
        SELECT 1 FROM lease l WHERE l.batch = i.batch AND l.question = i.question AND l.annotator = a.name)))"""
_UNFINISHED = (
    f"SELECT i.question, i.arm, i.assigned_to, i.people_needed, {_PLACES}, {_WHO} FROM batch_question i "
    "WHERE i.batch = :batch AND i.done = 0 ORDER BY i.position"
)


@dataclass(frozen=True, slots=True)
class UnfinishedQuestion:
    """A question that is not done.

    Attributes:
        missing: Number of people who have yet to judge it.
        reserved: The person it is reserved for; None for anybody.
        people: The active people who can judge it.
    """

    question: str
    missing: int
    reserved: str | None
    people: tuple[str, ...]

    @property
    def is_blocked(self) -> bool:
        """Whether the active people cannot finish the question."""
        return len(self.people) < self.missing


@dataclass(frozen=True, slots=True)
class Reassignment:
    """What reassigning the blocked questions changed.

    Attributes:
        moved_count: Number of questions that others get now.
        done_count: Number of questions that count as done: as many people judged them as there are.
        skipped_count: Number of questions that every active person has skipped for good.
    """

    moved_count: int
    done_count: int
    skipped_count: int


def unfinished(connection: sqlite3.Connection, batch: str) -> list[UnfinishedQuestion]:
    """Return the questions of a batch that are not done, in the batch's order; none for a practice batch. Raises
    Missing.
    """
    return [
        UnfinishedQuestion(question, needed - places, reserved, names)
        for question, _, reserved, needed, places, names in _unfinished_rows(
            connection, batch_number(connection, batch)
        )
    ]


def reassign(connection: sqlite3.Connection, batch: str) -> Reassignment:
    """Reassign the blocked questions of a batch to the active people, inside the caller's transaction.

    A reservation for a person who is not active ends. If a question needs more people than can judge it, the number it
    needs is lowered to that number. If nobody else can judge it, somebody who judged it before gets it as a repeat.

    Raises:
        Missing: There is no such batch.
        Refused: Nobody is active.
    """
    number = batch_number(connection, batch)
    if connection.execute(f"SELECT 1 FROM annotator a WHERE {ACTIVE_PERSON} LIMIT 1").fetchone() is None:
        raise Refused("nobody is active in this study; resume or invite somebody first")
    before = {question for question, *_ in _blocked_questions(connection, number)}
    one = "WHERE batch = ? AND question = ?"
    for question, _, reserved, *_ in _blocked_questions(connection, number):
        if reserved is not None:
            connection.execute(f"UPDATE batch_question SET assigned_to = NULL {one}", (number, question))
    for question, arm, _, _, places, names in _blocked_questions(connection, number):
        if not places and not names and arm in ("priority", "second"):
            connection.execute(f"UPDATE batch_question SET arm = 'repeat' {one}", (number, question))
    for question, _, _, _, places, names in _blocked_questions(connection, number):
        if places + len(names):
            needed = places + len(names)
            connection.execute(f"UPDATE batch_question SET people_needed = ? {one}", (needed, number, question))
    update_finished_state(connection, number, None)
    open_now = {question for question, *_ in _unfinished_rows(connection, number)}
    left = {question for question, *_ in _blocked_questions(connection, number)}
    return Reassignment(len(before & open_now - left), len(before - open_now), len(left))


_Row = tuple[str, str, str | None, int, int, tuple[str, ...]]


def _blocked_questions(connection: sqlite3.Connection, number: int) -> list[_Row]:
    return [row for row in _unfinished_rows(connection, number) if len(row[5]) < row[3] - row[4]]


def _unfinished_rows(connection: sqlite3.Connection, number: int) -> list[_Row]:
    """Return question, arm, reservation, people needed, places taken, and the people who can judge it, for each
    unfinished question.
    """
    name, practice, again = connection.execute(
        "SELECT name, practice, coalesce(json_extract(settings, '$.origin'), '') = 'check' FROM batch WHERE number = ?",
        (number,),
    ).fetchone()
    if practice:
        return []
    values = {"batch": number, "name": name, "again": again}
    rows = connection.execute(_UNFINISHED, values).fetchall()
    return [(*row, tuple(sorted(json.loads(names)))) for *row, names in rows]
