"""Approximate search: FAISS indexes over the stored vectors of an encoder. Indexes are built in blocks, saved, and
memory-mapped for searching.

Building an index of n vectors with d dimensions needs memory for one block of vectors and for the index itself. The
index needs n (2 d + 8.4 M) bytes for hnsw, which stores vectors in float16, and n (code bytes + 8) bytes for ivfpq, plus
its training sample. `build` measures the recall of each index against exact search on the
study's own questions, and records it in the manifest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.core.declared import build_settings as build_options
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import read_json, write_json
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.faiss_options import KINDS, FaissOptions
from blindspot.backend.retrieval.retriever import pad_hits, top_k
from blindspot.backend.retrieval.search import checked_question_vectors
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Hits

ROWS_PER_BLOCK = 16_384
TRAINING_PER_LIST = 64  # training vectors per inverted list; FAISS wants 39 or more
ROUNDS, POINTS_PER_CENTROID = 10, 64
"""For IVF-PQ: the number of rounds of k-means, and of training vectors per code word. FAISS's defaults, 25 and 256,
take three times as long and find about 1% more of the exact top 20.
"""
SECONDS_BETWEEN_REPORTS = 2.0
RECALL_QUESTIONS = 500
RECALL_AT = (20, 100)


@job("index faiss", extras=("cpu",))
def build(
    study: Study,
    name: str,
    kind: str,
    options: dict | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> dict:
    """Build a FAISS index over the vectors of the encoder `name`, measure its recall, and return its manifest.

    Args:
        kind: "hnsw" or "ivfpq".
        options: fields of `FaissOptions`.
        device: "cuda" trains and fills ivfpq indexes on the GPU (needs faiss-gpu). The file is the same.

    Raises Refused for settings that do not fit the vectors, or if another process is building the index.
    """
    import faiss

    if kind not in KINDS:
        raise Refused(f"the kind of a FAISS index must be one of {', '.join(KINDS)}, not {kind!r}")
    chosen, started = build_options(FaissOptions, options or {}), time.monotonic()
    dense, folder = Dense(study, name, device), study.path("indexes", name)
    with study.lock_part(f"indexes/{name}-{kind}"):
        if kind == "ivfpq":
            index = _to_gpu(train_ivfpq(dense, chosen, study.settings.seed, progress), device)
        else:
            index = _empty_hnsw_index(dense, chosen)
        _add_in_blocks(index, dense.vectors, f"building the {kind} index", progress)
        path, unfinished = folder / f"faiss-{kind}.index", folder / f".faiss-{kind}.index.partial"
        faiss.write_index(_to_cpu(index), str(unfinished))
        (folder / f"faiss-{kind}.json").unlink(missing_ok=True)  # the manifest of an earlier index
        os.replace(unfinished, path)
        manifest = {
            "kind": kind,
            "options": asdict(chosen),
            "passages": len(dense.vectors),
            "corpus": dense.manifest["corpus"],
            "vectors": dense.manifest["made"],
            "model_hash": dense.manifest["model_hash"],
            "seed": study.settings.seed,
            "bytes": path.stat().st_size,
            "faiss": faiss.__version__,
        }
        recall = measure_recall(study, dense, ApproximateIndex(path, manifest, dense).search, progress)
        manifest |= {"recall": recall, "seconds": round(time.monotonic() - started, 1)}
        write_json(folder / f"faiss-{kind}.json", manifest)
        return manifest


def _faiss_metric(dense: Dense) -> Any:
    import faiss

    return faiss.METRIC_L2 if dense.manifest["similarity"] == "l2" else faiss.METRIC_INNER_PRODUCT


def _empty_hnsw_index(dense: Dense, options: FaissOptions) -> Any:
    """Return an empty index with the memory for all vectors and links allocated at once. An index that grows step by
    step would need twice the memory while it is copied.
    """
    import faiss

    precision: Any = faiss.ScalarQuantizer.QT_fp16  # an integer; FAISS's stubs lack the type
    hnsw: Any = faiss.IndexHNSWSQ(dense.vectors.shape[1], precision, options.links, _faiss_metric(dense))
    hnsw.hnsw.efConstruction = options.build_effort
    storage: Any = faiss.downcast_index(hnsw.storage)
    storage.codes.resize(len(dense.vectors) * storage.code_size)
    storage.codes.resize(0)
    links_per_vector = hnsw.hnsw.nb_neighbors(0) + hnsw.hnsw.nb_neighbors(1) // 16
    hnsw.hnsw.neighbors.resize(len(dense.vectors) * links_per_vector)
    hnsw.hnsw.neighbors.resize(0)
    return hnsw


def train_ivfpq(
    dense: Dense,
    options: FaissOptions,
    seed: int = 0,
    progress: Progress | None = None,
    rounds: int = ROUNDS,
    points: int = POINTS_PER_CENTROID,
) -> Any:
    """Return an IVF-PQ index that is trained on a sample of the vectors but contains no vectors yet.

    Args:
        rounds: of k-means.
        points: training vectors per code word.

    Raises Refused for options that do not fit the vectors.
    """
    import faiss

    width, metric = dense.vectors.shape[1], _faiss_metric(dense)
    if width % options.code_bytes:
        raise Refused(f"code_bytes must divide the {width} dimensions of the vectors, not be {options.code_bytes}")
    lists = options.lists or max(1, round(4 * len(dense.vectors) ** 0.5))
    if len(dense.vectors) < 39 * max(lists, 256):
        raise Refused(
            f"{len(dense.vectors):,} vectors are too few to train an ivfpq index of {lists:,} lists; use hnsw"
        )
    quantizer = faiss.IndexFlat(width, metric)
    index: Any = faiss.IndexIVFPQ(quantizer, width, lists, options.code_bytes, 8, metric)
    index.quantizer = quantizer
    for clustering in (index.cp, index.pq.cp):
        clustering.seed, clustering.niter = seed + 1, rounds
    index.pq.cp.max_points_per_centroid = points
    _train_index(index, dense, seed, progress)
    return index


def _train_index(index: Any, dense: Dense, seed: int, progress: Progress | None) -> None:
    if progress is not None:
        progress(0, None, "training the ivfpq index")
    count, started = min(len(dense.vectors), max(index.nlist, 256) * TRAINING_PER_LIST), time.monotonic()
    rows = np.sort(np.random.default_rng(seed).choice(len(dense.vectors), count, replace=False))
    sample = np.asarray(dense.vectors[rows], np.float32)
    with ThreadPoolExecutor(1) as thread:
        training = thread.submit(index.train, sample)
        while True:
            try:
                training.result(SECONDS_BETWEEN_REPORTS)
                return
            except TimeoutError:
                if progress is not None:
                    progress(
                        0,
                        None,
                        f"training the ivfpq index on {count:,} vectors, {time.monotonic() - started:.0f} s so far",
                    )


def _add_in_blocks(index: Any, vectors: np.ndarray, text: str, progress: Progress | None = None) -> None:
    """Add all vectors to a trained index, `ROWS_PER_BLOCK` of them converted to float32 at a time."""
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        block = np.asarray(vectors[start : start + ROWS_PER_BLOCK], np.float32)
        index.add(block)
        if progress is not None:
            progress(start + len(block), len(vectors), text)


def _to_gpu(index: Any, device: str | None) -> Any:
    """Move the index to the GPU if one is asked for and the package faiss-gpu is installed."""
    import faiss

    if device is None or not device.startswith("cuda") or not hasattr(faiss, "StandardGpuResources"):
        return index
    return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), int(device.partition(":")[2] or 0), index)


def _to_cpu(index: Any) -> Any:
    import faiss

    return faiss.index_gpu_to_cpu(index) if type(index).__name__.startswith("Gpu") else index


def measure_recall(
    study: Study, dense: Dense, search: Callable[[np.ndarray, int], Hits], progress: Progress | None
) -> dict:
    """Return the mean share of the exact top k that a search finds, over questions of the study. If the study has no
    questions, passage vectors are used as queries.
    """
    questions = study.questions.all()
    chosen = np.random.default_rng(study.settings.seed).permutation(len(questions) or len(dense.vectors))[
        :RECALL_QUESTIONS
    ]
    if questions:
        vectors, queries = dense.encode([questions[i].text for i in chosen], progress), "questions of the study"
    else:
        vectors, queries = np.asarray(dense.vectors[np.sort(chosen)], np.float32), "vectors of passages"
    at = [k for k in RECALL_AT if k <= len(dense.vectors)] or [len(dense.vectors)]
    exact, lists = dense.search_vectors(vectors, at[-1]), search(vectors, at[-1])
    pairs = list(zip(exact.ordinals, lists.ordinals, strict=True))
    recalls = {k: np.mean([len(np.intersect1d(a[:k], b[:k])) / k for a, b in pairs]) for k in at}
    return {"n": len(vectors), "of": queries, **{str(k): round(float(recall), 4) for k, recall in recalls.items()}}


class ApproximateIndex:
    """A memory-mapped FAISS index over the passages of its encoder's dense index. The scores are those computed by
    FAISS.
    """

    def __init__(self, path: Path, manifest: dict, dense: Dense):
        import faiss

        flags = faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY if manifest["kind"] == "ivfpq" else faiss.IO_FLAG_MMAP_IFC
        self.manifest, self._dense = manifest, dense
        self._index: Any
        try:
            self._index = faiss.read_index(str(path), flags)
        except RuntimeError as error:
            raise Refused(f"{path} is missing or broken; build it again with 'blindspot index faiss'") from error
        if self._index.ntotal != len(dense.vectors):
            raise Refused(
                f"{path} holds {self._index.ntotal:,} vectors, not {len(dense.vectors):,}; build it again "
                "with 'blindspot index faiss'"
            )
        options = FaissOptions(**manifest["options"])
        if manifest["kind"] == "hnsw":
            self._index.hnsw.efSearch = options.search_effort
        else:
            self._index.nprobe = min(options.probes, self._index.nlist)

    @classmethod
    def open(cls, study: Study, dense: Dense, kind: str) -> ApproximateIndex:
        """Open a built index. Raises Missing if there is no such index, and Refused if it was built over
        other vectors.
        """
        folder = study.path("indexes", dense.name)
        path = folder / f"faiss-{kind}.json"
        if kind not in KINDS or not path.is_file():
            raise Missing(
                f"no {kind} index of {dense.name!r}; run 'blindspot index faiss --encoder {dense.name} --kind {kind}'"
            )
        manifest = read_json(path)
        if (manifest["vectors"], manifest["corpus"]) != (dense.manifest["made"], dense.manifest["corpus"]):
            raise Refused(
                f"the {kind} index of {dense.name!r} was built over other vectors; build it again with 'blindspot "
                "index faiss'"
            )
        return cls(folder / f"faiss-{kind}.index", manifest, dense)

    def search(self, vectors: np.ndarray, k: int) -> Hits:
        """Search with question vectors (q, d) float32. Ties are ordered by row. Scores are dot products, or for l2 the
        negative squared distance.

        Raises Refused for vectors of the wrong width and for vectors with NaN or infinity.
        """
        vectors = checked_question_vectors(vectors, self._dense.vectors.shape[1])
        scores, ordinals = self._index.search(vectors, min(k, len(self._dense.vectors)))
        if self._dense.manifest["similarity"] == "l2":
            scores = -scores
        hits = top_k(ordinals.astype(np.int32), scores, ordinals.shape[1])
        return hits if hits.k == k else pad_hits(hits, k)
