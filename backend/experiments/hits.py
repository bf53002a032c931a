"""The parts of experiments that are indexes and runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blindspot.backend.core.runs import Run
from blindspot.backend.core.study import Study
from blindspot.backend.experiments.parts import Part, QuestionSelection, required
from blindspot.backend.experiments.workbench import Workbench
from blindspot.backend.progress import Progress
from blindspot.db.errors import Refused
from blindspot.db.records import Question

TUNING_CUTOFF = 20  # the DPR paper's tables use Success@20


@dataclass(frozen=True)
class Bm25Index(Part):
    """The study's own BM25 index."""

    folder, plural = "indexes", "indexes"

    def own_name(self, bench: Workbench) -> str:
        from blindspot.backend.retrieval.bm25 import NAME

        return NAME

    def title(self) -> str:
        return "indexing passages for BM25"

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from blindspot.backend.retrieval.bm25 import build_index

        build_index(bench, progress=progress)


@dataclass(frozen=True)
class Index(Part):
    """A dense index with an encoder's vectors; the study's own index if it has one."""

    folder, plural = "indexes", "indexes"
    encoder: Part

    def own_name(self, bench: Workbench) -> str:
        return bench.name(self.encoder)

    def title(self) -> str:
        return "encoding passages"

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from blindspot.backend.retrieval.dense import build_index

        build_index(bench, name, device=bench.device, progress=progress)


@dataclass(frozen=True)
class RunPart(Part):
    """A run: the k best passages of each question. Base class of all runs."""

    folder, plural = "runs", "runs"
    asked: QuestionSelection
    k: int

    def title(self) -> str:
        return f"searching the questions of {self.asked.split}"

    def searched_study(self, bench: Workbench) -> Study:
        """The study whose passages are searched, and which stores the run."""
        return bench

    def open(self, bench: Workbench) -> Run:
        return self.searched_study(bench).run(bench.name(self))

    @abstractmethod
    def search(
        self, bench: Workbench, questions: Sequence[Question], k: int, progress: Progress | None
    ) -> tuple[Any, dict]:
        """Search, and return the hits and the entries about the search for the manifest."""

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from blindspot.backend.core.runs import write_run

        study, questions = self.searched_study(bench), self.asked.questions_of(bench)
        hits, settings = self.search(bench, questions, min(self.k, len(study.corpus)), progress)
        write_run(
            study,
            name,
            [question.id for question in questions],
            hits,
            {**settings, "split": self.asked.split},
            progress=progress,
        )


@dataclass(frozen=True)
class Bm25Hits(RunPart):
    """A BM25 run. k1, b: None for the study's values."""

    index: Bm25Index = Bm25Index()
    k1: float | None = None
    b: float | None = None

    def recipe(self, bench: Workbench) -> dict[str, Any]:
        settings = bench.settings.bm25
        used = {"k1": settings.k1 if self.k1 is None else self.k1, "b": settings.b if self.b is None else self.b}
        return {**super().recipe(bench), **used}

    def search(self, bench, questions, k, progress):
        from blindspot.backend.retrieval.bm25 import BM25

        retriever = BM25(bench, self.k1, self.b)
        return retriever.search([question.text for question in questions], k, progress), retriever.settings


@dataclass(frozen=True)
class DenseHits(RunPart):
    """A dense run. index: the index of the passages. questions: the encoder of the questions, if it differs from the
    index's encoder.
    """

    index: Index = required()
    questions: Part | None = None

    def search(self, bench, questions, k, progress):
        from blindspot.backend.retrieval.dense import Dense

        retriever = Dense(bench, bench.name(self.index), bench.device)
        texts = [question.text for question in questions]
        if self.questions is None:
            return retriever.search(texts, k, progress), retriever.settings
        from blindspot.backend.retrieval.encoder import load_encoder

        encoder = load_encoder(bench.settings.encoders[bench.name(self.questions)], bench.device)
        vectors = encoder.encode_questions(texts)
        if retriever.manifest["similarity"] == "cosine" and not np.allclose(
            np.linalg.norm(vectors, axis=1), 1, atol=1e-3
        ):
            raise Refused(
                f"the index of {retriever.name!r} uses cosine similarity, but the question vectors do not have unit "
                "length; train both towers"
            )
        return retriever.search_vectors(vectors, k, progress), retriever.settings


@dataclass(frozen=True)
class HybridHits(RunPart):
    """A hybrid run of BM25 and dense retrieval; see `Hybrid`. weight: None for the study's value."""

    index: Index = required()
    method: str = "weighted"
    weight: float | None = None
    bm25: Bm25Index = Bm25Index()

    def search(self, bench, questions, k, progress):
        from blindspot.backend.retrieval.hybrid import Hybrid

        retriever = Hybrid(bench, bench.name(self.index), self.method, self.weight, device=bench.device)
        return retriever.search([question.text for question in questions], k, progress), retriever.settings


@dataclass(frozen=True)
class TunedHybridHits(HybridHits):
    """A hybrid run with a tuned weight. tuned_on: the questions on which the weight in WEIGHTS with the best Success@20
    is chosen.
    """

    tuned_on: QuestionSelection = required()

    def search(self, bench, questions, k, progress):
        from blindspot.backend.retrieval.hybrid import Hybrid, accuracy_by_weight
        from blindspot.backend.text.answers import DEFAULT_RULE

        retriever = Hybrid(bench, bench.name(self.index), "weighted", device=bench.device)
        accuracy = accuracy_by_weight(bench, retriever, self.tuned_on.questions_of(bench), DEFAULT_RULE, progress)
        retriever.weight = max(accuracy, key=lambda weight: (accuracy[weight], -weight))
        hits = retriever.search([question.text for question in questions], k, progress)
        return hits, {
            **retriever.settings,
            "tuned": {str(weight): round(value, 4) for weight, value in accuracy.items()},
        }


@dataclass(frozen=True)
class TunedBm25Hits(Bm25Hits):
    """A BM25 run with tuned k1 and b. tuned_on: the questions on which the pair in `grid` with the best Success@20 is
    chosen; of equally good pairs the first.
    """

    tuned_on: QuestionSelection = required()
    grid: tuple[tuple[float, float], ...] = ()

    def search(self, bench, questions, k, progress):
        from blindspot.backend.retrieval.bm25 import BM25
        from blindspot.backend.text.answers import match_run

        asked = self.tuned_on.questions_of(bench)
        texts = [question.text for question in asked]
        figures = {}
        for number, pair in enumerate(self.grid):
            if progress is not None:
                progress(number, len(self.grid), "trying k1 and b")
            ordinals = BM25(bench, *pair).search(texts, min(TUNING_CUTOFF, len(bench.corpus))).ordinals
            figures[pair] = float(match_run(bench.corpus, asked, ordinals).any(axis=1).mean())
        retriever = BM25(bench, *max(figures, key=figures.get))
        hits = retriever.search([question.text for question in questions], k, progress)
        return hits, {
            **retriever.settings,
            "tuned": {f"{k1:g}, {b:g}": round(value, 4) for (k1, b), value in figures.items()},
        }
