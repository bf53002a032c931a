"""Hybrid retrieval, which combines BM25 and dense retrieval.

There are two fusion methods. Both use the union of the two lists (2,000 deep by default) and break ties by row
(`top_k` of `retriever.py`):

- weighted: `BM25 + weight * dense` (DPR 2020, section 5: weight 1.1 for dot products of vectors that are not
  normalised). For a passage that is missing in one list, that retriever's exact score is computed; with
  `missing="minimum"` the lowest score of that list is used instead (as in Pyserini and DPR).
- rrf: the sum of `1 / (60 + rank)` (Cormack et al. 2009), where a list without the passage adds 0. It is suitable for
  encoders with unit vectors, whose scores of at most 1 would be negligible compared with BM25's 5 to 30.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from blindspot.backend.core.declared import Field, declared_settings, settings_class
from blindspot.backend.core.settings import Settings
from blindspot.backend.core.splits import questions_in_split
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.bm25 import BM25, BM25Kind
from blindspot.backend.retrieval.dense import Dense, EncoderKind, EncoderOptions, dense_indexes, dense_name
from blindspot.backend.retrieval.retriever import RETRIEVERS, OpenPart, kind_of_run, search_in_blocks, top_k
from blindspot.db.errors import Refused
from blindspot.db.records import Hits, Question

MISSING = ("exact", "minimum")
WEIGHTS = (0.25, 0.5, 1.0, 1.1, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
TUNED_AT = 20  # rank of the success measure, as in the DPR paper's tables
QUESTIONS_PER_BLOCK = 256


@dataclass(frozen=True)
class Candidates:
    """The union of two retrievers' lists: rows (q, m) int32, padded with -1, and both retrievers' scores (q, m)
    float32.
    """

    ordinals: np.ndarray
    sparse: np.ndarray
    dense: np.ndarray


def weighted_fusion(candidates: Candidates, weight: float, k: int) -> Hits:
    """Return the k best candidates by `sparse + weight * dense`."""
    return top_k(candidates.ordinals, candidates.sparse + np.float32(weight) * candidates.dense, k)


def reciprocal_rank_fusion(lists: Sequence[Hits], k: int, rrf_k: int) -> Hits:
    """Return the k best passages by the sum of 1 / (rrf_k + rank) over the lists (Cormack, Clarke and Büttcher
    2009).
    """
    ordinals = np.concatenate([hits.ordinals for hits in lists], axis=1)
    ranks = np.concatenate([np.arange(1, hits.k + 1) for hits in lists])
    parts = np.where(ordinals < 0, 0.0, 1.0 / (rrf_k + ranks)[None, :])
    return top_k(*_sum_by_ordinal(ordinals, parts, len(lists)), k)


def _sum_by_ordinal(rows: np.ndarray, contributions: np.ndarray, lists: int) -> tuple[np.ndarray, np.ndarray]:
    """Add up the scores of each passage in joined lists. Each passage is kept once, and its repetitions become -1.

    Args:
        lists: how many were joined. Each holds a passage once, so a passage occurs at most so many times. Padding occurs
            more often, but adds 0.
    """
    order = np.argsort(rows, axis=1, kind="stable")
    rows, contributions = np.take_along_axis(rows, order, 1), np.take_along_axis(contributions, order, 1)
    totals = contributions.copy()
    for later in range(1, lists):
        totals[:, :-later] += np.where(rows[:, later:] == rows[:, :-later], contributions[:, later:], 0.0)
    first = np.ones_like(rows, dtype=bool)
    first[:, 1:] = rows[:, 1:] != rows[:, :-1]
    return np.where(first, rows, -1), totals


def union_rows(hits_a: Hits, hits_b: Hits) -> np.ndarray:
    """Return the union of the rows of both lists, (q, m) int32, ascending without duplicates, padded with -1 at the
    beginning.
    """
    ordinals = np.sort(np.concatenate([hits_a.ordinals, hits_b.ordinals], axis=1), axis=1)
    ordinals[:, 1:][ordinals[:, 1:] == ordinals[:, :-1]] = -1
    return np.sort(ordinals, axis=1)


def scores_of_rows(rows: np.ndarray, hits: Hits) -> np.ndarray:
    """Return the score in `hits` of each row (q, m), (q, m) float32; NaN if the list does not contain the row."""
    span = int(max(rows.max(initial=0), hits.ordinals.max(initial=0))) + 2
    first = np.arange(len(rows), dtype=np.int64)[:, None] * span
    keys, listed = (rows + 1 + first).ravel(), (hits.ordinals + 1 + first).ravel()
    order = np.argsort(listed)
    place = np.minimum(np.searchsorted(listed, keys, sorter=order), listed.size - 1)
    matches = (listed[order[place]] == keys) & (rows.ravel() >= 0)
    return np.where(matches, hits.scores.ravel()[order[place]], np.nan).astype(np.float32).reshape(rows.shape)


def lowest_scores(hits: Hits) -> np.ndarray:
    """Return the lowest score of each list, (q, 1) float32; 0 for an empty list."""
    lowest = np.where(hits.ordinals < 0, np.inf, hits.scores).min(axis=1, keepdims=True)
    return np.where(np.isinf(lowest), 0, lowest).astype(np.float32)


class Hybrid:
    """A retriever that combines BM25 with one dense index.

    Args:
        method: "weighted", "rrf" or "auto" (weighted, unless the dense vectors have unit length).
        missing: "exact" or "minimum", for "weighted".
        sparse, dense: the open retrievers, if the caller shares them.
    """

    def __init__(
        self,
        study: Study,
        encoder: str,
        method: str | None = None,
        weight: float | None = None,
        missing: str = "exact",
        device: str | None = None,
        sparse: BM25 | None = None,
        dense: Dense | None = None,
    ):
        settings = study.settings.hybrid
        self.name = "hybrid"
        self.sparse, self.dense = sparse or BM25(study), dense or Dense(study, encoder, device)
        method = method or settings.method
        if method not in ("auto", "weighted", "rrf"):
            raise Refused(f"hybrid method must be auto, weighted or rrf, not {method!r}")
        if missing not in MISSING:
            raise Refused(f"missing must be one of {', '.join(MISSING)}, not {missing!r}")
        self.method = ("rrf" if self.dense.unit_length else "weighted") if method == "auto" else method
        self.weight = settings.weight if weight is None else weight
        self.missing, self.depth, self.rrf_k = missing, min(settings.depth, len(study.corpus)), settings.rrf_k

    @property
    def settings(self) -> dict:
        own = {"weight": self.weight, "missing": self.missing} if self.method == "weighted" else {"rrf_k": self.rrf_k}
        return {
            "retriever": "hybrid",
            "method": self.method,
            "depth": self.depth,
            **own,
            "sparse": self.sparse.settings,
            "dense": self.dense.settings,
        }

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        def search_block(block: slice) -> Hits:
            return self._search_block(questions[block], k)

        report = progress, "searching with BM25 and dense"
        return search_in_blocks(questions, k, QUESTIONS_PER_BLOCK, search_block, report)

    def _search_block(self, questions: Sequence[str], k: int) -> Hits:
        if self.method == "rrf":
            return reciprocal_rank_fusion(self.both_lists(questions), k, self.rrf_k)
        return weighted_fusion(self.candidates(questions), self.weight, k)

    def both_lists(self, questions: Sequence[str], vectors: np.ndarray | None = None) -> tuple[Hits, Hits]:
        """Return both retrievers' top `depth` hits."""
        vectors = self.dense.vectors_of(questions) if vectors is None else vectors
        return self.sparse.search(questions, self.depth), self.dense.search_vectors(vectors, self.depth)

    def candidates(self, questions: Sequence[str]) -> Candidates:
        """Return the union of both lists, with both retrievers' scores for every passage."""
        vectors = self.dense.vectors_of(questions)
        sparse, dense = self.both_lists(questions, vectors)
        ordinals = union_rows(sparse, dense)
        by_bm25, by_dense = scores_of_rows(ordinals, sparse), scores_of_rows(ordinals, dense)
        if self.missing == "minimum":
            exact = lowest_scores(sparse), lowest_scores(dense)
        else:
            unscored = np.where(np.isnan(by_bm25), ordinals, -1)
            exact = self.sparse.score(questions, unscored), self.dense.score_vectors(vectors, ordinals)
        return Candidates(
            ordinals, np.where(np.isnan(by_bm25), exact[0], by_bm25), np.where(np.isnan(by_dense), exact[1], by_dense)
        )


