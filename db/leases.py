"""The lease of one annotator on one question of a batch: take, extend, finish, skip, reopen.

All functions run inside the caller's transaction. `now` is the server's wall clock, which may jump; see `blindspot.db.queue`.
"""

from __future__ import annotations

import sqlite3

from blindspot.db.errors import Missing, Refused
from blindspot.db.people import person

LEASE_SECONDS = 15 * 60.0
SKIPS_FOR_GOOD = 2
"""After this many skips of a question by one person, the queue leaves it to others."""
ACTIVE = "((l.state = 'finished' AND l.surplus = 0) OR (l.state = 'held' AND l.expires > :now))"
OTHERS = f"""(SELECT count(*) FROM lease l WHERE l.batch = i.batch AND l.question = i.question AND l.annotator <> :me AND {ACTIVE})"""
"""SQL: how many other annotators have a place at question `i` of a batch."""


def judged_elsewhere_condition(name: str) -> str:
    """Return an SQL condition: whether somebody judged, skipped or practised question `i` outside the batch with
    `:batch`, `:name`.

    A second judgement by the same person is neither blind nor independent, so only audits and repeats ask for one.

    Args:
        name: The SQL of the annotator's name.
    """
    return f"""(
        EXISTS (SELECT 1 FROM lease l WHERE l.annotator = {name} AND l.question = i.question AND l.batch <> i.batch AND l.state <> 'held')
        OR EXISTS (SELECT 1 FROM label_event e WHERE e.annotator = {name} AND e.question = i.question AND e.batch IS NOT :name
                   AND e.practice = 0 AND e.kind IN ('label', 'adjudicate', 'bad_question')))"""


