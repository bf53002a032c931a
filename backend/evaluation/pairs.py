"""Choose the two runs that pages and commands compare by default."""

from __future__ import annotations

from collections.abc import Mapping

from blindspot.backend.retrieval.retriever import is_lexical, kind_of_run


def default_pair(runs: Mapping[str, dict]) -> tuple[str, str]:
    """Return the two runs to compare by default, runs over dev before others.

    These are the first lexical run (BM25) and the first dense run over the same questions, or else the last two runs.

    Args:
        runs: name to manifest, at least one; a single run is returned twice.
    """
    over_dev = {name: manifest for name, manifest in runs.items() if manifest.get("split") == "dev"}
    if len(over_dev) > 1:
        runs = over_dev
    names = list(runs)
    kinds = {name: kind_of_run(manifest) for name, manifest in runs.items()}
    for a in (name for name in names if is_lexical(runs[name])):
        for b, kind in kinds.items():
            other = kind is None or not (is_lexical(runs[b]) or kind.fusion)
            if other and runs[b].get("question_set") == runs[a].get("question_set"):
                return a, b
    return (names[-2], names[-1]) if len(names) > 1 else (names[0], names[0])