@settings_class
class HybridOptions(EncoderOptions):
    method: Literal["auto", "weighted", "rrf"] | None = Field(
        default=None,
        title="Fusion",
        description="Fusion method (default: from study.toml)",
        json_schema_extra={"option": "--fusion"},
    )
    weight: float | None = Field(
        default=None, description="Weight in BM25 + WEIGHT x dense (DPR: 1.1; default: from study.toml)"
    )
    missing: Literal["exact", "minimum"] = Field(
        default="exact",
        title="Missing scores",
        description="Weighted fusion: the score of a passage that one list lacks",
    )
    tune: bool = Field(default=False, description="Weighted fusion: choose the weight on dev (Success@20)")


class HybridKind(EncoderKind):
    name, title = "hybrid", "hybrid"
    help = "BM25 and dense joined"
    options = HybridOptions
    fusion = suggested = True
    extras = ("bm25", "dense")

    def available(self, study: Study) -> list[str]:
        if not BM25Kind().available(study):
            return []
        return [f"{self.name}:{name}" for name in dense_indexes(study)]

    def open(self, study: Study, options: HybridOptions, device: str | None = None, part: OpenPart = None) -> Hybrid:
        sparse, dense = (None, None) if part is None else (part(BM25.name), part(dense_name(options.encoder)))
        return Hybrid(study, options.encoder, options.method, options.weight, options.missing, device, sparse, dense)

    def label(self, name: str) -> str:
        return f"hybrid of BM25 and {self.named(name)}"

    def parts(self, name: str) -> tuple[str, ...]:
        return (BM25.name, self.named(name))

    def settings_of(self, settings: Settings, name: str) -> tuple:
        return (settings.bm25, *super().settings_of(settings, name), settings.hybrid)

    def run_name(self, options: HybridOptions) -> str:
        default = declared_settings(HybridOptions)["encoder"].default
        return self.name if options.encoder == default else f"{self.name}-{options.encoder}"

    def describe(self, manifest: Mapping[str, Any]) -> str:
        below = manifest.get("sparse", {})
        kind = kind_of_run(below)
        first = "BM25" if kind is None or kind.lexical else kind.describe(below)
        encoder = manifest.get("dense", {}).get("retriever", "dense")
        how = f"{manifest['weight']:g} × dense" if "weight" in manifest else "reciprocal ranks"
        return f"{first} + {encoder}, {how}"

    def retriever_of(self, manifest: Mapping[str, Any]) -> str:
        return f"{self.name}:{manifest['dense']['retriever']}"

    def options_of_run(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        own = {key: manifest[key] for key in ("method", "weight", "missing") if key in manifest}
        return super().options_of_run(manifest) | own

    def tunes(self, options: HybridOptions) -> bool:
        return options.tune

    def tuned(
        self, study: Study, retriever: Hybrid, options: HybridOptions, rule: str, progress: Progress | None
    ) -> dict[str, Any]:
        return tune_weight(study, retriever, rule, progress) if options.tune else {}


def tune_weight(study: Study, retriever: Hybrid, rule: str, progress: Progress | None) -> dict[str, Any]:
    """Set the hybrid's weight to the best of WEIGHTS on the dev questions, and return the tuning record for the
    manifest.
    """
    if retriever.method != "weighted":
        raise Refused("--tune works only with --with hybrid --fusion weighted, which has a weight to tune")
    dev = questions_in_split(study, "dev")
    by_gold = not any(question.answers for question in dev)
    questions = [question for question in dev if (question.gold if by_gold else question.answers)]
    if not questions:
        raise Refused("no dev question has answers or gold passages to tune the weight on")
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
    """Return Success@20 on `questions` for each weight of WEIGHTS, from a single search. Relevance is by answers, or by
    gold if no question has answers.
    """
    from blindspot.backend.core.gold import gold_matrix
    from blindspot.backend.text.answers import match_run

    tops = []
    for start in range(0, len(questions), QUESTIONS_PER_BLOCK):
        if progress is not None:
            progress(start, len(questions), "tuning the weight on dev")
        candidates = hybrid.candidates([question.text for question in questions[start : start + QUESTIONS_PER_BLOCK]])
        tops.append(np.stack([weighted_fusion(candidates, weight, TUNED_AT).ordinals for weight in WEIGHTS], axis=1))
    ordinals = np.concatenate(tops)  # (q, weights, 20)
    flat = ordinals.reshape(len(ordinals), -1)
    if any(question.answers for question in questions):
        matched = match_run(study.corpus, questions, flat, rule=rule, progress=progress).reshape(ordinals.shape)
    else:
        matched = gold_matrix(study.corpus, flat, questions)[0].reshape(ordinals.shape)
    return dict(zip(WEIGHTS, matched.any(axis=2).mean(axis=0).tolist(), strict=True))


RETRIEVERS.register(HybridKind())
