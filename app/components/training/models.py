"""The Models tab of the Training page: the forms that train, the curves, the runs before and after training, and the
list of models.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from blindspot.app import study, url, who
from blindspot.app.components import jobs
from blindspot.app.components.marks import command, notice, percent
from blindspot.app.components.parts import described, descriptions, parts_panel
from blindspot.app.components.plots import plot
from blindspot.app.components.training import tabs
from blindspot.app.components.training.form import BEGUN, cross_encoder_form, retriever_form, taught_form
from blindspot.app.markup import Html, div, join, link, show, span, tag
from blindspot.backend.core import jobs as work
from blindspot.backend.core.extras import first_missing, install_command
from blindspot.backend.core.jobs import request
from blindspot.backend.core.result_table import signed_ends
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.chart_colours import BLUE, VERMILION
from blindspot.backend.evaluation.comparison import PairedFigures, figures_at
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.judges.feature_judge import KIND, feature_judges
from blindspot.backend.judges.judge import kind_title
from blindspot.backend.reader.reading import read
from blindspot.backend.reader.training import train_reader
from blindspot.backend.recipes.rocketqa import train_rocketqa
from blindspot.backend.text.number_words import duration, quantity
from blindspot.backend.training.before_after import initial_encoder_name, run_before
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training.cross_encoder import train_cross_encoder
from blindspot.backend.training.dual_encoder import train_dual_encoder, trial_run_name, try_model
from blindspot.backend.training.scoring import score_run
from blindspot.backend.training.training_log import read_log

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


def models_tab(open_study: Study, training_set: str) -> None:
    """Show what the newest or chosen model changed, the forms that train on the current set, and all models."""
    models, stopped = models_of(open_study), unfinished(open_study)
    model = url.value("model") or next(reversed(models), "")
    started_models: dict[str, str] = st.session_state.get(BEGUN, {})
    run_before, run_after = _before_and_after(open_study, model, models)
    tabs.title("Models", _sentence(open_study, model, run_before, run_after, training_set))
    if model in models:
        after_training(open_study, model, run_after)
    if model in started_models and model not in models:
        show(notice(f"{model} is being trained. {started_models[model]}"))
    if models:
        show(div(div(models_table(open_study, models, model, training_set), cls="scrolling"), cls="panel"))
    if model and (model in models or model in stopped or model in started_models or read_log(open_study, model)):
        watch(open_study, model)
    elif model:
        show(notice(f"This study has no model named {model}."))
    _forms(open_study, models, stopped, training_set)
    if model in models:
        parts_panel(open_study, "model", [model])


def _forms(open_study: Study, models: dict[str, dict], stopped: set[str], training_set: str) -> None:
    """Show the forms that train, folded once there is a model."""
    judges = [about["name"] for about in feature_judges(open_study)]
    if not training_set and not judges:
        return
    if not who.may(open_study.labels_path, "train"):
        show(notice("Only leads can train models."))
        return
    if extra := first_missing(("train",)):
        show(notice(f"Training needs the extra {extra}: ", command(install_command(extra))))
        return
    taken_names = set(models) | set(open_study.settings.encoders) | stopped
    if training_set:
        with st.expander(f"Train another model on {training_set}") if models else st.container():
            retriever_form(open_study, training_set, taken_names, primary=not models)
        with st.expander("Train a cross-encoder"):
            cross_encoder_form(open_study, training_set, taken_names)
    if judges:
        with st.expander("Let a judge teach a retriever", expanded=not training_set):
            taught_form(open_study, judges[::-1], taken_names)


def _before_and_after(open_study: Study, model: str, models: dict[str, dict]) -> tuple[str | None, str | None]:
    """Return the runs of a dual encoder's initial model and of the trained encoder; None for a run that does not exist."""
    runs, split = study.shown_runs(open_study), _split(open_study)
    after = trial_run_name(model, split) if split else ""
    if model not in models or after not in runs:
        return None, None
    return run_before(open_study, models[model], after, split, runs), after


def _split(open_study: Study) -> str:
    """Return the split on which a trained model is tried; "" if there is none."""
    there = {row["split"] for row in open_study.questions.counts()}
    return next((split for split in ("dev", "test") if split in there), "")


