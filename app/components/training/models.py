"""Models on the Training page: the list, the training curves, and the next steps after training."""

from __future__ import annotations

from typing import Any

import streamlit as st

from blindspot.app import study, url, who
from blindspot.app.components import jobs
from blindspot.app.components.marks import notice
from blindspot.app.components.parts import described, descriptions
from blindspot.app.components.plots import plot
from blindspot.app.markup import Html, div, link, show, span, tag
from blindspot.backend.core import jobs as work
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.chart_colours import BLUE, VERMILION
from blindspot.backend.judges.feature_judge import KIND
from blindspot.backend.judges.judge import kind_title
from blindspot.backend.reader.reading import read
from blindspot.backend.reader.training import train_reader
from blindspot.backend.recipes.rocketqa import train_rocketqa
from blindspot.backend.text.counting import duration
from blindspot.backend.training.before_after import run_before, start_name
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training.cross_encoder import train_cross_encoder
from blindspot.backend.training.dual_encoder import train_dual_encoder, trial_run_name, try_model
from blindspot.backend.training.scoring import score_run
from blindspot.backend.training.training_log import read_log

COMPARED_BY = {
    "average_rank": (
        "Average rank of the held-out questions' positives within a fixed pool of passages; lower is better, 1 is best."
    ),
    "mean_average_precision": "Mean average precision: how well the model orders the passages of each held-out "
    "question; "
    "higher is better, 1 is best.",
    "held_out_loss": "Held-out loss: mean log loss over pairs of held-out questions; lower is better.",
}
"""The measures that compare checkpoints, with explanations."""
RESUMABLE = (train_dual_encoder, train_cross_encoder, train_reader, train_rocketqa)
"""Jobs that resume from their last checkpoint when they are started again."""
JUDGED = 20  # passages per question for a cross-encoder to score; more take long on a CPU


def models_table(opened: Study, models: dict[str, dict], chosen: str) -> Html:
    rows, described_as = [], descriptions(opened, "model")
    for name, about in reversed(models.items()):
        cells = (
            kind_title(about.get("kind", "dual encoder")) + _taught(about),
            about.get("training_set") or about.get("run") or "–",
            start_name(opened, about) or "–",
            _number(about.get("last_step")),
            _number(about.get("best_step")),
            _rank(about),
            duration(about.get("seconds", 0)),
        )
        rows.append(
            tag(
                "tr",
                tag(
                    "th",
                    described(link(name, url.href(url.TRAINING, {"model": name})), described_as.get(name)),
                    scope="row",
                ),
                *(tag("td", cell, cls="left" if place < 3 else None) for place, cell in enumerate(cells)),
                cls="chosen" if name == chosen else None,
            )
        )
    head = tag(
        "tr",
        *(
            tag(
                "th",
                words,
                scope="col",
                cls="left" if words in ("model", "kind", "trained on", "initial model") else None,
            )
            for words in ("model", "kind", "trained on", "initial model", "steps", "best step", "average rank", "time")
        ),
    )
    return tag("table", tag("thead", head), tag("tbody", *rows), cls="figures")


def fewer(opened: Study) -> dict[str, Any]:
    """Return the option `k` for a retrieval if the study has fewer passages than its default k."""
    return {"k": len(opened.corpus)} if len(opened.corpus) < opened.settings.k else {}


def _taught(about: dict) -> str:
    settings = about.get("settings") or {}
    return f", distilled from {settings['distil']}" if settings.get("distil") else ""


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"


def _rank(about: dict) -> str:
    return f"{about['average_rank']:.1f}" if isinstance(about.get("average_rank"), int | float) else "–"


def watch(opened: Study, name: str) -> None:
    """Show the curves of a model, live during training, and its actions."""
    running = any(job.unfinished and job.arguments.get("name") == name for job in work.recent(opened, 20))
    st.fragment(_watch, run_every=3.0 if running else None)(opened, name, running)


def unfinished(opened: Study) -> set[str]:
    """Return the names of models whose training was stopped and can be resumed."""
    return {path.name[1:].removesuffix("~training") for path in opened.folder.glob("models/.*~training")}


def _resume(opened: Study, name: str) -> None:
    """Show a button that restarts the stopped job with the same arguments, from its last checkpoint."""
    of_model = (job for job in work.recent(opened, 100) if job.arguments.get("name") == name)
    job, again = next(
        (
            (job, again)
            for job in of_model
            if (again := work.request_again(job)) is not None and again.kind.function in RESUMABLE
        ),
        (None, None),
    )
    if job is not None and again is not None and name in unfinished(opened) and not job.unfinished:
        show(notice(f"The training of {name} was stopped."))
        jobs.start_button(opened, again, key=f"go-on-{name}", words="Resume")


def _watch(opened: Study, name: str, was_running: bool) -> None:
    if who.gone(opened.labels_path):
        st.rerun()
    log = read_log(opened, name)
    losses = [line for line in log if "loss" in line]
    compared_by = next((figure for figure in COMPARED_BY for line in log if figure in line), "average_rank")
    ranks = [line for line in log if compared_by in line]
    running = was_running and any(
        job.unfinished and job.arguments.get("name") == name for job in work.recent(opened, 20)
    )
    if losses or ranks:
        last = losses[-1] if losses else {}
        progress = (
            f"step {last.get('step', 0):,}, loss {last.get('loss', float('nan')):.3f}, "
            f"{last.get('examples_per_second', 0):.1f} questions/s"
            if last
            else ""
        )
        show(div(tag("h2", name), span("training, " if running else "", progress, cls="soft"), cls="list-head"))
        plot(_curves(losses, ranks, compared_by), f"curves-{name}")
        show(tag("p", COMPARED_BY[compared_by], cls="convention"))
    elif running:
        show(notice(f"Training {name}. The first figures appear after a few steps."))
    if not running:
        _resume(opened, name)
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


def after_training(opened: Study, name: str) -> None:
    """Show the next steps after training.

    A dual encoder can be indexed, tried and compared with its initial model; a cross-encoder can score a run; a reader
    can read a run.
    """
    runs, kind = study.shown_runs(opened), models_of(opened)[name].get("kind")
    if kind == "reader":
        for run in [run for run, manifest in runs.items() if manifest.get("split") == "dev"][-3:]:
            jobs.start_button(opened, request(read, run, reader=name), key=f"read-{name}-{run}", words=f"Read {run}")
        return
    if kind == KIND:  # "New judge" judges runs with it
        return
    if kind == "cross-encoder":
        for run in [run for run, manifest in runs.items() if manifest.get("split") == "train"][-2:]:
            words = f"Score the first {JUDGED} passages of each question of {run}"
            jobs.start_button(opened, request(score_run, name, run, JUDGED), key=f"score-{name}-{run}", words=words)
        return
    splits = [split for split in ("dev", "test") if any(row["split"] == split for row in opened.questions.counts())]
    for split in splits[:1]:
        made = trial_run_name(name, split)
        if made not in runs:
            job = request(try_model, name, split, **fewer(opened))
            jobs.start_button(opened, job, key=f"try-{name}", words=f"Index and retrieve for {split}")
            continue
        first = run_before(opened, models_of(opened).get(name, {}), made, split, runs)
        if first:
            show(
                div(
                    link(
                        f"Compare {first} (before) with {made} (after)",
                        url.href(url.COMPARE, {"a": first, "b": made}),
                        cls="button",
                    ),
                    " ",
                    link(
                        "Questions that got worse",
                        url.href(url.COMPARE, {"a": first, "b": made, "cell": "only_a"}),
                        cls="quiet",
                    ),
                )
            )
