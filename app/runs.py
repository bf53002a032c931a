"""Words about runs that several pages use."""

from __future__ import annotations

from collections.abc import Mapping

from app.study import Measured
from backend.retrieval.retriever import RETRIEVERS, kind_of_run
from backend.text.answers import SEARCHES_TITLE


def default_pair(runs: Mapping[str, dict]) -> tuple[str, str]:
    """The two runs to start with: the first lexical one (BM25) and the first dense one over the same questions, else the last two.

    Args:
        runs: name to manifest, at least one; where there is one, it is both.
    """
    names = list(runs)
    kinds = {name: kind_of_run(manifest) for name, manifest in runs.items()}
    for a in (name for name, kind in kinds.items() if kind is not None and kind.lexical):
        for b, kind in kinds.items():
            other = kind is None or not (kind.lexical or kind.fusion)
            if other and runs[b].get("question_set") == runs[a].get("question_set"):
                return a, b
    return (names[-2], names[-1]) if len(names) > 1 else (names[0], names[0])


def convention(kind: str, rule: str) -> str:
    """How relevance was decided, in one sentence that stands beside the figures."""
    if kind == "gold":
        return "Relevant is a passage that the question's gold names."
    where = "in its title or text" if rule in SEARCHES_TITLE else "in its text; the title is not searched"
    return f"Relevant is a passage that holds an answer by the rule “{rule}”, {where}."


def left_out(measured: Measured) -> str:
    return "; ".join(f"{count:,} questions left out: {reason}" for reason, count in measured.left_out.items())


def retriever_label(manifest: Mapping) -> str:
    """What made a run, for people."""
    kind = kind_of_run(manifest)
    return str(manifest.get("retriever") or "imported") if kind is None else kind.describe(manifest)


def short_time(stamp: str | None) -> str:
    """ "2026-11-20 19:38" of an ISO time, in UTC."""
    return (stamp or "")[:16].replace("T", " ")


def retrieve_command() -> str:
    """The command that makes a run, with the kinds of retriever that Home suggests."""
    return (
        f"blindspot retrieve --with {'|'.join(kind.name for kind in RETRIEVERS if kind.suggested and not kind.fusion)}"
    )
