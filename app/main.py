"""The app's main script: open the study, let people sign in, show the page. Streamlit runs this script at every
interaction.

`blindspot open --study STUDY` starts `blindspot.app.server_process`, which serves this script.
"""

from __future__ import annotations

import logging

import streamlit as st

from blindspot.app import study, who
from blindspot.app.components.behaviour import behaviour, style
from blindspot.app.components.header import header
from blindspot.app.components.marks import notice
from blindspot.app.components.next_page import next_link
from blindspot.app.components.sign_in import sign_in
from blindspot.app.entry import THROUGH_MAIN
from blindspot.app.markup import Html, show
from blindspot.app.per_run import one_run
from blindspot.backend.checking.building import is_of_file
from blindspot.backend.core.made_from import is_check
from blindspot.backend.core.study import Study
from blindspot.db.errors import BlindspotError

PAGES = {
    "Home": "home",
    "Check": "check",
    "Compare": "compare",
    "Relations": "relations",
    "Slices": "slices",
    "Map": "map",
    "Question": "question",
    "Judge": "judge",
    "Quality": "quality",
    "Team": "team",
    "Training": "training",
}


def main() -> None:
    with one_run():
        _main()


def _main() -> None:
    st.set_page_config(page_title="Blindspot", layout="wide", initial_sidebar_state="collapsed")
    page = st.navigation(
        [
            st.Page(f"pages/{name}.py", title=title, url_path=name, default=name == "home")
            for title, name in PAGES.items()
        ],
        position="hidden",
    )
    style()
    try:
        opened = study.current()
        name, person = opened.settings.name, who.signed_in_person(opened.labels_path)
    except BlindspotError as error:
        behaviour()
        show(header(None, page.title), notice(str(error), kind="error"))
        return
    behaviour(who.cookie())
    if person is None and who.mode() != "local":
        show(header(None, page.title))
        sign_in(opened.labels_path, "This study is open to its members only.")
        return
    sees_judge_alone = not who.may(opened.labels_path, "see results")
    if sees_judge_alone and page.title != "Judge":
        st.switch_page("pages/judge.py")
    st.set_page_config(page_title=f"{page.title} · {name}")
    show(header(name, page.title, person, _empty_pages(opened)))
    st.session_state[THROUGH_MAIN] = True
    page.run()
    if not sees_judge_alone:
        show(_next(opened, page.title))


def _next(open_study: Study, page: str) -> Html:
    """Return the link to the next page; empty where the page itself has said that the study cannot be read."""
    try:
        has_next = len(study.runs(open_study)) > 1 or is_check(open_study)
        return next_link(open_study, page) if has_next else Html("")
    except Exception:
        logging.getLogger(__name__).exception("the link to the next page failed")
        return Html("")


NEEDS_RETRIEVERS = ["Compare", "Relations", "Slices", "Map"]
"""Pages about what retrievers find, which a checked training file says nothing about."""


def _empty_pages(open_study: Study) -> list[str]:
    """Return the titles of the pages that have nothing to show in this study yet. In an empty study every page but
    Check may get contents later.

    If the study cannot be read, the result contains the titles of all pages, and the page itself says what is wrong.
    """
    try:
        runs = study.parts(open_study, "runs")
        is_checked = is_check(open_study)
        if is_checked and all(map(is_of_file, runs.values())):
            return NEEDS_RETRIEVERS
        without = [] if is_checked else ["Check"]
        has_facts = open_study.questions.last_position < 0 or study.available_facts(open_study) & {
            "relations",
            "frequencies",
        }
    except Exception:
        logging.getLogger(__name__).exception("the pages of a study failed")
        return []
    return without if has_facts else [*without, "Relations"]


if __name__ == "__main__":
    main()
