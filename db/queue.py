"""The queue: batches of questions to judge. An annotator takes a whole question under a lease.

Each claim is one immediate transaction, so two people never get the last place of a question. Leases use the server's
wall clock, which may jump. If it jumps forward, leases expire early; labels that arrive late are still kept. If it
jumps back, a lease would last longer by the size of the jump. Each claim therefore first shortens all leases to 15
minutes from now. An annotator keeps a lease until it expires. An expired lease makes the question free again. Nothing
is sorted by time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from blindspot.db import leases, waiting
from blindspot.db.connection import PerThread, insert, store_transaction
from blindspot.db.errors import Refused
from blindspot.db.leases import (
    LEASE_SECONDS,
    OTHERS,
    SKIPS_FOR_GOOD,
    batch_number,
    judged_elsewhere_condition,
    shorten_future_leases,
    take_lease,
    update_finished_state,
)
from blindspot.db.names import check_display_name
from blindspot.db.people import person, require
from blindspot.db.waiting import Reassignment, UnfinishedQuestion

Arm = Literal["priority", "audit", "second", "repeat"]

AT_ONCE = 3  # questions that one annotator holds: the one on the page and two prefetched

_CANDIDATE = ("passage", "near_duplicates", "run", "rank", "score", "answer", "probability", "inclusion_probability")
_ITEM = ("arm", "priority", "people_needed", "assigned_to", "inclusion_probability")
# An annotator does not get a question again that they judged, skipped or practised (practice shows the settled labels):
# a second judgement would be neither blind nor independent. Exceptions: a repeat asks for a second judgement; an audit
# that left out judged questions would not be a uniform sample, nor would the draws of a check.
# A question that they skipped once comes back when the batch has nothing else for them (_SKIPPED).
_OPEN = f"""
    FROM batch_question i
    WHERE i.batch = :batch AND i.done = 0 AND (i.assigned_to IS NULL OR i.assigned_to = :me)
    AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.annotator = :me AND l.question = i.question AND (
        (l.batch = i.batch AND l.state <> 'held') OR (l.state = 'held' AND l.expires > :now)))
    AND (:practice OR {OTHERS} < i.people_needed)
    AND (:practice OR :again OR i.arm IN ('audit', 'repeat') OR NOT {judged_elsewhere_condition(":me")})"""
_SKIPPED = f"""
    FROM batch_question i
    JOIN lease mine ON mine.batch = i.batch AND mine.question = i.question AND mine.annotator = :me
    WHERE i.batch = :batch AND i.done = 0 AND (i.assigned_to IS NULL OR i.assigned_to = :me)
    AND mine.state = 'skipped' AND mine.skips < {SKIPS_FOR_GOOD}
    AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.annotator = :me AND l.question = i.question AND l.state = 'held'
        AND l.expires > :now)
    AND (:practice OR {OTHERS} < i.people_needed)"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage to judge.

    Attributes:
        near_duplicates: Number of the group of near-duplicate passages within the question.
        run, rank, score: Those of the best rank over all runs.
        answer: Whether the passage contains an answer; None if unknown.
    """

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
    """A question of a batch. Only in the audit arm do a question and its candidates have inclusion probabilities."""

    question: str
    candidates: tuple[Candidate, ...]
    arm: Arm = "priority"
    priority: float = 0.0
    people_needed: int = 1
    assigned_to: str | None = None
    inclusion_probability: float | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch and its progress. `settings` contains all settings with which it was made, including the seed."""

    name: str
    state: Literal["open", "closed"]
    practice: bool
    settings: dict[str, Any]
    made_by: str | None
    questions: int
    done: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A question that an annotator holds until `expires` (seconds since 1970). It does not contain the arm, so that
    judging stays blind.

    `again`: the annotator skipped the question before.
    """

    batch: str
    question: str
    expires: float
    practice: bool = False
    again: bool = False


class SettledCandidate(NamedTuple):
    """A candidate passage with a settled label. answer, rank: as the batch stored them. label: the label of the
    consensus.
    """

    question: str
    passage: str
    answer: bool | None
    rank: int | None
    label: str


class Queue(PerThread):
    """The batches and leases of one labels.db. Threads and processes may share it. `by` is explained in
    `blindspot.db.people.People`.
    """

    def add_batch(
        self,
        name: str,
        items: Sequence[Item],
        settings: Mapping[str, Any],
        practice: bool = False,
        actor: str | None = None,
    ) -> None:
        """Add a batch. The queue serves the items in this order. The caller checks that the passages exist.

        Raises:
            BadInput: The name is not allowed.
            Refused: The name is taken, or the batch has no items.
        """
        check_display_name(name, "batch")
        if not items or not all(item.candidates for item in items):
            raise Refused(f"batch {name!r}: there is nothing to judge in it")
        with store_transaction(self) as connection:
            require(connection, actor, "make batches")
            if connection.execute("SELECT 1 FROM batch WHERE name = ?", (name,)).fetchone():
                raise Refused(f"there is a batch {name!r} already; choose another name")
            values = {
                "name": name,
                "practice": int(practice),
                "settings": json.dumps(dict(settings), ensure_ascii=False),
            }
            number = insert(connection, "batch", **values, made_by=actor, made=self._clock()).lastrowid
            connection.executemany(
                f"INSERT INTO batch_question (batch, position, question, {', '.join(_ITEM)}) VALUES "
                f"({', '.join('?' * (3 + len(_ITEM)))})",
                (
                    (number, position, item.question, *(getattr(item, column) for column in _ITEM))
                    for position, item in enumerate(items)
                ),
            )
            connection.executemany(
                f"INSERT INTO candidate (batch, question, position, {', '.join(_CANDIDATE)}) VALUES "
                f"({', '.join('?' * (3 + len(_CANDIDATE)))})",
                (
                    (number, item.question, position, *(getattr(candidate, column) for column in _CANDIDATE))
                    for item in items
                    for position, candidate in enumerate(item.candidates)
                ),
            )

    def batches(self) -> list[Batch]:
        """Return the batches, the oldest first."""
        rows = self.connection.execute(
            "SELECT b.name, b.state, b.practice, b.settings, b.made_by, count(*), sum(i.done) "
            "FROM batch b JOIN batch_question i ON i.batch = b.number GROUP BY b.number ORDER BY b.number"
        )
        return [
            Batch(name, state, bool(practice), json.loads(settings), by, count, done)
            for name, state, practice, settings, by, count, done in rows
        ]

    def finished_counts(self, annotator: str) -> dict[str, int]:
        """Return how many questions of each batch a person has finished; batches without finished questions are left
        out.
        """
        rows = self.connection.execute(
            "SELECT b.name, count(*) FROM lease l JOIN batch b ON b.number = l.batch "
            "WHERE l.annotator = ? AND l.state = 'finished' GROUP BY b.number",
            (annotator,),
        )
        return dict(rows)

    def available_counts(self, annotator: str) -> dict[str, int]:
        """Return how many questions of each open batch a person holds or can still get; batches with no such questions
        are left out.
        """
        now = self._clock()
        counts: dict[str, int] = {}
        for lease in _leases_of(self.connection, annotator, now):
            counts[lease.batch] = counts.get(lease.batch, 0) + 1
        for values in _open_batches(self.connection, annotator, now):
            for free in (_OPEN, _SKIPPED):
                count = self.connection.execute(f"SELECT count(*) {free}", values).fetchone()[0]
                counts[values["name"]] = counts.get(values["name"], 0) + count
        return {name: count for name, count in counts.items() if count}

    def finished_questions(self, annotator: str, limit: int = 200) -> list[tuple[str, str]]:
        """Return (batch, question) for each question that a person finished in an open batch, the latest first.
        Practice is left out.
        """
        rows = self.connection.execute(
            "SELECT b.name, l.question FROM lease l JOIN batch b ON b.number = l.batch "
            "LEFT JOIN (SELECT batch, question, max(number) AS number FROM queue_act "
            "WHERE annotator = ?1 AND kind = 'finish' GROUP BY batch, question) a "
            "ON a.batch = l.batch AND a.question = l.question "
            "WHERE l.annotator = ?1 AND l.state = 'finished' AND b.state = 'open' AND b.practice = 0 "
            "ORDER BY a.number DESC, l.batch DESC, l.question LIMIT ?2",
            (annotator, limit),
        )
        return [(batch, question) for batch, question in rows]

    def items(self, batch: str, questions: Iterable[str] | None = None) -> list[Item]:
        """Return the items of a batch, or only those of some questions, in the order in which the queue serves them.
        Raises Missing for an unknown batch.
        """
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
            f"SELECT question, {', '.join(_ITEM)} FROM batch_question WHERE {chosen} ORDER BY position",
            (number, wanted),
        )
        return [Item(question, tuple(candidates[question]), *rest) for question, *rest in rows]

    def unfinished_questions(self) -> set[str]:
        """Return the questions of open batches that are not done, without practice."""
        rows = self.connection.execute(
            "SELECT DISTINCT i.question FROM batch_question i JOIN batch b ON b.number = i.batch "
            "WHERE b.state = 'open' AND b.practice = 0 AND i.done = 0"
        )
        return {row[0] for row in rows}

    def practised_questions(self) -> set[str]:
        """Return the practice questions. People who have done them have seen their settled labels."""
        rows = self.connection.execute(
            "SELECT i.question FROM batch_question i JOIN batch b ON b.number = i.batch WHERE b.practice = 1"
        )
        return {question for (question,) in rows}

    def audited_questions(self) -> set[str]:
        """Return the questions that were drawn for the audit arm of any batch."""
        rows = self.connection.execute("SELECT question FROM batch_question WHERE arm = 'audit'")
        return {question for (question,) in rows}

    def settled_candidates(self) -> list[SettledCandidate]:
        """Return the settled candidates with their labels, for calibrating probabilities."""
        rows = self.connection.execute(
            "SELECT c.question, c.passage, c.answer, c.rank, k.label FROM candidate c JOIN consensus k ON k.question "
            "= c.question AND k.passage = c.passage WHERE k.label IS NOT NULL"
        )
        return [
            SettledCandidate(question, passage, None if answer is None else bool(answer), rank, label)
            for question, passage, answer, rank, label in rows
        ]

    def claim(self, annotator: str, count: int = AT_ONCE) -> list[Lease]:
        """Renew the annotator's leases, add new questions until there are `count`, and return them all.

        Practice comes first. A question whose lease expired may come back to the same annotator. A question that the
        annotator skipped comes back once, at the end of its batch. A question that the annotator finished, also in
        practice, comes back only in the audit or repeat arm of another batch, or in a batch of a check of a
        training file, with other passages.

        Raises:
            Missing: There is no annotator of that name.
            Refused: The annotator is paused.
        """
        with store_transaction(self) as connection:
            if person(connection, annotator).paused:
                raise Refused(f"{annotator} is paused: no more questions for now; ask a lead")
            now = self._clock()
            shorten_future_leases(connection, now)
            connection.execute(
                "UPDATE lease SET expires = ? WHERE annotator = ? AND state = 'held' AND expires > ?",
                (now + LEASE_SECONDS, annotator, now),
            )
            held = _leases_of(connection, annotator, now)
            for batch in _open_batches(connection, annotator, now):
                for free in (_OPEN, _SKIPPED):
                    sql = f"SELECT i.question {free} ORDER BY i.position LIMIT 1"
                    while len(held) < count and (row := connection.execute(sql, batch).fetchone()):
                        take_lease(connection, batch["batch"], row[0], annotator, now)
                        expires = now + LEASE_SECONDS
                        held.append(Lease(batch["name"], row[0], expires, bool(batch["practice"]), free is _SKIPPED))
            return held

    def leases_of(self, annotator: str) -> list[Lease]:
        """Return the annotator's leases, without taking new ones."""
        return _leases_of(self.connection, annotator, self._clock())

    def finish(self, annotator: str, batch: str, question: str) -> bool:
        """Finish a question. Return whether the finish was surplus: it came late, after others had taken the question's
        places.

        Finishing twice changes nothing.

        Raises:
            Missing: The batch has no such question.
            Refused: The annotator has neither labelled a passage of the question nor marked it as bad.
        """
        with store_transaction(self) as connection:
            return leases.finish(connection, annotator, batch, question, self._clock())[1]

    def skip(self, annotator: str, batch: str, question: str) -> None:
        """Skip a question for now; see `claim`. After a second skip the question is left to other people.

        Raises:
            Missing: The annotator does not hold the question.
            Refused: The annotator has finished it.
        """
        with store_transaction(self) as connection:
            leases.skip(connection, annotator, batch, question)

    def set_state(self, batch: str, state: Literal["open", "closed"], actor: str | None = None) -> None:
        """Close a batch or reopen it. The queue serves no more questions of a closed batch, but accepts labels of
        questions that people already hold.
        """
        with store_transaction(self) as connection:
            require(connection, actor, "manage batches")
            connection.execute("UPDATE batch SET state = ? WHERE number = ?", (state, batch_number(connection, batch)))

    def delete(self, batch: str, actor: str | None = None) -> None:
        """Delete a batch that nobody has worked on.

        Raises:
            Refused: The batch has labels, or people finished or skipped questions of it.
        """
        with store_transaction(self) as connection:
            require(connection, actor, "manage parts")
            number = batch_number(connection, batch)
            _refuse_judged_batch(connection, number, batch, "deleted; close it instead")
            for table in ("lease", "candidate", "batch_question"):
                connection.execute(f"DELETE FROM {table} WHERE batch = ?", (number,))
            connection.execute("DELETE FROM batch WHERE number = ?", (number,))

    def count_events(self, batch: str) -> int:
        """Return how many label events and queue events name a batch. Raises Missing."""
        return _count_events(self.connection, batch_number(self.connection, batch), batch)

    def set_people_needed(
        self, batch: str, people: int, questions: Iterable[str] | None = None, actor: str | None = None
    ) -> int:
        """Set how many people judge each question of a batch, or each of some questions. Return the number of changed
        questions."""
        if people < 1:
            raise Refused("at least one person is needed for a question")
        return self._update_items(batch, "people_needed", people, questions, actor)

    def assign(
        self, batch: str, annotator: str | None, questions: Iterable[str] | None = None, actor: str | None = None
    ) -> int:
        """Reserve questions of a batch for one person; None removes the reservation. Return the number of changed
        questions.
        """
        return self._update_items(batch, "assigned_to", annotator, questions, actor)

    def unfinished(self, batch: str) -> list[UnfinishedQuestion]:
        """Return the questions of a batch that are not done, each with the people who can still judge it. Raises
        Missing.
        """
        return waiting.unfinished(self.connection, batch)

    def reassign(self, batch: str, actor: str | None = None) -> Reassignment:
        """Reassign the questions that wait for people who are not active; see `blindspot.db.waiting.reassign`."""
        with store_transaction(self) as connection:
            require(connection, actor, "manage batches")
            return waiting.reassign(connection, batch)

    def _update_items(
        self, batch: str, column: str, value: Any, questions: Iterable[str] | None, actor: str | None
    ) -> int:
        wanted = None if questions is None else json.dumps(list(questions))
        with store_transaction(self) as connection:
            require(connection, actor, "manage batches")
            if column == "assigned_to" and value is not None:
                person(connection, value)
            number = batch_number(connection, batch)
            changed = connection.execute(
                f"UPDATE batch_question SET {column} = ?1 WHERE batch = ?2 "
                "AND (?3 IS NULL OR question IN (SELECT value FROM json_each(?3)))",
                (value, number, wanted),
            ).rowcount
            update_finished_state(connection, number, None)
            return changed


