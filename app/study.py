"""The open study and what the pages derive from its runs, held between runs of the script.

Everything here is keyed by what it was made from (the run's name and when it was made, how many questions there are), so
that a run that is made again, or an import, shows at the next rerun. Stores open one connection per thread, so holding a
`Study` across sessions is safe; a bare connection never is.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import numpy as np
import streamlit as st

from app import blind
from backend.core.runs import Run
from backend.core.study import ENVIRONMENT_VARIABLE, SETTINGS_FILE, Study
from backend.evaluation.comparison import Comparison, Measured, measure, set_label
from backend.evaluation.panel import Panel
from backend.evaluation.relevance import Kind
from backend.text.answers import DEFAULT_RULE
from db.errors import Missing
from db.imports import Imports
from db.records import Hits, Question

__all__ = ["Comparison", "Measured", "set_label"]  # as the pages know them

Key = tuple
"""What a derived thing was made from; hashable."""
COARSE = 2_000_000_000
"""Nanoseconds that no file system's clock is coarser than."""
SECONDS_TO_READ = 1.0
"""How long the first page is given for itself before anything is made ready for the next."""


def current() -> Study:
    """The study that $BLINDSPOT_STUDY names, else the one in the current folder. Raises Missing."""
    folder = Path(os.environ.get(ENVIRONMENT_VARIABLE) or ".").resolve()
    marks = tuple(_mark(folder / name) for name in (SETTINGS_FILE, "labels.db", "corpus.db"))
    if marks[0] is None:
        Study.open(folder)  # raises, and says what to type
    return _opened(str(folder), marks[1:])


def _mark(path: Path) -> int | None:
    """Changes when the file is replaced, not when it is written to."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


@st.cache_resource(max_entries=4, show_spinner=False)
def _opened(folder: str, marks: tuple) -> Study:
    opened = Study.open(folder)
    ahead(
        lambda: import_module("scipy.special"), "significance", wait=SECONDS_TO_READ
    )  # 0.2 s that the first test would wait for
    return opened


def ahead(work: Callable[[], object], *key: object, wait: float = 0.0) -> None:
    """Have something made in the background that the next click is likely to need; once for a key, for all sessions.

    It is for what makes itself when it is asked for: where it fails here, it fails again there, and the page says so.
    """
    _ahead(work, wait, *key)


@st.cache_resource(max_entries=64, show_spinner=False)
def _ahead(_work: Callable[[], object], _wait: float, *key: object) -> None:
    def guarded() -> None:
        with suppress(Exception):
            _work()

    timer = threading.Timer(_wait, guarded)
    timer.daemon = True
    timer.start()


@st.cache_resource(max_entries=4, show_spinner=False)
def _imports(folder: str, mark: int | None) -> Imports:
    return Imports(Path(folder) / "labels.db")


def questions_key(study: Study) -> Key:
    """Changes with every import of questions or frequencies."""
    mark = _mark(study.labels_path)
    return str(study.folder), mark, study.questions.last, _imports(str(study.folder), mark).last


def runs(study: Study) -> dict[str, dict]:
    """Finished runs over this study's passages: name to manifest, oldest first."""
    if not study.has_corpus:
        return {}
    return dict(_runs(study, str(study.folder), study.corpus.digest, _changed(study.folder / "runs")))


@st.cache_resource(max_entries=4, show_spinner=False)
def _runs(_study: Study, folder: str, digest: str, changed: Key) -> dict[str, dict]:
    return {name: manifest for name, manifest in _study.parts("runs").items() if manifest.get("corpus") == digest}


def _changed(folder: Path) -> Key:
    """Changes when a part is added to a folder, replaced or deleted: each is a rename. Right after that it is another at every call,
    because the clock that stamps a folder is coarse, and the next change could bear the same stamp."""
    try:
        stamp = folder.stat().st_mtime_ns
    except OSError:
        return (None,)
    now = time.time_ns()
    return (stamp, now) if now - stamp < COARSE else (stamp,)


def rule(study: Study, a: str, b: str) -> str:
    """The matching rule to compare two runs by: the one both were matched with, else the default."""
    return rule_of(study, (a, b))


