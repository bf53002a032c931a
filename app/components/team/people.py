"""The panel of people: roles, personal links, pauses."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

import streamlit as st

from blindspot.app import who
from blindspot.app.components.marks import notice
from blindspot.app.components.message import show_last_message, try_action
from blindspot.app.markup import div, show, span, tag
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BlindspotError
from blindspot.db.people import Person
from blindspot.db.rights import ROLES, Role

_LINE = [8.2, 1.2]  # the columns of a person's line and of its menu
_LINK, _NEW_NAME = "people-link", "people-new-name"


def people_panel(open_study: Study, person: Person, primary: bool) -> None:
    """Show each person with a menu of actions, simulated annotators and machines separately, and the form for a new
    person.

    Args:
        primary: Whether inviting somebody is the one next thing to do.
    """
    with st.container(key="team-people"):
        everybody = who.people(open_study.labels_path).all()
        show(tag("h2", "People"))
        columns = ("person", "role", "e-mail address" if who.mode() == "oidc" else "link")
        heads = div(*(span(column, cls="soft") for column in columns), cls="person-line heads")
        st.columns(_LINE)[0].html(str(heads))
        for each in (one for one in everybody if one.kind == "person" and not one.simulated):
            _person(open_study, each, each.name == person.name)
        simulated = [each.name for each in everybody if each.kind == "person" and each.simulated]
        imported = [each.name for each in everybody if each.kind != "person"]
        for words, names in (("simulated annotator", simulated), ("judge with imported labels", imported)):
            if names:
                title = quantity(len(names), words, words.replace("judge ", "judges ") if names is imported else None)
                show(tag("details", tag("summary", title), ", ".join(names)))
        _add(open_study, primary)
        show_last_message("people")  # last, so that it moves no button
        _show_link()


def _person(open_study: Study, person: Person, is_oneself: bool) -> None:
    state = _state(person, is_oneself)
    title = span(tag("b", person.name), span(f" {state}", cls="soft") if state else "", cls="person-name")
    link_state = person.email or ("has a link" if person.invited else "no link")
    left, right = st.columns(_LINE, vertical_alignment="center")
    left.html(str(div(title, span(person.role), span(link_state, cls="soft"), cls="person-line")))
    with right.popover("Change", key=f"menu-{person.name}"):
        _menu(open_study, person, is_oneself)


def _menu(open_study: Study, person: Person, is_oneself: bool) -> None:
    """Show the actions that a lead may apply to a person."""
    people, acting = who.people(open_study.labels_path), partial(who.acting_name, open_study.labels_path)
    key = f"role-{person.name}"
    st.selectbox(
        f"Role of {person.name}",
        ROLES,
        index=ROLES.index(person.role),
        key=key,
        disabled=is_oneself,
        help="Leads cannot give up their own role; another lead can change it." if is_oneself else None,
        on_change=_apply_change,
        args=(lambda: people.set_role(person.name, st.session_state[key], actor=acting()),),
    )
    if who.mode() != "oidc":
        st.button(
            "New link" if person.invited else "Create link",
            key=f"invite-{person.name}",
            help="Create a personal link. It replaces the person's earlier link and ends all sessions that this link opened.",
            on_click=_apply_change,
            args=(lambda: _invite(open_study, person.name, person.role),),
        )
        if person.invited:
            st.button(
                "Revoke",
                key=f"revoke-{person.name}",
                help=f"{person.name} is signed out, and the link does not work any more. Labels stay.",
                on_click=_apply_change,
                args=(lambda: people.revoke(person.name, actor=acting()),),
            )
    if not is_oneself:
        st.button(
            "Resume" if person.paused else "Pause",
            key=f"pause-{person.name}",
            help="A paused person gets no questions. Labels that were already sent are still saved for a minute.",
            on_click=_apply_change,
            args=(lambda: people.pause(person.name, not person.paused, actor=acting()),),
        )


def _state(person: Person, is_oneself: bool) -> str:
    if person.kind == "machine":
        return "imported judgements"
    if person.simulated:
        return "simulated"
    return "paused" if person.paused else "you" if is_oneself else ""


def _add(open_study: Study, primary: bool) -> None:
    by_address = who.mode() == "oidc"
    with st.form("add-person", border=False, enter_to_submit=False, clear_on_submit=True):
        columns = st.columns([3, 2.4, *([3] if by_address else []), 7.6], vertical_alignment="bottom")
        name = columns[0].text_input("Name of a new person", max_chars=64)
        role = columns[1].selectbox("Role", ROLES)
        address = columns[2].text_input("E-mail address to sign in with") if by_address else None
        with columns[-1]:
            words = "Add person" if by_address else "Add and create link"
            pressed = st.form_submit_button(words, type="primary" if primary else "secondary")
    if pressed:
        _apply_change(lambda: _take_in(open_study, name.strip(), role, (address or "").strip() or None, by_address))
        st.rerun()


def _take_in(open_study: Study, name: str, role: Role, address: str | None, by_address: bool) -> None:
    if by_address:
        who.people(open_study.labels_path).add(name, role, address, actor=who.acting_name(open_study.labels_path))
        return
    if name in [person.name for person in who.people(open_study.labels_path).all()]:
        raise BlindspotError(f"{name} is listed already; use the button beside the name")
    _invite(open_study, name, role)


def _invite(open_study: Study, name: str, role: Role) -> None:
    secret = who.people(open_study.labels_path).invite(name, role, actor=who.acting_name(open_study.labels_path))
    st.session_state[_LINK] = name, f"{_address()}/?key={secret}"


def _address() -> str:
    """Return the address under which others reach the app: this browser's, or this machine's name once it is open to
    them.
    """
    if who.on_this_machine():
        return f"http://{socket.gethostname()}:{st.get_option('server.port')}"
    parts = urlsplit(st.context.url or "http://localhost:8501")
    folder = parts.path.rpartition("/")[0].rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{folder}"


def _show_link() -> None:
    """Show the link that was just created. It is shown only once, because the store keeps only its hash."""
    made = st.session_state.pop(_LINK, None)
    if made is None:
        return
    name, address = made
    with st.container(key="team-link"):
        show(
            tag(
                "p",
                f"Send this link to {name} and to nobody else. Whoever has it acts as {name}. The link is shown only now.",
            )
        )
        st.code(address, language=None, wrap_lines=True)
        if who.on_this_machine():
            words = (
                "The link opens nothing yet: only this machine reaches the app. End it, and open it for others with "
            )
            show(notice(words, tag("code", "blindspot open --address 0.0.0.0"), ".", kind="warning"))


def _apply_change(change: Callable[[], None]) -> None:
    try_action(change, "people")
