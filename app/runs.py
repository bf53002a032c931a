"""Descriptions of runs that several pages share."""

from __future__ import annotations

from collections.abc import Mapping

from app.study import Measured
from backend.retrieval.retriever import RETRIEVERS, kind_of_run
from backend.text.answers import SEARCHES_TITLE
from backend.text.counting import counted


def default_pair(runs: Mapping[str, dict]) -> tuple[str, str]:
    """Return the two runs to compare by default.

    These are the first lexical run (BM25) and the first dense run over the same questions, or else the last two runs.

    Args:
        runs: name to manifest, at least one; a single run is returned twice.
    """
    # The runs of the learning curve are compared by its own links only.
    runs = {name: manifest for name, manifest in runs.items() if "learning_curve" not in manifest} or runs
    names = list(runs)
    kinds = {name: kind_of_run(manifest) for name, manifest in runs.items()}
    for a in (name for name, kind in kinds.items() if kind is not None and kind.lexical):
        for b, kind in kinds.items():
            other = kind is None or not (kind.lexical or kind.fusion)
            if other and runs[b].get("question_set") == runs[a].get("question_set"):
                return a, b
    return (names[-2], names[-1]) if len(names) > 1 else (names[0], names[0])


def convention(kind: str, rule: str) -> str:
    """Return one sentence that says which passages count as relevant."""
    if kind == "gold":
        return "A passage is relevant if it is a gold passage of the question."
    if rule in SEARCHES_TITLE:
        return f"A passage is relevant if its title or text contains an answer (rule: {rule})."
    return f"A passage is relevant if its text contains an answer (rule: {rule}; titles are not searched)."


def left_out(measured: Measured) -> str:
    return "; ".join(f"{counted(count, 'question')} left out: {reason}" for reason, count in measured.left_out.items())


def retriever_label(manifest: Mapping) -> str:
    """Return the readable name of the retriever that produced a run."""
    kind = kind_of_run(manifest)
    return str(manifest.get("retriever") or "imported") if kind is None else kind.describe(manifest)


def short_time(stamp: str | None) -> str:
    """Shorten an ISO time in UTC to "2026-11-20 19:38"."""
    return (stamp or "")[:16].replace("T", " ")


def retrieve_command() -> str:
    """Return the command that makes a run, with the retrievers that Home suggests."""
    return (
        f"blindspot retrieve --with {'|'.join(kind.name for kind in RETRIEVERS if kind.suggested and not kind.fusion)}"
    )
