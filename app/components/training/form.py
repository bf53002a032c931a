"""The forms that start a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from blindspot.app import url
from blindspot.app.components import jobs
from blindspot.app.components.setting_fields import setting_field
from blindspot.app.components.training.model_changes import measured_split
from blindspot.app.entry import one_line
from blindspot.app.markup import show, tag
from blindspot.app.whole_imports import import_whole
from blindspot.backend.core.jobs import JobRequest, request
from blindspot.backend.core.study import Study
from blindspot.backend.training.adapter import train_adapter
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training.cross_encoder import train_cross_encoder
from blindspot.backend.training.dual_encoder import train_dual_encoder
from blindspot.backend.training.training_settings import CrossEncoderSettings, DualEncoderSettings

STEPS_ON_CPU = 100  # what the forms offer without a GPU, on which whole epochs take hours
CPU_COMPARISONS = {"held_out": 40, "pool": 200}
"""Settings for a CPU, on which comparing checkpoints on many questions and passages would take longer than training."""
CPU_PAIRS = {"held_out": 40, "pairs": 100, "calibration_pairs": 200}
ADAPTER = "a map of the questions, in about a minute"
TAUGHT: dict[str, dict[str, Any]] = {
    "the encoder of the questions; passages keep their vectors": {
        "only": "question",
        "question_tokens": 32,
        "batch": 128,
        "hard_negatives": 20,
        "learning_rate": 1e-4,
    },
    "the whole encoder; passages are encoded again": {
        "towers": "shared",
        "question_tokens": 32,
        "passage_tokens": 64,
        "hard_negatives": 3,
        "learning_rate": 1e-4,
    },
}
"""What a judge can teach besides a map, and the settings of each."""
NO_TEACHER = "none"
DISTIL = (
    "Cross-encoder whose scores the retriever also learns from (distillation). Missing scores are computed first. "
    "Annotators' labels take precedence over these scores."
)


def retriever_form(open_study: Study, training_set: str, taken_names: set[str], primary: bool = True) -> None:
    """Show the form that trains a retriever on the current set.

    Args:
        taken_names: the names of models that exist.
        primary: whether training is the one thing to do next on the page.
    """
    gpu = has_gpu()
    with st.form("train", border=False, enter_to_submit=False):
        name, start, steps = _first_fields(open_study, "model", taken_names, gpu)
        with st.expander("More settings"):
            columns = st.columns(2, vertical_alignment="bottom")
            batch = setting_field(columns[0], DualEncoderSettings, "batch", 128 if gpu else 8, minimum=2)
            tokens = setting_field(columns[1], DualEncoderSettings, "passage_tokens", 256 if gpu else 96, minimum=16)
            settings = _further_settings(open_study)
        pressed = st.form_submit_button(f"Train on {training_set}", type="primary" if primary else "secondary")
    settings |= {"batch": batch, "passage_tokens": tokens, **steps} | ({} if gpu else CPU_COMPARISONS)
    if pressed:
        tried_on = measured_split(open_study) or None
        _start(
            open_study, name, request(train_dual_encoder, name, training_set, settings, start=start, tried_on=tried_on)
        )


def cross_encoder_form(open_study: Study, training_set: str, taken_names: set[str]) -> None:
    """Show the form that trains a cross-encoder on the current set."""
    gpu = has_gpu()
    with st.form("train-cross-encoder", border=False, enter_to_submit=False):
        name, start, steps = _first_fields(open_study, "cross-encoder", taken_names, gpu)
        columns = st.columns([1, 1, 4], vertical_alignment="bottom")
        batch = setting_field(columns[0], CrossEncoderSettings, "batch", None if gpu else 4, minimum=1)
        negatives = setting_field(columns[1], CrossEncoderSettings, "negatives", maximum=100)
        pressed = st.form_submit_button(f"Train a cross-encoder on {training_set}")
    settings: dict[str, Any] = {"batch": batch, "negatives": negatives, **steps} | ({} if gpu else CPU_PAIRS)
    if pressed:
        model = open_study.settings.encoders[start].model or start
        _start(open_study, name, request(train_cross_encoder, name, training_set, settings, start=model))


def taught_form(open_study: Study, judges: Sequence[str], taken_names: set[str]) -> None:
    """Show the form that trains on what a judge says of the lists that it learned from, of all training questions."""
    gpu = has_gpu()
    show(
        tag(
            "p",
            "The judge orders the lists of all training questions, and a retriever learns that order: no question needs gold.",
            cls="convention",
        )
    )
    with st.form("train-taught", border=False, enter_to_submit=False):
        columns = st.columns(2, vertical_alignment="bottom")
        judge = columns[0].selectbox("Judge", judges)
        learns = columns[1].selectbox("What learns", [ADAPTER, *TAUGHT])
        name, start, steps = _first_fields(open_study, "taught", taken_names, gpu)
        pressed = st.form_submit_button("Train on the judge's order")
    if not pressed:
        return
    if learns == ADAPTER:
        _start(open_study, name, request(train_adapter, name, encoder=start, settings={"distil": judge}))
        return
    settings: dict[str, Any] = {"distil": judge, **TAUGHT[learns], **steps} | ({} if gpu else CPU_COMPARISONS)
    if settings.get("only"):
        settings["passage_tokens"] = open_study.settings.encoders[start].max_tokens
    tried_on = measured_split(open_study) or None
    _start(open_study, name, request(train_dual_encoder, name, settings=settings, start=start, tried_on=tried_on))


def _first_fields(open_study: Study, stem: str, taken_names: set[str], gpu: bool) -> tuple[str, str, dict[str, int]]:
    """Show the fields of every form: the name, the initial model, and the steps, as settings; {} for whole epochs."""
    number = next(n for n in range(1, 10_000) if f"{stem}-{n}" not in taken_names)
    columns = st.columns([3, 3, 1.5], vertical_alignment="bottom")
    name = columns[0].text_input("Name", f"{stem}-{number}", max_chars=64, key=f"name-{stem}-{number}")
    start = columns[1].selectbox("Initial model", list(open_study.settings.encoders), key=f"start-{stem}")
    first = None if gpu else STEPS_ON_CPU
    steps = setting_field(columns[2], DualEncoderSettings, "steps", first, placeholder="epochs", key=f"steps-{stem}")
    return name.strip(), start, {"steps": int(steps)} if steps else {}


def _start(open_study: Study, name: str, job: JobRequest) -> None:
    """Start a training and open its model."""
    with one_line():
        if jobs.start(open_study, job):
            url.write("model", name)
        st.rerun()


def _further_settings(open_study: Study) -> dict[str, Any]:
    judges = cross_encoders(open_study)
    columns = st.columns([1.3, 1.3, 1.3, 1.3, 2.2, 1.3], vertical_alignment="bottom")
    hard = setting_field(columns[0], DualEncoderSettings, "hard_negatives", maximum=100)
    rate = setting_field(columns[1], DualEncoderSettings, "learning_rate", maximum=1, step=1e-5, format="%.0e")
    layers = setting_field(columns[2], DualEncoderSettings, "layers", placeholder="all")
    seed = setting_field(columns[3], DualEncoderSettings, "seed")
    settings: dict[str, Any] = {"hard_negatives": hard, "learning_rate": rate, "seed": seed}
    if layers:
        settings["layers"] = layers
    if judges:
        teacher = columns[4].selectbox("Distil from", [NO_TEACHER, *judges], help=DISTIL)
        weight = setting_field(columns[5], DualEncoderSettings, "distil_weight", minimum=0.01, maximum=1000)
        if teacher != NO_TEACHER:
            settings |= {"distil": teacher, "distil_weight": weight}
    return settings


def cross_encoders(open_study: Study) -> list[str]:
    """Return the names of the study's cross-encoders, newest first, including those of which only scores are left."""
    trained = [name for name, about in models_of(open_study).items() if about.get("kind") == "cross-encoder"]
    return list(dict.fromkeys([*reversed(trained), *open_study.parts("scores")]))


@st.cache_resource(show_spinner=False)
def has_gpu() -> bool:
    import_whole()
    import torch

    return torch.cuda.is_available()
