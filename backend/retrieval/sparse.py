"""Learned sparse retrieval (SPLADE): encode the passages once into term weights, then search an inverted index exactly."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from backend.core.jobs import job, request
from backend.core.manifest import read_manifest, write_manifest
from backend.core.summary import Step
from backend.progress import Progress
from backend.retrieval.dense import EncoderKind, EncoderOptions, encoder_settings
from backend.retrieval.encoded_blocks import Arrays, encode_blocks, read_blocks
from backend.retrieval.explanation import TermMatch, TermWeights
from backend.retrieval.inverted_index import InvertedIndex, write_inverted_index
from backend.retrieval.model_kinds import encoder_kind, encoders_of_kind
from backend.retrieval.retriever import RETRIEVERS
from backend.retrieval.sparse_encoder import SparseModel, TermRows, load_sparse_encoder
from db.errors import Missing, Refused
from db.records import Hits, Passage

if TYPE_CHECKING:
    from backend.core.study import Study

INDEX = "sparse index"
QUESTIONS_PER_STEP = 128
ARRAYS = ("offsets", "terms", "weights")


@job("index sparse")
def build_index(study: Study, name: str, device: str | None = None, progress: Progress | None = None) -> dict:
    """Encode all passages with the sparse encoder `name`, write the inverted index, and return its manifest.

    Encoding writes blocks. After an interruption it resumes after the last complete block.

    Raises Missing for an unknown encoder, Refused for another kind of model and while another process builds the index.
    """
    settings, corpus, folder = encoder_settings(study, name), study.corpus, study.path("indexes", name)
    started = time.monotonic()
    with study.building(f"indexes/{name}"):
        model = load_sparse_encoder(settings, device)
        recipe = {
            "kind": INDEX,
            "encoder": name,
            "passages": len(corpus),
            "corpus": corpus.digest,
            **model.describe(),
        }

        def encode(passages: Sequence[Passage]) -> Arrays:
            rows = model.encode_passages(passages)
            return {"offsets": rows.offsets, "terms": rows.terms, "weights": rows.weights}

        (folder / "manifest.json").unlink(missing_ok=True)
        paths = encode_blocks(corpus, folder / "blocks", recipe, encode, _join, progress)

        def blocks() -> Iterator[TermRows]:
            return (TermRows(**block) for block in read_blocks(paths, ARRAYS))

        if progress is not None:
            progress(0, None, "writing the inverted index")
        size = write_inverted_index(folder, blocks, model.vocabulary, len(corpus))
        per_passage = round(size["postings"] / max(len(corpus), 1), 1)
        manifest = write_manifest(
            folder,
            {**recipe, **size, "terms_per_passage": per_passage, "seconds": round(time.monotonic() - started, 1)},
        )
        shutil.rmtree(folder / "blocks", ignore_errors=True)
        return manifest


def _join(parts: Sequence[Arrays]) -> Arrays:
    lengths = np.concatenate([np.diff(part["offsets"]) for part in parts])
    return {
        "offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        **{key: np.concatenate([part[key] for part in parts]) for key in ("terms", "weights")},
    }


class Sparse:
    """Learned sparse retrieval with one encoder.

    Raises Missing if there is no index, Refused if the index was made over other passages. The first search loads the
    encoder, and raises Refused if its weights or settings have changed since the index was made.
    """

    def __init__(self, study: Study, encoder: str, device: str | None = None):
        folder, again = study.path("indexes", encoder), f"run 'blindspot index sparse --encoder {encoder}' again"
        manifest = read_manifest(folder)
        if manifest is None or manifest.get("kind") != INDEX:
            settings = encoder_settings(study, encoder)
            if (kind := encoder_kind(settings)) != "sparse":
                raise Refused(f"encoder {encoder!r} is {kind}, not sparse; {_known(study)}")
            raise Missing(f"no sparse index for encoder {encoder!r}; run 'blindspot index sparse --encoder {encoder}'")
        if manifest["corpus"] != study.corpus.digest:
            raise Refused(f"the index {encoder!r} was made over other passages; {again}")
        self.name, self.manifest, self.device = f"{SparseKind.name}:{encoder}", manifest, device
        self._study, self._encoder_settings = study, encoder_settings(study, encoder)
        self._index, self._again = InvertedIndex(folder, again), again
        described = ("similarity", "passage_template", "max_tokens", "terms", "model_hash")
        self.settings: dict[str, Any] = {
            "retriever": self.name,
            "kind": SparseKind.name,
            "encoder": encoder,
            **{key: manifest[key] for key in described},
        }

    @cached_property
    def encoder(self) -> SparseModel:
        model = load_sparse_encoder(self._encoder_settings, self.device)
        for key, value in model.describe().items():
            if self.manifest[key] != value:
                raise Refused(
                    f"encoder {self.manifest['encoder']!r} has changed since its index was made ({key}: {value!r}, in "
                    f"the index {self.manifest[key]!r}); {self._again}"
                )
        return model

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        """Return the k best passages of each question; fewer where fewer share a term with it."""
        ordinals = np.full((len(questions), k), -1, np.int32)
        scores = np.full((len(questions), k), -np.inf, np.float32)
        for start in range(0, len(questions), QUESTIONS_PER_STEP):
            if progress is not None:
                progress(start, len(questions), "searching term weights")
            rows = slice(start, start + QUESTIONS_PER_STEP)
            hits = self._index.search(self.encoder.encode_questions(questions[rows]), k)
            ordinals[rows], scores[rows] = hits.ordinals, hits.scores
        return Hits(ordinals, scores)

    def score(self, questions: Sequence[str], ordinals: np.ndarray) -> np.ndarray:
        """Return the exact scores (q, m) float32 of the passages (q, m) int32."""
        return self._index.score(self.encoder.encode_questions(questions), ordinals)

    def explain(self, question: str, row: int) -> TermWeights:
        """Return the term weights of a question and of a passage, and what each shared term adds to the score."""
        asked, weights = self.encoder.encode_questions([question]).row(0)
        terms, values = self._index.passages.row(row)
        shared, ours, theirs = np.intersect1d(asked, terms, assume_unique=True, return_indices=True)
        products = weights[ours].astype(np.float64) * values[theirs].astype(np.float64)
        matches = [
            TermMatch(word, *(float(value) for value in rest))
            for word, *rest in zip(
                self.encoder.words(shared.tolist()), weights[ours], values[theirs], products, strict=True
            )
        ]
        return TermWeights(
            score=float(np.float32(products.sum())),
            question=self._named(asked, weights),
            passage=self._named(terms, values),
            shared=sorted(matches, key=lambda match: (-match.product, match.term)),
        )

    def _named(self, terms: np.ndarray, weights: np.ndarray) -> list[tuple[str, float]]:
        """Return words with weights, largest first; ties by term."""
        order = np.lexsort((terms, -weights))
        return list(zip(self.encoder.words(terms[order].tolist()), weights[order].astype(float).tolist(), strict=True))


def _known(study: Study) -> str:
    sparse = encoders_of_kind(study, "sparse")
    known = f"sparse encoders of study.toml: {', '.join(sparse)}" if sparse else "add one with 'blindspot encoder add'"
    return f"name one with --encoder ({known})"


class SparseKind(EncoderKind):
    name, title = "sparse", "learned sparse"
    help = "the term weights of a sparse encoder (SPLADE), in an inverted index"
    explains = True

    def available(self, study: Study) -> list[str]:
        made = study.parts("indexes").items()
        return [f"{self.name}:{name}" for name, manifest in made if manifest.get("kind") == INDEX]

    def open(
        self, study: Study, options: EncoderOptions, device: str | None = None, part: Callable[[str], Any] | None = None
    ) -> Sparse:
        return Sparse(study, options.encoder, device)

    def label(self, name: str) -> str:
        return f"learned sparse ({self.encoder(name)})"

    def run_name(self, options: EncoderOptions) -> str:
        return options.encoder

    def made(self, manifest: Mapping[str, Any]) -> bool:
        return manifest.get("kind") == self.name

    def describe(self, manifest: Mapping[str, Any]) -> str:
        return f"learned sparse, {manifest.get('encoder')}"

    def steps(self, study: Study) -> list[Step]:
        missing = [name for name in encoders_of_kind(study, "sparse") if name not in study.parts("indexes")]
        return [
            Step(
                f"Learned sparse retrieval needs the passages encoded with {name}.",
                f"blindspot index sparse --encoder {name}",
                request(build_index, name),
            )
            for name in missing[:1]
        ]


RETRIEVERS.register(SparseKind())
