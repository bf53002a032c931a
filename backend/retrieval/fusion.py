"""Fusion of any number of retrievers: reciprocal ranks, or normalised scores with a weight for each retriever.

Every list is `depth` deep (as set for hybrid in study.toml), and a passage that a list lacks gets 0 from it:
- rrf: weight / (rrf_k + rank), summed over the lists (Cormack et al. 2009).
- minmax: weight x (score - minimum) / (maximum - minimum) of the question's list; 1 if all its scores are equal.
- zscore: weight x (score - minimum) / standard deviation of the question's list; 0 if all its scores are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.core.gold import gold_matrix
from blindspot.backend.core.splits import questions_in_split
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.hybrid import scores_in, union
from blindspot.backend.retrieval.retriever import RETRIEVERS, Retriever, RetrieverKind, kind_of, search_in_blocks, top_k
from blindspot.backend.text.answers import match_run
from blindspot.db.errors import BadInput, Refused
from blindspot.db.records import Hits

if TYPE_CHECKING:
    from blindspot.backend.core.settings import Settings
    from blindspot.backend.core.study import Study

METHODS = ("rrf", "minmax", "zscore")
QUESTIONS_PER_BLOCK = 128
TUNED_AT = 20
TUNING_DEPTH = 200
TUNING_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
ROUNDS = 3


def normalised(hits: Hits, method: str, rrf_k: int = 60) -> np.ndarray:
    """Return what each place of each list adds to the fused score, (q, k) float32; 0 for padding."""
    present = hits.ordinals >= 0
    if method == "rrf":
        ranks = np.arange(1, hits.k + 1, dtype=np.float64)
        return np.where(present, 1.0 / (rrf_k + ranks), 0.0).astype(np.float32)
    scores = np.where(present, hits.scores, np.nan).astype(np.float64)
    empty = ~present.any(axis=1)
    scores[empty] = 0.0
    low, high = np.nanmin(scores, axis=1, keepdims=True), np.nanmax(scores, axis=1, keepdims=True)
    if method == "minmax":
        parts = np.divide(scores - low, high - low, out=np.ones_like(scores), where=high > low)
    else:
        spread = np.nanstd(scores, axis=1, keepdims=True)
        parts = np.divide(scores - low, spread, out=np.zeros_like(scores), where=spread > 0)
    return np.where(present, parts, 0.0).astype(np.float32)


def contributions(lists: Sequence[Hits], method: str, rrf_k: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Return the union of the lists, (q, m) int32 padded with -1, and what each list adds, (lists, q, m) float32."""
    ordinals = lists[0].ordinals
    for hits in lists:
        ordinals = union(Hits(ordinals, np.zeros_like(ordinals, np.float32)), hits)
    parts = [scores_in(ordinals, Hits(hits.ordinals, normalised(hits, method, rrf_k))) for hits in lists]
    return ordinals, np.nan_to_num(np.stack(parts), nan=0.0)


def fused(ordinals: np.ndarray, parts: np.ndarray, weights: Sequence[float], k: int) -> Hits:
    """Return the k best passages by the weighted sum of `parts`; ties by row."""
    return top_k(ordinals, np.tensordot(np.asarray(weights, np.float64), parts, axes=1).astype(np.float32), k)


class Fusion:
    """Several open retrievers as one.

    Args:
        weights: one for each retriever, at least 0 and not all 0.
        depth: hits of each retriever that are joined.
    """

    def __init__(
        self,
        name: str,
        retrievers: Mapping[str, Retriever],
        method: str,
        weights: Sequence[float],
        depth: int,
        rrf_k: int,
    ):
        if method not in METHODS:
            raise Refused(f"fusion method must be one of {', '.join(METHODS)}, not {method!r}")
        self.name, self.retrievers, self.method = name, dict(retrievers), method
        self.weights, self.depth, self.rrf_k = list(weights), depth, rrf_k

    @property
    def settings(self) -> dict[str, Any]:
        own = {"rrf_k": self.rrf_k} if self.method == "rrf" else {}
        return {
            "retriever": self.name,
            "kind": FusionKind.name,
            "method": self.method,
            "depth": self.depth,
            **own,
            "weights": dict(zip(self.retrievers, self.weights, strict=True)),
            "of": [retriever.settings for retriever in self.retrievers.values()],
        }

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        def search_block(block: slice) -> Hits:
            return fused(*self.contributions(questions[block], self.depth), self.weights, k)

        report = progress, "searching with every retriever"
        return search_in_blocks(questions, k, QUESTIONS_PER_BLOCK, search_block, report)

    def contributions(self, questions: Sequence[str], depth: int) -> tuple[np.ndarray, np.ndarray]:
        """Search with every retriever and return `contributions` of the lists."""
        lists = [retriever.search(questions, depth) for retriever in self.retrievers.values()]
        return contributions(lists, self.method, self.rrf_k)


