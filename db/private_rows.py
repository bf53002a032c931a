"""Rows of a labels.db that concern one team on one machine: rights, links, sessions and the records of jobs."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

Rights = Mapping[str, tuple[str, str | None, str | None]]
"""Role, e-mail address and hash of the invitation, by name."""


def rights_of(connection: sqlite3.Connection) -> Rights:
    """Return the rights of everybody who has more rights than an annotator without a link."""
    if "annotator" not in _table_names(connection):
        return {}
    rows = connection.execute("SELECT name, role, email, invitation FROM annotator")
    return {name: (role, *links) for name, role, *links in rows if role != "annotator" or any(links)}


def strip_rights(connection: sqlite3.Connection, kept_rights: Rights) -> None:
    """Turn everybody except the people to keep into an annotator who cannot sign in. End all sessions."""
    tables = _table_names(connection)
    if "annotator" in tables:
        connection.execute("UPDATE annotator SET role = 'annotator', email = NULL, invitation = NULL")
        connection.executemany(
            "UPDATE annotator SET role = ?, email = ?, invitation = ? WHERE name = ?",
            [(*rights, name) for name, rights in kept_rights.items()],
        )
    if "sign_in" in tables:
        connection.execute("DELETE FROM sign_in")


def remove_private_rows(path: Path) -> None:
    """Delete everybody's rights, sessions and leases, and the records of jobs, which contain host and folder names."""
    with closing(sqlite3.connect(path)) as connection:
        strip_rights(connection, {})
        for table in _table_names(connection) & {"job", "lease"}:
            connection.execute(f"DELETE FROM {table}")
        connection.commit()
        connection.execute("VACUUM")  # else deleted rows remain readable in free pages


def _table_names(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
