"""The people of a study. Roles and rights are in `blindspot.db.rights`; the stores check them inside their transactions."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from dataclasses import dataclass
from typing import Literal, get_args

from blindspot.db.connection import PerThread, insert, store_transaction
from blindspot.db.errors import BadInput, Forbidden, Missing, Refused
from blindspot.db.names import check_display_name
from blindspot.db.rights import ACTIONS, ROLES, Role, required_role, role_allows

SESSION_SECONDS = 12 * 3600.0
"""How long a browser stays signed in after the person opened their link. Opening the link again starts a new session.
A personal link itself stays valid until it is revoked or replaced.
"""
PAUSE_SECONDS = 60.0
"""How long the labels of a paused person are still accepted for questions they hold, because the labels may already
have been sent.
"""

SIMULATED = " (simulated)"
"""The end of the names of simulated annotators, which are programs. Their labels count like those of people."""
ACTIVE_PERSON = f"(a.kind = 'person' AND a.paused = 0 AND substr(a.name, -{len(SIMULATED)}) <> '{SIMULATED}')"
"""SQL: whether annotator `a` is active, as in `Person.active`."""

_COLUMNS = "name, role, paused, email, annotator.invitation IS NOT NULL, kind"
Kind = Literal["person", "machine"]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Person:
    """A person who works on the study.

    Attributes:
        paused: The queue gives the person no more questions.
        invited: The person has a valid personal link.
        kind: "machine" for the annotator of imported judgements, in whose name nobody signs in or judges.
    """

    name: str
    role: Role
    paused: bool = False
    email: str | None = None
    invited: bool = False
    kind: Kind = "person"

    @property
    def simulated(self) -> bool:
        """Whether the labels under this name come from a program."""
        return self.name.endswith(SIMULATED)

    @property
    def active(self) -> bool:
        """Whether batches can rely on this person: not paused, not simulated and not a machine."""
        return self.kind == "person" and not self.paused and not self.simulated

    def is_allowed(self, action: str) -> bool:
        """Whether the person's role allows an action of `blindspot.db.rights.ACTIONS`."""
        return role_allows(self.role, action)