@settings_class
class FusionOptions:
    of: str = Field(
        default="",
        title="Retrievers",
        description="Retrievers to join, with commas between them, as in bm25,minilm,titles",
        json_schema_extra={"option": "--of"},
    )
    join: Literal["rrf", "minmax", "zscore"] = Field(
        default="rrf", title="Join", description="rrf: reciprocal ranks; minmax, zscore: normalised scores"
    )
    weights: str = Field(
        default="", title="Weights", description="One number for each retriever, as in 1,0.5,2 (default: all 1)"
    )
    tune_weights: bool = Field(
        default=False, title="Tune weights", description="Choose the weights on dev (Success@20)"
    )


class FusionKind(RetrieverKind):
    name, title = "fusion", "fusion"
    help = "any number of retrievers joined"
    options = FusionOptions
    fusion = uses_torch = True

    def available(self, study: Study) -> list[str]:
        """Return the fusions of which the study has a run, as far as their retrievers can be opened."""
        found = dict.fromkeys(str(m["retriever"]) for m in study.parts("runs").values() if self.made(m))
        return [name for name in found if all(_can_open(study, each) for each in _names(name))]

    def open(
        self,
        study: Study,
        options: FusionOptions,
        device: str | None = None,
        part: Callable[[str], Any] | None = None,
    ) -> Fusion:
        names = _split(options.of)
        weights = _weights(options.weights, names)
        retrievers = {}
        for name in names:
            kind = _kind_of_part(name)
            opened = kind.options(**kind.options_of(name))
            retrievers[name] = kind.open(study, opened, device) if part is None else part(name)
        settings = study.settings.hybrid
        depth = min(settings.depth, len(study.corpus))
        return Fusion(self.name_of(options), retrievers, options.join, weights, depth, settings.rrf_k)

    def options_of(self, name: str) -> dict[str, Any]:
        return {"of": name.removeprefix(f"{self.name}:")}

    def name_of(self, options: FusionOptions) -> str:
        return f"{self.name}:{','.join(_split(options.of))}"

    def label(self, name: str) -> str:
        labels = [each if (kind := kind_of(each)) is None else kind.label(each) for each in _names(name)]
        return f"fusion of {', '.join(labels)}"

    def parts_in(self, study: Study, name: str) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for each in _names(name):
            kind = kind_of(each)
            found |= dict.fromkeys(() if kind is None else kind.parts_in(study, each))
        return tuple(found)

    def files(self, study: Study, name: str) -> list[Path]:
        kinds = [(each, kind_of(each)) for each in _names(name)]
        return list(dict.fromkeys(file for each, kind in kinds if kind is not None for file in kind.files(study, each)))

    def asks_servers(self, study: Study, name: str) -> bool:
        return any(_kind_of_part(each).asks_servers(study, each) for each in _names(name))

    def settings_of(self, settings: Settings, name: str) -> tuple:
        kinds = [(each, kind_of(each)) for each in _names(name)]
        below = tuple(kind.settings_of(settings, each) for each, kind in kinds if kind is not None)
        return (settings.hybrid, *below)

    def run_name(self, options: FusionOptions) -> str:
        return "-".join([self.name, *(name.replace(":", "-") for name in _split(options.of))])[:48]

    def made(self, manifest: Mapping[str, Any]) -> bool:
        return manifest.get("kind") == self.name

    def describe(self, manifest: Mapping[str, Any]) -> str:
        weights = manifest.get("weights", {})
        equal = len(set(weights.values())) <= 1
        return " + ".join(name if equal else f"{weight:g} × {name}" for name, weight in weights.items()) + (
            f", {manifest.get('method', '')}"
        )

    def options_of_run(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        weights = manifest["weights"]
        return {
            "of": ",".join(weights),
            "join": manifest["method"],
            "weights": ",".join(f"{weight:g}" for weight in weights.values()),
        }

    def tunes(self, options: FusionOptions) -> bool:
        return options.tune_weights

    def tuned(
        self, study: Study, retriever: Fusion, options: FusionOptions, rule: str, progress: Progress | None
    ) -> dict[str, Any]:
        return tune_weights(study, retriever, rule, progress) if options.tune_weights else {}


def _split(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(names) < 2 or len(set(names)) < len(names):
        raise BadInput(f"--of needs at least two different retrievers, as in bm25,minilm,titles, not {text!r}")
    return names


def _names(name: str) -> list[str]:
    return name.removeprefix(f"{FusionKind.name}:").split(",")


def _kind_of_part(name: str) -> RetrieverKind:
    kind = kind_of(name)
    if kind is None or isinstance(kind, FusionKind):
        raise Refused(f"--of cannot join {name!r}; name retrievers such as bm25, an encoder, titles, hybrid:ENCODER")
    return kind


def _can_open(study: Study, name: str) -> bool:
    kind = kind_of(name)
    if kind is None or isinstance(kind, FusionKind):
        return False
    return name in kind.available(study)


def _weights(text: str, names: Sequence[str]) -> list[float]:
    if not text.strip():
        return [1.0] * len(names)
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        weights = []
    if len(weights) != len(names) or not all(0 <= weight < np.inf for weight in weights) or not any(weights):
        raise BadInput(
            f"--weights needs {len(names)} numbers of at least 0, not all 0, one for each of {', '.join(names)}; not "
            f"{text!r}"
        )
    return weights


def tune_weights(study: Study, retriever: Fusion, rule: str, progress: Progress | None) -> dict[str, Any]:
    """Set the weights to the best found on dev, and return the tuning record for the manifest.

    The search starts at equal weights and improves one weight at a time (TUNING_WEIGHTS), as long as Success@20 rises.
    """
    dev = questions_in_split(study, "dev")
    by_gold = not any(question.answers for question in dev)
    questions = [question for question in dev if (question.gold if by_gold else question.answers)]
    if not questions:
        raise Refused("no dev question has answers or gold passages to tune the weights on")
    depth = min(TUNING_DEPTH, retriever.depth)
    blocks = []
    for start in range(0, len(questions), QUESTIONS_PER_BLOCK):
        if progress is not None:
            progress(start, len(questions), "tuning the weights on dev")
        block = questions[start : start + QUESTIONS_PER_BLOCK]
        ordinals, parts = retriever.contributions([question.text for question in block], depth)
        relevant = (
            gold_matrix(study.corpus, ordinals, block)[0]
            if by_gold
            else match_run(study.corpus, block, ordinals, rule=rule)
        )
        blocks.append((ordinals, parts, np.asarray(relevant)))
    tried: dict[tuple[float, ...], float] = {}

    def accuracy(weights: tuple[float, ...]) -> float:
        if weights not in tried:
            found = sum(_successes(ordinals, parts, relevant, weights) for ordinals, parts, relevant in blocks)
            tried[weights] = found / len(questions)
        return tried[weights]

    best = tuple(1.0 for _ in retriever.retrievers)
    for _ in range(ROUNDS):
        before = best
        for place in range(len(best)):
            options = [(*best[:place], weight, *best[place + 1 :]) for weight in TUNING_WEIGHTS]
            best = max([best, *(option for option in options if any(option))], key=accuracy)
        if best == before:
            break
    retriever.weights = list(best)
    return {
        "tuned": {
            "on": "dev",
            "n": len(questions),
            "measure": f"Success@{TUNED_AT}",
            "rule": "gold" if by_gold else rule,
            "accuracy": {",".join(f"{w:g}" for w in weights): round(value, 4) for weights, value in tried.items()},
        }
    }


def _successes(ordinals: np.ndarray, parts: np.ndarray, relevant: np.ndarray, weights: Sequence[float]) -> int:
    """Return the number of questions with a relevant passage among the first TUNED_AT."""
    top = fused(ordinals, parts, weights, TUNED_AT)
    marks = scores_in(top.ordinals, Hits(ordinals, relevant.astype(np.float32)))
    return int((np.nan_to_num(marks) > 0).any(axis=1).sum())


RETRIEVERS.register(FusionKind())
