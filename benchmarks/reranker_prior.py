"""Learn the prior of the reranker on generated encyclopedias and write it as text: `backend/judges/prior.json`.

    python -m benchmarks.reranker_prior FOLDER [--passages 1000] [--write]

Each encyclopedia is searched with BM25; the truth of the generator says which passages answer. FOLDER keeps the
features of each seed, so an interrupted call resumes. Without --write the prior is only measured: leaving out each
encyclopedia in turn, Success@1 on it of BM25 and of the prior that learned from the others.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.backend.data import encyclopedia
from blindspot.backend.judges.feature_cache import word_weights
from blindspot.backend.judges.feature_model import DEEP_SHARE, FULL_RANKS, PRECISION, PRIOR, RANK, newton_steps
from blindspot.backend.judges.features import FEATURES, NAMES, feature_matrix

SEEDS = tuple(range(1, 11))
DEPTH = 100
OF_ONE_STUDY = ("score", "score_gap", "dense_score", "text_length", "title_length", "names", "numbers")
"""Features whose scale depends on the study's retriever, encoder or texts: labels alone teach their weights."""


def encyclopedia_features(folder: Path, passages: int, seed: int) -> dict[str, np.ndarray]:
    """Return features (q, k, f) float32, truth (q, k) bool and splits (q,) of one encyclopedia's lists; computed once."""
    path = folder / f"prior-{passages}-{seed}.npz"
    if not path.is_file():
        with tempfile.TemporaryDirectory() as place:
            arrays = _computed(Path(place), passages, seed)
        np.savez(path, **arrays)  # no array is called allow_pickle
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _computed(place: Path, passages: int, seed: int) -> dict[str, np.ndarray]:
    from blindspot.backend.data.importing.importer import import_passages, import_questions
    from blindspot.backend.retrieval import bm25
    from blindspot.backend.retrieval.bm25 import BM25
    from blindspot.backend.retrieval.dense import Dense
    from blindspot.backend.retrieval.dense import build_index as build_dense

    edition = encyclopedia.PLAIN if seed % 2 else encyclopedia.BLIND_SPOT
    encyclopedia.write_encyclopedia(place / "source", passages, seed, edition=edition)
    study = Study.create(place / "study")
    import_passages(study, str(place / "source" / "passages.tsv"))
    import_questions(study, str(place / "source" / "questions.jsonl"))
    bm25.build_index(study)
    build_dense(study, "minilm")
    lines = (place / "source" / "truth.jsonl").read_text(encoding="utf-8").splitlines()
    truth = {each["question"]: set(each["passages"]) for each in map(json.loads, lines)}
    questions = study.questions.all()
    texts = [question.text for question in questions]
    hits, dense = BM25(study).search(texts, DEPTH), Dense(study, "minilm")
    similarity = dense.score_vectors(dense.encode(texts), hits.ordinals)
    features = feature_matrix(study, texts, hits.ordinals, hits.scores, word_weights(study), similarity)
    ids = np.array([passage.id for passage in study.corpus.passages(range(len(study.corpus)))])
    right = np.array(
        [
            [row >= 0 and ids[row] in truth[q.id] for row in rows]
            for q, rows in zip(questions, hits.ordinals, strict=True)
        ]
    )
    return {
        "features": features,
        "truth": right,
        "splits": np.array([question.split for question in questions]),
        "relations": np.array([question.relation for question in questions]),
    }


def learned(arrays: list[dict[str, np.ndarray]], dense: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the features that the prior uses, as columns, and their weights over standardised features."""
    features = np.concatenate([each["features"].reshape(-1, len(NAMES)) for each in arrays])
    truth = np.concatenate([each["truth"].ravel() for each in arrays])
    present = ~np.isnan(features[:, RANK])
    features, truth = features[present], truth[present]
    columns = np.array(
        [
            column
            for column, feature in enumerate(FEATURES)
            if feature.name not in OF_ONE_STUDY and (dense or feature.family != "dense")
        ]
    )
    deep = (features[:, RANK] > FULL_RANKS) & ~truth
    kept = ~deep | (np.random.default_rng(0).integers(DEEP_SHARE, size=len(truth)) == 0)
    x = standardised(features[:, columns])[kept]
    weights = np.where(deep, float(DEEP_SHARE), 1.0)[kept]
    start = np.zeros(len(columns) + 1)
    precision = np.append(np.full(len(columns), PRECISION), 1e-3)
    with_one = np.column_stack([x, np.ones(len(x))])
    return columns, newton_steps(with_one, truth[kept].astype(np.float64), weights, start, precision)[:-1]


def standardised(features: np.ndarray) -> np.ndarray:
    filled = np.where(np.isnan(features), np.nanmedian(features, axis=0), features)
    return (filled - filled.mean(axis=0)) / np.maximum(filled.std(axis=0), 1e-9)


def success(arrays: dict[str, np.ndarray], columns: np.ndarray, weights: np.ndarray) -> float:
    """Success@1 in % of an encyclopedia's lists in the order of the prior."""
    features, truth = arrays["features"], arrays["truth"]
    scores = (standardised(features.reshape(-1, len(NAMES))[:, columns]) @ weights).reshape(truth.shape)
    first = np.argmax(np.where(np.isnan(features[:, :, RANK]), -np.inf, scores), axis=1)
    return 100 * float(truth[np.arange(len(truth)), first].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--passages", type=int, default=1000)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    arrays = [encyclopedia_features(arguments.folder, arguments.passages, seed) for seed in SEEDS]
    print("| seed | questions | BM25 @1 | prior of the others @1 | without a dense index @1 |\n|---|---|---|---|---|")
    for number, (seed, held_out) in enumerate(zip(SEEDS, arrays, strict=True)):
        others = arrays[:number] + arrays[number + 1 :]
        found = [success(held_out, *learned(others, dense)) for dense in (True, False)]
        first = 100 * held_out["truth"][:, 0].mean()
        print(f"| {seed} | {len(held_out['truth'])} | {first:.1f} | {found[0]:.1f} | {found[1]:.1f} |", flush=True)
    if arguments.write:
        tables = {}
        for name, dense in (("with_dense", True), ("without_dense", False)):
            columns, weights = learned(arrays, dense)
            tables[name] = {NAMES[column]: round(float(w), 4) for column, w in zip(columns, weights, strict=True)}
        about = f"python -m benchmarks.reranker_prior FOLDER --passages {arguments.passages} --write"
        PRIOR.write_text(json.dumps({"made_by": about, "weights": tables}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
