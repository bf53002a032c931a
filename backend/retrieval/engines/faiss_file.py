"""Search an existing FAISS index file, given a file of passage ids and the encoder that made its vectors.

WHERE is the file, or a folder as Pyserini writes it (with files `index` and `docid`). The file of ids is text with one
id per line, or a .npy array without pickled objects; pickled ids are refused. An IndexIDMap needs no file of ids,
because its labels are the ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.core.arrays import open_array
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import check_sample
from blindspot.backend.retrieval.encoder import Encoder
from blindspot.backend.retrieval.engines.engine import (
    Engine,
    changed_index_error,
    check_same_model,
    encoder_for,
    rows_of_ids,
    run_settings,
)
from blindspot.backend.retrieval.engines.engine_settings import EngineSettings
from blindspot.backend.retrieval.retriever import search_in_blocks, top_k
from blindspot.backend.retrieval.search import checked_question_vectors
from blindspot.backend.retrieval.vector_ids import read_ids
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.records import Hits

ROWS = "rows.npy"
SAMPLED_BYTES, SAMPLES = 1 << 20, 16  # of the fingerprint
SAMPLE = 8  # vectors that are compared with the encoder's own
MARGIN = 32  # hits fetched beyond k
QUESTIONS_PER_STEP = 256  # encoded and searched between two progress reports
EXACT = ("IndexFlat", "IndexFlatIP", "IndexFlatL2", "IndexHNSWFlat", "IndexIVFFlat")


def fingerprint(path: Path) -> str:
    """Return a hash of the file's size and of 16 samples of 1 MB. Reading a whole file of 60 GB would take minutes."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with open(path, "rb") as file:
        for start in np.linspace(0, max(size - SAMPLED_BYTES, 0), SAMPLES).astype(np.int64).tolist():
            file.seek(start)
            digest.update(file.read(SAMPLED_BYTES))
    return digest.hexdigest()


def locate_files(location: str, ids: str) -> tuple[Path, Path | None]:
    """Return the index file and the file of ids. Raises Missing if one of them does not exist."""
    path = Path(location).absolute()
    named = Path(ids).absolute() if ids else None
    if path.is_dir():
        named = named or next((path / name for name in ("docid", "ids.txt") if (path / name).is_file()), None)
        path = path / "index"
    for file in (path, named):
        if file is not None and not file.is_file():
            raise Missing(f"there is no file {file}")
    return path, named


def read_index(path: Path) -> Any:
    """Open an index without reading all of it into memory. Raises BadInput for a file that is not a FAISS index."""
    import faiss

    with open(path, "rb") as file:
        is_inverted = file.read(2) == b"Iw"  # FAISS marks inverted files so; only these map with IO_FLAG_MMAP
    flags = faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY if is_inverted else faiss.IO_FLAG_MMAP_IFC
    try:
        return faiss.read_index(str(path), flags)
    except RuntimeError as error:
        raise BadInput(
            "is not a FAISS index that this version of FAISS reads; write it with faiss.write_index", path
        ) from error


class FaissFile:
    """An opened FAISS index as a retriever. Scores are computed by FAISS: dot products, or negative squared
    distances.
    """

    def __init__(self, study: Study, name: str, manifest: Mapping[str, Any], device: str | None):
        path = Path(manifest["file"])
        if not path.is_file():
            raise Missing(f"the FAISS index {path} of {name!r} is gone; put it back, or open the index again")
        if fingerprint(path) != manifest["fingerprint"]:
            raise changed_index_error(name, manifest, "has changed")
        self.name, self.settings = f"opened:{name}", run_settings(name, manifest)
        self._study, self._manifest, self._device = study, manifest, device
        self._index = read_index(path)
        self._rows = open_array(study.path("indexes", name) / ROWS, f"open the index {name!r} again with --replace")
        self._labels = _sorted_labels(self._index)
        self._encoder: Encoder | None = None

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        if self._encoder is None:
            settings = EngineSettings(encoder=self._manifest["encoder"])
            self._encoder = encoder_for(self._study, settings, self._index.d, self._manifest["where"], self._device)
            check_same_model(self._encoder, self.name.removeprefix("opened:"), self._manifest)
        encoder = self._encoder

        def search_block(block: slice) -> Hits:
            return self.search_vectors(encoder.encode_questions(questions[block]), k)

        return search_in_blocks(questions, k, QUESTIONS_PER_STEP, search_block, (progress, "searching with FAISS"))

    def search_vectors(self, vectors: np.ndarray, k: int) -> Hits:
        """Search with question vectors (q, d) float32. Vectors of passages that are not in the study are skipped."""
        vectors = checked_question_vectors(vectors, self._index.d)
        count = self._index.ntotal
        fetch = min(count, k + MARGIN)
        while True:
            scores, labels = self._index.search(vectors, fetch)
            places = labels if self._labels is None else _rows_of_labels(self._labels, labels)
            rows = np.where(labels < 0, -1, self._rows[places]).astype(np.int32)
            enough = (rows >= 0).sum(axis=1) >= k
            if fetch == count or (enough | (labels[:, -1] < 0)).all():
                break
            fetch = min(count, 4 * fetch)
        return top_k(rows, -scores if _is_distance(self._index) else scores, k)