def batch_number(connection: sqlite3.Connection, name: str) -> int:
    """Return the number that identifies a batch in labels.db. Raises Missing."""
    row = connection.execute("SELECT number FROM batch WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise Missing(f"there is no batch {name!r} in this study")
    return int(row[0])


def take_lease(connection: sqlite3.Connection, batch: int, question: str, annotator: str, now: float) -> None:
    """Give an annotator a free place at a question."""
    _end_expired_leases(connection, batch, question, now)
    connection.execute(
        "INSERT INTO lease (batch, question, annotator, state, expires) VALUES (?, ?, ?, 'held', ?) "
        "ON CONFLICT DO UPDATE SET state = 'held', surplus = 0, expires = excluded.expires",
        (batch, question, annotator, now + LEASE_SECONDS),
    )


def extend_lease(connection: sqlite3.Connection, batch: int, question: str, annotator: str, now: float) -> None:
    """Restart the lease of an annotator who is working on a question. An expired lease is not restarted, because
    somebody else may have its place.
    """
    connection.execute(
        "UPDATE lease SET expires = ?4 + ?5 WHERE batch = ?1 AND question = ?2 AND annotator = ?3 AND state = 'held' "
        "AND expires > ?4",
        (batch, question, annotator, now, LEASE_SECONDS),
    )


def finish(connection: sqlite3.Connection, annotator: str, batch: str, question: str, now: float) -> tuple[bool, bool]:
    """Finish a question. Return whether the finish is new, and whether it was surplus (enough other people had finished
    the question).

    Raises:
        Missing: The batch has no such question.
        Refused: The annotator has neither labelled a passage of the question nor marked it as bad, or is paused and no
            longer holds it.
    """
    number = batch_number(connection, batch)
    needed, assigned_to, practice, _ = _question_requirements(connection, number, batch, question)
    state, surplus, expires = _lease_state(connection, number, question, annotator) or ("", 0, 0.0)
    if state == "finished":
        return False, bool(surplus)
    _refuse_unjudged(connection, annotator, batch, question)
    in_time = state == "held" and expires > now
    if not in_time and person(connection, annotator).paused:
        raise Refused(f"{annotator} is paused; ask a lead")
    others = _count_other_holders(connection, number, question, annotator, now)
    free = others < needed and assigned_to in (None, annotator)
    surplus = not (practice or in_time or free)
    if not in_time and not surplus:
        _end_expired_leases(connection, number, question, now)
    _store_finish(connection, number, question, annotator, now, surplus)
    update_finished_state(connection, number, question)
    return True, surplus


def skip(connection: sqlite3.Connection, annotator: str, batch: str, question: str) -> bool:
    """Skip a question for now, and return whether the event is new. After SKIPS_FOR_GOOD skips the question is left to
    other people.

    Raises:
        Missing: The annotator does not hold the question.
        Refused: The annotator has finished it.
    """
    number = batch_number(connection, batch)
    lease = _lease_state(connection, number, question, annotator)
    if lease is None:
        raise Missing(f"{annotator} does not hold question {question!r} of batch {batch!r}")
    if lease[0] == "finished":
        raise Refused(f"{annotator} has finished question {question!r}; it cannot be skipped any more")
    connection.execute(
        "UPDATE lease SET state = 'skipped', skips = skips + (state = 'held') "
        "WHERE batch = ? AND question = ? AND annotator = ?",
        (number, question, annotator),
    )
    return lease[0] == "held"


def reopen_by_annotator(connection: sqlite3.Connection, annotator: str, batch: str, question: str, now: float) -> bool:
    """Reopen a question that the annotator finished or skipped, or whose lease expired. Return whether the event is
    new.

    Raises:
        Missing: The annotator never held the question.
        Refused: Others have taken its places, its batch is closed, or the annotator is paused.
    """
    number = batch_number(connection, batch)
    lease = _lease_state(connection, number, question, annotator)
    if lease is None:
        raise Missing(f"{annotator} was not given question {question!r} of batch {batch!r}")
    state, surplus, expires = lease
    if state == "held" and expires > now:
        return False
    if state == "finished" and not surplus and not person(connection, annotator).paused:
        reopen(connection, number, question, annotator, now)
        return True
    needed, assigned_to, practice, opened = _question_requirements(connection, number, batch, question)
    if not opened or person(connection, annotator).paused:
        raise Refused(f"question {question!r} is not handed out for now; ask a lead")
    if not practice and (
        _count_other_holders(connection, number, question, annotator, now) >= needed
        or assigned_to not in (None, annotator)
    ):
        raise Refused(f"somebody else has question {question!r} now; your labels are still saved")
    take_lease(connection, number, question, annotator, now)
    return True


def reopen(connection: sqlite3.Connection, batch: int, question: str, annotator: str, now: float) -> None:
    """Give a finished question back to its annotator after an undo. The annotator kept a place at the question, so no
    limit is exceeded.
    """
    changed = connection.execute(
        "UPDATE lease SET state = 'held', expires = ? WHERE batch = ? AND question = ? AND annotator = ? "
        "AND state = 'finished' AND surplus = 0",
        (now + LEASE_SECONDS, batch, question, annotator),
    ).rowcount
    if changed:
        update_finished_state(connection, batch, question)


def shorten_future_leases(connection: sqlite3.Connection, now: float) -> None:
    """Shorten leases that end later than a lease taken now would end: they were taken before the clock jumped back."""
    connection.execute("UPDATE lease SET expires = ?1 WHERE state = 'held' AND expires > ?1", (now + LEASE_SECONDS,))


def update_finished_state(connection: sqlite3.Connection, batch: int, question: str | None) -> None:
    """Store whether enough people have finished a question, or each question of a batch. A practice question is never
    done.
    """
    connection.execute(
        "UPDATE batch_question SET done = (SELECT practice = 0 FROM batch WHERE number = ?1) AND people_needed <= ("
        "SELECT count(*) FROM lease l WHERE l.batch = batch_question.batch AND l.question = batch_question.question "
        "AND l.state = 'finished' AND l.surplus = 0) WHERE batch = ?1 AND (?2 IS NULL OR question = ?2)",
        (batch, question),
    )


def finish_imported_questions(connection: sqlite3.Connection, last_before: int, now: float) -> None:
    """Finish the questions of batches for which imported events label every passage or mark the question as bad.

    Labels that name a batch count for that batch. Other imported labels count only in the priority arm, because audits,
    second labels and repeats need labels given for that purpose.

    Args:
        last_before: Number of the last event before the import.
    """
    counts = "(e.batch = b.name OR (i.arm = 'priority' AND e.number > :last)) AND e.annotator = a.name AND e.question = i.question"
    rows = connection.execute(
        f"""
        SELECT i.batch, i.question, a.name, i.people_needed FROM batch_question i
        JOIN batch b ON b.number = i.batch AND b.practice = 0
        JOIN annotator a ON a.kind = 'person' AND (i.assigned_to IS NULL OR i.assigned_to = a.name)
        WHERE i.done = 0 AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.batch = i.batch AND l.question = i.question
            AND l.annotator = a.name AND (l.state = 'finished' OR (l.state = 'held' AND l.expires > :now)))
        AND (EXISTS (SELECT 1 FROM live_event e WHERE e.kind = 'bad_question' AND e.practice = 0 AND {counts})
            OR NOT EXISTS (SELECT 1 FROM candidate c WHERE c.batch = i.batch AND c.question = i.question AND NOT EXISTS (
                SELECT 1 FROM live_event e WHERE e.passage = c.passage AND e.kind = 'label' AND e.practice = 0 AND {counts})))
        ORDER BY i.batch, i.position, a.name""",
        {"last": last_before, "now": now},
    ).fetchall()
    for batch, question, annotator, needed in rows:
        surplus = _count_other_holders(connection, batch, question, annotator, now) >= needed
        _store_finish(connection, batch, question, annotator, now, surplus)
    for batch in {row[0] for row in rows}:
        update_finished_state(connection, batch, None)


def _store_finish(
    connection: sqlite3.Connection, batch: int, question: str, annotator: str, now: float, surplus: bool
) -> None:
    connection.execute(
        "INSERT INTO lease (batch, question, annotator, state, expires, surplus) VALUES (?, ?, ?, 'finished', ?, ?) "
        "ON CONFLICT DO UPDATE SET state = 'finished', surplus = excluded.surplus",
        (batch, question, annotator, now, int(surplus)),
    )


def _end_expired_leases(connection: sqlite3.Connection, batch: int, question: str, now: float) -> None:
    """End the expired leases of a question whose place is given to somebody else, so that a clock that jumps back does
    not make them valid again.
    """
    connection.execute(
        "UPDATE lease SET expires = 0 WHERE batch = ? AND question = ? AND state = 'held' AND expires <= ?",
        (batch, question, now),
    )


def _lease_state(
    connection: sqlite3.Connection, batch: int, question: str, annotator: str
) -> tuple[str, int, float] | None:
    """Return the state of a lease, whether it is surplus, and when it expires."""
    row: tuple[str, int, float] | None = connection.execute(
        "SELECT state, surplus, expires FROM lease WHERE batch = ? AND question = ? AND annotator = ?",
        (batch, question, annotator),
    ).fetchone()
    return row


def _count_other_holders(connection: sqlite3.Connection, batch: int, question: str, annotator: str, now: float) -> int:
    row = connection.execute(
        f"SELECT {OTHERS} FROM batch_question i WHERE batch = :batch AND question = :question",
        {"batch": batch, "question": question, "me": annotator, "now": now},
    ).fetchone()
    return int(row[0])


def _question_requirements(
    connection: sqlite3.Connection, number: int, batch: str, question: str
) -> tuple[int, str | None, int, bool]:
    """Return how many people a batch needs, whom it is assigned to, whether it is practice, and whether it is open."""
    row: tuple[int, str | None, int, bool] | None = connection.execute(
        "SELECT i.people_needed, i.assigned_to, b.practice, b.state = 'open' FROM batch_question i JOIN batch b ON "
        "b.number = i.batch WHERE i.batch = ? AND i.question = ?",
        (number, question),
    ).fetchone()
    if row is None:
        raise Missing(f"batch {batch!r} holds no question {question!r}")
    return row


def _refuse_unjudged(connection: sqlite3.Connection, annotator: str, batch: str, question: str) -> None:
    judged = connection.execute(
        "SELECT 1 FROM live_event WHERE annotator = ? AND question = ? AND batch = ? AND kind IN ('label', "
        "'bad_question') LIMIT 1",
        (annotator, question, batch),
    ).fetchone()
    if judged is None:
        raise Refused(
            f"question {question!r} has no label of yours yet: label a passage, mark the question as bad, or skip it"
        )
