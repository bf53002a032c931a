"""Saying who one is: a name on this machine, a personal link or a sign-in in a team."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app import url, who
from app.components.marks import notice
from app.markup import link, plain, show, tag
from db.errors import BlindspotError
from db.people import Person

_NEW, _REFUSED = "sign-in-new", "sign-in-refused"


def sign_in(labels_path: Path, why: str) -> None:
    """What a page shows instead of itself to somebody who has not said who they are."""
    mode = who.mode()
    with st.container(key="sign-in"):
        show(tag("h1", "Who are you?" if mode == "local" else "Please sign in"), tag("p", why))
        if mode == "local":
            _by_name(labels_path)
        elif mode == "oidc":
            _by_oidc()
        else:
            wrong = who.wrong_link()
            words = (
                "This personal link is not valid, or not any more."
                if wrong
                else "Open the personal link that you were given."
            )
            show(
                notice(
                    words,
                    " A lead of the study can make a new one: blindspot people invite NAME",
                    kind="error" if wrong else "",
                )
            )


def confirm_sign_out(labels_path: Path, person: Person) -> None:
    """Ask before signing out: what a click on "change" beside the name opens."""
    local = who.mode() == "local"
    again = (
        "Your labels are kept. You can come back under this name at any time."
        if local
        else "Your labels are kept. Sign in again to come back; a personal link works until a lead revokes it."
    )
    with st.container(key="sign-out"):
        show(tag("h1", "Work as somebody else?" if local else "Sign out?"), tag("p", f"You are {person.name}. ", again))
        with st.container(horizontal=True):
            st.button("Sign out", on_click=_sign_out, args=(labels_path,), type="primary")
            show(link("Stay", url.JUDGE, cls="button"))


def _sign_out(labels_path: Path) -> None:
    url.write("sign-out", None)
    who.forget(labels_path)


def _by_name(labels_path: Path) -> None:
    people = who.people(labels_path).all()
    for person in people:
        st.button(
            f"I am {plain(person.name)} ({person.role})",
            key=f"i-am-{person.name}",
            on_click=_say,
            args=(labels_path, person.name),
        )
    with st.form("sign-in-form", border=False):
        left, right = st.columns([3, 1], vertical_alignment="bottom")
        with left:
            st.text_input("Somebody new" if people else "Your name", key=_NEW, max_chars=64)
        with right:
            st.form_submit_button("Begin", on_click=_say_new, args=(labels_path,))
    if refused := st.session_state.pop(_REFUSED, None):
        show(notice(refused, kind="error"))
    if not people:
        show(tag("p", "The first person of a study is its lead.", cls="soft"))


def _by_oidc() -> None:
    if st.user.is_logged_in:
        email = st.user.email or "You"
        show(notice(f"{email} is signed in, but nobody in this study has that address, or it is not verified. A lead can add it: ",
                    "blindspot people add NAME --email ADDRESS", kind="error"))  # fmt: skip
        st.button("Sign out", on_click=st.logout)
    else:
        st.button("Sign in", on_click=st.login, type="primary")


def _say_new(labels_path: Path) -> None:
    _say(labels_path, st.session_state[_NEW].strip())


def _say(labels_path: Path, name: str) -> None:
    try:
        who.say(labels_path, name)
    except BlindspotError as error:
        st.session_state[_REFUSED] = str(error)
