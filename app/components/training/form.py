"""The form that starts a training: defaults that suit the hardware, and what they would take."""

from __future__ import annotations

import time
from typing import Any

import streamlit as st

from app import url, who
from app.components import jobs
from app.components.jobs import duration
from app.components.marks import count, notice
from app.components.setting_fields import setting_field
from app.entry import one_line
from app.markup import show
from backend.core.jobs import request
from backend.core.study import Study
from backend.training.checkpoints import models_of
from backend.training.dual_encoder import train_dual_encoder
from backend.training.training_settings import DualEncoderSettings
from backend.training_sets.training_set import TrainingSet

BEGUN = "training-begun"
"""Of the session: the model that was asked for last."""
CPU_COMPARISONS = {"held_out": 40, "pool": 200}
"""On a CPU comparing checkpoints would cost more than training: few questions among few passages will do."""
TIMED = 16  # passages that are encoded to guess how long indexing takes
NOBODY = "nobody"
DISTIL = (
    "Its scores of a question's positive and hard negatives are learned from as well. Pairs that it has not scored yet are scored first. "
    "What people judged stands above it."
)


def train_form(opened: Study, sets: list[str], taken: set[str]) -> None:
    """On a CPU few steps, as a proof that it runs."""
    if not who.may(opened.labels_path, "train"):
        show(notice("Models are trained by a lead of the study."))
        return
    gpu = has_gpu()
    number = next(n for n in range(1, 10_000) if f"model-{n}" not in taken)
    with st.form("train", border=False, enter_to_submit=False):
        columns = st.columns([2, 2, 2, 1.5, 1.5, 1.5], vertical_alignment="bottom")
        name = columns[0].text_input("Name", f"model-{number}", max_chars=64)
        training_set = columns[1].selectbox("Training set", sets)
        start = columns[2].selectbox("From", list(opened.settings.encoders))
        steps = setting_field(columns[3], DualEncoderSettings, "steps", 2000 if gpu else 40)
        batch = setting_field(columns[4], DualEncoderSettings, "batch", 128 if gpu else 8, minimum=2)
        tokens = setting_field(columns[5], DualEncoderSettings, "passage_tokens", 256 if gpu else 96, minimum=16)
        with st.expander("More settings"):
            settings = _more(opened)
        with st.container(horizontal=True):
            pressed = st.form_submit_button("Train", type="primary")
            asked = st.form_submit_button("How long?")
    settings |= {"steps": steps, "batch": batch, "passage_tokens": tokens}
    if not gpu:
        settings |= CPU_COMPARISONS
    if asked:
        with st.spinner("Trying two steps …"), one_line():
            show(notice(_estimate(opened, training_set, start, settings)))
    if pressed:
        if jobs.start(opened, request(train_dual_encoder, name.strip(), training_set, start, settings)):
            st.session_state[BEGUN] = name.strip()
            url.write("model", name.strip())
        st.rerun()


def _more(opened: Study) -> dict[str, Any]:
    judges = cross_encoders(opened)
    columns = st.columns([1.3, 1.3, 1.3, 1.3, 2.2, 1.3], vertical_alignment="bottom")
    hard = setting_field(columns[0], DualEncoderSettings, "hard_negatives", maximum=100)
    rate = setting_field(columns[1], DualEncoderSettings, "learning_rate", maximum=1, step=1e-5, format="%.0e")
    layers = setting_field(columns[2], DualEncoderSettings, "layers", placeholder="all")
    seed = setting_field(columns[3], DualEncoderSettings, "seed")
    teacher = columns[4].selectbox(
        "Learn from cross-encoder",
        [NOBODY, *judges],
        disabled=not judges,
        help=DISTIL if judges else f"{DISTIL} There is none here yet: blindspot train cross-encoder NAME --on SET",
    )
    weight = setting_field(
        columns[5], DualEncoderSettings, "distil_weight", minimum=0.01, maximum=1000, disabled=not judges
    )
    settings: dict[str, Any] = {"hard_negatives": hard, "learning_rate": rate, "seed": seed}
    if layers:
        settings["layers"] = layers
    if teacher != NOBODY:
        settings |= {"distil": teacher, "distil_weight": weight}
    return settings


def cross_encoders(opened: Study) -> list[str]:
    """Names of the cross-encoders of a study, newest first; of those whose scores alone are kept too."""
    trained = [name for name, about in models_of(opened).items() if about.get("kind") == "cross-encoder"]
    return list(dict.fromkeys([*reversed(trained), *opened.parts("scores")]))


@st.cache_resource(show_spinner=False)
def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _estimate(opened: Study, training_set: str, start: str, settings: dict[str, Any]) -> str:
    """From two steps that are tried now, from encoding some passages, and from scoring some pairs."""
    from backend.retrieval.encoder import load_encoder
    from backend.training.distillation import Teacher
    from backend.training.dual_encoder import estimate, start_encoder
    from backend.training.examples import TrainingSetExamples

    examples = TrainingSetExamples(opened, TrainingSet.open(opened, training_set))
    teacher = Teacher(opened, settings["distil"]) if "distil" in settings else None
    found = estimate(start_encoder(opened, start), examples, DualEncoderSettings(**settings), teacher=teacher)
    encoder = load_encoder(start_encoder(opened, start))
    passages = opened.corpus.passages(range(min(TIMED, len(opened.corpus))))
    began = time.perf_counter()
    encoder.encode_passages(passages)
    each = (time.perf_counter() - began) / len(passages)
    first = ""
    if found.scoring is not None and found.scoring.pairs:
        pairs = f"{count(found.scoring.pairs, 'pair')} at most, {duration(found.scoring.seconds)}"
        first = f" Before that, {settings['distil']} scores what it has not scored yet: {pairs}."
    return (
        f"About {duration(found.seconds)} on this machine, by two steps tried just now: {found.steps:,} steps of "
        f"{found.seconds_per_step:.1f} s.{first} Then indexing {count(len(opened.corpus), 'passage')} takes about "
        f"{duration(each * len(opened.corpus))}."
    )
