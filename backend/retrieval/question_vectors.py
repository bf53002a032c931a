"""A cache of question vectors, so that no model encodes the same question twice.

On a laptop, encoding questions takes longer than searching 100,000 passages, and judges, adapters and runs need the
same vectors. The cache key consists of the question's text and everything that influences its vector: the current
contents of the model's files, the settings, the libraries and the index.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from blindspot.backend.core.manifest import file_sha256, text_sha256
from blindspot.backend.core.model_files import SAFE_PATTERNS, model_files, open_model
from blindspot.backend.core.settings import MODELS, VECTOR_SETTINGS, EncoderSettings
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import Dense
from blindspot.db.connection import DatabaseUnavailable, PerThread, readable_sqlite_errors, write_transaction

FILE = "question_vectors.db"
LIBRARIES = ("sentence-transformers", "transformers", "tokenizers", "torch")
QUESTIONS_PER_STEP = 2048  # questions encoded and stored at once; an interruption loses at most one such block

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS question_vector (
        model TEXT NOT NULL, question TEXT NOT NULL, vector BLOB NOT NULL,
        PRIMARY KEY (model, question)) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS encoding (
        model TEXT PRIMARY KEY, questions INTEGER NOT NULL, seconds REAL NOT NULL) STRICT, WITHOUT ROWID;
"""

_ADD_TIME = """
    INSERT INTO encoding VALUES (?, ?, ?) ON CONFLICT (model) DO UPDATE
    SET questions = questions + excluded.questions, seconds = seconds + excluded.seconds
"""


def question_vectors(
    study: Study, dense: Dense, questions: Sequence[str], progress: Progress | None = None
) -> np.ndarray:
    """Return the vectors (q, d) float32 of questions. Vectors that are not in the cache are encoded and added.

    The cache is in the folder of the encoder's index. A read-only study gets no cache, and an unreadable cache is not
    used.
    """
    path = study.path("indexes", dense.name, FILE)
    if not questions or not os.access(path.parent, os.W_OK):
        return dense.encode(questions, progress)
    model, store = _cache_key(dense), PerThread(path)
    keys = [hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest() for text in questions]
    try:
        with readable_sqlite_errors(path):
            store.connection.executescript(_SCHEMA)
            stored = _stored_vectors(store, model, keys, dense.manifest["dimension"])
            kept = sum(key in stored for key in keys)
            dense.seconds_saved += kept * _seconds_per_question(store, model)
            absent = {key: text for key, text in zip(keys, questions, strict=True) if key not in stored}
            for begin in range(0, len(absent), QUESTIONS_PER_STEP):
                block = list(absent.items())[begin : begin + QUESTIONS_PER_STEP]
                began = time.monotonic()
                vectors = dense.encode([text for _, text in block], _offset_progress(progress, begin, len(absent)))
                rows = [(model, key, vector.tobytes()) for (key, _), vector in zip(block, vectors, strict=True)]
                with write_transaction(store.connection) as connection:
                    connection.executemany("INSERT OR REPLACE INTO question_vector VALUES (?, ?, ?)", rows)
                    connection.execute(_ADD_TIME, (model, len(block), time.monotonic() - began))
                stored.update((key, vector) for (key, _), vector in zip(block, vectors, strict=True))
    except DatabaseUnavailable:
        return dense.encode(questions, progress)
    finally:
        store.close()
    return np.stack([stored[key] for key in keys])


@runtime_checkable
class SearchesVectors(Protocol):
    """A dense retriever, or a retriever that contains one."""

    @property
    def dense(self) -> Dense: ...


@contextmanager
def cached_question_vectors(study: Study, retriever: object) -> Iterator[Dense | None]:
    """Make the dense retriever in `retriever` use the cache within the `with` block. Yields that dense retriever, or
    None if there is none.
    """
    while retriever is not None and not isinstance(retriever, SearchesVectors):
        retriever = getattr(retriever, "base", None)
    dense = None if retriever is None else retriever.dense
    if dense is not None:
        dense.kept_in = study
    try:
        yield dense
    finally:
        if dense is not None:
            dense.kept_in = None


def _cache_key(dense: Dense) -> str:
    """Return a hash of everything that influences the vectors. If changes of the model's files cannot be detected
    otherwise, the model is loaded to compute its hash.
    """
    now = _model_fingerprint(dense.encoder_settings) or json.dumps(dense.encoder.describe(), sort_keys=True)
    index = {key: dense.manifest.get(key) for key in ("model_hash", *VECTOR_SETTINGS)}
    return text_sha256(now, json.dumps(index, sort_keys=True))


def _model_fingerprint(settings: EncoderSettings) -> str | None:
    """Return a hash of the contents of the model's files, the settings and the libraries; None for a model that may read
    files outside its folder. Raises the errors of `open_model`.
    """
    given = asdict(settings)
    parts = [f"{name} {metadata.version(name)}" for name in LIBRARIES]
    for key in MODELS:
        if (path := given.pop(key)) is None:
            continue
        found = open_model(path)
        if found.trusted:
            return None  # its own code may read anything
        parts.append(key)
        for name, file in model_files(Path(found.path)).items():
            if file.name == "adapter_config.json":
                return None  # names a base model elsewhere
            if any(file.match(pattern) for pattern in SAFE_PATTERNS):
                parts += [name, file_sha256(file)]
    return text_sha256(*parts, json.dumps(given, sort_keys=True))


def _seconds_per_question(store: PerThread, model: str) -> float:
    """Return the average number of seconds that encoding a question took."""
    row = store.connection.execute("SELECT seconds / questions FROM encoding WHERE model = ?", (model,)).fetchone()
    return row[0] if row else 0.0


def _offset_progress(progress: Progress | None, first_row: int, total: int) -> Progress | None:
    return None if progress is None else lambda done, _, step: progress(first_row + done, total, step)


def _stored_vectors(store: PerThread, model: str, keys: Sequence[str], dimension: int) -> dict[str, np.ndarray]:
    rows = store.connection.execute(
        "SELECT question, vector FROM question_vector WHERE model = ? AND question IN (SELECT value FROM json_each(?))",
        (model, json.dumps(sorted(set(keys)))),
    )
    return {key: np.frombuffer(vector, np.float32) for key, vector in rows if len(vector) == 4 * dimension}
