"""The forms that start a training, with the size of the training chosen from the minutes that people want to wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from blindspot.app import url
from blindspot.app.components import jobs
from blindspot.app.components.marks import notice
from blindspot.app.components.setting_fields import setting_field
from blindspot.app.components.training.model_changes import measured_split
from blindspot.app.entry import one_line
from blindspot.app.markup import show, tag
from blindspot.app.whole_imports import import_whole
from blindspot.backend.core.jobs import JobRequest, request
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.model_kinds import encoders_of_kind
from blindspot.backend.text.number_words import duration, quantity
from blindspot.backend.training.adapter import train_adapter
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training.cross_encoder import train_cross_encoder
from blindspot.backend.training.dual_encoder import train_dual_encoder
from blindspot.backend.training.training_settings import CrossEncoderSettings, DualEncoderSettings
from blindspot.backend.training_sets.training_set import TrainingSet

BEGUN = "training-begun"
"""Session key of the models whose training was started here: each name with the time estimate that was shown."""
MINUTES, MINUTES_GPU = 2, 20
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
TIMED = 16  # passages to encode for the estimate of the indexing time
NO_TEACHER = "none"
DISTIL = (
    "Cross-encoder whose scores the retriever also learns from (distillation). Missing scores are computed first. "
    "Annotators' labels take precedence over these scores."
)
Sized = tuple[int, str]
"""The number of steps of a training, and a sentence about the time it takes."""


def retriever_form(open_study: Study, training_set: str, taken_names: set[str], primary: bool = True) -> None:
    """Show the form that trains a retriever on the current set.

    Args:
        taken_names: the names of models that exist.
        primary: whether training is the one thing to do next on the page.
    """
    gpu = has_gpu()
    show(tag("p", _time_promise(gpu), cls="convention"))
    with st.form("train", border=False, enter_to_submit=False):
        name, start, minutes = _first_fields(open_study, "model", taken_names, gpu)
        with st.expander("More settings"):
            columns = st.columns(3, vertical_alignment="bottom")
            steps = setting_field(columns[0], DualEncoderSettings, "steps", placeholder="as many as fit")
            batch = setting_field(columns[1], DualEncoderSettings, "batch", 128 if gpu else 8, minimum=2)
            tokens = setting_field(columns[2], DualEncoderSettings, "passage_tokens", 256 if gpu else 96, minimum=16)
            settings = _further_settings(open_study)
        with st.container(horizontal=True):
            pressed = st.form_submit_button(f"Train on {training_set}", type="primary" if primary else "secondary")
            estimating = st.form_submit_button("Estimate time")
    settings |= {"batch": batch, "passage_tokens": tokens} | ({} if gpu else CPU_COMPARISONS)
    if steps:
        settings["steps"] = steps
    _run_pressed(
        open_study,
        name,
        settings,
        lambda: _time_of_retriever(open_study, training_set, start, settings, None if steps else 60 * minutes),
        lambda: request(
            train_dual_encoder, name, training_set, settings, start=start, tried_on=measured_split(open_study) or None
        ),
        (pressed, estimating),
    )


def cross_encoder_form(open_study: Study, training_set: str, taken_names: set[str]) -> None:
    """Show the form that trains a cross-encoder on the current set."""
    gpu = has_gpu()
    with st.form("train-cross-encoder", border=False, enter_to_submit=False):
        name, start, minutes = _first_fields(open_study, "cross-encoder", taken_names, gpu)
        columns = st.columns([1, 1, 1, 3], vertical_alignment="bottom")
        steps = setting_field(columns[0], CrossEncoderSettings, "steps", placeholder="as many as fit")
        batch = setting_field(columns[1], CrossEncoderSettings, "batch", None if gpu else 4, minimum=1)
        negatives = setting_field(columns[2], CrossEncoderSettings, "negatives", maximum=100)
        with st.container(horizontal=True):
            pressed = st.form_submit_button(f"Train a cross-encoder on {training_set}")
            estimating = st.form_submit_button("Estimate its time")
    settings: dict[str, Any] = {"batch": batch, "negatives": negatives} | ({} if gpu else CPU_PAIRS)
    if steps:
        settings["steps"] = steps
    model = open_study.settings.encoders[start].model or start
    _run_pressed(
        open_study,
        name,
        settings,
        lambda: _time_of_cross_encoder(open_study, training_set, model, settings, None if steps else 60 * minutes),
        lambda: request(train_cross_encoder, name, training_set, settings, start=model),
        (pressed, estimating),
    )


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
        name, start, minutes = _first_fields(open_study, "taught", taken_names, gpu)
        with st.container(horizontal=True):
            pressed = st.form_submit_button("Train on the judge's order")
            estimating = st.form_submit_button("Estimate this time")
    if learns == ADAPTER:
        if estimating:
            show(notice("A map of the questions takes about a minute."))
        if pressed and jobs.start(open_study, request(train_adapter, name, encoder=start, settings={"distil": judge})):
            url.write("model", name)
            st.rerun()
        return
    settings: dict[str, Any] = {"distil": judge, **TAUGHT[learns]} | ({} if gpu else CPU_COMPARISONS)
    if settings.get("only"):
        settings["passage_tokens"] = open_study.settings.encoders[start].max_tokens
    _run_pressed(
        open_study,
        name,
        settings,
        lambda: _time_of_retriever(open_study, None, start, settings, 60 * minutes),
        lambda: request(
            train_dual_encoder, name, settings=settings, start=start, tried_on=measured_split(open_study) or None
        ),
        (pressed, estimating),
    )


def _time_promise(gpu: bool) -> str:
    minutes = MINUTES_GPU if gpu else MINUTES
    return (
        f"About {minutes} minutes on this machine: two steps are timed first, and as many as fit are trained, up to "
        f"{DualEncoderSettings().epochs:g} passes over the questions. Then it indexes the passages and searches."
    )


def _first_fields(open_study: Study, stem: str, taken_names: set[str], gpu: bool) -> tuple[str, str, int]:
    """Show the fields of both forms: the name, the initial model, and the minutes that the training may take."""
    number = next(n for n in range(1, 10_000) if f"{stem}-{n}" not in taken_names)
    columns = st.columns([3, 3, 1.5], vertical_alignment="bottom")
    name = columns[0].text_input("Name", f"{stem}-{number}", max_chars=64, key=f"name-{stem}-{number}")
    start = columns[1].selectbox("Initial model", encoders_of_kind(open_study, "dense"), key=f"start-{stem}")
    minutes = columns[2].number_input("Minutes", 1, 1440, MINUTES_GPU if gpu else MINUTES, key=f"minutes-{stem}")
    return name.strip(), start, int(minutes)


def _run_pressed(
    open_study: Study,
    name: str,
    settings: dict[str, Any],
    estimate: Callable[[], Sized],
    job: Callable[[], JobRequest],
    pressed_buttons: tuple[bool, bool],
) -> None:
    """Do what the person clicked. pressed_buttons: (train, estimate). Both measure the time of two steps, unless the
    number of steps is given.
    """
    trains, estimates = pressed_buttons
    if not (trains or estimates):
        return
    with one_line():
        said = f"{quantity(settings.get('steps', 0), 'step')}"
        if estimates or "steps" not in settings:
            with st.spinner("Timing two steps …"):
                settings["steps"], said = estimate()
        if not trains:
            show(notice(said))
            return
        if jobs.start(open_study, job()):
            st.session_state[BEGUN] = {**st.session_state.get(BEGUN, {}), name: said}
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


def _time_of_retriever(
    open_study: Study, training_set: str | None, start: str, settings: dict[str, Any], time_limit: float | None
) -> Sized:
    """Measure the time of two steps, of encoding some passages, and of scoring some pairs."""
    from blindspot.backend.retrieval.encoder import load_encoder
    from blindspot.backend.training.dual_encoder import initial_encoder_settings, training_source
    from blindspot.backend.training.estimate import estimate
    from blindspot.backend.training.stored_vectors import StoredVectors

    begin, chosen = initial_encoder_settings(open_study, start), DualEncoderSettings(**settings)
    source = training_source(open_study, training_set, chosen)
    stored = StoredVectors.open(open_study, start, chosen.passage_tokens) if chosen.only == "question" else None
    cost = estimate(
        begin, source.examples, chosen, time_limit=time_limit, teacher=source.teacher, stored_vectors=stored
    )
    told = _duration_text(cost.steps, cost.seconds_per_step, cost.seconds)
    if stored is not None:
        return cost.steps, f"{told} The passages keep their vectors."
    encoder = load_encoder(begin)
    passages = open_study.corpus.passages(range(min(TIMED, len(open_study.corpus))))
    began = time.perf_counter()
    encoder.encode_passages(passages)
    each = (time.perf_counter() - began) / len(passages)
    scoring = ""
    if cost.scoring is not None and cost.scoring.pairs:
        pairs = f"up to {quantity(cost.scoring.pairs, 'pair')}, {duration(cost.scoring.seconds)}"
        scoring = f" Before training, {settings['distil']} computes missing scores ({pairs})."
    return cost.steps, (
        f"{told}{scoring} Indexing {quantity(len(open_study.corpus), 'passage')} then takes about {duration(each * len(open_study.corpus))}."
    )


def _time_of_cross_encoder(
    open_study: Study, training_set: str, start: str, settings: dict[str, Any], time_limit: float | None
) -> Sized:
    from blindspot.backend.training.estimate import estimate_cross_encoder
    from blindspot.backend.training.examples import TrainingSetExamples

    examples = TrainingSetExamples(open_study, TrainingSet.open(open_study, training_set), hard=False)
    cost = estimate_cross_encoder(start, examples, CrossEncoderSettings(**settings), time_limit=time_limit)
    return cost.steps, _duration_text(cost.steps, cost.seconds_per_step, cost.seconds)


def _duration_text(steps: int, seconds_per_step: float, seconds: float) -> str:
    return (
        f"Training takes about {duration(seconds)} on this machine ({quantity(steps, 'step')} of {seconds_per_step:.2g} s, from two "
        "timed steps)."
    )
