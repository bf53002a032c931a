"""The form that starts a training, with defaults for the hardware and a time estimate."""

from __future__ import annotations

import time
from typing import Any

import streamlit as st

from blindspot.app import url, who
from blindspot.app.components import jobs
from blindspot.app.components.marks import notice
from blindspot.app.components.setting_fields import setting_field
from blindspot.app.entry import one_line
from blindspot.app.markup import show
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.model_kinds import encoders_of_kind
from blindspot.backend.text.counting import counted, duration
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training.dual_encoder import train_dual_encoder
from blindspot.backend.training.training_settings import DualEncoderSettings
from blindspot.backend.training_sets.training_set import TrainingSet

BEGUN = "training-begun"
"""Session key of the model whose training was started last."""
CPU_COMPARISONS = {"held_out": 40, "pool": 200}
"""Settings for a CPU, where comparing checkpoints on many questions and passages would take longer than training."""
TIMED = 16  # passages to encode for the estimate of the indexing time
NO_TEACHER = "none"
DISTIL = (
    "Cross-encoder whose scores the retriever also learns from (distillation). Missing scores are computed first. "
    "Annotators' labels take precedence over them."
)


def train_form(opened: Study, sets: list[str], taken: set[str]) -> None:
    """Show the form. Without a GPU the default is a few steps, enough to show that training works."""
    if not who.may(opened.labels_path, "train"):
        show(notice("Only leads can train models."))
        return
    gpu = has_gpu()
    number = next(n for n in range(1, 10_000) if f"model-{n}" not in taken)
    with st.form("train", border=False, enter_to_submit=False):
        columns = st.columns([2, 2, 2, 1.5, 1.5, 1.5], vertical_alignment="bottom")
        name = columns[0].text_input("Name", f"model-{number}", max_chars=64)
        training_set = columns[1].selectbox("Training set", sets)
        start = columns[2].selectbox("Initial model", encoders_of_kind(opened, "dense"))
        steps = setting_field(columns[3], DualEncoderSettings, "steps", 2000 if gpu else 40)
        batch = setting_field(columns[4], DualEncoderSettings, "batch", 128 if gpu else 8, minimum=2)
        tokens = setting_field(columns[5], DualEncoderSettings, "passage_tokens", 256 if gpu else 96, minimum=16)
        with st.expander("More settings"):
            settings = _further_settings(opened)
        with st.container(horizontal=True):
            pressed = st.form_submit_button("Train", type="primary")
            estimating = st.form_submit_button("Estimate time")
    settings |= {"steps": steps, "batch": batch, "passage_tokens": tokens}
    if not gpu:
        settings |= CPU_COMPARISONS
    if estimating:
        with st.spinner("Timing two steps …"), one_line():
            show(notice(_estimate(opened, training_set, start, settings)))
    if pressed:
        if jobs.start(opened, request(train_dual_encoder, name.strip(), training_set, start, settings)):
            st.session_state[BEGUN] = name.strip()
            url.write("model", name.strip())
        st.rerun()


def _further_settings(opened: Study) -> dict[str, Any]:
    judges = cross_encoders(opened)
    columns = st.columns([1.3, 1.3, 1.3, 1.3, 2.2, 1.3], vertical_alignment="bottom")
    hard = setting_field(columns[0], DualEncoderSettings, "hard_negatives", maximum=100)
    rate = setting_field(columns[1], DualEncoderSettings, "learning_rate", maximum=1, step=1e-5, format="%.0e")
    layers = setting_field(columns[2], DualEncoderSettings, "layers", placeholder="all")
    seed = setting_field(columns[3], DualEncoderSettings, "seed")
    teacher = columns[4].selectbox(
        "Distil from",
        [NO_TEACHER, *judges],
        disabled=not judges,
        help=DISTIL
        if judges
        else f"{DISTIL} This study has no cross-encoder yet; run: blindspot train cross-encoder NAME --on SET",
    )
    weight = setting_field(
        columns[5], DualEncoderSettings, "distil_weight", minimum=0.01, maximum=1000, disabled=not judges
    )
    settings: dict[str, Any] = {"hard_negatives": hard, "learning_rate": rate, "seed": seed}
    if layers:
        settings["layers"] = layers
    if teacher != NO_TEACHER:
        settings |= {"distil": teacher, "distil_weight": weight}
    return settings


def cross_encoders(opened: Study) -> list[str]:
    """Return the names of the study's cross-encoders, newest first, including those that left only scores."""
    trained = [name for name, about in models_of(opened).items() if about.get("kind") == "cross-encoder"]
    return list(dict.fromkeys([*reversed(trained), *opened.parts("scores")]))


@st.cache_resource(show_spinner=False)
def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _estimate(opened: Study, training_set: str, start: str, settings: dict[str, Any]) -> str:
    """Return an estimate from two timed steps, some encoded passages and some scored pairs."""
    from blindspot.backend.retrieval.encoder import load_encoder
    from blindspot.backend.training.distillation import Teacher
    from blindspot.backend.training.dual_encoder import start_encoder
    from blindspot.backend.training.estimate import estimate
    from blindspot.backend.training.examples import TrainingSetExamples

    examples = TrainingSetExamples(opened, TrainingSet.open(opened, training_set))
    teacher = Teacher(opened, settings["distil"]) if "distil" in settings else None
    cost = estimate(start_encoder(opened, start), examples, DualEncoderSettings(**settings), teacher=teacher)
    encoder = load_encoder(start_encoder(opened, start))
    passages = opened.corpus.passages(range(min(TIMED, len(opened.corpus))))
    began = time.perf_counter()
    encoder.encode_passages(passages)
    each = (time.perf_counter() - began) / len(passages)
    scoring = ""
    if cost.scoring is not None and cost.scoring.pairs:
        pairs = f"up to {counted(cost.scoring.pairs, 'pair')}, {duration(cost.scoring.seconds)}"
        scoring = f" Before training, {settings['distil']} computes missing scores ({pairs})."
    return (
        f"Training takes about {duration(cost.seconds)} on this machine ({counted(cost.steps, 'step')} of "
        f"{cost.seconds_per_step:.1f} s, from two timed steps).{scoring} Indexing "
        f"{counted(len(opened.corpus), 'passage')} then takes about {duration(each * len(opened.corpus))}."
    )
