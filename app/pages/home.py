"""Home: the findings, the runs with their accuracy, the study's contents, the next step, and the jobs."""

from __future__ import annotations

from typing import Any

import streamlit as st

from blindspot.app import checks, study, url, who
from blindspot.app.components import jobs
from blindspot.app.components.check.answer import answer
from blindspot.app.components.check.upload import is_empty, upload_panel
from blindspot.app.components.findings import findings_panel
from blindspot.app.components.holdings import holdings
from blindspot.app.components.learning_curve import curve_panel
from blindspot.app.components.next_step import with_study
from blindspot.app.components.parts import parts_panel
from blindspot.app.components.queue_card import queue_card
from blindspot.app.components.run_table import run_table
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.unit import unit_panel
from blindspot.app.entry import enter
from blindspot.app.markup import Html, div, link, show, span, tag
from blindspot.backend.checking.building import is_of_file
from blindspot.backend.checking.check import is_check
from blindspot.backend.core.jobs import JobRequest, request
from blindspot.backend.core.study import Study
from blindspot.backend.core.summary import summary
from blindspot.backend.demo import is_demo
from blindspot.backend.retrieval.indexes import names
from blindspot.backend.retrieval.next_steps import command_line, next_steps
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.retrieval.retriever import RESERVED, RETRIEVERS, kind_of, options_for


def page() -> None:
    opened = study.current()
    with jobs.followed(opened):
        _page(opened)


def _page(opened: Study) -> None:
    show(style_sheet("home.css"))
    if is_empty(opened):
        show(_welcome(opened.settings.name))
        show(style_sheet("check/check.css"))
        upload_panel(opened)
    is_made = is_demo(opened) and _demo(opened)
    if is_made:
        jobs.panel(opened)
    of_file = is_check(opened)
    if of_file:
        _check(opened)
    # The negatives of a training file are no retriever's run: their accuracy says nothing.
    runs = {name: about for name, about in study.shown_runs(opened).items() if not (of_file and is_of_file(about))}
    if runs:
        # The findings first: they reach the browser while the server computes the rest of the page.
        show(findings_panel(opened, runs))
        show(run_table(opened, runs))
        parts_panel(opened, "run", list(runs))
        unit_panel(opened)
    contents = summary(opened)
    with st.container(key="home"):
        first_column, right = st.columns(2, gap="small")
        with first_column:
            show(holdings(contents, of_file and not study.with_answers(opened)))
            curve_panel(opened, "home")
        with right:
            if contents["passages"] is not None and contents["questions"]:
                show(queue_card(opened, who.who(opened.labels_path), len(runs)))
            if who.may(opened.labels_path, "retrieve") and not is_made and not of_file:
                with st.container(key="next"):
                    _next(opened, contents)
                    _make_more(opened, contents)
            if not is_made:
                jobs.panel(opened)


def _check(opened: Study) -> None:
    """Show the answer of a check, and the way to its page."""
    found = checks.labelled(opened)
    words = answer(checks.check_of(opened).facts, found, checks.sees_rate(opened, found))
    show(div(words, link("See the check", url.CHECK, cls="button"), cls="welcome"))


def _demo(opened: Study) -> bool:
    """Show the steps through the demo, and return whether parts of it are still being made."""
    from blindspot.app.components.demo_steps import demo_panel
    from blindspot.backend.demo.making import running

    show(demo_panel(opened, who.who(opened.labels_path)))
    return running(opened) is not None


def _welcome(name: str) -> Html:
    return div(
        tag("h1", f"{name} is a new study"),
        tag(
            "p",
            "Blindspot compares two retrievers on your questions and passages and shows what each one finds and "
            "misses. It needs a passage collection and questions. Run the command below in a terminal with your own "
            "file; this page then shows the next step.",
        ),
        cls="welcome",
    )


def _road(opened: Study, held: dict[str, Any]) -> Html:
    """The steps from an empty study to a comparison, with those already done marked."""
    done = {
        "Passages": held["passages"] is not None,
        "Questions": bool(held["questions"]),
        **{
            f"{kind.title[0].upper()}{kind.title[1:]} index": bool(kind.available(opened))
            for kind in RETRIEVERS
            if kind.suggested and not kind.fusion
        },
        "Two runs": len(held["runs"]) > 1,
    }
    current_step = next((name for name, is_done in done.items() if not is_done), None)
    return tag(
        "ol",
        *(
            tag(
                "li",
                "✓ " if is_done else "",
                name,
                cls="done" if is_done else "now" if name == current_step else None,
                aria_current="step" if name == current_step else None,
            )
            for name, is_done in done.items()
        ),
        cls="road",
    )


def _next(opened: Study, held: dict[str, Any]) -> None:
    if held["from_results"]:
        show(
            tag("h2", "Created from results files"),
            *(tag("p", line) for line in held["from_results"]["cannot"]),
            tag(
                "p",
                "Everything else works: ",
                link("compare the runs", url.COMPARE),
                " or ",
                link("read both lists", url.QUESTION),
                " question by question.",
            ),
        )
        return
    steps = next_steps(opened, held["questions"])
    show(tag("h2", "Next steps"), _road(opened, held))
    if not steps:
        show(
            tag(
                "p",
                "The study is complete. Pick two runs above and compare them, or ask the retrievers your own "
                "question on ",
                link("Question", url.QUESTION),
                ".",
            )
        )
        return
    for number, step in enumerate(steps, 1):
        with st.container(key=f"step-{number}"):
            show(div(span(f"{number}", cls="place"), span(step.why), cls="step-why"))
            text_column, right = st.columns([7, 2], vertical_alignment="center")
            with text_column:
                st.code(with_study(step.command, opened), language=None, wrap_lines=True)
            if step.job is not None:
                with right:
                    jobs.start_button(opened, step.job, key=f"start-{number}", lacking=_lacking(held, step.job))


def _lacking(held: dict[str, Any], job: JobRequest) -> str:
    """Say which index a retrieval still needs; "" when the retrieval can start."""
    if job.kind.function is not retrieve:
        return ""
    arguments = job.arguments
    retriever = RETRIEVERS.get(arguments["kind"])
    settings = {key: value for key, value in arguments.items() if key not in RESERVED}
    needed = retriever.parts(retriever.name_of(options_for(retriever, settings)))
    missing = [index for index in needed if index not in held["indexes"]]
    return f"needs the {' and the '.join(missing)} index first" if missing else ""


def _make_more(opened: Study, held: dict[str, Any]) -> None:
    """The form that starts another retrieval."""
    counts = held["questions"]
    retrievers = {name: kind for name in names(opened) if (kind := kind_of(name)) is not None}
    if not retrievers or not counts:
        return
    with st.expander("Another run"):
        left, middle, right = st.columns([3, 3, 2], vertical_alignment="bottom")
        with left:
            retriever = st.selectbox(
                "Retriever",
                list(retrievers),
                key="more-retriever",
                format_func=lambda name: retrievers[name].label(name),
            )
        with middle:
            sets = list(dict.fromkeys([*(c["split"] for c in counts), *(c["dataset"] for c in counts if c["dataset"])]))
            split = st.selectbox("Questions", sets, key="more-split", help="A split or one named question set.")
        kind = retrievers[retriever]
        job = request(retrieve, kind.name, split=split, **kind.options_of(retriever))
        with right:
            jobs.start_button(opened, job, key="more-start", words="Retrieve")
        st.code(with_study(command_line(kind, retriever, split), opened), language=None, wrap_lines=True)


enter(page)
