"""Sign-in: by name on the local machine; by personal link or identity provider in a team."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from blindspot.app import url, who
from blindspot.app.components.marks import notice
from blindspot.app.components.message import show_last_message, try_action
from blindspot.app.markup import escape_markdown, link, show, tag
from blindspot.db.people import Person

_NEW = "sign-in-new"


def sign_in(labels_path: Path, reason: str) -> None:
    """Show the sign-in form in place of the page."""
    mode = who.mode()
    with st.container(key="sign-in"):
        show(tag("h1", "Who are you?" if mode == "local" else "Please sign in"), tag("p", reason))
        if mode == "local":
            _by_name(labels_path)
        elif mode == "oidc":
            _by_oidc()
        else:
            wrong = who.wrong_link()
            words = (
                "This personal link is not valid; it may have been revoked."
                if wrong
                else "Open the personal link that a lead sent you."
            )
            show(
                notice(
                    words,
                    " A lead of the study can create a new link on the page Team.",
                    kind="error" if wrong else "",
                )
            )


def confirm_sign_out(labels_path: Path, person: Person) -> None:
    """Ask for confirmation before signing out. The link "change" beside the name opens this question."""
    local = who.mode() == "local"
    again = (
        "Your labels stay. You can sign in under this name again at any time."
        if local
        else "Your labels stay. You can sign in again; a personal link works until a lead revokes it."
    )
    with st.container(key="sign-out"):
        show(
            tag("h1", "Sign in as somebody else?" if local else "Sign out?"),
            tag("p", f"You are {person.name}. ", again),
        )
        with st.container(horizontal=True):
            st.button("Sign out", on_click=_sign_out, args=(labels_path,), type="primary")
            show(link("Stay signed in", url.JUDGE, cls="button"))


def _sign_out(labels_path: Path) -> None:
    url.write("sign-out", None)
    who.forget(labels_path)


def _by_name(labels_path: Path) -> None:
    people = who.real_people(labels_path)
    for person in people:
        st.button(
            f"I am {escape_markdown(person.name)} ({person.role})",
            key=f"i-am-{person.name}",
            on_click=_sign_in,
            args=(labels_path, person.name),
        )
    with st.form("sign-in-form", border=False):
        name_column, right, _ = st.columns([4, 1, 5], vertical_alignment="bottom")
        with name_column:
            st.text_input("New name" if people else "Your name", key=_NEW, max_chars=64)
        with right:
            st.form_submit_button("Start", on_click=_say_new, args=(labels_path,), type="primary")
    show_last_message("sign-in")
    if not people:
        show(tag("p", "The first person to sign in becomes the study's lead.", cls="soft"))


def _by_oidc() -> None:
    if st.user.is_logged_in:
        email = st.user.email or "You"
        show(
            notice(
                f"{email} is signed in, but is not a member of this study or the address is not verified. A lead can "
                "add it: ",
                "blindspot people add NAME --email ADDRESS",
                kind="error",
            )
        )
        st.button("Sign out", on_click=st.logout)
    else:
        st.button("Sign in", on_click=st.login, type="primary")


def _say_new(labels_path: Path) -> None:
    _sign_in(labels_path, st.session_state[_NEW].strip())


def _sign_in(labels_path: Path, name: str) -> None:
    try_action(lambda: who.sign_in_by_name(labels_path, name), "sign-in")
