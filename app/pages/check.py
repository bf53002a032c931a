"""Check: how many negatives of a training file are false, the rule that drops them, and the cleaned file."""

from __future__ import annotations

import streamlit as st

from blindspot.app import checks, study, url
from blindspot.app.checks import Labelled
from blindspot.app.components import jobs
from blindspot.app.components.check.answer import answer, primary, trace_panel
from blindspot.app.components.check.facts_panel import batch_panel, facts_panel
from blindspot.app.components.check.file_panel import file_panel
from blindspot.app.components.check.model_panel import model_panel
from blindspot.app.components.check.rules_panel import FILE_STEP, rule_answer, rules_panel
from blindspot.app.components.files import files_panel, is_empty
from blindspot.app.components.marks import command, empty
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.training import tabs
from blindspot.app.entry import enter
from blindspot.app.markup import Html, div, join, link, show, tag
from blindspot.backend.checking.check import Check
from blindspot.backend.checking.jobs import CleanedFile, cleaned_file
from blindspot.backend.core.made_from import is_check
from blindspot.backend.core.study import Study
from blindspot.backend.training_sets.training_set import training_sets


def page() -> None:
    opened = study.current()
    show(style_sheet("check/check.css"))
    with jobs.with_job_panel(opened):
        if is_check(opened):
            _checked_page(opened, checks.check_of(opened), checks.proven_labels(opened))
            return
        if is_empty(opened):
            files_panel(opened)
        else:
            show(_no_check(opened))
        jobs.panel(opened)


def _checked_page(open_study: Study, check: Check, labels: Labelled) -> None:
    sees, written = checks.sees_rate(open_study, labels), cleaned_file(open_study)
    facts = check.facts
    is_later = bool(url.value("step")) and sees
    with st.container(key="answer"):
        show(answer(facts, labels, sees, checks.outlook(open_study) if sees and not is_later else ""))
        if is_later:
            show(rule_answer(checks.rules(open_study), written))
        primary(open_study, facts, labels, written)
    button_is_at_the_foot = labels.judged and sees and not is_later  # of the job that people start here
    if not button_is_at_the_foot:
        jobs.panel(open_study)
    if is_later:
        _rule_and_file(open_study, check, labels, written)
    if labels.judged and sees:
        trace_panel(labels)
    with st.container(key="facts", horizontal=True, gap="small"):
        show(facts_panel(facts, f"{check.file.path.name}: {check.file.name}"))
        show(batch_panel(facts))
    if sees:
        model_panel(open_study, check)
    if button_is_at_the_foot:
        _rule_and_file(open_study, check, labels, written)
        jobs.panel(open_study)


def _rule_and_file(open_study: Study, check: Check, labels: Labelled, written_file: CleanedFile | None) -> None:
    """The rules and the form of the file; the form first in the step that writes it."""
    curve = checks.rules(open_study)
    writes = url.value("step") == FILE_STEP["step"]
    if writes:
        file_panel(open_study, labels, curve, written_file)
    rules_panel(open_study, curve, check.file.path, labels.judged, written_file)
    if not writes:
        file_panel(open_study, labels, curve, written_file)


def _no_check(open_study: Study) -> Html:
    """What an ordinary study shows here: its own sets are checked on Training, and a file elsewhere."""
    has_sets = bool(training_sets(open_study))
    action = link("Check this study's training sets", tabs.address("sets"), cls="button main")
    return empty(
        "How many mined negatives are false?",
        join(
            "For this study's own training sets, Training says it: ",
            tag("i", "Sets"),
            " has the checks and the labels.",
        )
        if has_sets
        else "This study has no training set yet.",
        div(
            action if has_sets else link("Build a training set", tabs.address("sets"), cls="button main"), cls="action"
        ),
        join("For the file of another trainer, open a check of its own: ", command("blindspot check FILE --open"), "."),
    )


enter(page)
