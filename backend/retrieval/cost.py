"""Measure the cost of a retriever: questions per second, the latency of a single question, and the size of its indexes.

`retrieve` measures the cost and records it in the run's manifest, so that tables show it beside the run's quality.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.retriever import Retriever, RetrieverKind

LATENCY_QUESTIONS = 20  # questions asked one at a time, evenly spread over the run's questions
LATENCY_SECONDS = 2.0  # a slow retriever is asked fewer questions


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a run's retriever. A figure that the manifest lacks is None.

    Attributes:
        per_second: questions per second, searched together, without loading the index and the model. Of vectors that an
            earlier run encoded, the time that it took then counts.
        p50_ms: median milliseconds of one question asked alone.
        n: questions behind that median.
        index_bytes: size on disk of the index files that a search reads, without models.
    """

    per_second: float | None
    p50_ms: float | None
    n: int
    index_bytes: int | None


def cost_of(manifest: Mapping[str, Any]) -> Cost:
    """Return the cost recorded in a run's manifest. For imported runs and runs of older versions, some figures are
    None.
    """
    seconds, latency = manifest.get("search_seconds"), manifest.get("latency") or {}
    return Cost(
        manifest["questions"] / max(seconds, 0.01) if seconds is not None else None,
        latency.get("p50_ms"),
        latency.get("n", 0),
        manifest.get("index_bytes"),
    )


def live_latency(retriever: Retriever, questions: Sequence[str], k: int) -> dict[str, Any]:
    """Search for some of the questions one at a time. Return their number and the median latency, {"n", "p50_ms"}; {}
    if there are no questions.

    The retriever must have searched before, so that its index and model are already loaded.
    """
    rows = np.unique(np.linspace(0, max(len(questions) - 1, 0), LATENCY_QUESTIONS).astype(int))[: len(questions)]
    seconds: list[float] = []
    for row in rows.tolist():
        started = time.perf_counter()
        retriever.search([questions[row]], k)
        seconds.append(time.perf_counter() - started)
        if sum(seconds) > LATENCY_SECONDS:
            break
    return {"n": len(seconds), "p50_ms": round(1000 * float(np.median(seconds)), 2)} if seconds else {}


def index_bytes(study: Study, kind: RetrieverKind, options: Any) -> int | None:
    """Return the total size of the index files that a retriever with these options searches; None if its kind does not
    list them.
    """
    sizes = [path.stat().st_size for path in kind.index_files(study, options) if path.is_file()]
    return sum(sizes) if sizes else None
