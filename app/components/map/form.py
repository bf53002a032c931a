"""The form that creates a map, with defaults, and the equivalent command."""

from __future__ import annotations

import shlex
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from blindspot.app import study as opened_study
from blindspot.app.components import jobs
from blindspot.app.components.marks import notice
from blindspot.app.components.setting_fields import setting_field
from blindspot.app.markup import join, show, tag
from blindspot.backend.core.declared import build_settings, declared_settings
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.maps.making import make
from blindspot.backend.maps.settings import MOST, MapRequest
from blindspot.backend.retrieval.dense import DENSE, dense_indexes
from blindspot.db.errors import BlindspotError

SOURCES = {
    "gold": "gold passages of the questions",
    "top": "top-ranked passages of a run",
    "random": "random passages",
}
METHODS = {"umap": "UMAP", "tsne": "t-SNE"}
CLUSTERS = {"kmeans": "k-means: every passage in a cluster", "hdbscan": "HDBSCAN: dense groups only", "none": "none"}


def form(study: Study, taken_names: set[str]) -> None:
    """Show the form and the button that starts the job."""
    dense = dense_indexes(study)
    if not dense:
        steps = [step for step in DENSE.steps(study) if step.job is not None]
        lacking = "" if steps else join(" Add an encoder first: ", tag("code", "blindspot encoder add"), ".")
        show(notice("A map needs a dense index.", lacking))
        for step in steps:
            assert step.job is not None
            jobs.start_button(study, step.job, key="map-index", label="Build the dense index", primary=True)
            show(tag("p", step.why, cls="soft"))
        jobs.panel(study)
        return
    runs = list(opened_study.runs(study))
    sets = list(
        dict.fromkeys(
            [
                *(c["split"] for c in study.questions.counts()),
                *(c["dataset"] for c in study.questions.counts() if c["dataset"]),
            ]
        )
    )
    with st.container(key="map-form"):
        if taken_names:
            show(tag("h2", "New map"))
        start = st.container()
        with st.expander("Change: encoder, points, method, clusters", expanded=bool(taken_names)):
            arguments = _form_values(study, dense, runs, sets, taken_names)
        wrong = _problem(arguments)
        with start:
            if wrong:
                show(notice(wrong, kind="warning"))
            with st.container(horizontal=True, vertical_alignment="center"):
                jobs.start_button(
                    study,
                    request(make, **arguments),
                    key="map-start",
                    label="Create map",
                    missing_part=wrong,
                    primary=True,
                )
                show(tag("p", "" if wrong else _summary(build_settings(MapRequest, arguments)), cls="soft"))
        with st.expander("The same as a command"):
            st.code(_command(arguments, study), language=None, wrap_lines=True)
    jobs.panel(study)


def _form_values(
    study: Study, dense: list[str], runs: list[str], sets: list[str], taken_names: set[str]
) -> dict[str, Any]:
    """Show the fields, and return the values that differ from the defaults of `MapRequest`."""
    given = _which_points(study, dense, runs, sets, taken_names)
    given |= _how_drawn(study)
    defaults = {
        name: list(one.default) if one.kind is tuple and one.default else one.default
        for name, one in declared_settings(MapRequest).items()
    }
    return {key: value for key, value in given.items() if key == "name" or value != defaults[key]}


def _summary(map: MapRequest) -> str:
    """Say what a map will show, and how long making it takes."""
    of_run = f", with what {map.run} finds" if map.run else ""
    return f"Vectors of {map.encoder}{of_run}; at most {map.most:,} passages. Takes about {_minutes(map.most)}."


def _minutes(passages: int) -> str:
    """Return about how long UMAP takes: a minute or two for 10,000 points, and in proportion more."""
    return "a minute or two" if passages <= 10_000 else f"{passages // 10_000} to {-(-2 * passages // 10_000)} minutes"


