"""Training question encoder and reader together over a fixed index (DPR, appendix D)."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from blindspot.backend.core.manifest import read_json
from blindspot.backend.core.runs import write_run
from blindspot.backend.core.settings import EncoderSettings, add_encoder
from blindspot.backend.reader.joint import question_vectors, train_joint
from blindspot.backend.reader.joint_trainer import retriever_loss
from blindspot.backend.reader.reading import read
from blindspot.backend.retrieval import dense
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.training.training_log import read_log
from blindspot.db.errors import BadInput, Missing
from tests.readers import QUICK, reading_study
from tests.studies import tiny_bert
from tests.training import weights

JOINT = QUICK | {"retrieved": 10, "read": 5, "steps": 4}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    study = reading_study(tmp_path_factory.mktemp("joint") / "study")
    tiny_bert(study.folder / "models" / "tiny")
    add_encoder(
        study.settings_path,
        "tiny",
        {"model": str(study.folder / "models" / "tiny"), "pooling": "cls", "max_tokens": 64},
    )
    dense.build_index(study, "tiny", device="cpu")
    return study


def joint(study, name, progress=None, **settings):
    return train_joint(
        study, name, "tiny", str(study.folder / "models" / "tiny"), JOINT | settings, "cpu", progress=progress
    )


def test_the_retrievers_loss_by_hand():
    """-log of the share of passages with an answer; a question without any is left out."""
    scores = torch.log(torch.tensor([[1.0, 2.0, 5.0], [1.0, 1.0, 2.0], [3.0, 3.0, 3.0]]))
    holds = torch.tensor([[True, True, False], [False, False, True], [False, False, False]])
    assert retriever_loss(scores, holds).item() == pytest.approx((-math.log(3 / 8) - math.log(2 / 4)) / 2)
    assert retriever_loss(scores, torch.zeros(3, 3, dtype=torch.bool)).item() == 0.0


def test_both_learn_the_index_stays_and_the_run_is_read(study):
    vectors = np.array(dense.Dense(study, "tiny").vectors)
    made = joint(study, "both", steps=30, learning_rate=2e-3, batch=8, held_out=0)
    about, losses = (
        read_json(Path(made.folder) / "training.json"),
        [line["loss"] for line in read_log(study, "both") if "loss" in line],
    )
    assert np.mean(losses[-3:]) < np.mean(losses[:3]) and (
        about["joint"],
        about["encoder"],
        about["settings"]["retrieved"],
    ) == (True, "tiny", 10)
    assert np.array_equal(vectors, dense.Dense(study, "tiny").vectors)
    before = load_encoder(EncoderSettings(model=str(study.folder / "models" / "tiny"), pooling="cls"), "cpu")
    from sentence_transformers import SentenceTransformer

    asked = [question.text for question in study.questions.all(split="dev")]
    after = SentenceTransformer(str(Path(made.folder) / "question_encoder"), device="cpu").encode(asked)
    assert after.shape == (len(asked), 32) and not np.allclose(after, before.encode_questions(asked), atol=1e-3)
    index, own = question_vectors(study, "both", asked, "cpu")
    assert np.allclose(own, after, atol=1e-5)
    write_run(
        study, "joint-dev", [each.id for each in study.questions.all(split="dev")], index.search_vectors(own, 5), {}
    )
    assert read(study, "joint-dev", "both", ks=[1, 5], device="cpu").manifest["reader_hash"] == about["model_hash"]


def test_broken_off_it_ends_with_the_same_bytes(study):
    def stop(done, total, doing):
        if done == 3:
            raise KeyboardInterrupt

    whole = joint(study, "whole")
    with pytest.raises(KeyboardInterrupt):
        joint(study, "again", stop)
    again = joint(study, "again")
    assert weights(Path(again.folder)) == weights(Path(whole.folder)) and len(weights(Path(again.folder))) == 2
    assert [line["exact_match"] for line in read_log(study, "again") if "exact_match" in line]


def test_what_cannot_be_trained_is_one_line(study):
    with pytest.raises(Missing, match="no dense index for encoder 'nothing'"):
        train_joint(study, "x", "nothing")
    with pytest.raises(Missing, match="'tiny' is not a joint training"):
        question_vectors(study, "tiny", [])
    with pytest.raises(BadInput, match="passages must be a whole number of at least 2, not 1"):
        joint(study, "x", passages=1)
