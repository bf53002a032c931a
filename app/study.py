"""The open study and the results that pages derive from its runs, cached between runs of the script.

Each cache key contains the inputs of the result, such as a run's name and creation time. So replaced runs and new
imports appear at the next rerun. Sessions can share a `Study`, because its stores open one connection per thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import streamlit as st

from blindspot.app.per_run import once_per_run
from blindspot.backend.core.runs import Run
from blindspot.backend.core.study import ENVIRONMENT_VARIABLE, SETTINGS_FILE, Study
from blindspot.backend.evaluation.comparison import Comparison, MeasuredRun, measure, set_label
from blindspot.backend.evaluation.panel import Panel
from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.text.answers import DEFAULT_RULE
from blindspot.backend.training.checkpoints import models_of
from blindspot.db.errors import Missing
from blindspot.db.imports import Imports
from blindspot.db.question_table import QuestionTable, rows_of
from blindspot.db.records import Hits, Question

__all__ = ["Comparison", "MeasuredRun", "set_label"]  # re-exported for the pages

Key = tuple
"""The inputs of a cached result; hashable."""
COARSE = 2_000_000_000
"""Upper limit, in nanoseconds, of the resolution of file time stamps."""
SECONDS_TO_READ = 1.0
"""Delay after the first page before background work starts."""


def current() -> Study:
    """Return the study in $BLINDSPOT_STUDY, else the one in the current folder. Raises Missing."""
    folder = Path(os.environ.get(ENVIRONMENT_VARIABLE) or ".").resolve()
    marks = tuple(_file_version(folder / name) for name in (SETTINGS_FILE, "labels.db", "corpus.db"))
    if marks[0] is None:
        Study.open(folder)  # raises Missing with advice
    return _open_study(str(folder), marks[1:])


def _file_version(path: Path) -> int | None:
    """Return a key that changes when the file is replaced, but not when it is written to."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


@st.cache_resource(max_entries=4, show_spinner=False)
def _open_study(folder: str, marks: tuple) -> Study:
    return Study.open(folder)


def compute_ahead(computation: Callable[[], object], *key: object, wait: float = 0.0) -> None:
    """Compute a cached result in the background, once per key, because the next click is likely to need it.

    Errors are ignored here; the page computes the result again when it needs it, and reports errors then.
    """
    _compute_ahead(computation, wait, *key)


@st.cache_resource(max_entries=64, show_spinner=False)
def _compute_ahead(_computation: Callable[[], object], _wait: float, *key: object) -> None:
    def compute() -> None:
        with suppress(Exception):
            _computation()

    timer = threading.Timer(_wait, compute)
    timer.daemon = True
    timer.start()


@st.cache_resource(max_entries=4, show_spinner=False)
def _imports(folder: str, cache_version: int | None) -> Imports:
    return Imports(Path(folder) / "labels.db")


def questions_key(study: Study) -> Key:
    """Return a key that changes with every import of questions or frequencies, and with the settings."""
    return once_per_run(("questions", study.folder), lambda: _questions_key(study))


def _questions_key(study: Study) -> Key:
    mark = _file_version(study.labels_path)
    unit = study.settings_path.stat().st_mtime_ns  # study.toml names the unit of observation
    return str(study.folder), mark, unit, study.questions.last_position, _imports(str(study.folder), mark).last_number


def available_facts(study: Study) -> frozenset[str]:
    """Return which of answers, relations and frequencies at least one question has. Pages do not mention the others."""
    return _available_facts(study, questions_key(study))


@st.cache_resource(max_entries=4, show_spinner=False)
def _available_facts(_study: Study, questions: Key) -> frozenset[str]:
    return _study.questions.available_facts()


def with_answers(study: Study, question: Question | None = None) -> bool:
    """Return whether this question, or any question of the study, has a known answer. If not, pages do not mention
    answers.
    """
    return bool(question and question.answers) or "answers" in available_facts(study)


def relevance_kinds(study: Study) -> dict[Kind, str]:
    """Return in words the kinds of relevance by which the study can be measured."""
    kinds: dict[Kind, str] = {"answers": "contains an answer", "gold": "gold passages"}
    return kinds if with_answers(study) else {"gold": kinds["gold"]}


def runs(study: Study) -> dict[str, dict]:
    """Return the finished runs over this study's passages: name to manifest, oldest first."""
    if not study.has_corpus:
        return {}
    digest = study.corpus.digest
    return {name: manifest for name, manifest in parts(study, "runs").items() if manifest.get("corpus") == digest}


def parts(study: Study, kind: str) -> dict[str, dict]:
    """Return `Study.parts`, cached until a part is added, replaced or deleted."""
    return dict(_parts(study, str(study.folder), kind, _folder_version(study.folder / kind)))


def models(study: Study) -> dict[str, dict]:
    """Return `models_of`, cached until a model is added, replaced or deleted."""
    return dict(_models(study, str(study.folder), _folder_version(study.folder / "models")))


def run(study: Study, name: str) -> Run:
    """Return a run, which is opened once in one run of the page's script. Raises Missing for an unknown one."""
    return once_per_run(("run", study.folder, name), lambda: study.run(name))


@st.cache_resource(max_entries=16, show_spinner=False)
def _parts(_study: Study, folder: str, kind: str, cache_version: Key) -> dict[str, dict]:
    return dict(_study.parts(kind))


