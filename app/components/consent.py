"""The form in which the person at this machine allows texts of the study to be sent to a server."""

from __future__ import annotations

import streamlit as st

from blindspot.app import who
from blindspot.app.components.marks import command, notice
from blindspot.app.markup import show
from blindspot.backend.core import consent
from blindspot.backend.core.study import Study
from blindspot.db.errors import BlindspotError


def consent_form(open_study: Study, url: str) -> None:
    """Show how to allow texts to go to a server: a form if only this machine reaches the app, otherwise the command."""
    server = consent.server_of(url)
    if not who.on_this_machine():
        line = f"blindspot consent give {server}"
        show(notice(f"Texts may not go to {server} yet. Whoever runs this server allows it with: ", command(line)))
        return
    with st.form(f"consent-{server}"):
        agreed = st.checkbox(f"Texts of questions and passages may go to {server}", key=f"consent-agreed-{server}")
        variable = st.text_input(
            "Environment variable with its key",
            key=f"consent-key-{server}",
            max_chars=100,
            help="Name of the variable, sent to this server alone. Leave the field empty if the server needs no key.",
        )
        given = st.form_submit_button("Allow")
    if given and agreed:
        try:
            consent.give_consent(open_study, server, variable.strip())
        except BlindspotError as error:
            show(notice(f"{str(error)[:1].upper()}{str(error)[1:]}.", kind="warning"))
            return
        st.rerun()
