"""Does cleaning pay a dense retriever? The registered experiment of docs/experiments.md, an arm and a seed at a time.

    python -m benchmarks.cleaning --study DIR --out FOLDER [--towers both] [--device cuda] [--smoke] [--table]

DIR is a study of the real data as for `benchmarks.judges`, with the runs bm25-train, minilm-train, bm25-dev and minilm-dev
and the index of minilm. Each arm and seed leaves FOLDER/ARM-SEED.json with its outcome of every dev question; a finished
one is not run again, and an unfinished training resumes. --table prints what is there, once all arms of a seed are.
--smoke trains two steps and measures held-out training questions, to see that everything runs.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import percent
from blindspot.backend.core.gold import gold_matrix
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import units_of
from blindspot.backend.judges.feature_judge import trainable_questions
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.encoder import Encoder, load_encoder
from blindspot.backend.retrieval.search import ExactSearch
from blindspot.backend.text.answers import match_run
from blindspot.backend.training.checkpoints import TrainingFolders
from blindspot.backend.training.dual_encoder import FIGURE, initial_encoder_settings, train
from blindspot.backend.training.examples import Example
from blindspot.backend.training.stored_vectors import StoredVectors
from blindspot.backend.training.training_log import read_lines
from blindspot.backend.training.training_settings import DualEncoderSettings

ARMS = ("none", "answer-dropped", "gold-dropped", "gold-relabelled", "random-dropped")
SEEDS = (1, 2, 3, 4, 5)
RANKS = 4  # of BM25 and of MiniLM: where false negatives are densest
NEGATIVES = 2  # a question, drawn once
POOL = 20_000  # passages that are searched after both towers were trained; the question tower searches the whole index
KS = (1, 20)
START = "minilm"
SETTINGS: dict[str, dict[str, Any]] = {
    "question": {
        "towers": "two", "only": "question", "batch": 32, "hard_negatives": NEGATIVES, "in_batch": True,
        "passage_tokens": 256, "steps": 600, "evaluate_every": 60, "learning_rate": 5e-5, "precision": "float32",
    },
    "both": {
        "towers": "shared", "batch": 16, "hard_negatives": NEGATIVES, "in_batch": True,
        "passage_tokens": 128, "steps": 600, "evaluate_every": 60,
    },
}  # fmt: skip


def examples(study: Study, arm: str) -> list[Example]:
    """The training examples of an arm. One gold passage of each question is its label; the drawn negatives are the same
    for all arms before cleaning."""
    runs = [study.run("bm25-train"), study.run("minilm-train")]
    questions = [
        q
        for q in study.questions.with_ids(trainable_questions(study, runs[0]))
        if q.gold and runs[1].row(q.id) is not None
    ]
    rows = np.concatenate(
        [np.asarray(run.hits.ordinals)[[run.row(q.id) for q in questions], :RANKS] for run in runs], axis=1
    )
    gold, _ = gold_matrix(study.corpus, rows, questions)
    answers = match_run(study.corpus, questions, rows)
    label = study.corpus.ordinals({q.gold[0] for q in questions})
    rng = np.random.default_rng(0)
    drawn = []
    for i, question in enumerate(questions):
        _, first = np.unique(rows[i], return_index=True)
        free = [j for j in sorted(first.tolist()) if rows[i, j] >= 0 and rows[i, j] != label.get(question.gold[0], -2)]
        drawn.append([free[j] for j in rng.permutation(len(free))[:NEGATIVES]])
    false = [(i, j) for i, places in enumerate(drawn) for j in places if gold[i, j]]
    pairs = [(i, j) for i, places in enumerate(drawn) for j in places]
    dropped: set[tuple[int, int]] = set()
    if arm == "answer-dropped":
        dropped = {(i, j) for i, j in pairs if answers[i, j]}
    elif arm in ("gold-dropped", "gold-relabelled"):
        dropped = set(false)
    elif arm == "random-dropped":
        dropped = {pairs[at] for at in np.random.default_rng(1).choice(len(pairs), len(false), replace=False)}
    relabelled = set(false) if arm == "gold-relabelled" else set()
    print(
        f"{arm}: {len(questions):,} questions, {len(pairs):,} negatives, {len(false):,} false, {len(dropped):,} dropped"
    )
    built = []
    for i, question in enumerate(questions):
        own = label.get(question.gold[0])
        if own is None:
            continue
        more = [int(rows[i, j]) for j in drawn[i] if (i, j) in relabelled]
        left = [int(rows[i, j]) for j in drawn[i] if (i, j) not in dropped]
        passages = study.corpus.passages([own, *more, *left])
        positives, negatives = passages[: 1 + len(more)], passages[1 + len(more) :]
        built.append(Example(question.id, question.text, tuple(positives), tuple(negatives), question.relation))
    return built


def pool(study: Study) -> np.ndarray:
    """Rows of some 20,000 passages: the first 20 of both dev runs, all gold of dev, and random ones. Fixed by a seed."""
    runs = [study.run("bm25-dev"), study.run("minilm-dev")]
    found = {int(row) for run in runs for row in np.asarray(run.hits.ordinals)[:, :20].ravel() if row >= 0}
    questions = study.questions.with_ids(runs[0].question_ids)
    found |= set(study.corpus.ordinals({id for q in questions for id in q.gold}).values())
    others = np.setdiff1d(np.arange(len(study.corpus)), list(found))
    more = np.random.default_rng(0).permutation(others)[: max(0, POOL - len(found))]
    return np.sort(np.concatenate([np.array(sorted(found), np.int64), more]))


def run(study: Study, out: Path, towers: str, arm: str, seed: int, device: str, smoke: bool) -> None:
    """Train and measure one arm and seed, unless its outcome is there."""
    result = out / f"{arm}-{seed}.json"
    if result.is_file():
        return
    settings = DualEncoderSettings(
        **{**SETTINGS[towers], "seed": seed, **({"steps": 2, "held_out": 0} if smoke else {})}
    )
    start, model = initial_encoder_settings(study, START), out / f"{arm}-{seed}.model"
    if not (model / "training.json").is_file():
        stored = StoredVectors.open(study, START, settings.passage_tokens) if towers == "question" else None
        folders = TrainingFolders(model, out / f"{arm}-{seed}.training", device, about={"arm": arm})
        train(start, examples(study, arm), folders, settings, stored_vectors=stored)
    trained = replace(start, model=str(model), question_model=None, passage_model=None, pooling="auto",
                      similarity="auto", max_tokens=settings.passage_tokens)  # fmt: skip
    dev = study.run("bm25-train" if smoke else "bm25-dev")
    questions = study.questions.with_ids(dev.question_ids[:20] if smoke else dev.question_ids)
    rows = hits_of(study, load_encoder(trained, device), [q.text for q in questions], towers, smoke)
    right = match_run(study.corpus, questions, rows)
    # On held-out training questions: does the training still improve at its end?
    curve = [{"step": line["step"], FIGURE: line[FIGURE]} for line in read_lines(model) if FIGURE in line]
    outcome = {str(k): right[:, :k].any(axis=1).astype(int).tolist() for k in KS}
    about = {"arm": arm, "seed": seed, "device": device, "smoke": smoke, "settings": SETTINGS[towers],
             "questions": [q.id for q in questions]}  # fmt: skip
    result.write_text(json.dumps({**about, "curve": curve, "found": outcome}), encoding="utf-8")
    shutil.rmtree(model)


def hits_of(study: Study, encoder: Encoder, questions: list[str], towers: str, smoke: bool) -> np.ndarray:
    """Rows (q, 20) int32 of the nearest passages: of the whole index, or of the pool that a new passage tower encodes."""
    vectors = encoder.encode_questions(questions)
    if towers == "question":
        return Dense(study, START).search_vectors(vectors, max(KS)).ordinals
    rows = pool(study)[:300] if smoke else pool(study)
    encoded = encoder.encode_passages(study.corpus.passages(rows.tolist())).astype(np.float16)
    return rows[ExactSearch(encoded, "dot", None).search(vectors, max(KS), None).ordinals].astype(np.int32)


def table(study: Study, out: Path) -> None:
    """Success of each arm, and its difference from "none" and from the random control, over the seeds that all have."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in out.glob("*.json")}
    seeds = [seed for seed in SEEDS if all(f"{arm}-{seed}" in found for arm in ARMS)]
    if not seeds:
        print(f"{len(found)} of {len(ARMS) * len(SEEDS)} are done; no seed has all arms yet")
        return
    ids = found[f"{ARMS[0]}-{seeds[0]}"]["questions"]
    questions = study.questions.with_ids(ids)
    units, start = units_of(questions, study.settings.unit).codes, study.run(f"{START}-dev")
    before = match_run(
        study.corpus, questions, np.asarray(start.hits.ordinals)[[start.row(id) for id in ids], : max(KS)]
    )
    print(f"seeds {', '.join(map(str, seeds))}; n = {len(ids):,}\n")
    print("| arm | Success@ | value | less none | less random-dropped |\n|---|---|---|---|---|")
    for k in KS:
        print(f"| before training | {k} | {100 * before[:, :k].any(axis=1).mean():.1f} | | |")
        values = {arm: np.array([found[f"{arm}-{seed}"]["found"][str(k)] for seed in seeds], float) for arm in ARMS}
        for arm in ARMS:
            cells = [percent(values[arm], units, False)]
            cells += [
                percent(values[arm] - values[other], units, True) if arm != other else ""
                for other in ("none", "random-dropped")
            ]
            print(f"| {arm} | {k} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--towers", choices=SETTINGS, default="question", help="which towers are trained")
    parser.add_argument(
        "--arms", nargs="+", choices=ARMS, default=ARMS, help="only these: several processes share one FOLDER"
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda; take one for all arms of a seed")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    study = Study.open(arguments.study)
    arguments.out.mkdir(parents=True, exist_ok=True)
    if not arguments.table:
        for seed in SEEDS[: 1 if arguments.smoke else None]:  # whole seeds first: an interrupted run compares all arms
            for arm in arguments.arms:
                run(study, arguments.out, arguments.towers, arm, seed, arguments.device, arguments.smoke)
    table(study, arguments.out)


if __name__ == "__main__":
    main()
