"""The signed-in person and their rights, read from the store at every rerun and every action.

There are three ways to sign in:

- a personal link: the server exchanges its key for a session cookie that scripts cannot read (`blindspot.app.link_keys`);
- an identity provider (OIDC), if secrets.toml configures one;
- a name, if the server is reachable from this machine only. The browser stores the name in a cookie.

How long a session lasts is `SESSION_SECONDS` in db/people.py.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

import streamlit as st

from blindspot.app import per_run
from blindspot.app.link_keys import INVALID, LINK, cookie_name, session_cookie
from blindspot.app.server import SIGN_IN
from blindspot.backend.service.guard import is_loopback
from blindspot.db.errors import BlindspotError, Refused
from blindspot.db.people import People, Person
from blindspot.db.rights import ACTIONS, Role

Mode = Literal["local", "links", "oidc"]

SIGNED_OUT = "you are no longer signed in; sign in again, or open your personal link again"
_TOKEN, _COOKIE = "who-token", "who-cookie"
_NAME = "name:"


def mode() -> Mode:
    """Return the way to sign in: OIDC if secrets.toml configures it; by name if the app listens on this machine only;
    otherwise by personal links.
    """
    if _oidc():
        return "oidc"
    setting = os.environ.get(SIGN_IN)
    if setting in ("none", "links"):
        return "local" if setting == "none" else "links"
    return "local" if is_loopback(st.get_option("server.address") or "") else "links"


def on_this_machine() -> bool:
    """Return whether only people at this machine can reach the app, so that their decisions are those of the machine's
    owner.
    """
    return mode() == "local" and os.environ.get(SIGN_IN) != "none"


def signed_in_person(labels_path: Path) -> Person | None:
    """Return the person signed in to this session, from the store; None if nobody is signed in."""
    return per_run.once_per_run(("who", labels_path), lambda: _signed_in_person(labels_path))


def _signed_in_person(labels_path: Path) -> Person | None:
    everybody = people(labels_path)
    if _oidc():
        email = st.user.email if st.user.is_logged_in else None
        return everybody.person_with_email(email) if isinstance(email, str) and email and _verified_email() else None
    session = _session(labels_path)
    if session and (person := everybody.person_of_session(session)):
        return person
    token = st.session_state.get(_TOKEN)
    if token is None:
        cookie = st.context.cookies.get(cookie_name(labels_path))
        token = unquote(cookie) if isinstance(cookie, str) else ""
    return (
        _person_named(everybody, token.removeprefix(_NAME)) if token.startswith(_NAME) and mode() == "local" else None
    )


def acting_name(labels_path: Path) -> str | None:
    """Return the name to record as `by` in stores and jobs; None in the local app before sign-in.

    Raises Refused if others can reach the app and nobody is signed in, for example after a link was revoked.
    """
    person = signed_in_person(labels_path)
    if person is None and mode() != "local":
        raise Refused(SIGNED_OUT)
    return person.name if person else None


def may(labels_path: Path, action: str) -> bool:
    """Return whether the signed-in person has the right to an action of `blindspot.db.rights.ACTIONS`; pages hide
    actions without the right.
    """
    return has_right(signed_in_person(labels_path), action)


def has_right(person: Person | None, action: str) -> bool:
    """Return whether a person has the right to an action; see `may`. None means that nobody is signed in."""
    if person is None:
        return mode() == "local" and ACTIONS[action].unnamed
    return person.is_allowed(action)


def sign_in_has_ended(labels_path: Path) -> bool:
    """Return whether sign-in is required and the person is no longer signed in. A fragment then reruns its page."""
    return mode() != "local" and signed_in_person(labels_path) is None


def wrong_link() -> bool:
    """Return whether this session began with an invalid personal link."""
    return st.query_params.get(LINK) == INVALID


def sign_in_by_name(labels_path: Path, name: str) -> None:
    """Sign in by name (local app). A new person is added; the first person of a study is its lead. Raises BadInput."""
    if mode() != "local":
        raise Refused(SIGNED_OUT)
    everybody = people(labels_path)
    known = {person.name: person for person in everybody.all()}
    if name in known and known[name].kind == "machine":
        raise Refused(f"{name} is a machine; sign in with another name")
    if name not in known:
        everybody.add(name, first_role(labels_path))
    _store_token(labels_path, _NAME + name)


def first_role(labels_path: Path) -> Role:
    """Return the role of somebody who signs in under a new name: lead if the study has nobody but simulated annotators
    yet.
    """
    return "annotator" if real_people(labels_path) else "lead"


def real_people(labels_path: Path) -> list[Person]:
    """Return the people of the study without machines and the demo's simulated annotators, because nobody can sign in
    under their names.
    """
    return [person for person in people(labels_path).all() if not person.simulated and person.kind == "person"]


def forget(labels_path: Path) -> None:
    """Sign out of this browser. A personal link stays valid and opens a new session."""
    if _oidc():
        st.logout()
        return
    if session := _session(labels_path):
        people(labels_path).sign_out(session)
    _store_token(labels_path, "")


def people(labels_path: Path) -> People:
    """Return the study's store of people, shared by all sessions."""
    return _people(str(labels_path), labels_path.stat().st_ino)


def cookie() -> tuple[str, str] | None:
    """Return (name, value) of the cookie for the browser to store; None if it has not changed in this session."""
    return st.session_state.get(_COOKIE)


def _session(labels_path: Path) -> str:
    token = st.context.cookies.get(session_cookie(labels_path))
    return token if isinstance(token, str) else ""


def _store_token(labels_path: Path, token: str) -> None:
    per_run.forget()
    st.session_state[_TOKEN] = token
    st.session_state[_COOKIE] = (cookie_name(labels_path), quote(token, safe=""))


def _person_named(people: People, name: str) -> Person | None:
    try:
        return people.get(name)
    except BlindspotError:
        return None


@st.cache_resource(show_spinner=False)
def _oidc() -> bool:
    """Return whether secrets.toml configures a provider. secrets.toml is read once, as in Streamlit's own sign-in."""
    from streamlit.runtime.secrets import secrets_singleton

    return secrets_singleton.load_if_toml_exists() and "auth" in secrets_singleton


def _verified_email() -> bool:
    """Return whether the provider has verified the email address. If the provider makes no statement about that, the
    address is accepted.
    """
    return st.user.to_dict().get("email_verified") is not False


@lru_cache(maxsize=4)  # asked a dozen times a page; Streamlit's caches take 0.2 ms to make their keys
def _people(path: str, inode: int) -> People:
    return People(path)