class People(PerThread):
    """The people of one labels.db. Threads may share it.

    `by` names the person who asks; their role must allow the action. None is the person who has the study's files (on
    the command line), who may do everything.
    """

    def all(self) -> list[Person]:
        """Return all people, by name."""
        return [_person(row) for row in self.connection.execute(f"SELECT {_COLUMNS} FROM annotator ORDER BY name")]

    def get(self, name: str) -> Person:
        """Return a person. Raises Missing."""
        return person(self.connection, name)

    def add(self, name: str, role: Role = "annotator", email: str | None = None, actor: str | None = None) -> Person:
        """Add a person.

        Raises:
            BadInput: The name or the role is not allowed.
            Refused: The name or the address is taken.
        """
        _check_name_and_role(name, role)
        with store_transaction(self) as connection:
            require(connection, actor, "manage people")
            if connection.execute("SELECT 1 FROM annotator WHERE name = ? OR email = ?", (name, email)).fetchone():
                raise Refused(f"there is somebody named {name!r}, or with that address, already; choose another name")
            insert(connection, "annotator", name=name, role=role, email=email, made=self._clock())
            return person(connection, name)

    def set_role(self, name: str, role: Role, actor: str | None = None) -> None:
        """Change a role. Leads cannot change their own role (Refused), so that a study does not lose its last lead by
        accident.
        """
        _check_name_and_role(name, role)
        with store_transaction(self) as connection:
            require(connection, actor, "manage people")
            person(connection, name)
            if actor == name and role != "lead":
                raise Refused("a lead cannot take the role from themselves; ask another lead")
            connection.execute("UPDATE annotator SET role = ? WHERE name = ?", (role, name))

    def set_kind(self, name: str, kind: Kind, actor: str | None = None) -> None:
        """Say whether a person or a machine gave an annotator's labels. Only people's labels count for consensus.

        Raises:
            Refused: The annotator can sign in, so they are a person.
        """
        if kind not in KINDS:
            raise BadInput(f"the kind is {kind!r}; it must be one of {', '.join(KINDS)}")
        with store_transaction(self) as connection:
            require(connection, actor, "manage people")
            who = person(connection, name)
            if kind == "machine" and (who.invited or who.email or who.role != "annotator"):
                raise Refused(f"{name} can sign in or settles disputes, and is a person")
            connection.execute("UPDATE annotator SET kind = ? WHERE name = ?", (kind, name))

    def pause(self, name: str, paused: bool = True, actor: str | None = None) -> None:
        """Pause a person, or let them work again. A paused person gets no more questions.

        The questions they hold end after PAUSE_SECONDS; until then the store accepts labels that were sent before the
        pause.
        """
        with store_transaction(self) as connection:
            require(connection, actor, "manage people")
            person(connection, name)
            connection.execute("UPDATE annotator SET paused = ? WHERE name = ?", (int(paused), name))
            if paused:
                self._end_leases(connection, name)

    def invite(self, name: str, role: Role = "annotator", actor: str | None = None) -> str:
        """Return the secret of a new personal link. The new link replaces an earlier one. A person who is already known
        keeps their role.

        A person without a link stops being paused, because the new link lets them in again. The store keeps only a hash
        of the secret, so it cannot show the link again.
        """
        _check_name_and_role(name, role)
        secret = secrets.token_urlsafe(24)
        with store_transaction(self) as connection:
            require(connection, actor, "manage people")
            if connection.execute("SELECT 1 FROM annotator WHERE name = ? AND kind = 'machine'", (name,)).fetchone():
                raise Refused(f"{name} is a machine and gets no link; choose another name")
            connection.execute(
                "INSERT INTO annotator (name, role, made, invitation) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (name) DO UPDATE SET invitation = excluded.invitation, "
                "paused = paused AND annotator.invitation IS NOT NULL",
                (name, role, self._clock(), _hash_secret(secret)),
            )
        return secret

    def revoke(self, name: str, actor: str | None = None) -> None:
        """Make a person's link invalid, end all sessions that it opened, and pause the person until they get a new
        link."""
        with store_transaction(self) as connection:
            require(connection, actor, "manage people")
            person(connection, name)
            connection.execute("UPDATE annotator SET invitation = NULL, paused = 1 WHERE name = ?", (name,))
            connection.execute("DELETE FROM sign_in WHERE annotator = ?", (name,))
            self._end_leases(connection, name)

    def _end_leases(self, connection: sqlite3.Connection, name: str) -> None:
        connection.execute(
            "UPDATE lease SET expires = min(expires, ?) WHERE annotator = ? AND state = 'held'",
            (self._clock() + PAUSE_SECONDS, name),
        )

    def person_of_link(self, secret: str) -> Person | None:
        """Return the person to whom a link belongs; None if the link was revoked or never existed."""
        return _find_person(self.connection, "annotator WHERE invitation = ?", _hash_secret(secret))

    def sign_in(self, secret: str) -> str | None:
        """Exchange the secret of a personal link for the token of a new session; None for a link that is not valid.

        The link stays valid. The store keeps only a hash of the token, and deletes sessions that have ended.
        """
        token, now = secrets.token_urlsafe(32), self._clock()
        with store_transaction(self) as connection:
            who = self.person_of_link(secret)
            if who is None:
                return None
            connection.execute("DELETE FROM sign_in WHERE expires <= ?", (now,))
            session = {"token": _hash_secret(token), "invitation": _hash_secret(secret)}
            insert(connection, "sign_in", **session, annotator=who.name, expires=now + SESSION_SECONDS)
        return token

    def person_of_session(self, token: str) -> Person | None:
        """Return the person of a session; None if the session expired or was signed out, or if its link was revoked or
        replaced.
        """
        return _find_person(
            self.connection,
            "sign_in s JOIN annotator ON name = s.annotator "
            "WHERE s.token = ? AND s.expires > ? AND s.invitation = annotator.invitation",
            _hash_secret(token),
            self._clock(),
        )

    def sign_out(self, token: str) -> None:
        """End a session. The link that opened the session stays valid."""
        with store_transaction(self) as connection:
            connection.execute("DELETE FROM sign_in WHERE token = ?", (_hash_secret(token),))

    def require(self, name: str | None, action: str) -> None:
        """Raise Refused if this person may not do the action. None is the person who has the study's files."""
        require(self.connection, name, action)

    def person_with_email(self, email: str) -> Person | None:
        """Return the person who signs in with this address (OIDC); None if there is none."""
        return _find_person(self.connection, "annotator WHERE email = ?", email)


def person(connection: sqlite3.Connection, name: str) -> Person:
    """Return a person inside the caller's transaction. Raises Missing."""
    found = _find_person(connection, "annotator WHERE name = ?", name)
    if found is None:
        raise Missing(f"nobody is named {name!r} in this study; a lead can add them")
    return found


def require(connection: sqlite3.Connection, name: str | None, action: str) -> None:
    """Raise Forbidden if the role of `name` does not allow an action. None, the person who has the files, may do
    everything.
    """
    if name is None:
        return
    who = person(connection, name)
    if not who.is_allowed(action):
        raise Forbidden(refusal(who, action))


def refusal(person: Person, action: str) -> str:
    """Say in one line why a person may not do an action."""
    article = "an" if person.role[0] == "a" else "a"
    return (
        f"{person.name} is {article} {person.role} and may not {ACTIONS[action].description}; {required_role(action)}"
    )


def _find_person(connection: sqlite3.Connection, source: str, *values: str | float) -> Person | None:
    """Return the person of the first row of a query (from the name of its table on), or None."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM {source}", values).fetchone()
    return _person(row) if row else None


def _person(row: tuple[str, Role, int, str | None, int, Kind]) -> Person:
    name, role, paused, email, invited, kind = row
    return Person(name, role, bool(paused), email, bool(invited), kind)


def _check_name_and_role(name: str, role: str) -> None:
    check_display_name(name, "person's")
    if role not in ROLES:
        raise BadInput(f"the role is {role!r}; it must be one of {', '.join(ROLES)}")


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
