"""Who is at work. On this machine one says so with a click; in a team a personal link or a sign-in (OIDC) says it.

The browser keeps what it was told in a cookie, so that a reload does not ask again. A name alone counts only where the server
answers this machine alone; anywhere else the cookie must hold the secret of a personal link. The database is asked at every
rerun: a link that is revoked, or a role that is changed, counts at once.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

import streamlit as st

from app.server import SIGN_IN
from backend.service.guard import is_loopback
from db.errors import BlindspotError
from db.people import People, Person

Mode = Literal["local", "links", "oidc"]

INVITATION = "invite"
_TOKEN, _WRONG, _COOKIE = "who-token", "who-wrong", "who-cookie"
_NAME, _LINK = "name:", "link:"


def mode() -> Mode:
    """How people are told apart: by OIDC where secrets.toml configures it, by name on loopback, else by personal links."""
    if _oidc():
        return "oidc"
    trusted = os.environ.get(SIGN_IN) == "none" or is_loopback(st.get_option("server.address") or "")
    return "local" if trusted else "links"


def who(labels_path: Path) -> Person | None:
    """Who is at work in this session; None where nobody has said so, or what was said does not count any more."""
    everybody = people(labels_path)
    if _oidc():
        return everybody.with_email(st.user.email) if st.user.is_logged_in and st.user.email and _verified() else None
    secret = st.query_params.get(INVITATION)
    if secret is not None:
        del st.query_params[INVITATION]
        _remember(labels_path, _LINK + secret)
        st.session_state[_WRONG] = everybody.invited(secret) is None
    token = st.session_state.get(_TOKEN)
    if token is None:
        kept = st.context.cookies.get(cookie_name(labels_path))
        token = unquote(kept) if isinstance(kept, str) else ""
    if token.startswith(_LINK):
        return everybody.invited(token.removeprefix(_LINK))
    return _named(everybody, token.removeprefix(_NAME)) if token.startswith(_NAME) and mode() == "local" else None


def wrong_link() -> bool:
    """Whether this session came with a personal link that is not valid."""
    return bool(st.session_state.get(_WRONG))


def say(labels_path: Path, name: str) -> None:
    """On this machine: be the person of that name, who is added if new. The first of a study is its lead. Raises BadInput."""
    everybody = people(labels_path)
    known = [person.name for person in everybody.all()]
    if name not in known:
        everybody.add(name, "annotator" if known else "lead")
    _remember(labels_path, _NAME + name)


def forget(labels_path: Path) -> None:
    """Sign out of this browser."""
    if _oidc():
        st.logout()
        return
    _remember(labels_path, "")


def people(labels_path: Path) -> People:
    """Everybody of the study; one store for all sessions."""
    return _people(str(labels_path), labels_path.stat().st_ino)


def cookie_name(labels_path: Path) -> str:
    """Cookies do not tell ports apart, so each study has one of its own."""
    return "blindspot-" + hashlib.sha256(str(labels_path).encode()).hexdigest()[:12]


def cookie() -> tuple[str, str] | None:
    """(name, value) that the browser is to keep from now on; None where nothing has changed in this session."""
    return st.session_state.get(_COOKIE)


def _remember(labels_path: Path, token: str) -> None:
    st.session_state[_TOKEN] = token
    st.session_state[_COOKIE] = (cookie_name(labels_path), quote(token, safe=""))
    st.session_state.pop(_WRONG, None)


def _named(people: People, name: str) -> Person | None:
    try:
        return people.get(name)
    except BlindspotError:
        return None


@st.cache_resource(show_spinner=False)
def _oidc() -> bool:
    """Whether secrets.toml names a provider; read once, as Streamlit's own sign-in does."""
    from streamlit.runtime.secrets import secrets_singleton

    return secrets_singleton.load_if_toml_exists() and "auth" in secrets_singleton


def _verified() -> bool:
    """Whether the provider vouches for the address; one that says nothing of it is believed."""
    return st.user.to_dict().get("email_verified") is not False


@st.cache_resource(max_entries=4, show_spinner=False)
def _people(path: str, inode: int) -> People:
    return People(path)
