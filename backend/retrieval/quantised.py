"""Dense search over int8 or binary copies of an encoder's vectors, rescored with the stored float16 vectors.

The copies are those of `sentence_transformers.quantize_embeddings`: int8 cuts each dimension's range into 256 steps, binary
keeps the sign of each dimension (8 to a byte). A search takes `rescore` x k candidates from the copies, by the product
with the question (int8) or by the number of equal signs (binary), and orders them by their exact scores. int8 needs half
of the memory of float16, binary a sixteenth; the float16 vectors stay on disk. A passage that is no candidate is not found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from blindspot.backend.core.arrays import open_array
from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import read_json, write_json
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.approximate import recall_of
from blindspot.backend.retrieval.dense import Dense, EncoderKind, EncoderOptions, dense_indexes, dense_name
from blindspot.backend.retrieval.retriever import RETRIEVERS, search_in_blocks, top_k
from blindspot.backend.retrieval.search import finite_questions
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Hits

if TYPE_CHECKING:
    from pathlib import Path

    from blindspot.backend.core.study import Study

Precision = Literal["int8", "binary"]
PRECISIONS = ("int8", "binary")
RESCORE = 4  # candidates for each hit, as in sentence-transformers
ROWS_PER_BLOCK = 16_384
QUESTIONS_PER_BLOCK = 64


def names_of(precision: str) -> tuple[str, str, str]:
    """Return the file names of the copies, of their ranges (int8) and of their record."""
    return f"quantised-{precision}.npy", f"quantised-{precision}-ranges.npy", f"quantised-{precision}.json"


@job("index quantised", extras=("dense",))
def build(study: Study, name: str, precision: str, progress: Progress | None = None) -> dict[str, Any]:
    """Write int8 or binary copies of the vectors of the encoder `name`, measure their recall, and return the record.

    Raises Refused for l2 similarity, or while another process builds the same.
    """
    if precision not in PRECISIONS:
        raise Refused(f"--precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    dense, folder, started = Dense(study, name), study.path("indexes", name), time.monotonic()
    if dense.manifest["similarity"] == "l2":
        raise Refused(f"{name!r} ranks by Euclidean distance; int8 and binary copies serve dot product and cosine")
    copies_name, ranges_name, record_name = names_of(precision)
    with study.building(f"indexes/{name}-{precision}"):
        (folder / record_name).unlink(missing_ok=True)
        ranges = _ranges(dense.vectors) if precision == "int8" else None
        if ranges is not None:
            np.save(folder / ranges_name, ranges)
        _write(dense.vectors, precision, ranges, folder / copies_name, progress)
        record = {
            "kind": precision,
            "passages": len(dense.vectors),
            "corpus": dense.manifest["corpus"],
            "vectors": dense.manifest["made"],
            "model_hash": dense.manifest["model_hash"],
            "bytes": (folder / copies_name).stat().st_size,
            "float16_bytes": dense.vectors.nbytes,
        }
        recall = recall_of(study, dense, Quantised(study, dense, record, RESCORE).search_vectors, progress)
        record |= {"recall": {**recall, "rescore": RESCORE}, "seconds": round(time.monotonic() - started, 1)}
        write_json(folder / record_name, record)
        return record


def _blocks(count: int) -> Iterator[slice]:
    for start in range(0, count, ROWS_PER_BLOCK):
        yield slice(start, min(start + ROWS_PER_BLOCK, count))


def _ranges(vectors: np.ndarray) -> np.ndarray:
    """Return the lowest and the highest value of each dimension, (2, d) float32."""
    low = np.full(vectors.shape[1], np.inf, np.float32)
    high = -low
    for rows in _blocks(len(vectors)):
        block = np.asarray(vectors[rows], np.float32)
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
    return np.stack([low, high])


def _write(
    vectors: np.ndarray, precision: str, ranges: np.ndarray | None, path: Path, progress: Progress | None
) -> None:
    copies = None
    for rows in _blocks(len(vectors)):
        block = quantise(np.asarray(vectors[rows], np.float32), precision, ranges)
        if copies is None:
            shape = (len(vectors), block.shape[1])
            copies = np.lib.format.open_memmap(path, mode="w+", dtype=block.dtype, shape=shape)
        copies[rows] = block
        if progress is not None:
            progress(rows.stop, len(vectors), f"writing {precision} vectors")
    assert copies is not None, "a study has passages"
    copies.flush()


def quantise(vectors: np.ndarray, precision: str, ranges: np.ndarray | None = None) -> np.ndarray:
    """Return int8 (n, d), or signs packed to uint8 (n, ceil(d / 8)), of vectors (n, d) float32."""
    from sentence_transformers.util.quantization import quantize_embeddings

    kind: Any = "ubinary" if precision == "binary" else precision
    return np.asarray(quantize_embeddings(vectors, precision=kind, ranges=ranges))


class Quantised:
    """Search over the copies of an encoder's vectors, with the float16 vectors for the last order.

    Args:
        rescore: candidates for each hit.
    """

    def __init__(self, study: Study, dense: Dense, record: Mapping[str, Any], rescore: int):
        self._dense, self._rescore, self._precision = dense, rescore, str(record["kind"])
        copies_name, ranges_name, _ = names_of(self._precision)
        folder, again = (
            study.path("indexes", dense.name),
            f"run 'blindspot index quantised --encoder {dense.name}' again",
        )
        self._copies = open_array(folder / copies_name, again)
        self._ranges = open_array(folder / ranges_name, again) if self._precision == "int8" else None
        self._binary: Any = None
        self.name = f"{self._precision}:{dense.name}"
        self.settings = {
            **dense.settings,
            "retriever": self.name,
            "kind": self._precision,
            "rescore": rescore,
            "quantised": {key: record[key] for key in ("bytes", "float16_bytes", "recall") if key in record},
        }

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        return self.search_vectors(self._dense.encode(questions, progress), k, progress)

    def search_vectors(self, vectors: np.ndarray, k: int, progress: Progress | None = None) -> Hits:
        """Search for encoded questions (q, d) float32."""
        vectors = finite_questions(vectors, self._dense.vectors.shape[1])

        def search_block(block: slice) -> Hits:
            candidates = self.candidates(vectors[block], min(self._rescore * k, len(self._copies)))
            return top_k(candidates, self._dense.score_vectors(vectors[block], candidates), k)

        report = progress, f"searching {self._precision} vectors"
        return search_in_blocks(vectors, k, QUESTIONS_PER_BLOCK, search_block, report)

    def candidates(self, vectors: np.ndarray, n: int) -> np.ndarray:
        """Return the n rows (q, n) int32 whose copies are nearest to each question."""
        if self._precision == "binary":
            return self._binary_index.search(quantise(vectors, "binary"), n)[1].astype(np.int32)
        assert self._ranges is not None, "int8 copies have ranges"
        steps = (self._ranges[1] - self._ranges[0]) / 255
        scaled = vectors * np.where(
            steps == 0, 1, steps
        )  # what is the same for every passage of a question is left out
        rows, values = np.zeros((len(vectors), 0), np.int32), np.zeros((len(vectors), 0), np.float32)
        for block in _blocks(len(self._copies)):
            products = scaled @ np.asarray(self._copies[block], np.float32).T
            best = min(n, products.shape[1])
            places = np.argpartition(-products, best - 1, axis=1)[:, :best]
            rows = np.concatenate([rows, (places + block.start).astype(np.int32)], axis=1)
            values = np.concatenate([values, np.take_along_axis(products, places, 1)], axis=1)
            if rows.shape[1] > n:
                kept = np.argpartition(-values, n - 1, axis=1)[:, :n]
                rows, values = np.take_along_axis(rows, kept, 1), np.take_along_axis(values, kept, 1)
        return rows

    @property
    def _binary_index(self) -> Any:
        import faiss

        if self._binary is None:
            self._binary = faiss.IndexBinaryFlat(8 * self._copies.shape[1])
            self._binary.add(np.ascontiguousarray(self._copies))
        return self._binary


@settings_class
class QuantisedOptions(EncoderOptions):
    rescore: int = Field(
        default=RESCORE,
        title="Candidates per hit",
        description="Candidates for each hit that are rescored with the float16 vectors",
        ge=1,
        le=1000,
    )


class QuantisedKind(EncoderKind):
    """A kind whose `name` is a precision."""

    options: ClassVar[type] = QuantisedOptions

    def available(self, study: Study) -> list[str]:
        record = names_of(self.name)[2]
        return [f"{self.name}:{name}" for name in dense_indexes(study) if study.path("indexes", name, record).is_file()]

    def open(
        self,
        study: Study,
        options: QuantisedOptions,
        device: str | None = None,
        part: Callable[[str], Any] | None = None,
    ) -> Quantised:
        dense = Dense(study, options.encoder, device) if part is None else part(dense_name(options.encoder))
        again = f"run 'blindspot index quantised --encoder {options.encoder} --precision {self.name}'"
        path = study.path("indexes", options.encoder, names_of(self.name)[2])
        if not path.is_file():
            raise Missing(f"no {self.name} vectors of {options.encoder!r}; {again}")
        record = read_json(path)
        if (record["vectors"], record["corpus"]) != (dense.manifest["made"], dense.manifest["corpus"]):
            raise Refused(f"the {self.name} vectors of {options.encoder!r} are copies of other vectors; {again} again")
        return Quantised(study, dense, record, options.rescore)

    def files(self, study: Study, name: str) -> list[Path]:
        return [*super().files(study, name), study.path("indexes", self.encoder(name), names_of(self.name)[2])]

    def index_files(self, study: Study, options: QuantisedOptions) -> list[Path]:
        """Return the copies, which a search keeps in memory; it reads a few float16 vectors from disk besides."""
        return [study.path("indexes", options.encoder, name) for name in names_of(self.name)[:2]]

    def run_name(self, options: QuantisedOptions) -> str:
        return f"{options.encoder}-{self.name}"

    def made(self, manifest: Mapping[str, Any]) -> bool:
        return manifest.get("kind") == self.name

    def describe(self, manifest: Mapping[str, Any]) -> str:
        return f"{manifest.get('retriever')}, {manifest.get('rescore', '?')} candidates a hit"

    def options_of_run(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        return super().options_of_run(manifest) | {"rescore": manifest.get("rescore", RESCORE)}


class Int8Kind(QuantisedKind):
    name, title = "int8", "int8"
    help = "an encoder's vectors in 8 bits a dimension, rescored"


class BinaryKind(QuantisedKind):
    name, title = "binary", "binary"
    help = "an encoder's vectors in one bit a dimension, rescored"


RETRIEVERS.register(Int8Kind())
RETRIEVERS.register(BinaryKind())
