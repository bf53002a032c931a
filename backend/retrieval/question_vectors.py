"""A cache of question vectors: the same model does not encode a question twice.

On a laptop, encoding questions takes longer than searching 100,000 passages, and judges, adapters and runs need the
same vectors.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from blindspot.backend.progress import Progress
from blindspot.db.connection import PerThread, writing

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study
    from blindspot.backend.retrieval.dense import Dense

FILE = "question_vectors.db"
QUESTIONS_PER_STEP = 256  # questions encoded and stored at once; an interruption loses at most one such block

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS question_vector (
        model TEXT NOT NULL, question TEXT NOT NULL, vector BLOB NOT NULL,
        PRIMARY KEY (model, question)) STRICT, WITHOUT ROWID;
"""


def question_vectors(
    study: Study, dense: Dense, questions: Sequence[str], progress: Progress | None = None
) -> np.ndarray:
    """Return the vectors (q, d) float32 of questions. Vectors that are not in the cache are encoded and added.

    The cache is in the folder of the encoder's index; its key is the hash of the model's weights. A study that may only
    be read gets no cache.
    """
    if not os.access(study.path("indexes", dense.name), os.W_OK):
        return dense.encode(questions, progress)
    store = PerThread(study.path("indexes", dense.name, FILE))
    try:
        store.connection.executescript(_SCHEMA)
        keys = [
            hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest() for text in questions
        ]
        model = dense.manifest["model_hash"]
        stored = _stored_vectors(store, model, keys)
        absent = {key: text for key, text in zip(keys, questions, strict=True) if key not in stored}
        for begin in range(0, len(absent), QUESTIONS_PER_STEP):
            if progress is not None:
                progress(begin, len(absent), "encoding questions")
            block = list(absent.items())[begin : begin + QUESTIONS_PER_STEP]
            vectors = dense.encode([text for _, text in block])
            rows = [(model, key, vector.tobytes()) for (key, _), vector in zip(block, vectors, strict=True)]
            with writing(store.connection) as connection:
                connection.executemany("INSERT OR IGNORE INTO question_vector VALUES (?, ?, ?)", rows)
            stored.update((key, vector) for (key, _), vector in zip(block, vectors, strict=True))
        return (
            np.stack([stored[key] for key in keys]) if keys else np.zeros((0, dense.manifest["dimension"]), np.float32)
        )
    finally:
        store.close()


def _stored_vectors(store: PerThread, model: str, keys: Sequence[str]) -> dict[str, np.ndarray]:
    rows = store.connection.execute(
        "SELECT question, vector FROM question_vector WHERE model = ? AND question IN (SELECT value FROM json_each(?))",
        (model, json.dumps(sorted(set(keys)))),
    )
    return {key: np.frombuffer(vector, np.float32) for key, vector in rows}
