"""Training: training sets, automatic judges and models, each on a tab."""

from __future__ import annotations

from blindspot.app import study, url
from blindspot.app.components import jobs
from blindspot.app.components.empty_page import show_empty_page
from blindspot.app.components.training import tabs
from blindspot.app.components.training.form import has_gpu
from blindspot.app.components.training.learned_judges import judges_tab
from blindspot.app.components.training.models import models_tab
from blindspot.app.components.training.sets import sets_tab
from blindspot.app.entry import enter
from blindspot.backend.core.extras import first_missing
from blindspot.backend.training_sets.training_set import training_sets


def page() -> None:
    opened = study.current()
    if not opened.has_corpus or not len(opened.questions):
        about = "This page builds training sets and trains retrievers on them."
        show_empty_page(opened, "No passages and questions yet", about)
        return
    with jobs.with_job_panel(opened):
        made = training_sets(opened)
        tabs.open_built(tabs.current(), list(made))
        chosen = url.one_of("set", list(made), next(reversed(made), ""))
        tab = tabs.current()
        tabs.tabs_head(tab, list(made), chosen)
        if not first_missing(("train",)):
            study.compute_ahead(has_gpu, "has-gpu", wait=study.SECONDS_TO_READ)  # imports torch, which Models needs
        if tab == "sets":
            sets_tab(opened, made, chosen)
        elif tab == "judges":
            judges_tab(opened, made.get(chosen))
        else:
            models_tab(opened, chosen)
        jobs.panel(opened)


enter(page)