def _rows_of_labels(order: tuple[np.ndarray, np.ndarray], labels: np.ndarray) -> np.ndarray:
    values, places = order
    return places[np.minimum(np.searchsorted(values, labels), len(values) - 1)]


def _sorted_labels(index: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the labels of an IndexIDMap in ascending order, with their positions; None if labels are
    simply positions.
    """
    import faiss

    if not hasattr(index, "id_map"):
        return None
    labels = faiss.vector_to_array(index.id_map)
    order = np.argsort(labels)
    return labels[order], order


def _is_distance(index: Any) -> bool:
    import faiss

    return index.metric_type == faiss.METRIC_L2


def check_metric(index: Any, encoder: Encoder, path: Path) -> None:
    """Raise Refused if the index's metric differs from the encoder's similarity."""
    ours, theirs = encoder.similarity, "l2" if _is_distance(index) else "dot"
    if (ours == "l2") != (theirs == "l2") and ours != "cosine":
        raise Refused(f"{path} compares vectors by {theirs}, but encoder {encoder.settings.model!r} by {ours}")


def check_vectors(study: Study, index: Any, rows: np.ndarray, encoder: Encoder, path: Path) -> None:
    """Raise BadInput if sampled vectors of an index that stores full vectors differ from the encoder's own vectors."""
    known = np.flatnonzero(rows >= 0)
    sample = known[np.unique(np.linspace(0, len(known) - 1, SAMPLE).astype(int))]
    if type(index).__name__ not in EXACT:
        return
    try:
        theirs = np.stack([index.reconstruct(int(place)) for place in sample])
    except RuntimeError:  # an inverted file without a direct map
        return
    check_sample(encoder, study.corpus.passages(rows[sample].tolist()), theirs, sample, path)


class FaissEngine(Engine):
    name, title = "faiss", "FAISS"
    help = "a FAISS index file, or a folder of Pyserini's with index and docid"
    uses = ("encoder", "ids")

    def examine(
        self, study: Study, where: str, settings: EngineSettings, folder: Path, progress: Progress | None
    ) -> dict[str, Any]:
        path, named = locate_files(where, settings.ids)
        index = read_index(path)
        if named is not None:
            ids = read_ids(named, index.ntotal, "the FAISS index")
        elif hasattr(index, "id_map"):
            import faiss

            ids = [str(label) for label in faiss.vector_to_array(index.id_map).tolist()]
        else:
            raise Refused(
                f"{path} holds vectors without passage ids; name a file with the id of each vector, one a line, with "
                "--ids"
            )
        encoder = encoder_for(study, settings, index.d, str(path))
        check_metric(index, encoder, path)
        rows = rows_of_ids(study, ids, str(named or path))
        check_vectors(study, index, rows, encoder, path)
        np.save(folder / ROWS, rows)
        return {
            "where": str(Path(where).absolute()),
            "file": str(path),
            "fingerprint": fingerprint(path),
            "documents": index.ntotal,
            "matched": int((rows >= 0).sum()),
            "lexical": False,
            "index_type": type(index).__name__,
            "encoder": settings.encoder,
            "model_hash": encoder.model_hash,
        }

    def open(self, study: Study, name: str, manifest: Mapping[str, Any], device: str | None) -> FaissFile:
        return FaissFile(study, name, manifest, device)
