"""Helpers for tests of the reader: a tiny network, questions with passages of a run, and a study to train and read
in."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from blindspot.backend.core.runs import write_run
from blindspot.backend.core.study import Study
from blindspot.db.records import Hits
from tests.studies import births, make_study, people, tiny_bert

QUICK = {"passages": 4, "batch": 4, "steps": 6, "evaluate_every": 2, "held_out": 4, "learning_rate": 1e-3, "tokens": 64}


def tiny_reader(folder: Path, seed: int = 0, width: int = 32):
    """A random `DPRReader` and its tokenizer, saved to `folder`; returns the network."""
    import torch
    import transformers

    bert = tiny_bert(folder, seed, width)
    shape = {
        key: value
        for key, value in bert.config.to_dict().items()
        if key in transformers.DPRConfig().to_dict()
        and key not in ("model_type", "architectures", "transformers_version", "dtype")
    }
    torch.manual_seed(seed)
    network = transformers.DPRReader(transformers.DPRConfig(**shape)).eval()
    for weight in network.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.3)  # logits that differ
    network.save_pretrained(folder)
    return network


def reading_study(folder: Path, count: int = 48, depth: int = 6) -> Study:
    """A study of births: training questions with a run `train`, others with a run `dev`; each question's own passage is
    at rank 1, 2 or 3.
    """
    passages = people(count)
    own = {passage.title: number for number, passage in enumerate(passages) if " born in " in passage.text}
    every = births(passages, "train")
    train, dev = every[: len(every) * 3 // 4], births(passages, "dev")[len(every) * 3 // 4 :]
    study = make_study(folder, passages, [*train, *dev])
    for name, questions in (("train", train), ("dev", dev)):
        ordinals = np.array(
            [_ranked(own[question.subject], number, count, depth) for number, question in enumerate(questions)],
            np.int32,
        )
        scores = np.tile(np.linspace(9, 4, depth, dtype=np.float32), (len(questions), 1))
        write_run(study, name, [question.id for question in questions], Hits(ordinals, scores), {"retriever": name})
    return study


def _ranked(own: int, number: int, count: int, depth: int) -> list[int]:
    """Return hits with the question's own passage at rank 1, 2 or 3."""
    others = [other for step in range(1, count) if (other := (own + 7 * step) % count) != own][: depth - 1]
    return [*others[: number % 3], own, *others[number % 3 :]]
