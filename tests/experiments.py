"""A study small enough to run every experiment of the papers in seconds."""

import dataclasses
from pathlib import Path

from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval import dense
from tests.indexes import bm25_of
from tests.studies import births, make_study, people, tiny_bert


def experiment_study(folder: Path) -> Study:
    """60 passages; 20 training, 12 dev and 8 unlabelled questions of two relations and two sets; BM25; two encoders with random weights."""
    passages = people()
    asked = [
        dataclasses.replace(
            question, relation="P20" if number % 2 else "P19", dataset="births" if number % 4 < 2 else "deaths"
        )
        for number, question in enumerate(births(passages, "train"))
    ]
    dev = [
        dataclasses.replace(question, id=f"dev.{question.id}", split="dev", frequency=1 + 9 * (number % 3))
        for number, question in enumerate(asked[20:32])
    ]
    free = [
        dataclasses.replace(question, id=f"free.{question.id}", split="unlabelled", gold=()) for question in asked[32:]
    ]
    study = make_study(folder, passages, [*asked[:20], *dev, *free])
    bm25_of(study)
    for seed, name in enumerate(("tiny", "other")):
        tiny_bert(folder / "models" / name, seed)
        add_encoder(
            study.settings_path, name, {"model": str(folder / "models" / name), "pooling": "cls", "max_tokens": 64}
        )
    dense.build_index(study, "tiny", device="cpu")
    return study


TINY = {
    "start": "tiny",
    "seeds": [0],
    "ks": [5, 10],
    "depth": 10,
    "training": {
        "steps": 2,
        "batch": 4,
        "question_tokens": 16,
        "passage_tokens": 32,
        "held_out": 4,
        "pool": 20,
        "evaluate_every": 2,
    },
    "cross": {"steps": 2, "batch": 4, "tokens": 48, "held_out": 4, "evaluate_every": 2},
    "reader": {
        "steps": 2,
        "batch": 2,
        "tokens": 48,
        "passages": 2,
        "depth": 10,
        "held_out": 4,
        "read": 2,
        "evaluate_every": 2,
    },
}
"""A setting with which a training takes a second."""
