"""Descriptions of runs that several pages share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blindspot.app import url
from blindspot.app.components.marks import notice
from blindspot.app.markup import Html
from blindspot.app.study import MeasuredRun
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.pairs import default_pair
from blindspot.backend.evaluation.report_text import index_size
from blindspot.backend.retrieval.cost import cost_of
from blindspot.backend.retrieval.retriever import kind_of_run
from blindspot.backend.text.answers import SEARCHES_TITLE
from blindspot.backend.text.number_words import noun_form, quantity


def runs_like(runs: Mapping[str, dict], run_a: str, run_b: str) -> list[str]:
    """Return the runs over the same questions as a run, without the two compared runs."""
    questions = runs[run_a].get("question_set")
    return [name for name in runs if name not in (run_a, run_b) and runs[name].get("question_set") == questions]


def pair_of_address(runs: Mapping[str, dict]) -> tuple[str, str]:
    """Return the two runs that the address names. If the address names no run, or one that the study lacks, another run
    takes its place, different from the other side's.
    """
    first, second = default_pair(runs)
    a, b = (url.one_of(key, list(runs), "") for key in ("a", "b"))
    a = a or (first if b != first else second)
    return a, b or (second if a != second else first)


def missing_runs(runs: Mapping[str, dict]) -> Html | str:
    """A notice about runs that the address names but the study lacks; "" if there are none."""
    named = [url.value("a"), url.value("b"), *url.value("runs").split(",")]
    missing = list(dict.fromkeys(name for name in named if name and name not in runs))
    if not missing:
        return ""
    words = " and ".join(repr(name) for name in missing)
    return notice(
        f"This study has no {noun_form(len(missing), 'run')} {words}, which the address names. Other runs are shown "
        "instead.",
        kind="warning",
    )


def convention(kind: str, rule: str) -> str:
    """Return one sentence that says which passages count as relevant."""
    if kind == "gold":
        return "A passage is relevant if it is a gold passage of the question."
    if rule in SEARCHES_TITLE:
        return f"A passage is relevant if its title or text contains an answer (rule: {rule})."
    return f"A passage is relevant if its text contains an answer (rule: {rule}; titles are not searched)."


def left_out(measured_run: MeasuredRun) -> str:
    return "; ".join(
        f"{quantity(count, 'question')} left out: {reason}" for reason, count in measured_run.left_out.items()
    )


def retriever_label(manifest: Mapping) -> str:
    """Return the readable name of the retriever that produced a run."""
    kind = kind_of_run(manifest)
    return str(manifest.get("retriever") or "imported") if kind is None else kind.describe(manifest)


def cost_label(manifest: Mapping) -> str:
    """Return the cost of one question and of the index for a run's retriever; "" if the run's manifest does not say."""
    cost = cost_of(manifest)
    said = [] if cost.p50_ms is None else [f"{cost.p50_ms:,.3g} ms a question"]
    said += [] if cost.index_bytes is None else [f"index of {index_size(cost)} MB"]
    return ", ".join(said)


def short_time(iso_time: str | None) -> str:
    """Shorten an ISO time in UTC to "2026-11-20 19:38"."""
    return (iso_time or "")[:16].replace("T", " ")


def over_training_questions(open_study: Study, runs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the runs that searched training questions. A run without a split searched all questions."""
    if not any(count["split"] == "train" for count in open_study.questions.counts()):
        return []
    return [name for name, manifest in runs.items() if manifest.get("split") in ("train", None)]