def _sentence(
    open_study: Study, model: str, run_before: str | None, run_after: str | None, training_set: str
) -> str | Html:
    if run_before and run_after:
        compared = study.comparison(
            open_study, run_before, run_after, "answers", study.rule_of_runs(open_study, run_before, run_after)
        )
        k = min(HEADLINE_K, compared.depth)
        if len(compared) and k:
            return _change_sentence(model, run_before, run_after, figures_at(compared, k))
    if not training_set:
        return "A retriever learns from a training set, and this study has none yet."
    if not model:
        return f"No model yet. A retriever learns from the {training_set} set; then you see which questions it changes."
    return f"{model} is the model shown below. Index the passages with this model and retrieve, to see for which questions training changed the result."


def _change_sentence(model: str, run_before: str, run_after: str, figures: PairedFigures) -> Html:
    """Say by how much training changed the share of answered questions, with links to the questions behind it."""
    change = figures.difference.estimate  # before less after
    low, high = 100 * -(change.high or 0.0), 100 * -(change.low or 0.0)
    points = 100 * -(change.value or 0.0)
    cells = {"a": run_before, "b": run_after, "k": figures.k}
    better = link(f"{figures.flips.only_b:,} got better", url.href(url.COMPARE, {**cells, "cell": "only_b"}))
    worse = link(f"{figures.flips.only_a:,} worse", url.href(url.COMPARE, {**cells, "cell": "only_a"}))
    return join(
        f"{model} answers {abs(points):.1f} points {'more' if points >= 0 else 'fewer'} than {run_before} at {figures.k} "
        f"({signed_ends(low, high)})"
        f"{'' if low > 0 or high < 0 else ', which is not certain'}: {percent(figures.b.value)}% of "
        f"{quantity(figures.n, 'question')} instead of {percent(figures.a.value)}%; ",
        better,
        ", ",
        worse,
        ".",
    )


def models_table(open_study: Study, models: dict[str, dict], chosen: str, training_set: str) -> Html:
    rows, described_as = [], descriptions(open_study, "model")
    for name, about in reversed(models.items()):
        cells = (
            kind_title(about.get("kind", "dual encoder")) + _teacher_text(about),
            about.get("training_set") or about.get("run") or "–",
            initial_encoder_name(open_study, about) or "–",
            _step_text(about.get("last_step")),
            _step_text(about.get("best_step")),
            _mean_rank_text(about),
            duration(about.get("seconds", 0)),
        )
        rows.append(
            tag(
                "tr",
                tag(
                    "th",
                    described(link(name, tabs.address("models", set=training_set, model=name)), described_as.get(name)),
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


def smaller_k(open_study: Study) -> dict[str, Any]:
    """Return the option `k` for a retrieval, if the study has fewer passages than the default k."""
    return {"k": len(open_study.corpus)} if len(open_study.corpus) < open_study.settings.k else {}


def _teacher_text(manifest: dict) -> str:
    settings = manifest.get("settings") or {}
    return f", distilled from {settings['distil']}" if settings.get("distil") else ""


def _step_text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"


def _mean_rank_text(manifest: dict) -> str:
    return f"{manifest['average_rank']:.1f}" if isinstance(manifest.get("average_rank"), int | float) else "–"


def watch(open_study: Study, name: str) -> None:
    """Show the curves of a model, live during training, and its actions."""
    running = any(job.unfinished and job.arguments.get("name") == name for job in work.recent(open_study, 20))
    st.fragment(_watch, run_every=3.0 if running else None)(open_study, name, running)


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
    running = was_running and any(
        job.unfinished and job.arguments.get("name") == name for job in work.recent(open_study, 20)
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
        _resume(open_study, name)
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


def after_training(open_study: Study, name: str, run_after: str | None) -> None:
    """Show the next steps after training.

    A dual encoder can be indexed and tried; then the path leads on to the comparison with its initial model. A
    cross-encoder can score a run. A reader can read a run.

    Args:
        run_after: the run of a dual encoder; None if it has not searched yet.
    """
    runs, manifest = study.shown_runs(open_study), models_of(open_study)[name]
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
    elif kind != KIND and run_after is None and (split := _split(open_study)):
        # The tab Judges judges runs with a feature judge.
        job = request(try_model, name, split, **smaller_k(open_study))
        words = f"Index and retrieve for {split}{_indexing_time(open_study, manifest)}"
        jobs.start_button(open_study, job, key=f"try-{name}", label=words, primary=True)


def _indexing_time(open_study: Study, manifest: dict[str, Any]) -> str:
    """How long it took to index the passages with the initial model, in brackets; "" if there is no such index."""
    index = open_study.parts("indexes").get(initial_encoder_name(open_study, manifest) or "")
    took = index.get("seconds") if index else None
    return f" (about {duration(took)}, as its start took)" if took else ""
