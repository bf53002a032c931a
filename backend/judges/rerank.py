"""Rerank the top hits of another retriever, or of a stored run, by a judge's scores.

A feature judge reranks lists of the retriever on whose lists it was trained. A cross-encoder scores the pairs of any
list. For a language model or an imported judge, only stored scores are used. Passages without a score follow the scored
ones in their original order, and the ranks below the depth come last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.core.manifest import MANIFEST
from blindspot.backend.core.settings import Settings
from blindspot.backend.core.study import Study
from blindspot.backend.judges.feature_judge import ABOUT, FeatureJudge, feature_judges
from blindspot.backend.judges.judge import JUDGES, Judge, StoredJudge, judge_kind_of, judges_of
from blindspot.backend.judges.lists import Lists
from blindspot.backend.judges.settings import RERANK_DEPTH
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import dense_name
from blindspot.backend.retrieval.retriever import (
    RETRIEVERS,
    Retriever,
    RetrieverKind,
    kind_of,
    kind_of_run,
    options_for,
)
from blindspot.backend.retrieval.stored_run import retriever_behind
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Hits, Question

QUESTIONS_PER_STEP = 256
OVER = "@"  # between a judge and what it reranks: "rerank:mine@hybrid:minilm"
BASE = "bm25"


def rerank(hits: Hits, scores: np.ndarray) -> Hits:
    """Sort the first columns of hits by new scores. Ties keep their order, and the other columns follow unchanged.

    Args:
        scores: (q, depth) float64, NaN where there is no hit or the judge does not know it.

    Returns:
        Hits of the same width. Scores still fall along a row: after the known ones each is 1 less than the one before it.
    """
    depth = scores.shape[1]
    first = hits.ordinals[:, :depth]
    known = ~np.isnan(scores) & (first >= 0)
    group = np.where(first < 0, 2, np.where(known, 0, 1))
    order = np.lexsort((np.where(known, -scores, 0.0), group), axis=1)
    rows, new = hits.ordinals.copy(), np.full(hits.scores.shape, np.nan, np.float32)
    rows[:, :depth] = np.take_along_axis(first, order, 1)
    new[:, :depth] = np.take_along_axis(np.where(known, scores, np.nan), order, 1)
    for column in range(hits.k):
        above = new[:, column - 1] if column else np.zeros(len(rows), np.float32)
        new[:, column] = np.where(np.isnan(new[:, column]), above - 1, new[:, column])
    return Hits(rows, np.where(rows < 0, -np.inf, new).astype(np.float32))


class Rerank:
    """A retriever that reranks the top hits of another retriever with a judge.

    Args:
        base_retriever: the retriever that is reranked; for a feature judge, the one whose lists it learned from.
        depth: how many ranks are ordered; default as many as a feature judge learned from, else 100.
        retriever_name: the name of the base, if the judge alone does not determine it.
    """

    def __init__(
        self,
        study: Study,
        judge: FeatureJudge | Judge,
        base_retriever: Retriever,
        depth: int | None = None,
        retriever_name: str = "",
    ):
        self.name = f"{RerankKind.name}:{judge.name}" + (f"{OVER}{retriever_name}" if retriever_name else "")
        self.study, self.judge, self.base_retriever = study, judge, base_retriever
        self.depth = depth or (judge.rerank_depth if isinstance(judge, FeatureJudge) else RERANK_DEPTH)

    @property
    def settings(self) -> dict[str, Any]:
        learned = (
            {"judge_run": self.judge.about["run"], "judge_model": self.judge.about["model"]}
            if isinstance(self.judge, FeatureJudge)
            else {"judge_kind": judge_kind_of(self.study, self.judge.name).name}
        )
        return {
            "retriever": self.name,
            "kind": RerankKind.name,
            "judge": self.judge.name,
            **learned,
            "depth": self.depth,
            "over": self.base_retriever.settings,
        }

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        """Return the k best passages of each question. Raises the errors of the base retriever, and Refused if the
        judge has a score for no pair.
        """
        hits = self.base_retriever.search(questions, min(max(k, self.depth), len(self.study.corpus)), progress)
        depth = min(self.depth, hits.k)
        scores = np.empty((len(questions), depth))
        for begin in range(0, len(questions), QUESTIONS_PER_STEP):
            if progress is not None:
                progress(begin, len(questions), "reranking")
            block = slice(begin, begin + QUESTIONS_PER_STEP)
            records = [self._question(begin + i, text) for i, text in enumerate(questions[block])]
            scores[block] = self._scores(
                Lists(records, hits.ordinals[block, :depth], hits.scores[block, :depth]), progress
            )
        if isinstance(self.judge, StoredJudge) and len(questions) and np.isnan(scores).all():
            raise Refused(
                f"judge {self.judge.name!r} has no stored scores of these passages, and is asked nothing here; run "
                f"'blindspot judge run {self.judge.name} --run RUN' first"
            )
        reranked = rerank(hits, scores)
        return Hits(reranked.ordinals[:, :k], reranked.scores[:, :k])

    def _scores(self, lists: Lists, progress: Progress | None) -> np.ndarray:
        if isinstance(self.judge, FeatureJudge):
            return self.judge.ranking_scores(self.judge.features(lists))
        return self.judge.judge(lists, progress)

    def _question(self, number: int, text: str) -> Question:
        """Return the study's question with that text, because stored scores are found by its id, or a new question."""
        if isinstance(self.judge, FeatureJudge):
            return Question(str(number), text)
        return self._questions_by_text.get(text) or Question(f"{number}\0live", text)

    @cached_property
    def _questions_by_text(self) -> dict[str, Question]:
        return {question.text: question for question in self.study.questions.all()}


