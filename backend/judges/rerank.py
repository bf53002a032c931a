"""Reranking: the first ranks of another retriever's list, in the order of a feature judge.

A judge that learned from lists of BM25 reranks BM25's lists. Passages below the judge's depth keep their order after
the reranked ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from backend.core.declared import Field, settings_class
from backend.judges.feature_judge import ABOUT, FeatureJudge, Lists, feature_judges
from backend.retrieval.retriever import RETRIEVERS, Retriever, RetrieverKind, kind_of, kind_of_run, options_for
from db.errors import Refused
from db.records import Hits, Question

if TYPE_CHECKING:
    from backend.core.settings import Settings
    from backend.core.study import Study
    from backend.progress import Progress

QUESTIONS_PER_STEP = 256


def rerank(hits: Hits, scores: np.ndarray) -> Hits:
    """Order the first columns of some hits by new scores; ties keep their order, the rest follows as it was.

    Args:
        scores: (q, depth) float64, NaN where there is no hit.

    Returns:
        Hits of the same width. Scores still fall along a row: below the depth each is 1 less than the one before it.
    """
    depth = scores.shape[1]
    order = np.argsort(np.where(np.isnan(scores), np.inf, -scores), axis=1, kind="stable")
    rows, new = hits.ordinals.copy(), hits.scores.astype(np.float32).copy()
    rows[:, :depth] = np.take_along_axis(hits.ordinals[:, :depth], order, 1)
    new[:, :depth] = np.take_along_axis(np.where(np.isnan(scores), -np.inf, scores), order, 1)
    if hits.k > depth:
        steps = np.arange(1, hits.k - depth + 1, dtype=np.float32)
        new[:, depth:] = np.where(rows[:, depth:] < 0, -np.inf, new[:, depth - 1 : depth] - steps)
    return Hits(rows, new)


class Rerank:
    """A retriever whose first ranks a judge has ordered.

    Args:
        base: the retriever whose lists the judge learned from.
        depth: how many ranks are ordered; default as many as the judge learned from.
    """

    def __init__(self, study: Study, judge: FeatureJudge, base: Retriever, depth: int | None = None):
        self.name = f"{RerankKind.name}:{judge.name}"
        self.study, self.judge, self.base, self.depth = study, judge, base, depth or judge.depth

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "retriever": self.name,
            "kind": RerankKind.name,
            "judge": self.judge.name,
            "judge_run": self.judge.about["run"],
            "judge_model": self.judge.about["model"],
            "depth": self.depth,
            "over": self.base.settings,
        }

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        """The k best passages of each question. Raises as the retriever below does."""
        hits = self.base.search(questions, min(max(k, self.depth), len(self.study.corpus)), progress)
        depth = min(self.depth, hits.k)
        scores = np.empty((len(questions), depth))
        for begin in range(0, len(questions), QUESTIONS_PER_STEP):
            if progress is not None:
                progress(begin, len(questions), "reranking")
            block = slice(begin, begin + QUESTIONS_PER_STEP)
            records = [Question(str(i), text) for i, text in enumerate(questions[block])]
            lists = Lists(records, hits.ordinals[block, :depth], hits.scores[block, :depth])
            scores[block] = self.judge.ranking_scores(self.judge.features(lists))
        reranked = rerank(hits, scores)
        return Hits(reranked.ordinals[:, :k], reranked.scores[:, :k])


@settings_class
class RerankOptions:
    judge: str = Field(default="judge", title="Judge", description="Name of a learned judge")
    depth: int | None = Field(
        default=None,
        title="Rerank depth",
        description="Ranks that the judge orders; default as many as it learned from",
        ge=2,
        le=1000,
        json_schema_extra={"option": "--rerank-depth"},
    )


class RerankKind(RetrieverKind):
    name, title = "rerank", "reranked"
    help = "another retriever's first ranks in the order of a learned judge"
    options = RerankOptions
    uses_torch = True

    def available(self, study: Study) -> list[str]:
        return [f"{self.name}:{about['name']}" for about in feature_judges(study)]

    def open(
        self,
        study: Study,
        options: RerankOptions,
        device: str | None = None,
        part: Callable[[str], Any] | None = None,
    ) -> Rerank:
        judge = FeatureJudge(study, options.judge)
        below = _searched_by(study, judge.about)
        kind = kind_of(below)
        if kind is None or below not in kind.available(study):
            raise Refused(
                f"judge {judge.name!r} reorders lists of {below!r}, which cannot search here now; make its index, or "
                "learn a judge from a run of a retriever that this study can open"
            )
        chosen = judge.about.get("retriever_options") or kind.options_of(below)
        # An open part is shared where it is the very retriever; one with options of its own is opened with shared
        # parts.
        shared = part is not None and chosen == kind.options_of(below)
        base = part(below) if part is not None and shared else kind.open(study, options_for(kind, chosen), device, part)
        encoder = judge.about["encoder"]
        if part is not None and encoder is not None:
            judge.share_dense(part(encoder))
        return Rerank(study, judge, base, options.depth)

    def parts_in(self, study: Study, name: str) -> tuple[str, ...]:
        """The indexes of the retriever below, and last the one that gives the judge its features of meaning."""
        about = next(
            (judge for judge in feature_judges(study) if self.owns(name) and name.endswith(f":{judge['name']}")), None
        )
        if about is None:
            return ()
        below = _searched_by(study, about)
        kind = kind_of(below)
        parts = () if kind is None else kind.parts_in(study, below)
        encoder = about["encoder"]
        return parts if encoder is None else (*(part for part in parts if part != encoder), encoder)

    def settings_of(self, settings: Settings, name: str) -> tuple:
        return (settings.bm25, settings.hybrid, tuple(sorted(settings.encoders.items())))

    def options_of(self, name: str) -> dict[str, Any]:
        return {"judge": name.removeprefix(f"{self.name}:")}

    def name_of(self, options: RerankOptions) -> str:
        return f"{self.name}:{options.judge}"

    def label(self, name: str) -> str:
        return f"reranked by {name.removeprefix(f'{self.name}:')}"

    def files(self, study: Study, name: str) -> list[Path]:
        return [study.path("models", name.removeprefix(f"{self.name}:"), ABOUT), *super().files(study, name)]

    def run_name(self, options: RerankOptions) -> str:
        return options.judge if options.judge.startswith(self.name) else f"{self.name}-{options.judge}"

    def made(self, manifest: Mapping[str, Any]) -> bool:
        return manifest.get("kind") == self.name or str(manifest.get("retriever", "")).startswith(f"{self.name}:")

    def describe(self, manifest: Mapping[str, Any]) -> str:
        over = manifest.get("over", {}).get("retriever", "")
        return f"{over} reranked by {manifest.get('judge', 'a judge')}, first {manifest.get('depth', '?')}"


def _searched_by(study: Study, about: Mapping[str, Any]) -> str:
    """The name of the retriever whose lists a judge learned from. Judges of older versions tell only what its runs call
    it.
    """
    if "retriever_name" in about:
        return str(about["retriever_name"])
    manifest = study.parts("runs").get(about["run"])
    kind = None if manifest is None else kind_of_run(manifest)
    return str(about["retriever"]) if manifest is None or kind is None else kind.retriever_of(manifest)


RETRIEVERS.register(RerankKind())
