"""Who works on a study, and what each may do. A role gives rights; the stores ask for them inside their transactions."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from db.connection import PerThread, saving
from db.errors import BadInput, Missing, Refused
from db.names import check_display_name

Role = Literal["annotator", "adjudicator", "lead"]
ROLES: tuple[str, ...] = get_args(Role)

_RIGHTS: dict[str, tuple[str, ...]] = {
    "judge": ("annotator", "adjudicator", "lead"),
    "adjudicate": ("adjudicator", "lead"),
    "see others": ("adjudicator", "lead"),
    "lead": ("lead",),
}
"""Right to the roles that have it. "lead": make and close batches, assign, set people needed, pause and invite people."""

_COLUMNS = "name, role, paused, email, invitation IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Person:
    """An annotator of any role. `paused`: gets no more questions. `invited`: a personal link of theirs is valid."""

    name: str
    role: Role
    paused: bool = False
    email: str | None = None
    invited: bool = False

    def may(self, right: str) -> bool:
        return self.role in _RIGHTS[right]


class People(PerThread):
    """The people of one labels.db. Threads may share it.

    `by` is who asks, and must be a lead. None stands for the keeper of the study's files (the command line), who may do all.
    """

    def __init__(self, path: str | Path, read_only: bool = False, clock: Callable[[], float] = time.time):
        super().__init__(path, read_only)
        self._clock = clock

    def all(self) -> list[Person]:
        """By name."""
        return [_person(row) for row in self.connection.execute(f"SELECT {_COLUMNS} FROM annotator ORDER BY name")]

    def get(self, name: str) -> Person:
        """Raises Missing."""
        return person(self.connection, name)

    def add(self, name: str, role: Role = "annotator", email: str | None = None, by: str | None = None) -> Person:
        """Raises BadInput for a name or role that will not do, Refused for a name that is taken."""
        _check(name, role)
        with saving(self) as connection:
            require(connection, by, "lead")
            if connection.execute("SELECT 1 FROM annotator WHERE name = ? OR email = ?", (name, email)).fetchone():
                raise Refused(f"there is somebody named {name!r}, or with that address, already; choose another name")
            connection.execute(
                "INSERT INTO annotator (name, role, email, made) VALUES (?, ?, ?, ?)",
                (name, role, email, self._clock()),
            )
            return person(connection, name)

    def set_role(self, name: str, role: Role, by: str | None = None) -> None:
        """Raises Refused for a lead who would take the role from themselves: a study must not lose its last one by a slip."""
        _check(name, role)
        with saving(self) as connection:
            require(connection, by, "lead")
            person(connection, name)
            if by == name and role != "lead":
                raise Refused("a lead cannot take the role from themselves; ask another lead")
            connection.execute("UPDATE annotator SET role = ? WHERE name = ?", (role, name))

    def pause(self, name: str, paused: bool = True, by: str | None = None) -> None:
        """A paused person gets no more questions. What they were given before is still taken from them."""
        with saving(self) as connection:
            require(connection, by, "lead")
            person(connection, name)
            connection.execute("UPDATE annotator SET paused = ? WHERE name = ?", (int(paused), name))

    def invite(self, name: str, role: Role = "annotator", by: str | None = None) -> str:
        """The secret of a personal link, which replaces an earlier one. Somebody who is known keeps their role.

        Only its hash is kept: it cannot be shown a second time.
        """
        _check(name, role)
        secret = secrets.token_urlsafe(24)
        with saving(self) as connection:
            require(connection, by, "lead")
            connection.execute(
                "INSERT INTO annotator (name, role, made, invitation) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (name) DO UPDATE SET invitation = excluded.invitation",
                (name, role, self._clock(), _hashed(secret)),
            )
        return secret

    def revoke(self, name: str, by: str | None = None) -> None:
        """Make the person's link worthless."""
        with saving(self) as connection:
            require(connection, by, "lead")
            person(connection, name)
            connection.execute("UPDATE annotator SET invitation = NULL WHERE name = ?", (name,))

    def invited(self, secret: str) -> Person | None:
        """Whose link this is; None for one that was revoked or never given."""
        row = self.connection.execute(
            f"SELECT {_COLUMNS} FROM annotator WHERE invitation = ?", (_hashed(secret),)
        ).fetchone()
        return _person(row) if row else None

    def with_email(self, email: str) -> Person | None:
        """Who signs in with this address (OIDC)."""
        row = self.connection.execute(f"SELECT {_COLUMNS} FROM annotator WHERE email = ?", (email,)).fetchone()
        return _person(row) if row else None


def person(connection: sqlite3.Connection, name: str) -> Person:
    """Somebody, read inside the caller's transaction. Raises Missing."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM annotator WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise Missing(f"there is nobody named {name!r} in this study; a lead can add them")
    return _person(row)


def require(connection: sqlite3.Connection, name: str | None, right: str) -> None:
    """Raises Refused where the role of `name` has not this right; None, the keeper of the files, has every one."""
    if name is None:
        return
    who = person(connection, name)
    if not who.may(right):
        raise Refused(
            f"{name} is {'an' if who.role[0] == 'a' else 'a'} {who.role}; this takes the role {_RIGHTS[right][0]}"
        )


def _person(row: tuple) -> Person:
    name, role, paused, email, invited = row
    return Person(name, role, bool(paused), email, bool(invited))


def _check(name: str, role: str) -> None:
    check_display_name(name, "person's")
    if role not in ROLES:
        raise BadInput(f"the role is {role!r}; it must be one of {', '.join(ROLES)}")


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
