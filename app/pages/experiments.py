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
    listed_experiments,
    overview,
    overview_sentence,
    result_table,
    verdict_panel,
    verdict_sentence,
)
from blindspot.app.components.marks import notice
from blindspot.app.components.plots import plot
from blindspot.app.components.relations_tables import choices
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.desk import desk
from blindspot.app.entry import enter
from blindspot.app.markup import link, show, tag
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.experiments import tables
from blindspot.backend.experiments.cost import planned_parts
from blindspot.backend.experiments.papers import About, experiments
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
        show(tag("h1", overview_sentence(found)), overview(found))
    else:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            labels = {name: f"{about.paper}: {name}, {about.source}" for name, about in listed.items()}
            with st.container(width=420):
                url.select("Experiment", "experiment", list(listed), "", ["result"], lambda name: labels[name])
            show(link("All experiments", url.EXPERIMENTS, cls="quiet"))
        of_name = [result for result in found if result["experiment"] == name]
        _experiment(open_study, name, listed[name], of_name)
    jobs.panel(open_study)


def _experiment(open_study: Study, name: str, about: About, results: list[dict]) -> None:
    keys = [result["key"] for result in results]
    chosen = next((result for result in results if result["key"] == url.one_of("result", keys, keys[0])), None)
    none = "There is no verdict yet: the experiment has not run on this study."
    answer = none if chosen is None else verdict_sentence(chosen)
    show(tag("h1", about.asks), tag("p", answer, cls="lead"), tag("p", f"{about.paper}, {about.source}", cls="soft"))
    if chosen is not None:
        if len(results) > 1:
            show(
                choices(
                    "result",
                    [
                        (
                            _result_label(result),
                            url.href(url.EXPERIMENTS, {"experiment": name, "result": result["key"]}),
                            result is chosen,
                        )
                        for result in results
                    ],
                )
            )
        _result(chosen)
    if name not in experiments():
        show(tag("p", "This version cannot run this experiment; its results stay here.", cls="convention"))
        return
    with st.container(key="try-experiment"):
        lacking = _what_it_makes(open_study, name)
        with st.container(horizontal=True):
            small, whole = request(run_experiment, name, SMALL_SETTINGS), request(run_experiment, name)
            jobs.start_button(open_study, small, f"try-{name}", "Run small version", lacking, primary=not results)
            jobs.start_button(open_study, whole, f"run-{name}", "Run full experiment", lacking)
    show(commands(name))


def _what_it_makes(open_study: Study, name: str) -> str:
    """Say what the full experiment and its small version would make; return what a run lacks."""
    try:
        small, whole = (
            _planned_words(open_study, name, is_small, *_parts_key(open_study)) for is_small in (True, False)
        )
    except BlindspotError as error:
        splits = ", ".join(dict.fromkeys(count["split"] for count in open_study.questions.counts()))
        if "'dev'" not in str(error):
            show(notice(f"{error}.", kind="warning"))
            return str(error)
        words = (
            f"Experiments measure on questions of the split dev, and this study has {splits} only. Add a file of questions "
            "with the split dev on "
        )
        show(notice(words, link("Home", url.HOME), ".", kind="warning"))
        return "needs questions of the split dev"
    words = (
        f"To be made: {whole[0]}; there already: {whole[1]}. The small version trains tiny models on few questions, to see that "
        f"everything runs: {small[0]}."
    )
    show(tag("p", words, cls="convention"))
    return ""


@st.cache_data(max_entries=64, show_spinner=False)
def _planned_words(_study: Study, name: str, is_small: bool, *key: object) -> tuple[str, str]:
    """Return what an experiment would make, and what is there already. A plan reads every question of the study."""
    return planned_parts(_study, name, SMALL_SETTINGS if is_small else {}).as_words()


def _parts_key(open_study: Study) -> tuple[object, ...]:
    """Return a key that changes with the questions, the labels and the parts that a plan looks for."""
    folders = [open_study.path(name) for name in ("runs", "indexes", "models", "training_sets")]
    folders += list(open_study.path("experiments", "parts").glob("*"))
    changed = tuple((folder.name, folder.stat().st_mtime_ns) for folder in folders if folder.is_dir())
    return study.questions_key(open_study), desk(open_study).labels.last_event, changed


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
    show(result_table(result))
    if result["plot"]:
        plot(figure_of(result), f"experiment-{result['experiment']}")
    table_downloads(
        f"{result['experiment']}-{result['key']}", lambda: tables.as_latex(result), lambda: tables.as_csv(result)
    )


enter(page)
