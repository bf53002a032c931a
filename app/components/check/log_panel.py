"""The page Check for the log of a retriever: its precision in a sentence, the next step, the facts that need no labels,
and the golden set.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path

import streamlit as st

from blindspot.app import url, who
from blindspot.app.components import jobs
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, div, escape_markdown, link, show, tag
from blindspot.backend.checking.golden_sets import (
    GOLDEN,
    QUESTIONS,
    LogPrecision,
    export_golden_set,
    log_facts,
    log_precision,
)
from blindspot.backend.checking.jobs import draw_log_questions
from blindspot.backend.checking.words import log_fact_lines, log_precision_words
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity

WORDS = {"ragas": "For Ragas", "deepeval": "For DeepEval", "beir": "BEIR's folder, zipped", "qrels": "Qrels"}


def log_page(open_study: Study, name: str) -> None:
    """Show the page for the run that was imported from the log."""
    found = precision_of(open_study)
    sees = who.may(open_study.labels_path, "see others' labels")
    with st.container(key="answer"):
        show(log_precision_sentence(open_study, found, sees))
        _next_step(open_study, found)
    facts = [tag("li", f"{line[:1].upper()}{line[1:]}.") for line in log_fact_lines(log_facts(open_study))]
    fact_panel = div(
        tag("h2", "Seen at once"), tag("ul", *facts), tag("p", f"Log: {name}.", cls="convention"), cls="panel"
    )
    with st.container(key="facts", horizontal=True, gap="small"):
        show(fact_panel)
        if found is not None and found.examples and sees:
            show(_unanswered_questions(open_study, name, found))
    if found is not None and found.judged and who.may(open_study.labels_path, "export"):
        _golden_set(open_study)


def precision_of(open_study: Study) -> LogPrecision | None:
    """Return the figures from the judged sample, computed once after each label."""
    return _precision(
        open_study,
        str(open_study.folder),
        judging_stores(open_study).labels.last_event,
        len(judging_stores(open_study).queue.batches()),
    )


@st.cache_resource(max_entries=8, show_spinner=False)
def _precision(_study: Study, *key: object) -> LogPrecision | None:
    return log_precision(_study)


def log_precision_sentence(open_study: Study, precision: LogPrecision | None, sees_labels: bool) -> Html:
    """Return the sentence at the top of the page."""
    if precision is None or not precision.judged:
        return tag("h1", "How many of the retrieved chunks answer their question? No question is judged yet.")
    if not sees_labels:
        return tag(
            "h1",
            f"{quantity(precision.judged, 'question')} of the sample {'is' if precision.judged == 1 else 'are'} judged.",
        )
    return tag("h1", log_precision_words(precision))


def _next_step(open_study: Study, precision: LogPrecision | None) -> None:
    if precision is None:
        jobs.start_button(
            open_study, request(draw_log_questions), key="draw-log", label="Draw questions to judge", primary=True
        )
        return
    if precision.judged < precision.drawn_questions:
        words = "Judge the next question" if precision.judged else "Judge the first question"
        second = f"{precision.judged} of {precision.drawn_questions} done. The interval assumes that the whole sample is judged: judge all of it."
        button = link(words, url.JUDGE, cls="button main", data_key="j", title="Key: j")
        show(div(button, tag("span", second, cls="soft"), cls="action"))
        return
    facts = log_facts(open_study)
    show(tag("p", "The whole sample is judged.", cls="soft"))
    if precision.drawn_questions < facts.events - facts.without_chunks:
        jobs.start_button(
            open_study, request(draw_log_questions), key="draw-log", label=f"Draw {QUESTIONS} more questions"
        )


def _unanswered_questions(open_study: Study, name: str, precision: LogPrecision) -> Html:
    asked = open_study.questions.with_ids(precision.examples)
    lines = [tag("li", link(each.text, url.href(url.QUESTION, {"a": name, "b": name, "q": each.id}))) for each in asked]
    return div(tag("h2", "Questions that nothing answers"), tag("ul", *lines), cls="panel")


def _golden_set(open_study: Study) -> None:
    with st.container(key="file"):
        show(
            tag("h2", "The golden set"),
            tag(
                "p",
                "The questions that people judged, with the chunks that answer them; questions with the same words are one.",
            ),
        )
        with st.container(key="downloads", horizontal=True):
            for form, (name, _) in GOLDEN.items():
                ending = ".zip" if form == "beir" else ""
                st.download_button(
                    escape_markdown(WORDS[form]),
                    partial(_golden_file, open_study, form),
                    name + ending,
                    key=f"get-{form}",
                    on_click="ignore",
                )


def _golden_file(open_study: Study, form: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path, _, _ = export_golden_set(open_study, form, Path(folder) / GOLDEN[form][0])
        if path.is_dir():
            path = Path(shutil.make_archive(str(path), "zip", path))
        return path.read_bytes()
