"""The hits of a stored run as a retriever, "run:NAME". Rerankers use it, so that imported runs can be reranked. It can
only be searched with the questions of its run, not with live questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.retriever import RETRIEVERS, NamedKind, OpenPart, kind_of_run, pad_hits
from blindspot.db.errors import Missing
from blindspot.db.records import Hits

NAME = "run"
KIND = "stored run"  # in manifests, where "run" is the kind of every run


class StoredRun:
    """A stored run as a retriever. Raises Missing if there is no run of that name."""

    def __init__(self, study: Study, name: str):
        self.name, self.run, self._study = f"{NAME}:{name}", study.run(name), study
        self.settings = {
            "retriever": self.name,
            "kind": KIND,
            "run": name,
            "run_made": self.run.manifest["made"],
            "k": self.run.hits.k,
        }

    @cached_property
    def _rows(self) -> dict[str, int]:
        questions = self._study.questions.with_ids(self.run.question_ids)
        return {question.text: row for row, question in enumerate(questions)}

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        """Return the run's first k hits for each question. Raises Missing for a question that is not in the run."""
        absent = [text for text in questions if text not in self._rows]
        if absent:
            raise Missing(
                f"run {self.run.name!r} has no hits for {len(absent):,} of {len(questions):,} questions, such as "
                f"{absent[0][:80]!r}; choose the split of the run with --split"
            )
        rows = [self._rows[text] for text in questions]
        stored = self.run.hits
        hits = Hits(np.asarray(stored.ordinals[rows][:, :k]), np.asarray(stored.scores[rows][:, :k]))
        return hits if hits.k == k else pad_hits(hits, k)


@settings_class
class RunOptions:
    run: str = Field(default="", description="Name of a run of this study")


class RunKind(NamedKind):
    name, title, option = NAME, KIND, "run"
    help = "the hits of a run, for --over"
    options = RunOptions

    def available(self, study: Study) -> list[str]:
        """Return [], because a stored run cannot answer live questions."""
        return []

    def open(self, study: Study, options: RunOptions, device: str | None = None, part: OpenPart = None) -> StoredRun:
        return StoredRun(study, options.run)

    def label(self, name: str) -> str:
        return f"the run {self.named(name)}"

    def run_name(self, options: RunOptions) -> str:
        return f"first-{options.run}"

    def made(self, manifest: Mapping[str, Any]) -> bool:
        return manifest.get("kind") == KIND

    def describe(self, manifest: Mapping[str, Any]) -> str:
        return f"the first hits of {manifest.get('run', 'a run')}"


def retriever_behind(study: Study, name: str) -> str | None:
    """Return the name of the retriever that made a run; None for an imported run."""
    manifest = study.run(name).manifest
    kind = kind_of_run(manifest)
    return None if kind is None else kind.retriever_of(manifest)


RETRIEVERS.register(RunKind())
