"""Helpers for tests of training: questions with passages from `tests.studies`, a tiny initial model, quick settings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.training.adapter_map import TrainingQuestions
from blindspot.backend.training.checkpoints import TrainingFolders
from blindspot.backend.training.dual_encoder import train
from blindspot.backend.training.examples import Example
from blindspot.backend.training.training_settings import DualEncoderSettings
from tests.studies import births, people, tiny_bert

QUICK = {
    "batch": 8,
    "steps": 6,
    "evaluate_every": 2,
    "held_out": 8,
    "pool": 50,
    "learning_rate": 1e-3,
    "question_tokens": 24,
    "passage_tokens": 48,
}


def examples(count: int = 60, negatives: int = 3) -> list[Example]:
    """A question for each person; its hard negatives are other passages, some of which are other questions'
    positives.
    """
    passages = people(count)
    by_id = {passage.id: passage for passage in passages}
    return [
        Example(
            question.id,
            question.text,
            tuple(by_id[id] for id in question.gold),
            tuple(passages[(7 * i + j) % count] for j in range(1, negatives + 1)),
            question.relation,
        )
        for i, question in enumerate(births(passages))
    ]


class Stopped(Exception):
    """What a training is broken off with."""


def stop_at(step: int):
    """A progress that breaks a training off at a step."""

    def progress(done, total, doing):
        if done == step:
            raise Stopped

    return progress


def start(folder: Path, dropout: float = 0.1) -> EncoderSettings:
    tiny_bert(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(config | {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout})
    )
    return EncoderSettings(model=str(folder), pooling="cls", max_tokens=64)


def quick(begin: EncoderSettings, target: Path, data=None, progress=None, restart=False, dev=None, **settings):
    """A short training on the CPU; its working folder is next to the target."""
    return train(
        begin,
        examples() if data is None else data,
        TrainingFolders(target, target.with_name(f"{target.name}~working"), "cpu", restart, progress=progress),
        DualEncoderSettings(**{**QUICK, **settings}),
        dev=dev,
    )


def weights(folder: Path) -> dict[str, bytes]:
    """The bytes of every weights file."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.safetensors"))}


def rotated(questions=400, passages=2000, dimension=24, seed=0):
    """Unit passage vectors in 16 bits, as in an index, and questions that are near their passage after an unknown
    rotation.
    """
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(passages, dimension))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rotation = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]
    positives = rng.choice(passages, questions, replace=False)
    asked = vectors[positives] @ rotation + 0.02 * rng.normal(size=(questions, dimension))
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    negatives = rng.integers(passages, size=(questions, 6))
    return TrainingQuestions(asked.astype(np.float32), positives[:, None], negatives), vectors.astype(np.float16)
