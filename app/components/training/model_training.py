"""A training that runs or has ended: its curves, and the next steps with its model."""

from __future__ import annotations

from typing import Any

import streamlit as st

from blindspot.app import study, who
from blindspot.app.components import jobs
from blindspot.app.components.marks import notice
from blindspot.app.components.plots import plot
from blindspot.app.components.training.model_changes import measured_split
from blindspot.app.markup import div, show, span, tag
from blindspot.backend.core import jobs as work
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.chart_colours import BLUE, VERMILION
from blindspot.backend.judges.feature_judge import KIND
from blindspot.backend.reader.reading import read
from blindspot.backend.reader.training import train_reader
from blindspot.backend.recipes.rocketqa import train_rocketqa
from blindspot.backend.text.number_words import duration
from blindspot.backend.training.before_after import initial_encoder_name
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training.cross_encoder import train_cross_encoder
from blindspot.backend.training.dual_encoder import train_dual_encoder, try_model
from blindspot.backend.training.scoring import score_run
from blindspot.backend.training.training_log import read_log
from blindspot.db.jobs import Job

COMPARED_BY = {
    "average_rank": (
        "Average rank of the held-out questions' positives within a fixed pool of passages; lower is better, 1 is best. "
        "Each training set has its own pool, so compare only models of the same set."
    ),
    "mean_average_precision": "Mean average precision: how well the model orders the passages of each held-out "
    "question; "
    "higher is better, 1 is best.",
    "held_out_loss": "Held-out loss: mean log loss over pairs of held-out questions; lower is better.",
}
"""The measures by which checkpoints are compared, with explanations."""
RESUMABLE = (train_dual_encoder, train_cross_encoder, train_reader, train_rocketqa)
"""Jobs that resume from their last checkpoint when they are started again."""
JUDGED = 20  # passages per question for a cross-encoder to score; more take long on a CPU


def running_job(open_study: Study, name: str) -> Job | None:
    """Return the job that trains a model, or tries it; None if there is none."""
    recent = work.recent(open_study, 20)
    return next((job for job in recent if job.unfinished and job.arguments.get("name") == name), None)


def watch(open_study: Study, name: str) -> None:
    """Show the curves of a model, live during training, and its actions."""
    running = running_job(open_study, name) is not None
    with st.container() if running else st.expander(f"Training curve of {name}"):
        st.fragment(_watch, run_every=3.0 if running else None)(open_study, name, running)
    if not running:
        _resume(open_study, name)


def unfinished(open_study: Study) -> set[str]:
    """Return the names of models whose training was stopped and can be resumed."""
    return {path.name[1:].removesuffix("~training") for path in open_study.folder.glob("models/.*~training")}


def _resume(open_study: Study, name: str) -> None:
    """Show a button that restarts the stopped job with the same arguments, from its last checkpoint."""
    of_model = (job for job in work.recent(open_study, 100) if job.arguments.get("name") == name)
    job, again = next(
        (
            (job, again)
            for job in of_model
            if (again := work.request_again(job)) is not None and again.kind.function in RESUMABLE
        ),
        (None, None),
    )
    if job is not None and again is not None and name in unfinished(open_study) and not job.unfinished:
        show(notice(f"The training of {name} was stopped."))
        jobs.start_button(open_study, again, key=f"go-on-{name}", label="Resume")


def _watch(open_study: Study, name: str, was_running: bool) -> None:
    if who.sign_in_has_ended(open_study.labels_path):
        st.rerun()
    log = read_log(open_study, name)
    losses = [line for line in log if "loss" in line]
    compared_by = next((figure for figure in COMPARED_BY for line in log if figure in line), "average_rank")
    ranks = [line for line in log if compared_by in line]
    job = running_job(open_study, name) if was_running else None
    running = job is not None
    if losses or ranks:
        last = losses[-1] if losses else {}
        steps = ((job.arguments.get("settings") or {}) if job else {}).get("steps")
        of_all = f" of {steps:,}" if steps else ""
        progress = (
            f"step {last.get('step', 0):,}{of_all}, loss {last.get('loss', float('nan')):.3f}, "
            f"{last.get('examples_per_second', 0):.1f} questions/s"
            if last
            else ""
        )
        show(div(tag("h2", name), span("training, " if running else "", progress, cls="soft"), cls="list-head"))
        plot(_curves(losses, ranks, compared_by), f"curves-{name}")
        show(tag("p", COMPARED_BY[compared_by], cls="convention"))
    elif running:
        show(notice(f"Training {name}. The first figures appear after a few steps."))
    if was_running and not running:
        st.rerun()


def _curves(losses: list[dict], ranks: list[dict], compared_by: str = "average_rank"):
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    words = compared_by.replace("_", " ")
    figure = make_subplots(1, 2, subplot_titles=("loss", words))
    figure.add_trace(
        go.Scatter(
            x=[line["step"] for line in losses],
            y=[line["loss"] for line in losses],
            mode="lines+markers",
            name="loss",
            line_color=BLUE,
        ),
        1,
        1,
    )
    figure.add_trace(
        go.Scatter(
            x=[line["step"] for line in ranks],
            y=[line[compared_by] for line in ranks],
            mode="lines+markers",
            name=words,
            line_color=VERMILION,
            marker_symbol="square",
        ),
        1,
        2,
    )
    figure.update_layout(height=260, margin={"l": 40, "r": 10, "t": 30, "b": 40}, showlegend=False)
    figure.update_xaxes(title_text="step")
    return figure


def after_training(open_study: Study, name: str, has_searched: bool) -> None:
    """Show the next steps after training.

    A dual encoder can be indexed and tried; then the path leads on to the comparison with its initial model. A
    cross-encoder can score a run. A reader can read a run.

    Args:
        has_searched: whether there is a run of a dual encoder over the questions that measure.
    """
    runs, manifest = study.runs(open_study), models_of(open_study)[name]
    kind = manifest.get("kind")
    if kind == "reader":
        for run in [run for run, manifest in runs.items() if manifest.get("split") == "dev"][-3:]:
            jobs.start_button(
                open_study, request(read, run, reader=name), key=f"read-{name}-{run}", label=f"Read {run}"
            )
    elif kind == "cross-encoder":
        for run in [run for run, manifest in runs.items() if manifest.get("split") == "train"][-2:]:
            words = f"Score the first {JUDGED} passages of each question of {run}"
            jobs.start_button(open_study, request(score_run, name, run, JUDGED), key=f"score-{name}-{run}", label=words)
    elif kind != KIND and not has_searched and (split := measured_split(open_study)):
        # The tab Judges judges runs with a feature judge.
        job = request(try_model, name, split)
        words = f"Index and retrieve for {split}{_indexing_time(open_study, manifest)}"
        jobs.start_button(open_study, job, key=f"try-{name}", label=words, primary=True)


def _indexing_time(open_study: Study, manifest: dict[str, Any]) -> str:
    """How long it took to index the passages with the initial model, in brackets; "" if there is no such index."""
    index = open_study.parts("indexes").get(initial_encoder_name(open_study, manifest) or "")
    took = index.get("seconds") if index else None
    return f" (about {duration(took)}, as its start took)" if took else ""
