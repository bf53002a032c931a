"""Rows of a labels.db that concern one team on one machine: rights, links and sessions."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

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


def _table_names(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