@settings_class
class RerankOptions:
    judge: str = Field(default="judge", title="Judge", description="Name of a judge or cross-encoder")
    over: str = Field(
        default="",
        title="Over",
        description="Retriever or run whose lists are reranked (default: what the judge learned from, else bm25)",
    )
    depth: int | None = Field(
        default=None,
        title="Rerank depth",
        description="Ranks that the judge orders; default as many as it learned from, else 100",
        ge=2,
        le=1000,
        json_schema_extra={"option": "--rerank-depth"},
    )


class RerankKind(RetrieverKind):
    name, title = "rerank", "reranked"
    help = "another retriever's or a run's first ranks in the order of a judge or cross-encoder"
    options = RerankOptions
    uses_torch = True

    def _judge_and_base(self, name: str) -> tuple[str, str]:
        """Split the name of a reranker: rerank:mine@hybrid:minilm is the judge mine over hybrid:minilm; "" for no base."""
        judge, _, over = name.removeprefix(f"{self.name}:").partition(OVER)
        return judge, over

    def available(self, study: Study) -> list[str]:
        """Return the names of available rerankers: each feature judge with its own retriever, each cross-encoder with
        BM25, and those of which the study has runs.
        """
        found = [f"{self.name}:{about['name']}" for about in feature_judges(study)]
        if BASE in _available_below_reranker(study, BASE):
            scorers = [card.name for card in judges_of(study) if card.kind == "cross-encoder"]
            found += [f"{self.name}:{name}{OVER}{BASE}" for name in scorers]
        known = {card.name for card in judges_of(study)}
        for manifest in study.parts("runs").values():
            name = str(manifest.get("retriever"))
            judge, over = self._judge_and_base(name)
            if self.made(manifest) and over and judge in known and over in _available_below_reranker(study, over):
                found.append(name)
        return list(dict.fromkeys(found))

    def open(
        self,
        study: Study,
        options: RerankOptions,
        device: str | None = None,
        part: Callable[[str], Any] | None = None,
    ) -> Rerank:
        kind = judge_kind_of(study, options.judge)
        if kind is JUDGES.get("feature-judge"):
            return self._over_own_lists(study, options, device, part)
        over = _resolve_retriever(study, options.over or BASE)
        base_kind = _kind_below(over)
        is_shared = part is not None and over in base_kind.available(study)
        base = (
            part(over)
            if part is not None and is_shared
            else base_kind.open(study, options_for(base_kind, base_kind.options_of(over)), device, part)
        )
        judge = kind.open(study, options.judge, device) if kind.scores_any_pair else StoredJudge(study, options.judge)
        return Rerank(study, judge, base, options.depth, over)

    def _over_own_lists(
        self, study: Study, options: RerankOptions, device: str | None, part: Callable[[str], Any] | None
    ) -> Rerank:
        judge = FeatureJudge(study, options.judge)
        below = _retriever_of_judge(study, judge.about)
        over = _resolve_retriever(study, options.over) if options.over else ""
        stored = over.startswith("run:")
        made_by = retriever_behind(study, over.removeprefix("run:")) if stored else over
        if over and made_by != below:
            raise Refused(
                f"judge {judge.name!r} learned from lists of {below!r}, and its features mean nothing in lists of "
                f"{made_by or over!r}; leave out --over, or take a cross-encoder"
            )
        kind = kind_of(below)
        if kind is None or (not stored and below not in kind.available(study)):
            raise Refused(
                f"judge {judge.name!r} reorders lists of {below!r}, which cannot search here now; make its index, or "
                "learn a judge from a run of a retriever that this study can open"
            )
        chosen = judge.about.get("retriever_options") or kind.options_of(below)
        # An open part is shared where it is the very retriever; one with options of its own is opened with shared
        # parts.
        shared = part is not None and chosen == kind.options_of(below)
        if stored:
            base: Retriever = _kind_below(over).open(study, options_for(_kind_below(over), {"run": over[4:]}))
        elif part is not None and shared:
            base = part(below)
        else:
            base = kind.open(study, options_for(kind, chosen), device, part)
        encoder = judge.about["encoder"]
        if part is not None and encoder is not None:
            judge.share_dense(part(dense_name(encoder)))
        return Rerank(study, judge, base, options.depth, over if stored else "")

    def parts_in(self, study: Study, name: str) -> tuple[str, ...]:
        """Return the indexes of the base retriever and, as the last item, the index that provides the judge's semantic
        features, or else the judge's own name, so that the judge gets its own thread.
        """
        judge, over = self._judge_and_base(name)
        about = next((each for each in feature_judges(study) if self.owns(name) and each["name"] == judge), None)
        if about is None and not over:
            return ()
        below = over if about is None else _retriever_of_judge(study, about)
        kind = kind_of(below)
        parts = () if kind is None else kind.parts_in(study, below)
        if about is None:
            return parts if kind is not None and kind.uses_torch else (*parts, judge)
        encoder = about["encoder"]
        return parts if encoder is None else (*(part for part in parts if part != encoder), encoder)

    def settings_of(self, settings: Settings, name: str) -> tuple:
        return (settings.bm25, settings.hybrid, tuple(sorted(settings.encoders.items())))

    def options_of(self, name: str) -> dict[str, Any]:
        judge, over = self._judge_and_base(name)
        return {"judge": judge} | ({"over": over} if over else {})

    def name_of(self, options: RerankOptions) -> str:
        return f"{self.name}:{options.judge}" + (f"{OVER}{options.over}" if options.over else "")

    def label(self, name: str) -> str:
        judge, over = self._judge_and_base(name)
        kind = kind_of(over) if over else None
        return f"{over if kind is None else kind.label(over)} reranked by {judge}" if over else f"reranked by {judge}"

    def files(self, study: Study, name: str) -> list[Path]:
        judge = self.options_of(name)["judge"]
        return [
            study.path("models", judge, ABOUT),
            study.path("scores", judge, MANIFEST),
            *super().files(study, name),
        ]

    def run_name(self, options: RerankOptions) -> str:
        name = options.judge if options.judge.startswith(self.name) else f"{self.name}-{options.judge}"
        return f"{name}-{options.over.replace(':', '-').replace(OVER, '-')}"[:48] if options.over else name

    def made(self, manifest: Mapping[str, Any]) -> bool:
        return manifest.get("kind") == self.name or str(manifest.get("retriever", "")).startswith(f"{self.name}:")

    def describe(self, manifest: Mapping[str, Any]) -> str:
        over = manifest.get("over", {}).get("retriever", "")
        return f"{over} reranked by {manifest.get('judge', 'a judge')}, first {manifest.get('depth', '?')}"

    def options_of_run(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        return super().options_of_run(manifest) | ({"depth": manifest["depth"]} if "depth" in manifest else {})


def _available_below_reranker(study: Study, name: str) -> list[str]:
    kind = kind_of(name)
    return [] if kind is None or isinstance(kind, RerankKind) else kind.available(study)


def _kind_below(name: str) -> RetrieverKind:
    kind = kind_of(name)
    if kind is None or isinstance(kind, RerankKind):
        raise Refused(f"--over cannot rerank {name!r}; name a retriever such as bm25 or hybrid:ENCODER, or a run")
    return kind


def _resolve_retriever(study: Study, retriever_name: str) -> str:
    """Return the retriever that the option --over refers to: the name of a retriever that can be opened, or "run:NAME"
    for a run.
    """
    kind = _kind_below(retriever_name)
    if retriever_name in kind.available(study) or retriever_name.startswith("run:"):
        return retriever_name
    if retriever_name in study.runs():
        return f"run:{retriever_name}"
    known = [name for each in RETRIEVERS if not isinstance(each, RerankKind) for name in each.available(study)]
    raise Missing(
        f"--over names no retriever or run: {retriever_name!r}; retrievers: {', '.join(known) or 'none'}; runs: "
        f"{', '.join(study.runs()) or 'none'}"
    )


def _retriever_of_judge(study: Study, description: Mapping[str, Any]) -> str:
    """Return the name of the retriever on whose lists a judge was trained. Records of older versions contain only the
    name that runs use.
    """
    if "retriever_name" in description:
        return str(description["retriever_name"])
    manifest = study.parts("runs").get(description["run"])
    kind = None if manifest is None else kind_of_run(manifest)
    return str(description["retriever"]) if manifest is None or kind is None else kind.retriever_of(manifest)


RETRIEVERS.register(RerankKind())
