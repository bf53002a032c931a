"""Experiments: claims of published papers tested on this study, with our figures next to the papers'."""

from __future__ import annotations

import streamlit as st

from blindspot.app import study, url
from blindspot.app.components import jobs
from blindspot.app.components.download_buttons import table_downloads
from blindspot.app.components.empty_page import show_empty_page
from blindspot.app.components.experiments import (
    commands,
    figure_of,
    finding,
    listed_experiments,
    overview,
    overview_sentence,
    result_table,
    verdict_panel,
)
from blindspot.app.components.marks import notice
from blindspot.app.components.planned_experiment import PlannedWords, parts_list, planned_table, planned_title
from blindspot.app.components.plots import plot
from blindspot.app.components.relations_tables import choices
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.entry import enter
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, join, link, show, tag
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.experiments import tables
from blindspot.backend.experiments.papers import ExperimentDescription, experiments
from blindspot.backend.experiments.planned import next_without_training, planned_parts
from blindspot.backend.experiments.running import results, run_experiment
from blindspot.db.errors import BlindspotError

SMALL_SETTINGS = {"small": True}


def page() -> None:
    opened = study.current()
    if not opened.has_corpus or not len(opened.questions):
        about = "This page repeats the experiments of published papers on your own passages and questions."
        show_empty_page(opened, "No passages and questions yet", about)
        return
    with jobs.with_job_panel(opened):
        _page(opened)


def _page(open_study: Study) -> None:
    found = results(open_study)
    listed = listed_experiments(found)
    name = url.one_of("experiment", list(listed), "")
    show(style_sheet("analysis.css"))
    if not name:
        show(tag("h1", overview_sentence(found)))
        _next_experiment(open_study, {result["experiment"] for result in found if not result["setting"]["small"]})
        show(overview(found))
    else:
        of_name = [result for result in found if result["experiment"] == name]
        _experiment(open_study, name, listed[name], of_name)
    jobs.panel(open_study)


def _next_experiment(open_study: Study, listed: set[str]) -> None:
    """Show the button that runs the next experiment that trains nothing, with its time."""
    chosen = _next_planned(open_study, frozenset(listed), *_parts_key(open_study))
    if chosen is not None:
        words = f"Test: {_lower_first(experiments()[chosen].asks)}"
        jobs.start_button(open_study, request(run_experiment, chosen), f"next-{chosen}", words, primary=True)


def _lower_first(words: str) -> str:
    return f"{words[:1].lower()}{words[1:]}"


@st.cache_data(max_entries=8, show_spinner=False)
def _next_planned(_study: Study, known: frozenset[str], *key: object) -> str | None:
    """Return the experiment to run next; None if every one that trains nothing has run."""
    chosen = next_without_training(_study, known)
    return chosen and chosen[0]


def _experiment(open_study: Study, name: str, description: ExperimentDescription, results: list[dict]) -> None:
    keys = [result["key"] for result in results]
    chosen = next((result for result in results if result["key"] == url.one_of("result", keys, keys[0])), None)
    planned, lacking, warning = _planned_or_reason(open_study, name) if name in experiments() else (None, "", Html(""))
    untested = planned.title if planned else ""
    source = join(
        f"{description.asks} " if chosen or untested else "",
        f"{description.paper}, {description.source}. ",
        link("All experiments", url.EXPERIMENTS),
    )
    untested = untested or f"Not run yet: {_lower_first(description.asks)}"
    show(tag("h1", finding(chosen) if chosen else untested), tag("p", source, cls="soft"))
    if chosen is not None:
        if len(results) > 1:
            offered = {result["key"]: {"experiment": name, "result": result["key"]} for result in results}
            labels = [
                (_result_label(result), url.href(url.EXPERIMENTS, offered[result["key"]]), result is chosen)
                for result in results
            ]
            show(choices("result", labels))
        _result(chosen)
    if name not in experiments():
        show(tag("p", "This version cannot run this experiment; its results stay here.", cls="convention"))
        return
    show(warning)
    _run_panel(open_study, name, bool(results), planned, lacking)
    show(commands(name))


def _run_panel(open_study: Study, name: str, has_results: bool, planned: PlannedWords | None, lacking: str) -> None:
    """Show the buttons that run the experiment and, until there are results, what the paper reports. The filled one
    runs the full version. lacking: what a run lacks; "" for nothing.
    """
    trainings = planned.trainings if planned else ""
    words = f"Train {trainings}" if trainings else "Run the experiment"
    small = request(run_experiment, name, SMALL_SETTINGS)
    with st.expander("Run it again") if has_results else st.container():
        with st.container(horizontal=True):
            jobs.start_button(
                open_study, request(run_experiment, name), f"run-{name}", words, lacking, primary=not has_results
            )
            if trainings:
                jobs.start_button(open_study, small, f"try-{name}", "Run the small version", lacking)
        if trainings:
            about_small = "The small version trains tiny models on few questions: it shows that everything runs, and is no finding."
            show(tag("p", about_small, cls="convention"))
        if planned is not None:
            show("" if has_results else planned.figures)
            show(planned.parts)


def _planned_or_reason(open_study: Study, name: str) -> tuple[PlannedWords | None, str, Html]:
    """Return what the experiment would make; or None, what a run lacks, and a notice that says so."""
    try:
        return _planned(open_study, name), "", Html("")
    except BlindspotError as error:
        splits = ", ".join(dict.fromkeys(count["split"] for count in open_study.questions.counts()))
        if "'dev'" not in str(error):
            return None, str(error), notice(f"{error}.", kind="warning")
        words = (
            f"Experiments measure on questions of the split dev, and this study has {splits} only. Add a file of questions "
            "with the split dev on "
        )
        warning = notice(words, link("Home", url.HOME), ".", kind="warning")
        return None, "needs questions of the split dev", warning


def _planned(open_study: Study, name: str) -> PlannedWords:
    return _planned_words(open_study, name, *_parts_key(open_study))


@st.cache_data(max_entries=64, show_spinner=False)
def _planned_words(_study: Study, name: str, *key: object) -> PlannedWords:
    """Return what an experiment would make. A plan reads every question of the study."""
    planned, about = planned_parts(_study, name), experiments()[name]
    title = planned_title(planned.cells, planned.claims, about.paper)
    return PlannedWords(
        planned_table(planned.cells, planned.claims, planned.notes, about),
        parts_list(*planned.as_words()),
        title,
        planned.trainings,
    )


def _parts_key(open_study: Study) -> tuple[object, ...]:
    """Return a key that changes with the questions, the labels and the parts that a plan looks for."""
    folders = [open_study.path(name) for name in ("runs", "indexes", "models", "training_sets")]
    folders += list(open_study.path("experiments", "parts").glob("*"))
    changed = tuple((folder.name, folder.stat().st_mtime_ns) for folder in folders if folder.is_dir())
    return study.questions_key(open_study), judging_stores(open_study).labels.last_event, changed


def _result_label(result: dict) -> str:
    """Return a label that distinguishes a result from the other results of its experiment."""
    setting, seeds = result["setting"], max(cell["seeds"] for cell in result["cells"])
    return (
        "small"
        if setting["small"]
        else ", ".join(filter(None, (setting["on"], f"{seeds} seeds" if seeds > 1 else "", result["key"])))
    )


def _result(result: dict) -> None:
    show(verdict_panel(result))
    if result["plot"]:
        plot(figure_of(result), f"experiment-{result['experiment']}")
    show(result_table(result))
    table_downloads(
        f"{result['experiment']}-{result['key']}", lambda: tables.as_latex(result), lambda: tables.as_csv(result)
    )


enter(page)
