"""Home: the main finding, the one next action, the runs, the gain from labels, and in an expander below the study's
contents.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from blindspot.app import checks, study, url, who
from blindspot.app.components import jobs
from blindspot.app.components.check.answer import answer
from blindspot.app.components.contents_table import contents_table
from blindspot.app.components.empty_page import with_study
from blindspot.app.components.files import files_panel, is_empty
from blindspot.app.components.findings import findings_panel
from blindspot.app.components.parts import parts_panel
from blindspot.app.components.queue_card import queue_card
from blindspot.app.components.run_table import run_tables
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.unit import unit_panel
from blindspot.app.entry import enter
from blindspot.app.markup import div, link, show, span, tag
from blindspot.backend.checking.building import is_of_file
from blindspot.backend.core.jobs import JobRequest, request
from blindspot.backend.core.made_from import is_check
from blindspot.backend.core.study import Study
from blindspot.backend.core.summary import summary
from blindspot.backend.demo import is_demo
from blindspot.backend.retrieval.indexes import available_retrievers
from blindspot.backend.retrieval.next_steps import command_line, next_steps
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.retrieval.retriever import RESERVED, RETRIEVERS, kind_of, options_for

ABOUT = (
    "Blindspot compares two retrievers on your questions and passages and shows what each one finds and misses. It needs "
    "a passage collection and questions: drop the files here, or run the command below; this page then shows the next step."
)


ABOUT_DEMO = (
    "This study is invented: its people, places and works do not exist, so every passage that answers a question is known. "
    "Annotators whose names end in “(simulated)” are programs; this computer computed every figure."
)


def page() -> None:
    opened = study.current()
    with jobs.with_job_panel(opened):
        _page(opened)


def _page(open_study: Study) -> None:
    show(style_sheet("home.css"))
    if is_empty(open_study):
        show(div(tag("h1", f"{open_study.settings.name} is a new study"), tag("p", ABOUT), cls="welcome"))
        files_panel(open_study)
    is_checked = is_check(open_study)
    # The negatives of a training file are no retriever's run: their accuracy says nothing.
    runs = {name: about for name, about in study.runs(open_study).items() if not (is_checked and is_of_file(about))}
    person = who.signed_in_person(open_study.labels_path)
    # The findings first: they reach the browser while the server computes the rest of the page.
    found = findings_panel(open_study, runs, "h2" if is_checked else "h1")
    if is_checked:
        _check(open_study, is_main=not found)
    show(found)
    is_made = is_demo(open_study) and _demo(open_study)
    if is_made:
        jobs.panel(open_study, finished=True)
    if runs:
        show(run_tables(open_study, runs))
    contents = summary(open_study)
    is_working = bool(jobs.unfinished(open_study))
    with st.container(key="home"):
        if is_working and not is_made:
            jobs.panel(open_study, finished=True)
        if contents["passages"] is not None and contents["questions"]:
            show(queue_card(open_study, person, len(runs)))
        may_retrieve = who.may(open_study.labels_path, "retrieve") and not is_made and not is_checked
        if may_retrieve:
            _next(open_study, contents)
    with st.container(key="study"):
        show(tag("h2", "Study"))
        if runs:
            parts_panel(open_study, "run", list(runs))
        if may_retrieve:
            _make_more(open_study, contents)
        if not is_empty(open_study) and not is_checked:
            files_panel(open_study)
        if runs and "relations" in study.available_facts(open_study):
            unit_panel(open_study)
        with st.expander("Study contents"):
            show(contents_table(contents, is_checked and not study.with_answers(open_study)))
        if not is_made and not is_working:
            jobs.panel(open_study, finished=True)


def _check(open_study: Study, is_main: bool) -> None:
    """Show the result of a check and the link to its page.

    Args:
        is_main: whether this link is the one next action of the page.
    """
    found = checks.proven_labels(open_study)
    words = answer(checks.check_of(open_study).facts, found, checks.sees_rate(open_study, found))
    button = link("See the check", url.CHECK, cls="button main" if is_main else "button")
    show(div(words, button, cls="welcome"))


def _demo(open_study: Study) -> bool:
    """Say what the demo is, and return whether parts of it are still being made."""
    from blindspot.backend.demo.making import is_running

    show(tag("p", ABOUT_DEMO, cls="soft"))
    return is_running(open_study) is not None


def _next(open_study: Study, contents: dict[str, Any]) -> None:
    """Show the steps that the study still lacks, each with its command and its button; nothing if all are done."""
    if contents["from_results"]:
        with st.container(key="next"):
            show(
                tag("h2", "Created from results files"),
                *(tag("p", line) for line in contents["from_results"]["cannot"]),
            )
        return
    steps = next_steps(open_study, contents["questions"])
    if not steps:
        return
    with st.container(key="next"):
        show(tag("h2", "Next steps"))
        for number, step in enumerate(steps, 1):
            show(div(span(f"{number}", cls="place"), span(step.why), cls="step-why"))
            left, right = st.columns([7, 2], vertical_alignment="center")
            left.code(with_study(step.command, open_study), language=None, wrap_lines=True)
            if step.job is not None:
                with right:
                    jobs.start_button(
                        open_study, step.job, key=f"start-{number}", missing_part=_missing_index(contents, step.job)
                    )


def _missing_index(contents: dict[str, Any], job: JobRequest) -> str:
    """Say which index a retrieval still needs; "" if the retrieval can start."""
    if job.kind.function is not retrieve:
        return ""
    arguments = job.arguments
    retriever = RETRIEVERS.get(arguments["kind"])
    settings = {key: value for key, value in arguments.items() if key not in RESERVED}
    needed = retriever.parts(retriever.name_of(options_for(retriever, settings)))
    missing = [index for index in needed if index not in contents["indexes"]]
    return f"needs the {' and the '.join(missing)} index first" if missing else ""


def _make_more(open_study: Study, contents: dict[str, Any]) -> None:
    """The form that starts another retrieval."""
    counts = contents["questions"]
    retrievers = {name: kind for name in available_retrievers(open_study) if (kind := kind_of(name)) is not None}
    if not retrievers or not counts:
        return
    with st.expander("Another run"):
        left, middle, right = st.columns([3, 3, 2], vertical_alignment="bottom")
        retriever = left.selectbox(
            "Retriever",
            list(retrievers),
            key="more-retriever",
            format_func=lambda name: retrievers[name].label(name),
        )
        sets = list(dict.fromkeys([*(c["split"] for c in counts), *(c["dataset"] for c in counts if c["dataset"])]))
        split = middle.selectbox("Questions", sets, key="more-split", help="A split, or one question set by name.")
        kind = retrievers[retriever]
        job = request(retrieve, kind.name, split=split, **kind.options_of(retriever))
        with right:
            jobs.start_button(open_study, job, key="more-start", label="Retrieve")
        st.code(with_study(command_line(kind, retriever, split), open_study), language=None, wrap_lines=True)


enter(page, draws=False)
