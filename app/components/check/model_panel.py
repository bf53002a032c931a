"""A language model judges the drawn pairs: which server receives the texts, what it costs, the button, and the rate by
the model's labels.
"""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from blindspot.app import who
from blindspot.app.components import jobs
from blindspot.app.components.consent import consent_form
from blindspot.app.components.marks import notice
from blindspot.app.components.training.language_models import plan_words
from blindspot.app.markup import show, tag
from blindspot.backend.checking.check import Check
from blindspot.backend.checking.jobs import judge_drawn
from blindspot.backend.checking.judging import unscored_pairs
from blindspot.backend.checking.sample import read_sample
from blindspot.backend.checking.words import rate_words
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.judges.llm.judge import LLMJudge, llm_judges
from blindspot.backend.judges.llm.judging import plan_pairs
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BlindspotError


def model_panel(open_study: Study, check: Check) -> None:
    """Show the panel to people who may use language models, if the study has one and pairs are drawn."""
    judges, drawn = list(llm_judges(open_study)), read_sample(check.checked_study)
    if not judges or drawn is None or not who.may(open_study.labels_path, "train"):
        return
    with st.container(key="model"):
        show(tag("h2", "A language model's opinion"))
        name = judges[0] if len(judges) == 1 else st.selectbox("Language model", judges, key="check-model")
        try:
            left = unscored_pairs(check.checked_study, drawn, name)
            if left:
                _ask(open_study, name, left)
            rate = replace(check, judge=name).rate()
        except BlindspotError as error:
            show(notice(f"{str(error)[:1].upper()}{str(error)[1:]}.", kind="warning"))
            return
        if rate is not None and rate.judged:
            show(tag("p", rate_words(rate)))
            words = "This is an interval for what the model would say about the whole file, not for what people would say. The written file uses only people's labels."
            show(tag("p", words, cls="convention"))


def _ask(open_study: Study, name: str, remaining_pairs: list[tuple[str, str]]) -> None:
    """Show the cost, the consent form if consent is missing, and the button."""
    needed = plan_pairs(open_study, name, remaining_pairs)
    show(plan_words(needed))
    lacking = "allow it first" if needed.how_to_allow else ""
    if lacking:
        consent_form(open_study, LLMJudge.load(open_study, name).about["endpoint"])
    words = f"Let {name} judge {quantity(len(remaining_pairs), 'pair')}"
    jobs.start_button(open_study, request(judge_drawn, name), key="judge-model", label=words, missing_part=lacking)
