"""Search with an encoder without storing an index: encode the passages, search, and delete the vectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from blindspot.backend.core.arrays import new_array
from blindspot.backend.core.manifest import write_json
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.retrieval.search import ExactSearch
from blindspot.backend.text.answers import match_run
from blindspot.db.records import Question

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

PER_STEP = 256
VECTORS = "vectors.npy"


def find(
    study: Study,
    settings: EncoderSettings,
    questions: Sequence[Question],
    k: int,
    folder: Path,
    device: str | None,
    progress: Progress,
) -> None:
    """Search exactly, and write the hits into `folder` in the layout of a run.

    The vectors are float16, as in an index.
    """
    encoder, total = load_encoder(settings, device), len(study.corpus)
    path = folder / VECTORS
    vectors = new_array(path, np.float16, (total, encoder.dimension))
    passages = study.corpus.scan(0, total)
    for row in range(0, total, PER_STEP):
        progress(row, total, "encoding passages")
        block = encoder.encode_passages(list(islice(passages, PER_STEP)))
        vectors[row : row + len(block)] = block
    queries = []
    for row in range(0, len(questions), PER_STEP):
        progress(row, len(questions), "encoding questions")
        queries.append(encoder.encode_questions([question.text for question in questions[row : row + PER_STEP]]))
    hits = ExactSearch(vectors, "l2" if encoder.similarity == "l2" else "dot", device).search(
        np.concatenate(queries), k, progress
    )
    write_json(folder / "questions.json", [question.id for question in questions])
    np.save(folder / "ordinals.npy", hits.ordinals)
    np.save(folder / "scores.npy", hits.scores)
    np.save(folder / "answers.dpr.npy", match_run(study.corpus, questions, hits.ordinals, progress=progress))
    path.unlink()
