"""The papers' experiments with trainings, on a part of the real data that fits two processor cores.

    python -m benchmarks.papers FOLDER                 # all of them, some hours
    python -m benchmarks.papers FOLDER finetune multi  # some of them

The part: 5,000 Wikipedia passages and the questions of EntityQuestions that they answer, with one gold passage each.
The first two layers of MiniLM are trained for 40 batches. All tunable settings are in this file and were committed
before any training. Finished parts are not repeated, and an interrupted run resumes with the same command.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.encyclopedia_study import moved
from benchmarks.machine import machine
from blindspot.backend.core.study import Study
from blindspot.backend.experiments.running import run_experiment
from blindspot.backend.experiments.tables import as_lines, result_table
from blindspot.db.corpus import CorpusWriter
from blindspot.db.records import Question
from tests.conftest import REAL_DATA

PASSAGES = 5000
RELATIONS = (
    "P26",
    "P170",
)  # relations of a separate set: those whose training questions share the fewest words with dev
OTHERS, UNLABELLED = (
    500,
    400,
)  # training questions of the other relations, and questions of these relations without answers
MAIN, REST, ASKED = "entityquestions", "others", "asked"

TRAINING: dict[str, Any] = {
    "layers": 2,
    "question_tokens": 24,
    "passage_tokens": 64,
    "batch": 16,
    "hard_negatives": 1,
    "steps": 40,
    "learning_rate": 1e-4,
    "held_out": 0,
    "evaluate_every": 40,
    "precision": "bfloat16",
}
ONE_TOWER = {name: value for name, value in TRAINING.items() if name not in ("layers", "passage_tokens")}
CROSS: dict[str, Any] = {
    "tokens": 160,
    "negatives": 1,
    "batch": 8,
    "steps": 60,
    "learning_rate": 1e-4,
    "held_out": 40,
    "pairs": 200,
    "evaluate_every": 60,
    "precision": "bfloat16",
}
READER: dict[str, Any] = {
    "tokens": 160,
    "passages": 4,
    "batch": 4,
    "steps": 60,
    "learning_rate": 1e-4,
    "depth": 20,
    "held_out": 20,
    "read": 5,
    "evaluate_every": 60,
    "precision": "bfloat16",
}
COMMON: dict[str, Any] = {"ks": [1, 5, 20], "seeds": [0, 1, 2], "training": TRAINING, "depth": 20}
ONE_SET: dict[str, Any] = {**COMMON, "train": [f"{MAIN}/train"], "on": f"{MAIN}/dev", "ks": [5, 20]}
STEPS: dict[str, Any] = {**COMMON, "ks": [5, 20], "limit": 400, "depth": 10, "batches": [4], "cross": CROSS}

ASKED_FOR: Mapping[str, Mapping[str, Any]] = {
    "finetune": {**ONE_SET, "relations": list(RELATIONS)},
    "strategies": STEPS,
    "end-to-end": {**COMMON, "ks": [1, 5], "limit": 400, "measured": 300, "reader": READER},
    "denoised-by-rank": STEPS,
    "augmentation-size": STEPS,
    "distant-supervision": COMMON,
    "sample-efficiency": {**COMMON, "sizes": [100, 300, 900]},
    "similarity": COMMON,
    "negatives": {**COMMON, "batches": [8, 16, 32]},
    "random-negatives": {**COMMON, "batches": [8, 16, 32]},
    "cross-dataset": {**COMMON, "sets": [MAIN, REST]},
    "multi": {**COMMON, "sets": [MAIN, REST]},
    "interference": {**ONE_SET, "relations": [RELATIONS[0]], "sets": [REST]},
    "embedding-spread": {**ONE_SET, "relations": [RELATIONS[0]]},
    "specialised": {**ONE_SET, "training": ONE_TOWER},
}  # fmt: skip
"""By experiment, the fields of `blindspot.backend.experiments.plan.Setting`."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", choices=(*ASKED_FOR, []), help="default: all in this file")
    options = parser.parse_args()
    print(machine())
    study = part_of_the_real_data(options.folder)
    for name in options.names or ASKED_FOR:
        began = time.monotonic()
        result = run_experiment(study, name, dict(ASKED_FOR[name]))
        print(f"\n{name}: {time.monotonic() - began:,.0f} s", flush=True)
        Console(width=160).print(result_table(result).as_rich())
        print("\n".join(as_lines(result)), flush=True)


def part_of_the_real_data(folder: Path) -> Study:
    """Return the study; create it if it does not exist."""
    from blindspot.backend.data.importing.importer import import_passages, import_questions
    from blindspot.backend.retrieval.bm25 import BM25, build_index

    if (folder / "part").is_dir():
        return Study.open(folder / "part")
    for begun in ("whole", "unfinished"):
        shutil.rmtree(folder / begun, ignore_errors=True)
    whole = Study.create(folder / "whole", "EntityQuestions")
    import_passages(whole, str(REAL_DATA / "passages_100k.tsv.xz"))
    import_questions(whole, str(REAL_DATA / "questions.jsonl.xz"), gold="one")
    build_index(whole)
    questions = list(drawn(whole.questions.all(split="train"), whole.questions.all(split="dev")))
    rows = set(whole.corpus.ordinals({passage for question in questions for passage in question.gold}).values())
    hits = BM25(whole).search([question.text for question in questions if question.split == "dev"], 20).ordinals
    for found in hits.T.ravel().tolist():  # all first passages, then all second passages
        if len(rows) == PASSAGES:
            break
        rows |= {found} - {-1}
    study = Study.create(folder / "unfinished", "A part of EntityQuestions")
    with CorpusWriter(study.folder / "corpus.db") as writer:
        writer.add(whole.corpus.passages(sorted(rows)))
        writer.finish("a part of the real passages", whole.corpus.digest)
    study.questions.add(
        [
            dataclasses.replace(question, gold=(), answers=(), subject=None)
            if question.split == "unlabelled"
            else question
            for question in questions
        ]
    )
    build_index(study)
    return moved(study, folder / "part")


def drawn(train: list[Question], dev: list[Question]) -> Iterator[Question]:
    """Draw two question sets and questions without labels: the relations of a separate set, and some of the rest."""
    rest = [question for question in train if question.relation not in RELATIONS]
    random.Random(0).shuffle(rest)
    for question in [*train, *dev]:
        if question.relation in RELATIONS:
            yield dataclasses.replace(question, dataset=MAIN)
        elif question.split == "dev":
            yield dataclasses.replace(question, dataset=REST)
    for place, question in enumerate(rest[: OTHERS + UNLABELLED]):
        yield (
            dataclasses.replace(question, dataset=REST)
            if place < OTHERS
            else dataclasses.replace(question, dataset=ASKED, split="unlabelled")
        )


if __name__ == "__main__":
    main()