def _which_points(
    study: Study, dense: list[str], runs: list[str], sets: list[str], taken_names: set[str]
) -> dict[str, Any]:
    first, second, third, fourth = st.columns(4)
    encoder = first.selectbox("Encoder", dense, key="make-encoder")
    others = ["", *(name for name in dense if name != encoder)]
    after = second.selectbox(
        "Compare with (after)",
        others,
        key="make-second",
        format_func=lambda name: name or "none",
        help="A second encoder of the same passages, such as the encoder after training; the map shows what each of them finds.",
    )
    default_run = next(
        (i for i, name in enumerate(runs) if opened_study.runs(study)[name].get("retriever") == encoder), 0
    )
    run = third.selectbox(
        "Run",
        runs,
        index=default_run if runs else None,
        key="make-run",
        help="Run whose top-ranked passages are on the map.",
    )
    asked = fourth.selectbox(
        "Questions",
        ["", *sets],
        key="make-questions",
        format_func=lambda name: name or "those of the run",
        help="Split or question set to show.",
    )
    passages = st.multiselect(
        "Passages",
        list(SOURCES),
        default=list(SOURCES) if run else ["gold", "random"],
        key="make-passages",
        format_func=SOURCES.__getitem__,
    )
    first, second, third, fourth = st.columns(4)
    top = _field(first, "top", maximum=1000)
    random = _field(second, "random", maximum=MOST, step=500)
    most = _field(
        third,
        "most",
        step=1000,
        help="Maximum number of passages on the map. Up to 20,000 points can be selected; if there are more, the map also shows their density. UMAP takes a minute or two for 10,000 points.",
    )
    name = fourth.text_input("Name", _free_name(encoder, after, taken_names), key=f"make-name-{encoder}-{after}")
    return {
        "name": name.strip(),
        "encoder": encoder,
        "second": after or None,
        "run": run,
        "questions": asked or None,
        "passages": list(passages),
        "top": top,
        "random": random,
        "most": most,
    }


def _how_drawn(study: Study) -> dict[str, Any]:
    first, second, third, fourth = st.columns(4)
    map_options: dict[str, Any] = {
        "method": first.selectbox("Method", list(METHODS), key="make-method", format_func=METHODS.__getitem__)
    }
    if map_options["method"] == "umap":
        map_options["neighbours"] = _field(second, "neighbours", maximum=200)
        map_options["min_dist"] = _field(third, "min_dist", maximum=1.0)
    else:
        map_options["perplexity"] = _field(second, "perplexity", maximum=500.0)
    about = "Random seed. A pattern that differs between two seeds is not a finding."
    map_options["seed"] = _field(fourth, "seed", study.settings.seed, maximum=10**6, help=about)
    first, second, third, _ = st.columns(4)
    map_options["clusters"] = first.selectbox(
        "Clusters", list(CLUSTERS), key="make-clusters", format_func=CLUSTERS.__getitem__
    )
    if map_options["clusters"] == "kmeans":
        map_options["cluster_count"] = _field(second, "cluster_count", maximum=200)
    elif map_options["clusters"] == "hdbscan":
        map_options["cluster_size"] = _field(second, "cluster_size", maximum=1000)
    map_options["draw_questions"] = third.checkbox("Show questions", True, key="make-draw")
    return map_options


def _field(place: DeltaGenerator, name: str, value: Any = None, **more: Any) -> Any:
    return setting_field(place, MapRequest, name, value, key=f"make-{name.replace('_', '-')}", **more)


def _problem(arguments: dict[str, Any]) -> str:
    try:
        build_settings(MapRequest, arguments)
    except BlindspotError as error:
        return str(error)
    return ""


def _free_name(encoder: str, second_encoder: str | None, taken_names: set[str]) -> str:
    base = f"{encoder}-and-{second_encoder}" if second_encoder else encoder
    return next(
        name
        for number in range(1, len(taken_names) + 2)
        if (name := base if number == 1 else f"{base}-{number}") not in taken_names
    )


def _command(arguments: dict[str, Any], study: Study) -> str:
    """Return the command that creates the same map."""
    words = ["blindspot", "map", "new", arguments["name"]]
    for key, value in arguments.items():
        option = f"--{key.replace('_', '-')}"
        if key == "name":
            continue
        if key == "draw_questions":
            words.append("--no-draw-questions")
        elif isinstance(value, list):
            words += [part for each in value for part in (option, each)]
        elif value is not None:
            words += [option, str(value)]
    return " ".join(shlex.quote(word) for word in [*words, "--study", str(study.folder)])
