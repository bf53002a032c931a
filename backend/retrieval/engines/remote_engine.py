"""A search engine behind HTTP as a retriever: what Elasticsearch, OpenSearch and Vespa share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from blindspot.backend.core.consent import require_consent
from blindspot.backend.core.http_client import check_url
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.engines.engine import Engine, changed, encoder_for, hits_of, run_settings, same_model
from blindspot.backend.retrieval.engines.engine_settings import EngineSettings
from blindspot.backend.retrieval.engines.web import SearchServer, needs
from blindspot.db.errors import Missing
from blindspot.db.records import Hits

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study
    from blindspot.backend.retrieval.encoder import Encoder

QUESTIONS_PER_BLOCK = 64
TRIED = 10  # hits of the question that is asked when an engine is opened
MARGIN = 20  # hits fetched beyond k, for passages that the study lacks and for ties

Found = list[tuple[str, float]]


class RemoteEngine(Engine):
    """A kind of engine behind HTTP."""

    remote = True
    scheme: ClassVar[str]
    largest_k: ClassVar[int]
    """Hits that the engine returns at most, unless its own settings say otherwise."""
    uses: ClassVar[tuple[str, ...]] = (
        "encoder",
        "collection",
        "fields",
        "id_field",
        "vector_field",
        "timeout",
        "retries",
    )

    def server(self, study: Study, where: str, settings: EngineSettings) -> SearchServer:
        """Return the server at an address. Raises NeedsConsent before anything is sent to one that nobody allowed."""
        url = check_url(where, "WHERE", "http://localhost:9200")
        consent = require_consent(study, url, f"searching with {self.title} would send questions, or their vectors,")
        return SearchServer(self.title, url, consent, self.scheme, settings)

    @abstractmethod
    def about(self, server: SearchServer, settings: EngineSettings) -> dict[str, Any]:
        """Return documents, fingerprint and width (of the vectors; None if unknown) of an index."""

    @abstractmethod
    def search(
        self,
        server: SearchServer,
        settings: EngineSettings,
        questions: Sequence[str],
        vectors: np.ndarray | None,
        k: int,
    ) -> list[Found]:
        """Return (passage id, score) of the k best hits of each question."""

    def examine(
        self, study: Study, where: str, settings: EngineSettings, folder: Path, progress: Progress | None
    ) -> dict[str, Any]:
        server = self.server(study, where, settings)
        needs(settings, self.title)
        about, encoder = self.about(server, settings), None
        if settings.vector_field:
            encoder = encoder_for(study, settings, about["width"], f"{self.title}'s field {settings.vector_field}")
        question = next((each.text for each in study.questions.all()[:1]), None) or study.corpus.passage(0).text[:200]
        vectors = None if encoder is None else encoder.encode_questions([question])
        found = self.search(server, settings, [question], vectors, TRIED)[0]
        if found and not study.corpus.ordinals({id for id, _ in found}):
            raise Missing(
                f"none of {len(found)} hits of {server.url} is a passage of this study (the first is {found[0][0]!r}); "
                "name the field with the passage ids with --id-field"
            )
        return {
            "where": server.url,
            "fingerprint": about["fingerprint"],
            "documents": about["documents"],
            "matched": None,
            "lexical": encoder is None,
            **({} if encoder is None else {"encoder": settings.encoder, "model_hash": encoder.model_hash}),
        }

    def open(self, study: Study, name: str, manifest: Mapping[str, Any], device: str | None) -> RemoteRetriever:
        return RemoteRetriever(self, study, name, manifest, device)


class RemoteRetriever:
    """An opened engine as a retriever. Its hits and scores are the engine's; equal scores are ordered by row."""

    def __init__(self, engine: RemoteEngine, study: Study, name: str, manifest: Mapping[str, Any], device: str | None):
        self.name, self.settings = f"opened:{name}", run_settings(name, manifest)
        self._engine, self._study, self._manifest, self._device = engine, study, manifest, device
        self._engine_settings = EngineSettings(**manifest["settings"])
        self._server = engine.server(study, manifest["where"], self._engine_settings)
        self._encoder: Encoder | None = None
        self._about: dict[str, Any] | None = None

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        """Return the k best passages of each question. Raises BlindspotError if the engine is down."""
        lists: list[Found] = []
        wanted = max(k, min(k + MARGIN, self._engine.largest_k))
        self._check()
        for start in range(0, len(questions), QUESTIONS_PER_BLOCK):
            if progress is not None:
                progress(start, len(questions), f"searching with {self._engine.title}")
            block = questions[start : start + QUESTIONS_PER_BLOCK]
            lists += self._engine.search(self._server, self._engine_settings, block, self._vectors(block), wanted)
        return hits_of(self._study, lists, k)

    def _check(self) -> None:
        """Raise Refused if the index has changed since it was opened. Asked once."""
        if self._about is None:
            about = self._engine.about(self._server, self._engine_settings)
            if about["fingerprint"] != self._manifest["fingerprint"]:
                raise changed(self._manifest["name"], self._manifest, "has changed")
            self._about = about

    def _vectors(self, questions: Sequence[str]) -> np.ndarray | None:
        settings = self._engine_settings
        if not settings.vector_field:
            return None
        if self._encoder is None:
            width = None if self._about is None else self._about["width"]
            self._encoder = encoder_for(self._study, settings, width, self._server.url, self._device)
            same_model(self._encoder, self._manifest["name"], self._manifest)
        return self._encoder.encode_questions(questions)
