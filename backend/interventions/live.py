"""Explain one miss interactively, with the index that the app has open."""

from __future__ import annotations

from collections.abc import Sequence

from blindspot.backend.core.study import Study
from blindspot.backend.interventions.explaining import ExplainedMiss, MissExplainer
from blindspot.backend.retrieval import live, remote
from blindspot.backend.retrieval.dense import Dense, dense_indexes, dense_name
from blindspot.backend.text.answers import DEFAULT_RULE
from blindspot.db.errors import Missing
from blindspot.db.records import Question


def explainable_runs(study: Study, runs: Sequence[str]) -> dict[str, str]:
    """Return the runs whose misses this process can explain, with their encoders; {} if a separate service does the
    searching.
    """
    if remote.configured_backend() is not None:
        return {}
    encoders = set(dense_indexes(study))
    manifests = {name: study.run(name).manifest for name in dict.fromkeys(runs)}
    return {
        name: str(manifest["retriever"])
        for name, manifest in manifests.items()
        if manifest.get("kind") == "dense" and manifest.get("retriever") in encoders
    }


def explain_question(study: Study, encoder: str, question: Question, rule: str = DEFAULT_RULE) -> ExplainedMiss:
    """Explain a question with an encoder's index. Raises Missing if there is no index or the question has no gold
    passage.
    """
    with live.open_retriever(study, dense_name(encoder)) as dense:
        if not isinstance(dense, Dense):
            raise Missing(f"{encoder!r} is not an encoder's index, so no edited passage can be ranked")
        (explained,) = next(MissExplainer(study, encoder, rule, dense=dense).explain([question]))
    return explained