@st.cache_resource(max_entries=4, show_spinner=False)
def _models(_study: Study, folder: str, cache_version: Key) -> dict[str, dict]:
    return models_of(_study)


def _folder_version(folder: Path) -> Key:
    """Return a key that changes when an entry of the folder is added, replaced or deleted; each of these is a rename.

    Shortly after a change, every call returns a new key, because time stamps are coarse: a second change could get the
    same time stamp.
    """
    try:
        stamp = folder.stat().st_mtime_ns
    except OSError:
        return (None,)
    now = time.time_ns()
    return (stamp, now) if now - stamp < COARSE else (stamp,)


def rule_of_runs(study: Study, run_a: str, run_b: str) -> str:
    """Return the matching rule of both runs if they share one, else the default."""
    return rule_of(study, (run_a, run_b))


def measured(study: Study, name: str, relevance: Kind = "answers", rule: str = "dpr") -> MeasuredRun:
    """Return a measured run. Raises Missing for an unknown run."""
    manifest = runs(study).get(name)
    if manifest is None:
        known = ", ".join(runs(study)) or "none yet"
        raise Missing(f"no run {name!r}; runs of this study: {known}")
    return _measured(study, questions_key(study), name, manifest.get("made"), relevance, rule)


@st.cache_resource(max_entries=64, show_spinner=False)
def _measured(_study: Study, questions: Key, name: str, made_at: str | None, relevance: Kind, rule: str) -> MeasuredRun:
    run = _study.run(name)
    return measure(_study, name, relevance, rule, _table_of_run(_study, questions, run, made_at))


def _table_of_run(study: Study, questions: Key, run: Run, made_at: str | None) -> QuestionTable:
    """Return the questions of a run, in its order."""
    return _questions_of_run(study, questions, run.manifest.get("question_set", (run.name, made_at)), run)


@st.cache_resource(max_entries=8, show_spinner=False)
def _questions_of_run(_study: Study, questions: Key, question_set: object, _run: Run) -> QuestionTable:
    """Return the questions as columns, without one record per question. All runs over the same questions share them."""
    # Of a run that is dropped again: the ids of a million questions take 70 MB, and the measured run stays.
    return _study.questions.table(_study.run(_run.name).question_ids)


def comparison(study: Study, run_a: str, run_b: str, relevance: Kind = "answers", rule: str = "dpr") -> Comparison:
    """Compare two runs. Raises Missing for an unknown run."""
    known = runs(study)
    left, right = measured(study, run_a, relevance, rule), measured(study, run_b, relevance, rule)
    made = tuple(known[name].get("made") for name in (run_a, run_b))
    return _comparison(left, right, questions_key(study), run_a, run_b, made, relevance, rule)


@st.cache_resource(max_entries=32, show_spinner=False)
def _comparison(_measured_a: MeasuredRun, _measured_b: MeasuredRun, *key: object) -> Comparison:
    return Comparison.of_runs(_measured_a, _measured_b)


def rule_of(study: Study, names: Sequence[str]) -> str:
    """Return the matching rule of the runs if all share one, else the default."""
    known = runs(study)
    used = {known[name].get("rule", DEFAULT_RULE) for name in names if name in known}
    return used.pop() if len(used) == 1 else DEFAULT_RULE


def panel(study: Study, names: Sequence[str], relevance: Kind = "answers") -> Panel:
    """Compare several runs. Raises Missing for an unknown run, BadInput if the runs share no question."""
    known, by = runs(study), rule_of(study, names)
    measured_runs = {name: measured(study, name, relevance, by) for name in names}
    made = tuple((name, known[name].get("made")) for name in names)
    return _panel(measured_runs, questions_key(study), made, relevance, by)


@st.cache_resource(max_entries=16, show_spinner=False)
def _panel(_runs: dict[str, MeasuredRun], *key: object) -> Panel:
    return Panel.of_runs(_runs)


def run_row(study: Study, name: str, question_id: str) -> Hits | None:
    """Return a run's hits for one question, (1, k); None if the question is not in the run.

    Raises Missing for an unknown run.
    """
    manifest = runs(study).get(name)
    if manifest is None:
        raise Missing(f"no run {name!r} in this study")
    made = manifest.get("made")
    run = _run(study, str(study.folder), name, made)
    # Not by `run.row`, which holds the ids of all questions of the run.
    row = int(rows_of(_table_of_run(study, questions_key(study), run, made), [question_id])[0])
    if row < 0:
        return None
    return Hits(np.asarray(run.hits.ordinals[row : row + 1]), np.asarray(run.hits.scores[row : row + 1]))


@st.cache_resource(max_entries=32, show_spinner=False)
def _run(_study: Study, folder: str, name: str, made_at: str | None) -> Run:
    return _study.run(name)


def live_hits(study: Study, retriever: str, question: str, k: int) -> Hits:
    """Search with a retriever now. The hits are cached, so showing more of the list does not search again."""
    from blindspot.backend.retrieval.live import index_state

    settings = study.settings_path.stat().st_mtime_ns
    return _live_hits(study, str(study.folder), index_state(study), settings, retriever, question, k)


@st.cache_resource(max_entries=256, show_spinner=False)
def _live_hits(
    _study: Study, folder: str, fingerprint: Key, settings: int, retriever: str, question: str, k: int
) -> Hits:
    from blindspot.backend.retrieval import live as retrieval

    return retrieval.search(_study, retriever, [question], k)
