"""Models on the Training page: training one, watching it, trying it, and comparing with what was before."""

from __future__ import annotations

import time
from typing import Any

import streamlit as st

from app import study, url
from app.components import jobs
from app.components.jobs import duration
from app.components.marks import count, notice
from app.components.plots import plot
from app.entry import one_line
from app.markup import Html, div, link, show, span, tag
from backend import jobs as work
from backend.study import Study
from backend.training.resuming import models_of
from backend.training.training_log import read_log
from backend.training.training_set import TrainingSet
from backend.training.trial import run_name

CPU_COMPARISONS = {"held_out": 40, "pool": 200}
"""On a CPU comparing checkpoints would cost more than training: few questions among few passages will do."""
TIMED = 16  # passages that are encoded to guess how long indexing takes


def train_form(opened: Study, sets: list[str], taken: set[str]) -> None:
    """Defaults that suit the hardware: on a CPU few steps, and what they will take."""
    gpu = has_gpu()
    number = next(n for n in range(1, 10_000) if f"model-{n}" not in taken)
    with st.form("train", border=False):
        columns = st.columns([2, 2, 2, 1.5, 1.5, 1.5, 2], vertical_alignment="bottom")
        name = columns[0].text_input("Name", f"model-{number}", max_chars=64)
        training_set = columns[1].selectbox("Training set", sets)
        start = columns[2].selectbox("From", list(opened.settings.encoders))
        steps = columns[3].number_input("Steps", 1, 1_000_000, 2000 if gpu else 40, help="Batches. On a CPU few, as a proof that it runs.")
        batch = columns[4].number_input(
            "Batch", 2, 4096, 128 if gpu else 8, help="Questions in a batch; the others' passages are negatives too."
        )
        tokens = columns[5].number_input("Tokens", 16, 512, 256 if gpu else 96, help="Longer passages are cut while training.")
        with columns[6]:
            asked = st.form_submit_button("How long?")
            pressed = st.form_submit_button("Train", type="primary")
    settings = {"steps": steps, "batch": batch, "passage_tokens": tokens, "hard_negatives": 1}
    if not gpu:
        settings |= CPU_COMPARISONS
    if asked:
        with st.spinner("Trying two steps …"), one_line():
            show(notice(_estimate(opened, training_set, start, settings)))
    if pressed:
        jobs.submit(
            opened, "train dual-encoder", {"name": name.strip(), "training_set": training_set, "start": start, "settings": settings}
        )
        st.session_state["training-begun"] = name.strip()
        url.write("model", name.strip())
        st.rerun()


@st.cache_resource(show_spinner=False)
def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _estimate(opened: Study, training_set: str, start: str, settings: dict[str, Any]) -> str:
    """From two steps that are tried now, and from encoding some passages."""
    from backend.retrieval.encoder import load_encoder
    from backend.training.dual_encoder import estimate, start_of
    from backend.training.set_examples import SetExamples
    from backend.training.training_settings import DualEncoderSettings

    found = estimate(start_of(opened, start), SetExamples(opened, TrainingSet.open(opened, training_set)), DualEncoderSettings(**settings))
    encoder = load_encoder(start_of(opened, start))
    passages = opened.corpus.passages(range(min(TIMED, len(opened.corpus))))
    began = time.perf_counter()
    encoder.encode_passages(passages)
    each = (time.perf_counter() - began) / len(passages)
    return (
        f"About {duration(found.seconds)} on this machine, by two steps tried just now: {found.steps:,} steps of "
        f"{found.seconds_per_step:.1f} s. Then indexing {count(len(opened.corpus), 'passage')} takes about "
        f"{duration(each * len(opened.corpus))}."
    )


def models_table(models: dict[str, dict], chosen: str) -> Html:
    rows = []
    for name, about in reversed(models.items()):
        start = about.get("start")
        cells = (
            about.get("training_set") or "–",
            start if isinstance(start, str) else "–",
            _number(about.get("last_step")),
            _number(about.get("best_step")),
            _rank(about),
            f"{about.get('seconds', 0):,.0f} s",
        )
        rows.append(
            tag(
                "tr",
                tag("th", link(name, url.href(url.TRAINING, {"model": name})), scope="row"),
                *(tag("td", cell, cls="left" if place < 2 else None) for place, cell in enumerate(cells)),
                cls="chosen" if name == chosen else None,
            )
        )
    head = tag(
        "tr",
        *(
            tag("th", words, scope="col", cls="left" if words in ("model", "trained on", "from") else None)
            for words in ("model", "trained on", "from", "steps", "best at", "average rank", "took")
        ),
    )
    return tag("table", tag("thead", head), tag("tbody", *rows), cls="figures")


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"


