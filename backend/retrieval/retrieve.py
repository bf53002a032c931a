"""Make a run: a retriever over a set of questions, kept with its answer matrix."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from backend.core.jobs import job
from backend.core.runs import Run, refuse_existing, write_run
from backend.core.settings import check_name
from backend.core.splits import questions_in_split
from backend.progress import Progress
from backend.retrieval.bm25 import BM25
from backend.retrieval.dense import Dense
from backend.retrieval.hybrid import Candidates, Hybrid, weighted
from backend.retrieval.milvus import Milvus
from db.errors import Refused
from db.records import Hits, Question

if TYPE_CHECKING:
    from backend.core.study import Study
    from backend.retrieval.retriever import Retriever

KINDS = ("bm25", "dense", "hybrid", "milvus")
WEIGHTS = (0.25, 0.5, 1.0, 1.1, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
TUNED_AT = 20  # Success@20, as in the DPR paper's tables
QUESTIONS_PER_BLOCK = 256


@job("retrieve")
def retrieve(
    study: Study,
    kind: str,
    *,
    k: int | None = None,
    split: str | None = None,
    name: str | None = None,
    encoder: str = "minilm",
    rule: str = "dpr",
    method: str | None = None,
    weight: float | None = None,
    missing: str = "exact",
    tune: bool = False,
    approximate: str | None = None,
    replace: bool = False,
    device: str | None = None,
    progress: Progress | None = None,
) -> Run:
    """Search every question of `split` and keep the hits as a run.

    Args:
        kind: "bm25", "dense", "hybrid" or "milvus".
        split: as `questions_in_split` takes it.
        name: of the run; default the retriever's name and the split, as in "bm25-dev".
        approximate: for dense, the FAISS index to search instead of all vectors, see `approximate.KINDS`.
        method, weight, missing, tune: for hybrid, see `Hybrid`; `tune` chooses the weight on the questions of dev.

    Raises Missing for an index that is not made, Refused for a run that exists and for settings that do not go together.
    """
    if kind not in KINDS:
        raise Refused(f"--with must be one of {', '.join(KINDS)}, not {kind!r}")
    settings = study.settings
    name = check_name(name or default_name(kind, f"{encoder}-{approximate}" if approximate else encoder, split), "run")
    refuse_existing(study, name, replace)
    k = k or settings.k
    if k > len(study.corpus):
        raise Refused(f"k is {k}, but there are only {len(study.corpus)} passages")
    questions = questions_in_split(study, split)
    retriever = _open(study, kind, encoder, method, weight, missing, approximate, device)
    extra = _tuned(study, retriever, rule, progress) if tune else {}
    started = time.monotonic()
    hits = retriever.search([question.text for question in questions], k, progress)
    return write_run(
        study,
        name,
        [question.id for question in questions],
        hits,
        {
            **retriever.settings,
            **extra,
            "split": split,
            "seed": settings.seed,
            "rule": rule,
            "search_seconds": round(time.monotonic() - started, 2),
        },
        rule=rule,
        replace=replace,
        progress=progress,
    )


def default_name(kind: str, encoder: str, split: str | None) -> str:
    named = {"bm25": "bm25", "dense": encoder, "milvus": f"{encoder}-milvus"}
    retriever = named.get(kind, "hybrid" if encoder == "minilm" else f"hybrid-{encoder}")
    return f"{retriever}-{split.replace('/', '-')}" if split else retriever


def _open(
    study: Study,
    kind: str,
    encoder: str,
    method: str | None,
    weight: float | None,
    missing: str,
    approximate: str | None,
    device: str | None,
) -> Retriever:
    if kind != "dense" and approximate:
        raise Refused("--approximate is for --with dense")
    if kind != "hybrid" and (method or weight is not None or missing != "exact"):
        raise Refused("--fusion, --weight and --missing are for --with hybrid")
    if kind == "bm25":
        return BM25(study)
    if kind == "milvus":
        return Milvus(study, encoder, device)
    return (
        Dense(study, encoder, device, approximate)
        if kind == "dense"
        else Hybrid(study, encoder, method, weight, missing, device)
    )


def _tuned(study: Study, retriever: Retriever, rule: str, progress: Progress | None) -> dict:
    """Set the retriever's weight to the best of WEIGHTS on dev; returns what the manifest records about it."""
    if not isinstance(retriever, Hybrid) or retriever.method != "weighted":
        raise Refused("--tune chooses the weight of --with hybrid --fusion weighted; there is no weight to tune here")
    dev = questions_in_split(study, "dev")
    by_gold = not any(question.answers for question in dev)
    questions = [question for question in dev if (question.gold if by_gold else question.answers)]
    if not questions:
        raise Refused("no question of dev has answers or gold passages to tune the weight on")
    accuracy = accuracy_by_weight(study, retriever, questions, rule, progress)
    retriever.weight = max(WEIGHTS, key=lambda weight: (accuracy[weight], -weight))
    return {
        "tuned": {
            "on": "dev",
            "n": len(questions),
            "measure": f"Success@{TUNED_AT}",
            "rule": "gold" if by_gold else rule,
            "accuracy": {str(weight): round(value, 4) for weight, value in accuracy.items()},
        }
    }


def accuracy_by_weight(
    study: Study, hybrid: Hybrid, questions: Sequence[Question], rule: str, progress: Progress | None = None
) -> dict[float, float]:
    """Success@20 on `questions` of each weight of WEIGHTS, from one search: by answers, or by gold where none has any."""
    from backend.core.gold import gold_matrix
    from backend.text.answers import match_run

    tops = []
    for start in range(0, len(questions), QUESTIONS_PER_BLOCK):
        if progress is not None:
            progress(start, len(questions), "tuning the weight on dev")
        candidates = hybrid.candidates([question.text for question in questions[start : start + QUESTIONS_PER_BLOCK]])
        tops.append(np.stack([_top(candidates, weight).ordinals for weight in WEIGHTS], axis=1))
    ordinals = np.concatenate(tops)  # (q, weights, 20)
    flat = ordinals.reshape(len(ordinals), -1)
    if any(question.answers for question in questions):
        matched = match_run(study.corpus, questions, flat, rule=rule, progress=progress).reshape(ordinals.shape)
    else:
        matched = gold_matrix(study.corpus, flat, questions)[0].reshape(ordinals.shape)
    return dict(zip(WEIGHTS, matched.any(axis=2).mean(axis=0).tolist(), strict=True))


def _top(candidates: Candidates, weight: float) -> Hits:
    return weighted(candidates, weight, TUNED_AT)
