"""Finishing, skipping and going back to a question from a browser's outbox: done once per id, in order with the labels."""

from __future__ import annotations

import sqlite3

from db import leases
from db.errors import Refused
from db.gestures import Act, Receipt
from db.people import person
from db.storing import used_before

SURPLUS = "others had finished this question meanwhile; your labels are kept, as surplus"


def store_act(connection: sqlite3.Connection, annotator: str, act: Act, now: float) -> Receipt:
    """Do an act, unless its id was there before, inside the caller's transaction.

    One that finds its work done (a second finish) is "known". It is recorded nevertheless: sent again after the question was
    opened anew, it must not finish it.

    Raises: Missing, Refused; see `db.leases`.
    """
    row = connection.execute(
        "SELECT a.annotator, a.kind, a.question, b.name, a.surplus FROM queue_act a "
        "JOIN batch b ON b.number = a.batch WHERE a.gesture = ?",
        (act.id,),
    ).fetchone()
    if row is not None:
        if row[:4] != (annotator, act.kind, act.question, act.batch):
            raise Refused(used_before(act.id))
        return Receipt(act.id, "known", SURPLUS if row[4] else "")
    if connection.execute("SELECT 1 FROM label_event WHERE gesture = ? LIMIT 1", (act.id,)).fetchone():
        raise Refused(used_before(act.id))
    person(connection, annotator)
    surplus = False
    if act.kind == "finish":
        new, surplus = leases.finish(connection, annotator, act.batch, act.question, now)
    elif act.kind == "skip":
        new = leases.skip(connection, annotator, act.batch, act.question)
    else:
        new = leases.go_back(connection, annotator, act.batch, act.question, now)
    connection.execute(
        "INSERT INTO queue_act (gesture, kind, batch, question, annotator, surplus, milliseconds, client_time, server_time) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            act.id,
            act.kind,
            leases.batch_number(connection, act.batch),
            act.question,
            annotator,
            int(surplus),
            act.milliseconds,
            act.client_time,
            now,
        ),
    )
    return Receipt(act.id, "stored" if new else "known", SURPLUS if surplus else "")
