"""The app: which study is open, which page is shown, and one line instead of a traceback where something is wrong.

    BLINDSPOT_STUDY=STUDY streamlit run app/main.py      (what `blindspot open --study STUDY` does)
"""

from __future__ import annotations

import streamlit as st

from app import study
from app.components.behaviour import behaviour, style
from app.components.header import header
from app.components.marks import notice
from app.markup import show
from db.errors import BlindspotError

PAGES = (
    st.Page("pages/home.py", title="Home", default=True),
    st.Page("pages/compare.py", title="Compare", url_path="compare"),
    st.Page("pages/question.py", title="Question", url_path="question"),
)


def main() -> None:
    st.set_page_config(page_title="Blindspot", layout="wide", initial_sidebar_state="collapsed")
    page = st.navigation(list(PAGES), position="hidden")
    style()
    behaviour()
    try:
        name = study.current().settings.name
    except BlindspotError as error:
        show(header(None, page.title), notice(str(error), kind="error"))
        return
    show(header(name, page.title))
    page.run()


main()
