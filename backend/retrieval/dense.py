"""Dense retrieval: encode the passages once, in shards that resume; search them exactly."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from backend.manifest import file_sha256, read_json, read_manifest, write_json, write_manifest
from backend.retrieval.encoder import Encoder, load_encoder
from backend.retrieval.search import ExactSearch
from db.errors import BadInput, Missing, Refused
from db.records import Hits

if TYPE_CHECKING:
    from backend.settings import EncoderSettings
    from backend.study import Study

Progress = Callable[[int, "int | None", str], None]

SHARD = 2048                # passages per shard: what an interruption can cost
PER_STEP = 256              # passages between two reports of progress
ROWS_PER_COPY = 65_536
SAMPLE = 8                  # passages encoded here to check vectors made elsewhere
SAME_VECTOR = 0.25          # how far a vector may lie from ours, in typical distances between two passages; 16 bits give 0.02


def encoder_settings(study: Study, name: str) -> EncoderSettings:
    """Raises Missing for an encoder that study.toml does not name."""
    encoders = study.settings.encoders
    if name not in encoders:
        raise Missing(f"study.toml names no encoder {name!r}; known: {', '.join(encoders) or 'none'} "
                      "(add one with 'blindspot encoder add')")
    return encoders[name]


def build_index(study: Study, name: str, vectors: str | Path | None = None, device: str | None = None,
                progress: Progress | None = None) -> dict:
    """Encode all passages with the encoder `name`, or take their vectors from a file; returns the manifest.

    Encoding writes shards and goes on from the last whole one after an interruption.

    Args:
        vectors: an .npy file, (n, d) float16 or float32, row i for passage i; checked against the encoder on a sample.

    Raises Refused for vectors that do not fit the passages or the encoder, or while another process builds the index.
    """
    settings, corpus, folder = encoder_settings(study, name), study.corpus, study.path("indexes", name)
    started = time.monotonic()
    with study.building(f"indexes/{name}"):
        encoder = load_encoder(settings, device)
        recipe = {"kind": "dense index", "encoder": name, "passages": len(corpus), "corpus": corpus.digest,
                  "dtype": "float16", **encoder.describe()}
        (folder / "manifest.json").unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        if vectors is None:
            _encode_shards(study, encoder, recipe, folder / "shards", progress)
            sources, origin = sorted((folder / "shards").glob("*.npy")), {"made_by": "encoding here"}
        else:
            vectors = Path(vectors)
            _check_vectors(study, encoder, vectors)
            sources, origin = [vectors], {"made_by": "imported vectors", "file": vectors.name, "sha256": file_sha256(vectors)}
        unit_length = _merge(sources, folder / "embeddings.npy", recipe, progress)
        manifest = write_manifest(folder, {**recipe, **origin, "unit_length": unit_length,
                                           "seconds": round(time.monotonic() - started, 1)})
        shutil.rmtree(folder / "shards", ignore_errors=True)
        return manifest


def _encode_shards(study: Study, encoder: Encoder, recipe: dict, shards: Path, progress: Progress | None) -> None:
    total, plan = len(study.corpus), shards / "recipe.json"
    if not plan.is_file() or read_json(plan) != recipe:
        shutil.rmtree(shards, ignore_errors=True)
        shards.mkdir(parents=True)
        write_json(plan, recipe)
    for start in range(0, total, SHARD):
        path = shards / f"{start:010d}.npy"
        if path.exists():
            continue
        rows = np.empty((min(SHARD, total - start), encoder.dimension), np.float16)
        passages = study.corpus.scan(start, start + len(rows))
        for row in range(0, len(rows), PER_STEP):
            if progress is not None:
                progress(start + row, total, f"encoding passages with {recipe['encoder']}")
            block = encoder.encode_passages(list(islice(passages, PER_STEP)))
            rows[row:row + len(block)] = block
        unfinished = path.with_suffix(".partial")
        with open(unfinished, "wb") as file:
            np.save(file, rows)
        unfinished.rename(path)


def _check_vectors(study: Study, encoder: Encoder, path: Path) -> None:
    if not path.is_file():
        raise Missing(f"there is no file {path}")
    try:
        given = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise BadInput(f"is no .npy array of numbers ({error})", path) from error
    wanted = (len(study.corpus), encoder.dimension)
    if given.shape != wanted or given.dtype not in (np.float16, np.float32):
        raise BadInput(f"holds {given.shape} {given.dtype}; this study and encoder need {wanted} float16 or float32", path)
    sample = np.unique(np.linspace(0, wanted[0] - 1, SAMPLE).astype(int))
    passages = study.corpus.passages(sample.tolist())
    ours, theirs = encoder.encode_passages(passages), given[sample].astype(np.float32)
    if encoder.similarity == "cosine":
        theirs = theirs / np.maximum(np.linalg.norm(theirs, axis=1, keepdims=True), 1e-12)
    apart = np.linalg.norm(ours[:, None] - ours[None], axis=2)[np.triu_indices(len(ours), 1)]
    typical = np.median(apart) if len(apart) else np.linalg.norm(ours)
    error = np.nan_to_num(np.linalg.norm(ours - theirs, axis=1), nan=np.inf) / typical
    if error.max() > SAME_VECTOR:
        worst = int(error.argmax())
        raise BadInput(f"row {sample[worst]} is not what the encoder gives for passage {passages[worst].id!r} (as far off as "
                       f"{error[worst]:.0%} of the distance between two passages): another model, text template or order", path)


def _merge(sources: Sequence[Path], target: Path, recipe: dict, progress: Progress | None) -> bool:
    """Write all rows as one float16 file; returns whether every vector has unit length. Raises Refused on NaN.

    The file takes its place when it is whole: a service may have the old one mapped.
    """
    shape, unit_length, row = (recipe["passages"], recipe["dimension"]), True, 0
    partial = target.with_name(f".{target.name}")
    merged = np.lib.format.open_memmap(partial, mode="w+", dtype=np.float16, shape=shape)
    for source in sources:
        rows = np.load(source, mmap_mode="r", allow_pickle=False)
        for start in range(0, len(rows), ROWS_PER_COPY):
            block = rows[start:start + ROWS_PER_COPY].astype(np.float32)
            norms = np.linalg.norm(block, axis=1)
            if recipe["similarity"] == "cosine":
                block /= np.maximum(norms, 1e-12)[:, None]
                norms = np.ones(1)
            with np.errstate(over="ignore"):  # what overflows becomes infinity, and is refused
                merged[row:row + len(block)] = block
            if not np.isfinite(merged[row:row + len(block)]).all():
                bad = row + int(np.flatnonzero(~np.isfinite(merged[row:row + len(block)]).all(1))[0])
                raise Refused(f"the vector of passage row {bad} holds NaN, infinity or a number too large for 16 bits")
            unit_length &= bool(np.abs(norms - 1).max() < 1e-2)
            row += len(block)
            if progress is not None:
                progress(row, shape[0], "writing the vectors")
    if row != shape[0]:
        raise Refused(f"{row} vectors for {shape[0]} passages; delete {target.parent} and encode again")
    merged.flush()
    os.replace(partial, target)
    return unit_length


class Dense:
    """Dense retrieval with one encoder: exact, or through an index of `approximate` (flat, hnsw, ivfpq).

    Raises Missing when the index is not made, Refused when it was made over other passages. The encoder is loaded at the
    first search, which raises Refused if its weights or settings are no longer those that made the index.
    """

    def __init__(self, study: Study, name: str, device: str | None = None, approximate: str | None = None):
        folder = study.path("indexes", name)
        manifest = read_manifest(folder)
        if manifest is None or manifest.get("kind") != "dense index":
            raise Missing(f"there is no dense index {name!r} yet; run 'blindspot index dense --encoder {name}'")
        if manifest["corpus"] != study.corpus.digest:
            raise Refused(f"the index {name!r} was made over other passages; run 'blindspot index dense --encoder {name}' again")
        self.name, self.manifest, self.device = name, manifest, device
        self._encoder_settings = encoder_settings(study, name)
        self.vectors = np.load(folder / "embeddings.npy", mmap_mode="r", allow_pickle=False)
        self.settings = {"retriever": name, "kind": "dense", **{key: manifest[key] for key in
                         ("similarity", "pooling", "passage_template", "max_tokens", "dimension", "model_hash", "made_by")}}
        self._approximate = None
        if approximate is not None:
            from backend.retrieval.approximate import Approximate

            self._approximate = Approximate.open(study, self, approximate)
            self.settings |= {"approximate": self._approximate.manifest}

    @property
    def unit_length(self) -> bool:
        """Whether scores are cosines."""
        return self.manifest["unit_length"]

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        return self.search_vectors(self.encode(questions, progress), k, progress)

    def score(self, questions: Sequence[str], ordinals: np.ndarray) -> np.ndarray:
        """(q, m) float32 exact scores of the passages (q, m) int32."""
        return self.score_vectors(self.encode(questions), ordinals)

    def search_vectors(self, vectors: np.ndarray, k: int, progress: Progress | None = None) -> Hits:
        """`search` for questions (q, d) float32 that are encoded already."""
        return self._search.search(vectors, k, progress) if self._approximate is None else self._approximate.search(vectors, k)

    def score_vectors(self, vectors: np.ndarray, ordinals: np.ndarray) -> np.ndarray:
        """`score` for questions that are encoded already."""
        return self._search.score(vectors, ordinals)

    def encode(self, questions: Sequence[str], progress: Progress | None = None) -> np.ndarray:
        """(q, d) float32."""
        vectors = []
        for start in range(0, len(questions), PER_STEP):
            if progress is not None:
                progress(start, len(questions), "encoding questions")
            vectors.append(self._encoder.encode_questions(questions[start:start + PER_STEP]))
        return np.concatenate(vectors) if vectors else np.zeros((0, self.manifest["dimension"]), np.float32)

    @cached_property
    def _encoder(self) -> Encoder:
        encoder = load_encoder(self._encoder_settings, self.device)
        for key, value in encoder.describe().items():
            if self.manifest[key] != value:
                raise Refused(f"encoder {self.name!r} is not the one that made its index ({key}: {value!r} now, "
                              f"{self.manifest[key]!r} then); run 'blindspot index dense --encoder {self.name}' again")
        return encoder

    @cached_property
    def _search(self) -> ExactSearch:
        similarity = "l2" if self.manifest["similarity"] == "l2" else "dot"
        return ExactSearch(self.vectors, similarity, self.device)
