"""Late interaction (ColBERT): candidates are selected by pooled vectors and ranked by exact MaxSim over their token
vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.core.jobs import job, request
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.core.study import Study
from blindspot.backend.core.summary import Step
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import EncoderOptions, encoder_settings
from blindspot.backend.retrieval.encoded_blocks import Arrays
from blindspot.backend.retrieval.encoded_index import Blocks, EncodedIndex, EncodedIndexKind
from blindspot.backend.retrieval.explanation import TokenMatches
from blindspot.backend.retrieval.multi_vector_encoder import MultiVectorModel, load_multi_vector_encoder
from blindspot.backend.retrieval.retriever import RETRIEVERS, search_in_blocks, top_k
from blindspot.backend.retrieval.search import ExactSearch, default_device
from blindspot.backend.retrieval.token_vectors import TokenVectors, write_token_vectors
from blindspot.db.records import Hits, Passage

CANDIDATES = 1000
QUESTIONS_PER_STEP = 32


class LateInteractionIndex(EncodedIndex[MultiVectorModel]):
    """The index of a late-interaction encoder: 16-bit token vectors."""

    encoder_kind = "late-interaction"
    arrays = ("lengths", "tokens")
    size_names = ("tokens", "tokens_per_passage")
    written_files = "the token vectors"

    def load(self, settings: EncoderSettings, device: str | None) -> MultiVectorModel:
        return load_multi_vector_encoder(settings, device)

    def describe(self, model: MultiVectorModel) -> dict[str, Any]:
        return {"dtype": "float16", **model.describe()}

    def encode(self, model: MultiVectorModel, passages: Sequence[Passage]) -> Arrays:
        vectors = model.encode_passages(passages)
        return {
            "lengths": np.array([len(each) for each in vectors], np.int64),
            "tokens": np.concatenate(vectors).astype(np.float16),
        }

    def join(self, arrays: Sequence[Arrays]) -> Arrays:
        return {name: np.concatenate([part[name] for part in arrays]) for name in self.arrays}

    def write(self, folder: Path, blocks: Blocks, model: MultiVectorModel, passage_count: int) -> dict[str, int]:
        return write_token_vectors(folder, blocks, model.dimension)


INDEX = LateInteractionIndex()


@job("index late-interaction", extras=("dense",))
def build_index(study: Study, name: str, device: str | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Store the token vectors of the late-interaction encoder `name` and return the manifest; see `EncodedIndex.build`."""
    return INDEX.build(study, name, device, progress)


class LateInteraction:
    """A late-interaction retriever with one encoder.

    Args:
        candidates: passages with the best pooled vectors that MaxSim ranks; 0 for all passages. At least k are ranked.

    Raises Missing if there is no index, and Refused if the index was made over other passages. The first search loads
    the encoder, and raises Refused if its weights or settings have changed since the index was made.
    """

    def __init__(self, study: Study, encoder: str, candidates: int = CANDIDATES, device: str | None = None):
        manifest = INDEX.manifest(study, encoder)
        self.name, self.manifest, self.candidates = f"{LateInteractionKind.name}:{encoder}", manifest, candidates
        self.device = device or default_device()
        self._study, self._encoder_settings = study, encoder_settings(study, encoder)
        again = f"run '{INDEX.command(encoder)}' again"
        self._vectors = TokenVectors(study.path("indexes", encoder), self.device, again)
        described = ("similarity", "passage_template", "max_tokens", "dimension", "model_hash")
        self.settings: dict[str, Any] = {
            "retriever": self.name,
            "kind": LateInteractionKind.name,
            "encoder": encoder,
            "candidates": candidates,
            **{key: manifest[key] for key in described},
        }

    @cached_property
    def encoder(self) -> MultiVectorModel:
        return INDEX.encoder_of(self.manifest, self._encoder_settings, self.device)

    @cached_property
    def _pooled_vectors(self) -> ExactSearch:
        return ExactSearch(self._vectors.pooled, "dot", self.device)

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        """Return the k best candidates of each question by MaxSim, ties ordered by row."""

        def search_block(block: slice) -> Hits:
            encoded, lists = self.encoder.encode_questions(questions[block]), []
            for question, rows in zip(encoded, self._candidates(encoded, k), strict=True):
                scores = self._scores(question, rows)
                lists.append(top_k(np.where(np.isfinite(scores), rows, -1)[None].astype(np.int32), scores[None], k))
            return Hits(*(np.concatenate([getattr(each, name) for each in lists]) for name in ("ordinals", "scores")))

        return search_in_blocks(questions, k, QUESTIONS_PER_STEP, search_block, (progress, "searching token vectors"))

    def explain(self, question: str, row: int) -> TokenMatches:
        """Return the products of all question tokens with all tokens of a passage."""
        asked, stored = self.encoder.encode_questions([question])[0], self._vectors.vectors_of(row).astype(np.float32)
        (passage,) = self._study.corpus.passages([row])
        words, tokens = self.encoder.question_tokens(question), self.encoder.passage_tokens(passage)
        known = len(tokens.words) == len(stored)  # a model that pools tokens has fewer vectors than tokens
        return TokenMatches(
            score=float(self._scores(asked, np.array([row]))[0]),
            question=words if len(words) == len(asked) else [f"#{i + 1}" for i in range(len(asked))],
            passage=tokens.words if known else [f"#{i + 1}" for i in range(len(stored))],
            spans=tokens.spans if known else [None] * len(stored),
            products=asked @ stored.T,
        )

    def _candidates(self, questions: Sequence[np.ndarray], k: int) -> Iterator[np.ndarray]:
        """Yield for each question the rows that are ranked by MaxSim."""
        depth = max(self.candidates, k) if self.candidates else len(self._vectors)
        if depth >= len(self._vectors):
            return (np.arange(len(self._vectors)) for _ in questions)
        pooled = np.stack([question.sum(axis=0) for question in questions])
        return iter(self._pooled_vectors.search(pooled, depth).ordinals.astype(np.int64))

    def _scores(self, question: np.ndarray, rows: np.ndarray) -> np.ndarray:
        scores = self._vectors.maxsim(question, rows)
        return scores / np.float32(len(question)) if self.manifest["similarity"] == "meanmaxsim" else scores


@settings_class
class LateInteractionOptions(EncoderOptions):
    candidates: int = Field(
        default=CANDIDATES,
        title="Candidates",
        description="Passages with the best pooled vectors that late interaction ranks; 0: all passages",
        ge=0,
        le=10**9,
    )


class LateInteractionKind(EncodedIndexKind):
    name, title = "late-interaction", "late interaction"
    help = "exact MaxSim over the token vectors of a late-interaction encoder (ColBERT)"
    options = LateInteractionOptions

    def open(
        self,
        study: Study,
        options: LateInteractionOptions,
        device: str | None = None,
        part: Callable[[str], Any] | None = None,
    ) -> LateInteraction:
        return LateInteraction(study, options.encoder, options.candidates, device)

    def describe(self, manifest: Mapping[str, Any]) -> str:
        depth = manifest.get("candidates")
        return f"late interaction, {manifest.get('encoder')}, {f'{depth:,} candidates' if depth else 'all passages'}"

    def options_of_run(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        return {"encoder": manifest["encoder"], "candidates": manifest["candidates"]}

    def steps(self, study: Study) -> list[Step]:
        return [
            Step(
                f"Late interaction needs the passages encoded with {name}.",
                INDEX.command(name),
                request(build_index, name),
            )
            for name in self.encoders_without_index(study)[:1]
        ]


RETRIEVERS.register(LateInteractionKind())
