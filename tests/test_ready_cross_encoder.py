"""Ready cross-encoders that judge without any training."""

import shutil

import numpy as np
import pytest
import torch

from blindspot.backend.core.study import Study
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.training.ready_cross_encoder import add_cross_encoder
from blindspot.backend.training.scoring import CrossEncoderScorer, score_run
from blindspot.db.errors import Missing, Refused
from tests.encoder_models import ready
from tests.indexes import bm25_of
from tests.studies import births, make_study, people, tiny_bert

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    passages = people(90)
    made = make_study(tmp_path_factory.mktemp("ready") / "s", passages, births(passages, "train"))
    bm25_of(made)
    retrieve(made, "bm25", split="train", k=10)
    ready(made.folder / "outside")
    return made


@pytest.fixture
def copy(study, tmp_path):
    shutil.copytree(study.folder, tmp_path / "s")
    return Study.open(tmp_path / "s")


def test_a_ready_cross_encoder_judges_without_training(copy):
    """Its scores are the model's own; with a run it is calibrated on whole lists, at their share of positives."""
    from sentence_transformers import CrossEncoder

    folder = copy.folder / "outside"
    plain = add_cross_encoder(copy, "plain", str(folder), device="cpu")
    assert plain["calibration"] is None and plain["pairs"] == 0
    passage = copy.corpus.passage(0)
    scorer = CrossEncoderScorer(copy.path("models", "plain"), "cpu")
    given = scorer.score([("Who?", passage)], precision="float32")
    logit = CrossEncoder(str(folder), device="cpu").predict(
        [("Who?", f"{passage.title} [SEP] {passage.text}")], activation_fn=torch.nn.Identity()
    )
    assert given[0] == pytest.approx(1 / (1 + np.exp(-logit[0])), abs=1e-6)
    found = add_cross_encoder(copy, "fitted", str(folder), "bm25-train", device="cpu")
    report = found["report"]
    assert report["base_rate"] == pytest.approx(report["positives"] / report["pairs"]) and report["base_rate"] < 0.2
    assert report["pairs"] > 300 and report["of"] == "whole lists of training questions of bm25-train"
    made = score_run(copy, "fitted", "bm25-train", 5, "cpu")
    assert made["scored"] > 0 and ScoreStore.open(copy, "fitted").manifest["calibrated"]
    # Only a small file is kept: the model stays where it is, and must stay as it is.
    assert sum(path.stat().st_size for path in copy.path("models", "fitted").iterdir()) < 100_000
    ready(folder, labels=1)
    (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text() + " ")
    with pytest.raises(Refused, match="outside has changed since it was added as 'fitted'; add it again"):
        CrossEncoderScorer(copy.path("models", "fitted"), "cpu")


def test_what_cannot_judge_is_one_line(copy, tmp_path):
    tiny_bert(tmp_path / "encoder")
    with pytest.raises(Refused, match="is no cross-encoder but a BertModel: its scores would be random"):
        add_cross_encoder(copy, "judge", str(tmp_path / "encoder"), device="cpu")
    with pytest.raises(Refused, match="gives 3 scores for a pair; a judge needs one"):
        add_cross_encoder(copy, "judge", str(ready(tmp_path / "three", 3)), device="cpu")
    with pytest.raises(Missing):
        add_cross_encoder(copy, "judge", str(tmp_path / "nothing"), device="cpu")
    with pytest.raises(Missing, match="no run 'nothing'; runs of this study: bm25-train"):
        add_cross_encoder(copy, "judge", str(copy.folder / "outside"), "nothing", device="cpu")
    assert not copy.path("models", "judge").exists()