def measured(study: Study, name: str, relevance: Kind = "answers", rule: str = "dpr") -> Measured:
    """A run, without the questions that are hidden from whoever is at work. Raises Missing for a run that does not exist."""
    manifest = runs(study).get(name)
    if manifest is None:
        known = ", ".join(runs(study)) or "none yet"
        raise Missing(f"there is no run {name!r} in this study; runs here: {known}")
    questions, made = questions_key(study), manifest.get("made")
    whole = _measured(study, questions, name, made, relevance, rule)
    hidden = blind.hidden(study)
    if hidden.isdisjoint(whole.row_of):
        return whole
    return _visible(whole, hidden, blind.digest(hidden), questions, name, made, relevance, rule)


@st.cache_resource(max_entries=64, show_spinner=False)
def _visible(_whole: Measured, _hidden: frozenset[str], *key: object) -> Measured:
    return _whole.without(_hidden, blind.REASON)


def _hidden_key(study: Study) -> str:
    """Tells results of the same runs apart where different questions are hidden."""
    return blind.digest(blind.hidden(study))


@st.cache_resource(max_entries=64, show_spinner=False)
def _measured(_study: Study, questions: Key, name: str, made: str | None, relevance: Kind, rule: str) -> Measured:
    run = _study.run(name)
    records = _questions_of_run(_study, questions, run.manifest.get("question_set", (name, made)), run.question_ids)
    return measure(_study, name, relevance, rule, records)


@st.cache_resource(max_entries=8, show_spinner=False)
def _questions_of_run(_study: Study, questions: Key, question_set: object, _ids: list[str]) -> list[Question]:
    """Runs over one set of questions share the records."""
    return _study.questions.some(_ids)


def comparison(study: Study, a: str, b: str, relevance: Kind = "answers", rule: str = "dpr") -> Comparison:
    """Two runs side by side. Raises Missing for a run that does not exist."""
    known = runs(study)
    left, right = measured(study, a, relevance, rule), measured(study, b, relevance, rule)
    made = tuple(known[name].get("made") for name in (a, b))
    return _comparison(left, right, questions_key(study), a, b, made, relevance, rule, _hidden_key(study))


@st.cache_resource(max_entries=32, show_spinner=False)
def _comparison(_a: Measured, _b: Measured, *key: object) -> Comparison:
    return Comparison.of(_a, _b)


def rule_of(study: Study, names: Sequence[str]) -> str:
    """The matching rule that all of several runs were matched with, else the default."""
    known = runs(study)
    used = {known[name].get("rule", DEFAULT_RULE) for name in names if name in known}
    return used.pop() if len(used) == 1 else DEFAULT_RULE


def panel(study: Study, names: Sequence[str], relevance: Kind = "answers") -> Panel:
    """Several runs side by side. Raises Missing for a run that does not exist, BadInput where they share no question."""
    known, by = runs(study), rule_of(study, names)
    measured_runs = {name: measured(study, name, relevance, by) for name in names}
    made = tuple((name, known[name].get("made")) for name in names)
    return _panel(measured_runs, questions_key(study), made, relevance, by, _hidden_key(study))


@st.cache_resource(max_entries=16, show_spinner=False)
def _panel(_runs: dict[str, Measured], *key: object) -> Panel:
    return Panel.of(_runs)


def run_row(study: Study, name: str, question_id: str) -> Hits | None:
    """What a run found for one question, (1, k); None where the question is not in it, or is hidden from whoever is at work.

    Raises Missing for the run.
    """
    manifest = runs(study).get(name)
    if manifest is None:
        raise Missing(f"there is no run {name!r} in this study")
    if blind.any_hidden(study, [question_id]):
        return None
    run = _run(study, str(study.folder), name, manifest.get("made"))
    row = run.row(question_id)
    return (
        None
        if row is None
        else Hits(np.asarray(run.hits.ordinals[row : row + 1]), np.asarray(run.hits.scores[row : row + 1]))
    )


@st.cache_resource(max_entries=32, show_spinner=False)
def _run(_study: Study, folder: str, name: str, made: str | None) -> Run:
    return _study.run(name)


def live(study: Study, retriever: str, question: str, k: int) -> Hits:
    """What a retriever finds now. Held, so that showing more of a list does not search again.

    Raises Refused for a question that is hidden from whoever is at work.
    """
    blind.refuse_live(study, question)
    from backend.retrieval.live import made

    settings = study.settings_path.stat().st_mtime_ns
    return _live(study, str(study.folder), made(study), settings, retriever, question, k)


@st.cache_resource(max_entries=256, show_spinner=False)
def _live(_study: Study, folder: str, made: Key, settings: int, retriever: str, question: str, k: int) -> Hits:
    from backend.retrieval import live as retrieval

    return retrieval.search(_study, retriever, [question], k)
