"""Learned sparse retrieval (SPLADE): passages are encoded once as term weights, and an inverted index is searched
exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.core.jobs import job, request
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.core.study import Study
from blindspot.backend.core.summary import Step
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import EncoderOptions, encoder_settings
from blindspot.backend.retrieval.encoded_blocks import Arrays
from blindspot.backend.retrieval.encoded_index import Blocks, EncodedIndex, EncodedIndexKind
from blindspot.backend.retrieval.explanation import TermMatch, TermWeights
from blindspot.backend.retrieval.inverted_index import InvertedIndex, write_inverted_index
from blindspot.backend.retrieval.retriever import RETRIEVERS, search_in_blocks
from blindspot.backend.retrieval.sparse_encoder import SparseModel, TermRows, load_sparse_encoder
from blindspot.db.records import Hits, Passage

QUESTIONS_PER_STEP = 128


class SparseIndex(EncodedIndex[SparseModel]):
    """The index of a sparse encoder: an inverted index of term weights."""

    encoder_kind = "sparse"
    arrays = ("offsets", "terms", "weights")
    size_names = ("postings", "terms_per_passage")
    written_files = "the inverted index"

    def load(self, settings: EncoderSettings, device: str | None) -> SparseModel:
        return load_sparse_encoder(settings, device)

    def encode(self, model: SparseModel, passages: Sequence[Passage]) -> Arrays:
        rows = model.encode_passages(passages)
        return {"offsets": rows.offsets, "terms": rows.terms, "weights": rows.weights}

    def join(self, arrays: Sequence[Arrays]) -> Arrays:
        lengths = np.concatenate([np.diff(part["offsets"]) for part in arrays])
        return {
            "offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            **{key: np.concatenate([part[key] for part in arrays]) for key in ("terms", "weights")},
        }

    def write(self, folder: Path, blocks: Blocks, model: SparseModel, passage_count: int) -> dict[str, int]:
        return write_inverted_index(
            folder, lambda: (TermRows(**block) for block in blocks()), model.vocabulary_size, passage_count
        )


INDEX = SparseIndex()


@job("index sparse", extras=("dense",))
def build_index(study: Study, name: str, device: str | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Build the inverted index of the sparse encoder `name` and return its manifest; see `EncodedIndex.build`."""
    return INDEX.build(study, name, device, progress)


class Sparse:
    """A learned sparse retriever with one encoder.

    Raises Missing if there is no index, and Refused if the index was made over other passages. The first search loads
    the encoder, and raises Refused if its weights or settings have changed since the index was made.
    """

    def __init__(self, study: Study, encoder: str, device: str | None = None):
        manifest = INDEX.manifest(study, encoder)
        self.name, self.manifest, self.device = f"{SparseKind.name}:{encoder}", manifest, device
        self._encoder_settings = encoder_settings(study, encoder)
        self._index = InvertedIndex(study.path("indexes", encoder), f"run '{INDEX.command(encoder)}' again")
        described = ("similarity", "passage_template", "max_tokens", "terms", "model_hash")
        self.settings: dict[str, Any] = {
            "retriever": self.name,
            "kind": SparseKind.name,
            "encoder": encoder,
            **{key: manifest[key] for key in described},
        }

    @cached_property
    def encoder(self) -> SparseModel:
        return INDEX.encoder_of(self.manifest, self._encoder_settings, self.device)

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        """Return the k best passages of each question. There are fewer hits if fewer passages share a term with the
        question.
        """

        def search_block(block: slice) -> Hits:
            return self._index.search(self.encoder.encode_questions(questions[block]), k)

        return search_in_blocks(questions, k, QUESTIONS_PER_STEP, search_block, (progress, "searching term weights"))

    def explain(self, question: str, row: int) -> TermWeights:
        """Return the term weights of a question and of a passage, and the contribution of each shared term to the
        score.
        """
        asked, weights = self.encoder.encode_questions([question]).row(0)
        terms, values = self._index.passages.row(row)
        shared, ours, theirs = np.intersect1d(asked, terms, assume_unique=True, return_indices=True)
        products = weights[ours].astype(np.float64) * values[theirs].astype(np.float64)
        matches = [
            TermMatch(word, *(float(value) for value in rest))
            for word, *rest in zip(
                self.encoder.words_of_terms(shared.tolist()), weights[ours], values[theirs], products, strict=True
            )
        ]
        return TermWeights(
            score=float(np.float32(products.sum())),
            question=self._weighted_words(asked, weights),
            passage=self._weighted_words(terms, values),
            shared_terms=sorted(matches, key=lambda match: (-match.product, match.term)),
        )

    def _weighted_words(self, terms: np.ndarray, weights: np.ndarray) -> list[tuple[str, float]]:
        """Return words with their weights, largest first, with ties ordered by term."""
        order = np.lexsort((terms, -weights))
        return list(
            zip(self.encoder.words_of_terms(terms[order].tolist()), weights[order].astype(float).tolist(), strict=True)
        )


class SparseKind(EncodedIndexKind):
    name, title = "sparse", "learned sparse"
    help = "the term weights of a sparse encoder (SPLADE), in an inverted index"

    def open(
        self, study: Study, options: EncoderOptions, device: str | None = None, part: Callable[[str], Any] | None = None
    ) -> Sparse:
        return Sparse(study, options.encoder, device)

    def describe(self, manifest: Mapping[str, Any]) -> str:
        return f"learned sparse, {manifest.get('encoder')}"

    def steps(self, study: Study) -> list[Step]:
        return [
            Step(
                f"Learned sparse retrieval needs the passages encoded with {name}.",
                INDEX.command(name),
                request(build_index, name),
            )
            for name in self.encoders_without_index(study)[:1]
        ]


RETRIEVERS.register(SparseKind())