def _count_events(connection: sqlite3.Connection, number: int, batch: str) -> int:
    sql = (
        "SELECT (SELECT count(*) FROM label_event WHERE batch = ?) + (SELECT count(*) FROM queue_act WHERE batch = ?)"
        " + (SELECT count(*) FROM lease WHERE batch = ? AND state <> 'held')"
    )
    return int(connection.execute(sql, (batch, number, number)).fetchone()[0])


def _refuse_judged_batch(connection: sqlite3.Connection, number: int, batch: str, noun: str) -> None:
    if _count_events(connection, number, batch):
        raise Refused(f"people have worked on batch {batch!r}, and their labels name it; it cannot be {noun}")


def _open_batches(connection: sqlite3.Connection, annotator: str, now: float) -> list[dict[str, Any]]:
    """Return the open batches, practice first, each as the values of `_OPEN` and `_SKIPPED` for an annotator."""
    rows = connection.execute(
        "SELECT number AS batch, name, practice, coalesce(json_extract(settings, '$.origin'), '') = 'check' "
        "FROM batch WHERE state = 'open' ORDER BY practice DESC, number"
    ).fetchall()
    names = ("batch", "name", "practice", "again")
    return [{**dict(zip(names, row, strict=True)), "me": annotator, "now": now} for row in rows]


def _leases_of(connection: sqlite3.Connection, annotator: str, now: float) -> list[Lease]:
    rows = connection.execute(
        "SELECT b.name, l.question, l.expires, b.practice, l.skips > 0 FROM lease l JOIN batch b ON b.number = l.batch "
        "JOIN batch_question i ON i.batch = l.batch AND i.question = l.question "
        "WHERE l.annotator = ? AND l.state = 'held' AND l.expires > ? AND b.state = 'open' ORDER BY b.practice DESC, "
        "l.batch, l.skips > 0, i.position",
        (annotator, now),
    )
    return [
        Lease(name, question, expires, bool(practice), bool(again)) for name, question, expires, practice, again in rows
    ]
