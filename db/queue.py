"""The queue: batches of questions to judge, handed out whole under a lease.

Every claim is one immediate transaction, so that two people never take the last place of a question. Time is the server's
wall clock, which may jump. Forward: leases lapse early, and their late submits are kept. Back: a lease must not outlive its
15 minutes by the length of the jump, so each claim first cuts every lease down to 15 minutes from now. Nobody loses time
they were promised, and none holds a question for good. Nothing is ever ordered by time.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from db import leases
from db.blindness import hidden_questions
from db.connection import PerThread, saving
from db.errors import Refused
from db.leases import LEASE_SECONDS, OTHERS, batch_number, forget_the_future, hold, recount
from db.names import check_display_name
from db.people import person, require

Arm = Literal["priority", "audit", "second", "repeat"]

AT_ONCE = 3  # questions that one annotator holds: the one on the page and two fetched ahead

_CANDIDATE = ("passage", "near_duplicates", "run", "rank", "score", "answer", "probability", "inclusion_probability")
# Nobody judges again what they judged, skipped or practised (there the settled labels are shown): not blind, nor independent.
# A second look is the point of a repeat. An audit must not leave out what happens to be judged: its sample would not be uniform.
_NEXT = f"""
    SELECT i.question FROM batch_question i
    WHERE i.batch = :batch AND i.done = 0 AND (i.assigned_to IS NULL OR i.assigned_to = :me)
    AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.annotator = :me AND l.question = i.question AND (
        (l.batch = i.batch AND l.state <> 'held') OR (l.state = 'held' AND l.expires > :now)))
    AND (:practice OR {OTHERS} < i.people_needed)
    AND (:practice OR i.arm IN ('audit', 'repeat') OR NOT (
        EXISTS (SELECT 1 FROM lease l WHERE l.annotator = :me AND l.question = i.question AND l.batch <> i.batch AND l.state <> 'held')
        OR EXISTS (SELECT 1 FROM label_event e WHERE e.annotator = :me AND e.question = i.question AND e.batch IS NOT :name
                   AND e.practice = 0 AND e.kind IN ('label', 'adjudicate', 'bad_question'))))
    ORDER BY i.position LIMIT 1"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage to judge. `run`, `rank` and `score` are those of the best rank; `near_duplicates` numbers the groups of a question."""

    passage: str
    near_duplicates: int = 0
    run: str | None = None
    rank: int | None = None
    score: float | None = None
    answer: bool | None = None
    probability: float | None = None
    inclusion_probability: float | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A question of a batch. In the audit arm, and there alone, it and its candidates have inclusion probabilities."""

    question: str
    candidates: tuple[Candidate, ...]
    arm: Arm = "priority"
    priority: float = 0.0
    people_needed: int = 1
    assigned_to: str | None = None
    inclusion_probability: float | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch and how far it is. `settings` is how it was made, seed included."""

    name: str
    state: Literal["open", "closed"]
    practice: bool
    settings: dict[str, Any]
    made_by: str | None
    questions: int
    done: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A question that an annotator holds until `expires` (seconds since 1970). Which arm it is of is not told: it would not be blind."""

    batch: str
    question: str
    expires: float
    practice: bool = False


class Queue(PerThread):
    """The batches and leases of one labels.db. Threads and processes may share it. `by`: see `db.people.People`."""

    def __init__(self, path: str | Path, read_only: bool = False, clock: Callable[[], float] = time.time):
        super().__init__(path, read_only)
        self._clock = clock

    def add_batch(
        self,
        name: str,
        items: Sequence[Item],
        settings: Mapping[str, Any],
        practice: bool = False,
        by: str | None = None,
    ) -> None:
        """Add a batch; items are served in this order. Passages are checked by whoever makes the batch.

        Raises Refused for a name that is taken, or a batch without items.
        """
        check_display_name(name, "batch")
        if not items or not all(item.candidates for item in items):
            raise Refused(f"batch {name!r}: there is nothing to judge in it")
        with saving(self) as connection:
            require(connection, by, "make batches")
            if connection.execute("SELECT 1 FROM batch WHERE name = ?", (name,)).fetchone():
                raise Refused(f"there is a batch {name!r} already; choose another name")
            number = connection.execute(
                "INSERT INTO batch (name, practice, settings, made_by, made) VALUES (?, ?, ?, ?, ?) RETURNING number",
                (name, int(practice), json.dumps(dict(settings), ensure_ascii=False), by, self._clock()),
            ).fetchone()[0]
            connection.executemany(
                "INSERT INTO batch_question (batch, question, position, arm, priority, people_needed, assigned_to, "
                "inclusion_probability) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (
                        number,
                        i.question,
                        position,
                        i.arm,
                        i.priority,
                        i.people_needed,
                        i.assigned_to,
                        i.inclusion_probability,
                    )
                    for position, i in enumerate(items)
                ),
            )
            connection.executemany(
                f"INSERT INTO candidate (batch, question, position, {', '.join(_CANDIDATE)}) VALUES ({', '.join('?' * 11)})",
                (
                    (number, item.question, position, *(getattr(one, column) for column in _CANDIDATE))
                    for item in items
                    for position, one in enumerate(item.candidates)
                ),
            )

    def batches(self) -> list[Batch]:
        """Oldest first."""
        rows = self.connection.execute(
            "SELECT b.name, b.state, b.practice, b.settings, b.made_by, count(*), sum(i.done) "
            "FROM batch b JOIN batch_question i ON i.batch = b.number GROUP BY b.number ORDER BY b.number"
        )
        return [
            Batch(name, state, bool(practice), json.loads(settings), by, count, done)
            for name, state, practice, settings, by, count, done in rows
        ]

    def items(self, batch: str, questions: Iterable[str] | None = None) -> list[Item]:
        """The items of a batch, or those of some questions, in the order in which they are served. Raises Missing for the batch."""
        number = batch_number(self.connection, batch)
        wanted = None if questions is None else json.dumps(list(questions))
        chosen = "batch = ?1 AND (?2 IS NULL OR question IN (SELECT value FROM json_each(?2)))"
        candidates: dict[str, list[Candidate]] = {}
        sql = f"SELECT question, {', '.join(_CANDIDATE)} FROM candidate WHERE {chosen} ORDER BY question, position"
        for question, *row in self.connection.execute(sql, (number, wanted)):
            values = dict(zip(_CANDIDATE, row, strict=True))
            values["answer"] = None if values["answer"] is None else bool(values["answer"])
            candidates.setdefault(question, []).append(Candidate(**values))
        rows = self.connection.execute(
            "SELECT question, arm, priority, people_needed, assigned_to, inclusion_probability FROM batch_question "
            f"WHERE {chosen} ORDER BY position",
            (number, wanted),
        )
        return [Item(question, tuple(candidates[question]), *rest) for question, *rest in rows]

    def waiting(self) -> set[str]:
        """The questions of open batches that are not done; practice is left out."""
        rows = self.connection.execute(
            "SELECT DISTINCT i.question FROM batch_question i JOIN batch b ON b.number = i.batch "
            "WHERE b.state = 'open' AND b.practice = 0 AND i.done = 0"
        )
        return {row[0] for row in rows}

    def practised(self) -> set[str]:
        """The questions of practice: their settled labels are shown to whoever did them."""
        return {
            row[0]
            for row in self.connection.execute(
                "SELECT DISTINCT i.question FROM batch_question i JOIN batch b "
                "ON b.number = i.batch WHERE b.practice = 1"
            )
        }

    def audited(self) -> set[str]:
        """The questions that were drawn for the audit arm of any batch."""
        return {
            row[0]
            for row in self.connection.execute("SELECT DISTINCT question FROM batch_question WHERE arm = 'audit'")
        }

    def outcomes(self) -> list[tuple[bool | None, int | None, str]]:
        """(holds an answer, rank, consensus label) of the candidates that are settled: what probabilities are calibrated from."""
        rows = self.connection.execute(
            "SELECT c.answer, c.rank, k.label FROM candidate c JOIN consensus k ON k.question = c.question AND k.passage = c.passage "
            "WHERE k.label IS NOT NULL"
        )
        return [(None if answer is None else bool(answer), rank, label) for answer, rank, label in rows]

    def claim(self, annotator: str, count: int = AT_ONCE) -> list[Lease]:
        """What the annotator now holds: what they held before, renewed, filled up with new questions to `count`.

        Practice comes first. A question whose lease lapsed unfinished may come back to the same annotator; one that they
        finished or skipped, in practice too, never does, but in the audit and repeat arms of another batch.

        Raises:
            Missing: nobody of that name. Refused: they are paused.
        """
        with saving(self) as connection:
            if person(connection, annotator).paused:
                raise Refused(f"{annotator} is paused: no more questions for now; ask a lead")
            now = self._clock()
            forget_the_future(connection, now)
            connection.execute(
                "UPDATE lease SET expires = ? WHERE annotator = ? AND state = 'held' AND expires > ?",
                (now + LEASE_SECONDS, annotator, now),
            )
            held = _held(connection, annotator, now)
            batches = connection.execute(
                "SELECT number, name, practice FROM batch WHERE state = 'open' ORDER BY practice DESC, number"
            ).fetchall()
            for number, name, practice in batches:
                values = {"batch": number, "name": name, "me": annotator, "now": now, "practice": practice}
                while len(held) < count and (row := connection.execute(_NEXT, values).fetchone()):
                    hold(connection, number, row[0], annotator, now)
                    held.append(Lease(name, row[0], now + LEASE_SECONDS, bool(practice)))
            return held

    def held(self, annotator: str) -> list[Lease]:
        """What the annotator holds, without taking more."""
        return _held(self.connection, annotator, self._clock())

    def hidden(self, annotator: str) -> frozenset[str]:
        """The questions whose results the annotator must not see yet; see `db.blindness`. Raises Missing."""
        return hidden_questions(self.connection, annotator, self._clock())

    def finish(self, annotator: str, batch: str, question: str) -> bool:
        """The annotator is done with the question. Gives whether it was surplus: late, and others had taken the places.

        Sending it again changes nothing.

        Raises:
            Missing: the batch has no such question.
            Refused: the annotator has neither labelled a passage of it nor called it bad.
        """
        with saving(self) as connection:
            return leases.finish(connection, annotator, batch, question, self._clock())[1]

    def skip(self, annotator: str, batch: str, question: str) -> None:
        """Leave a question to somebody else; it does not come back by itself.

        Raises Missing where the annotator does not hold it, Refused where they finished it.
        """
        with saving(self) as connection:
            leases.skip(connection, annotator, batch, question)

    def release(self, annotator: str) -> int:
        """Put back all that the annotator holds, as on signing out. Gives the number of questions."""
        with saving(self) as connection:
            return connection.execute("DELETE FROM lease WHERE annotator = ? AND state = 'held'", (annotator,)).rowcount

    def set_state(self, batch: str, state: Literal["open", "closed"], by: str | None = None) -> None:
        """Close a batch, or open it again. Nothing more of a closed one is handed out; what is out is still taken."""
        with saving(self) as connection:
            require(connection, by, "manage batches")
            connection.execute("UPDATE batch SET state = ? WHERE number = ?", (state, batch_number(connection, batch)))

    def set_people_needed(
        self, batch: str, people: int, questions: Iterable[str] | None = None, by: str | None = None
    ) -> int:
        """How many people are to judge each question of a batch, or some of them. Gives the number of questions changed."""
        if people < 1:
            raise Refused("at least one person is needed for a question")
        return self._change(batch, "people_needed", people, questions, by)

    def assign(
        self, batch: str, annotator: str | None, questions: Iterable[str] | None = None, by: str | None = None
    ) -> int:
        """Keep questions of a batch for one person; None lets anybody have them. Gives the number of questions changed."""
        return self._change(batch, "assigned_to", annotator, questions, by)

    def _change(self, batch: str, column: str, value: Any, questions: Iterable[str] | None, by: str | None) -> int:
        wanted = None if questions is None else json.dumps(list(questions))
        with saving(self) as connection:
            require(connection, by, "manage batches")
            if column == "assigned_to" and value is not None:
                person(connection, value)
            number = batch_number(connection, batch)
            changed = connection.execute(
                f"UPDATE batch_question SET {column} = ?1 WHERE batch = ?2 "
                "AND (?3 IS NULL OR question IN (SELECT value FROM json_each(?3)))",
                (value, number, wanted),
            ).rowcount
            recount(connection, number, None)
            return changed


def _held(connection: sqlite3.Connection, annotator: str, now: float) -> list[Lease]:
    rows = connection.execute(
        "SELECT b.name, l.question, l.expires, b.practice FROM lease l JOIN batch b ON b.number = l.batch "
        "JOIN batch_question i ON i.batch = l.batch AND i.question = l.question "
        "WHERE l.annotator = ? AND l.state = 'held' AND l.expires > ? AND b.state = 'open' ORDER BY b.practice DESC, l.batch, i.position",
        (annotator, now),
    )
    return [Lease(name, question, expires, bool(practice)) for name, question, expires, practice in rows]
