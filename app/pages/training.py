"""Training: training sets, models, and the agreement of annotators, cross-encoder and answer matching."""

from __future__ import annotations

import streamlit as st

from blindspot.app import study, url, who
from blindspot.app.components import jobs
from blindspot.app.components.learning_curve import VIEW as CURVE
from blindspot.app.components.learning_curve import curve_panel, curve_view
from blindspot.app.components.marks import empty, notice
from blindspot.app.components.next_step import empty_page
from blindspot.app.components.panel_tables import choices
from blindspot.app.components.parts import descriptions, parts_panel
from blindspot.app.components.training.form import BEGUN, train_form
from blindspot.app.components.training.judges import VIEW, judges_panel
from blindspot.app.components.training.labels import label_counts
from blindspot.app.components.training.language_models import ask_form
from blindspot.app.components.training.learned_judges import judges_table, learn_form
from blindspot.app.components.training.models import after_training, models_table, unfinished, watch
from blindspot.app.components.training.sets import build_form, set_panel, sets_table
from blindspot.app.entry import enter
from blindspot.app.markup import div, show, tag
from blindspot.backend.core.study import Study
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training.training_log import read_log
from blindspot.backend.training_sets.training_set import TrainingSet, training_sets
from blindspot.db.rights import SETTLERS

VIEWS = {"": "sets and models", CURVE: "learning curve", VIEW: "judge agreement"}


def page() -> None:
    opened = study.current()
    if not opened.has_corpus or not len(opened.questions):
        about = "This page builds training sets, trains retrievers on them, and shows what your labels change."
        show(empty_page(opened, "No passages and questions yet", about))
        return
    views = VIEWS if who.may(opened.labels_path, "see others' labels") else {"": VIEWS[""], CURVE: VIEWS[CURVE]}
    view = url.one_of("view", list(views), "")
    if not view and url.value("view") == VIEW:
        show(
            notice(
                "That view shows other people's labels. Only people who settle disputes can open it: "
                f"{' and '.join(SETTLERS)}s."
            )
        )
    if len(views) > 1:
        offered = [(words, url.href(url.TRAINING, {"view": key}), key == view) for key, words in views.items()]
        show(div(choices("show", offered), cls="choosers"))
    if view == VIEW:
        judges_panel(opened)
        return
    if view == CURVE:
        curve_view(opened)
        return
    curve_panel(opened, "training")
    with jobs.followed(opened):
        _sets_and_models(opened)


def _sets_and_models(opened: Study) -> None:
    made, models = training_sets(opened), models_of(opened)
    chosen = url.one_of("set", list(made), next(reversed(made), ""))
    model = url.value("model") or next(reversed(models), "")
    label_counts(opened)
    if made:
        about = descriptions(opened, "training-set")
        show(div(tag("h2", "Training sets"), div(sets_table(made, chosen, about), cls="scrolling"), cls="panel"))
        parts_panel(opened, "training-set", list(made))
    else:
        show(
            empty(
                "No training set yet",
                "A training set lists the positives and hard negatives of each question, with their sources. "
                "Annotators' labels take precedence over the cross-encoder, and the cross-encoder over answer "
                "matching.",
            )
        )
    show(judges_table(opened))
    with st.expander("New judge"):
        learn_form(opened)
    with st.expander("Ask a language model"):
        ask_form(opened)
    with st.expander("New training set", expanded=not made):
        build_form(opened, made)
    if chosen:
        set_panel(opened, TrainingSet.open(opened, chosen), made)
        with st.expander("New retriever", expanded=not models):
            train_form(opened, list(reversed(made)), set(models) | set(opened.settings.encoders) | unfinished(opened))
    jobs.panel(opened)
    if models:
        show(div(tag("h2", "Models"), div(models_table(opened, models, model), cls="scrolling"), cls="panel"))
        parts_panel(opened, "model", list(models))
    begun = model in unfinished(opened) or st.session_state.get(BEGUN) == model
    if model and (model in models or begun or read_log(opened, model)):
        watch(opened, model)
        if model in models:
            after_training(opened, model)
    elif model:
        show(notice(f"This study has no model named {model}."))


enter(page)