def _rank(about: dict) -> str:
    return f"{about['average_rank']:.1f}" if isinstance(about.get("average_rank"), int | float) else "–"


def watch(opened: Study, name: str) -> None:
    """The curves of a model, which grow while it is trained, and what can be done with it."""
    running = any(job.unfinished and job.arguments.get("name") == name for job in work.recent(opened, 20))
    st.fragment(_watch, run_every=3.0 if running else None)(opened, name, running)


def unfinished(opened: Study) -> set[str]:
    """Names of models whose training was stopped, and would go on."""
    return {path.name[1:].removesuffix("~training") for path in opened.folder.glob("models/.*~training")}


def _go_on(opened: Study, name: str) -> None:
    """The job that was stopped, with the same arguments: it goes on from its last checkpoint."""
    job = next((job for job in work.recent(opened, 100) if job.arguments.get("name") == name and job.kind.startswith("train ")), None)
    if job is not None and name in unfinished(opened) and not job.unfinished:
        show(notice(f"The training of {name} was stopped."))
        jobs.start_button(opened, job.kind, job.arguments, key=f"go-on-{name}", words="Go on where it was")


def _watch(opened: Study, name: str, was_running: bool) -> None:
    log = read_log(opened, name)
    losses, ranks = [line for line in log if "loss" in line], [line for line in log if "average_rank" in line]
    running = was_running and any(job.unfinished and job.arguments.get("name") == name for job in work.recent(opened, 20))
    if losses or ranks:
        last = losses[-1] if losses else {}
        told = (
            f"step {last.get('step', 0):,}, loss {last.get('loss', float('nan')):.3f}, {last.get('examples_per_second', 0):.1f} questions/s"
            if last
            else ""
        )
        show(div(tag("h2", name), span("training now, " if running else "", told, cls="soft"), cls="list-head"))
        plot(_curves(losses, ranks), f"curves-{name}")
        show(
            tag(
                "p",
                "Average rank: of the held-out questions' positive among one fixed pool of passages; lower is better, 1 the best.",
                cls="convention",
            )
        )
    elif running:
        show(notice(f"{name} is being trained; the first figures come after some steps."))
    if not running:
        _go_on(opened, name)
    if was_running and not running:
        st.rerun()


def _curves(losses: list[dict], ranks: list[dict]):
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(1, 2, subplot_titles=("loss", "average rank"))
    figure.add_trace(
        go.Scatter(
            x=[line["step"] for line in losses],
            y=[line["loss"] for line in losses],
            mode="lines+markers",
            name="loss",
            line_color="#0072b2",
        ),
        1,
        1,
    )
    figure.add_trace(
        go.Scatter(
            x=[line["step"] for line in ranks],
            y=[line["average_rank"] for line in ranks],
            mode="lines+markers",
            name="average rank",
            line_color="#d55e00",
            marker_symbol="square",
        ),
        1,
        2,
    )
    figure.update_layout(height=260, margin={"l": 40, "r": 10, "t": 30, "b": 40}, showlegend=False)
    figure.update_xaxes(title_text="step")
    return figure


def after_training(opened: Study, name: str) -> None:
    """Index, retrieve, and set it beside what was before."""
    runs = study.runs(opened)
    splits = [split for split in ("dev", "test") if any(row["split"] == split for row in opened.questions.counts())]
    for split in splits[:1]:
        made = run_name(name, split)
        if made not in runs:
            jobs.start_button(
                opened, "try model", {"name": name, "split": split}, key=f"try-{name}", words=f"Index, and retrieve over {split}"
            )
            continue
        before = [
            run
            for run, manifest in runs.items()
            if run != made and manifest.get("split") == split and manifest.get("retriever") != "hybrid"
        ]
        start = models_of(opened).get(name, {}).get("start")
        first = next((run for run in before if start and run.startswith(str(start))), before[-1] if before else None)
        if first:
            show(
                div(
                    link(f"Compare {first} (before) with {made} (after)", url.href(url.COMPARE, {"a": first, "b": made}), cls="button"),
                    " ",
                    link("which questions got worse", url.href(url.COMPARE, {"a": first, "b": made, "cell": "only_a"}), cls="quiet"),
                )
            )
