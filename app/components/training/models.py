"""The Models tab of the Training page: what training or cleaning changed, the list of models, and the forms that train."""

from __future__ import annotations

import streamlit as st

from blindspot.app import url, who
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import command, notice, percent
from blindspot.app.components.parts import parts_panel
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.training import tabs
from blindspot.app.components.training.changes import PARAMETERS
from blindspot.app.components.training.form import cross_encoder_form, retriever_form, taught_form
from blindspot.app.components.training.model_changes import (
    ModelChange,
    before_and_after,
    change_of_model,
    cleaning_effects,
    cleaning_flips,
    cleaning_sentence,
    gain_words,
    is_sure,
    turned_questions,
)
from blindspot.app.components.training.model_training import after_training, running_job, unfinished, watch
from blindspot.app.components.training.models_table import models_table
from blindspot.app.components.training.tabs import part_name
from blindspot.app.markup import div, join, show, tag
from blindspot.backend.core.extras import first_missing, install_command
from blindspot.backend.core.study import Study
from blindspot.backend.judges.feature_judge import feature_judges
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training.training_log import read_log
from blindspot.backend.training_sets.training_set import training_sets


def models_tab(open_study: Study, training_set: str) -> None:
    """Show what cleaning or training changed, all models beside the models they began as, and the forms that train. While
    a model is trained, and where the address asks for a set from which none has learned, that comes first.
    """
    models, stopped = models_of(open_study), unfinished(open_study)
    taught = {about.get("training_set") for about in models.values()}
    is_new_set = bool(models and url.value("set")) and not url.value("model") and training_set not in taught
    model = "" if is_new_set else url.value("model") or next(reversed(models), "")
    changed = {name: change_of_model(open_study, name, about) for name, about in models.items()}
    cleaned = cleaning_effects(open_study, models, changed)
    shown = next((each for each in cleaned if model in (each.name, each.other)), None)
    running = running_job(open_study, model) if model else None
    if running or is_new_set:
        shown = None
    if running:
        tabs.title(_running_sentence(model, model in models))
    elif is_new_set:
        learns = join("No model has learned from ", part_name(training_set), " yet.")
        tabs.title(learns, "Train one below; then you see which questions it changes.")
        _forms(open_study, models, stopped, training_set, is_first=True)
    elif shown:
        tabs.title(cleaning_sentence(shown), cleaning_flips(shown))
    else:
        tabs.title(*_sentences(model, changed.get(model), training_set))
    if model in models and not running:
        has_searched = before_and_after(open_study, model, models[model])[1] is not None
        after_training(open_study, model, has_searched)
    if running:
        watch(open_study, model)
    if models:
        every = scrolling(models_table(open_study, models, changed, model, training_set, shown))
        others = [cleaning_sentence(each) for each in cleaned if each is not shown]
        show(style_sheet("training/training.css"), div(every, *(tag("p", words) for words in others), cls="panel"))
    if model and (running or model in models or model in stopped or read_log(open_study, model)):
        if not running:
            watch(open_study, model)
    elif model:
        show(notice(f"This study has no model named {model}."))
    if not is_new_set:
        _forms(open_study, models, stopped, training_set)
    if model in models:
        parts_panel(open_study, "model", [model])


def _running_sentence(model: str, is_trained: bool) -> str:
    """Say what is done with a model now."""
    if is_trained:
        return f"{model} is trained; now it indexes the passages and searches."
    return f"{model} is being trained."


def _forms(
    open_study: Study, models: dict[str, dict], stopped_models: set[str], training_set: str, is_first: bool = False
) -> None:
    """Show the forms that train, in one fold once there is a model, unless training is what comes first."""
    is_first = is_first or not models
    judges = [about["name"] for about in feature_judges(open_study)]
    if not training_set and not judges:
        return
    if not who.may(open_study.labels_path, "train"):
        show(notice("Only leads can train models."))
        return
    if extra := first_missing(("train",)):
        show(notice(f"Training needs the extra {extra}: ", command(install_command(extra))))
        return
    taken_names = set(models) | set(open_study.settings.encoders) | stopped_models
    with st.container() if is_first else st.expander("Train another model"):
        if training_set:
            names = list(reversed(training_sets(open_study)))
            with st.columns([1, 2])[0]:
                url.select("Training set", "set", names, names[0], forget=("before", *PARAMETERS))
            retriever_form(open_study, training_set, taken_names, primary=is_first)
            with st.expander("Train a cross-encoder"):
                cross_encoder_form(open_study, training_set, taken_names)
        if judges:
            with st.expander("Let a judge teach a retriever", expanded=not training_set):
                taught_form(open_study, judges[::-1], taken_names)


def _sentences(model: str, change: ModelChange | None, training_set: str) -> tuple[object, object]:
    """Say by how much training changed the share of answered questions, with links to the questions behind it."""
    if not training_set and not model:
        return "No model yet.", "A retriever learns from a training set, and this study has none yet."
    if not model:
        about = f"A retriever learns from the set {training_set}; then you see which questions it changes."
        return "No model yet.", about
    shown = part_name(model)
    if change is None:
        about = "Index the passages with it and retrieve, to see for which questions training changed the result."
        return join(shown, " has not searched yet."), about
    figures = change.figures
    points = -100 * (figures.difference.estimate.value or 0.0)
    verdict = "" if is_sure(figures) else ": not established"
    finding = join(
        shown,
        f" answers {abs(points):.1f} points {'more' if points >= 0 else 'fewer'} than ",
        part_name(change.start),
        f" in the top {figures.k} (95%: {gain_words(figures)[1]}){verdict}.",
    )
    shares = (
        f"{percent(figures.b.value)}% of {quantity(figures.n, 'question')} instead of {percent(figures.a.value)}%: "
    )
    return finding, join(shares, turned_questions(change), ".")
