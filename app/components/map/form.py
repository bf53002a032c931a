"""The form that creates a map."""

from __future__ import annotations

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from blindspot.app import study as opened_study
from blindspot.app.components import jobs
from blindspot.app.components.map.parts import METHODS
from blindspot.app.components.marks import notice
from blindspot.app.components.setting_fields import setting_field
from blindspot.app.markup import join, show, tag
from blindspot.backend.core.declared import build_settings
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
    with st.container(key="map-form"):
        if taken_names:
            show(tag("h2", "New map"))
        start = st.container()
        with st.expander("Change: encoder, points, method, clusters", expanded=bool(taken_names)):
            arguments = _which_points(study, dense, taken_names) | _how_drawn(study)
        wrong = _problem(arguments)
        with start:
            if wrong:
                show(notice(wrong, kind="warning"))
            asked = request(make, **arguments)
            jobs.start_button(study, asked, key="map-start", label="Create map", missing_part=wrong, primary=True)
    jobs.panel(study)


def _which_points(study: Study, dense: list[str], taken_names: set[str]) -> dict[str, Any]:
    runs, counts = opened_study.runs(study), study.questions.counts()
    sets = dict.fromkeys([*(c["split"] for c in counts), *(c["dataset"] for c in counts if c["dataset"])])
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
    own = next((i for i, name in enumerate(runs) if runs[name].get("retriever") == encoder), 0)
    about = "Run whose top-ranked passages are on the map."
    run = third.selectbox("Run", list(runs), index=own if runs else None, key="make-run", help=about)
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
    numbers = {
        "top": _field(first, "top", maximum=1000),
        "random": _field(second, "random", maximum=MOST, step=500),
        "most": _field(third, "most", step=1000),
    }
    name = fourth.text_input("Name", _free_name(encoder, after, taken_names), key=f"make-name-{encoder}-{after}")
    return {
        "name": name.strip(),
        "encoder": encoder,
        "second": after or None,
        "run": run,
        "questions": asked or None,
        "passages": list(passages),
        **numbers,
    }


def _how_drawn(study: Study) -> dict[str, Any]:
    first, second, third, fourth = st.columns(4)
    method = first.selectbox("Method", list(METHODS), key="make-method", format_func=METHODS.__getitem__)
    chosen: dict[str, Any] = {"method": method}
    if method == "umap":
        chosen |= {name: _field(at, name) for name, at in (("neighbours", second), ("min_dist", third))}
    else:
        chosen["perplexity"] = _field(second, "perplexity")
    chosen["seed"] = _field(fourth, "seed", study.settings.seed)
    first, second, third, _ = st.columns(4)
    clusters = first.selectbox("Clusters", list(CLUSTERS), key="make-clusters", format_func=CLUSTERS.__getitem__)
    chosen["clusters"] = clusters
    if clusters != "none":
        size = "cluster_count" if clusters == "kmeans" else "cluster_size"
        chosen[size] = _field(second, size)
    chosen["draw_questions"] = _field(third, "draw_questions")
    return chosen


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
