"""Words about runs that several pages use."""

from __future__ import annotations

from collections.abc import Mapping

from app.study import Measured
from backend.text.answers import SEARCHES_TITLE


def default_pair(runs: Mapping[str, dict]) -> tuple[str, str]:
    """The two runs to start with: the first of BM25 and the first of a dense encoder over the same questions, else the last two.

    Args:
        runs: name to manifest, at least one; where there is one, it is both.
    """
    names = list(runs)
    for a in (name for name in names if runs[name].get("retriever") == "bm25"):
        for b in names:
            if runs[b].get("retriever") not in ("bm25", "hybrid") and runs[b].get("question_set") == runs[a].get(
                "question_set"
            ):
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
    retriever = str(manifest.get("retriever") or "imported")
    if retriever == "bm25":
        return f"BM25, k1 {manifest.get('k1', '?')}, b {manifest.get('b', '?')}"
    if retriever == "hybrid":
        encoder = manifest.get("dense", {}).get("retriever", "dense")
        how = f"{manifest['weight']:g} × dense" if "weight" in manifest else "reciprocal ranks"
        return f"BM25 + {encoder}, {how}"
    return f"dense, {retriever}" if manifest.get("kind") == "dense" else retriever


def short_time(stamp: str | None) -> str:
    """ "2026-11-20 19:38" of an ISO time, in UTC."""
    return (stamp or "")[:16].replace("T", " ")
