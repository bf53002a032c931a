"""Cache the judge features of a run's top-ranked hits, by question.

When a judge is trained repeatedly on the same lists, only the features of new lists are computed.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from blindspot.backend.core.manifest import read_json, text_sha256, write_json
from blindspot.backend.core.runs import Run
from blindspot.backend.core.study import Study
from blindspot.backend.judges.feature_judge import features_of
from blindspot.backend.judges.features import NAMES, WordWeights
from blindspot.backend.judges.lists import Lists, lists_of
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import Dense
from blindspot.db.errors import BlindspotError
from blindspot.db.records import Question

FOLDER = "cache"


def cached_features(
    study: Study,
    run: Run,
    questions: Sequence[Question],
    depth: int,
    encoder: str | None,
    progress: Progress | None = None,
) -> tuple[Lists, np.ndarray]:
    """Return the lists of some questions of a run and their features, (q, k, f) float32. Missing features are computed
    and stored.

    Args:
        encoder: whose dense index gives the features of meaning; None goes without them.

    Raises Missing if the encoder has no index.
    """
    lists = lists_of(run, questions, depth)
    dense = None if encoder is None else Dense(study, encoder)
    path = _features_path(study, run, dense, lists.rows.shape[1])
    stored = _read_features(path, lists.rows.shape[1])
    absent = [place for place, question in enumerate(questions) if question.id not in stored]
    if absent:
        new = Lists([questions[i] for i in absent], lists.rows[absent], lists.scores[absent])
        computed = features_of(study, new, word_weights(study), dense, progress)
        stored |= {question.id: row for question, row in zip(new.questions, computed, strict=True)}
        _write_features(path, stored)
    shape = (len(questions), lists.rows.shape[1], len(NAMES))
    return lists, np.stack([stored[question.id] for question in questions]) if questions else np.empty(
        shape, np.float32
    )


def word_weights(study: Study) -> WordWeights:
    """Return the word weights of the study's passages, which are counted once and then stored."""
    path = study.path(FOLDER, "words.json")
    try:
        stored = read_json(path) if path.is_file() else {}
    except BlindspotError:
        stored = {}  # a damaged cache is replaced
    if isinstance(stored, dict) and stored.get("corpus") == study.corpus.digest:
        return WordWeights(stored["frequencies"], stored["passages"])
    weights = WordWeights.of_study(study)
    path.parent.mkdir(exist_ok=True)
    about = {"corpus": study.corpus.digest, "passages": weights.passages, "frequencies": weights.frequencies}
    write_json(path, about)
    return weights


def _features_path(study: Study, run: Run, dense: Dense | None, depth: int) -> Path:
    """Return the file with a run's features. Its name contains a hash of everything that the features depend on."""
    index = [] if dense is None else [dense.name, dense.manifest["model_hash"], dense.manifest.get("made", "")]
    about = [
        study.corpus.digest,
        run.manifest.get("made", ""),
        run.manifest["question_set"],
        *index,
        *NAMES,
        str(depth),
    ]
    return study.path(FOLDER, f"features-{run.name}-{text_sha256(*about)[:12]}.npz")


def _read_features(path: Path, depth: int) -> dict[str, np.ndarray]:
    """Read the stored features, question id to (k, f) float32; {} if the file is absent or damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            ids, features = json.loads(file["questions"].item()), file["features"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return {}
    if features.shape != (len(ids), depth, len(NAMES)):
        return {}
    return dict(zip(ids, features, strict=True))


def _write_features(path: Path, features: dict[str, np.ndarray]) -> None:
    path.parent.mkdir(exist_ok=True)
    beside = path.with_name(f".{os.getpid()}-{path.name}")
    with open(beside, "wb") as file:
        np.savez(file, questions=np.array(json.dumps(list(features))), features=np.stack(list(features.values())))
    os.replace(beside, path)
