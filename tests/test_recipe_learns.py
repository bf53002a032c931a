"""The small cross-encoder's settings, with MiniLM and the demo's passages: the data that it can and cannot learn
from.
"""

import json
import random

import pytest

from blindspot.backend.data.encyclopedia import DATASET
from blindspot.backend.recipes.settings import JUDGED_POLICY, SMALL_CROSS, RecipeSettings
from blindspot.backend.training.examples import Example
from tests.overlap import passages_of, questions_of
from tests.studies import make_study

pytest.importorskip("accelerate", reason="training needs accelerate")


def test_what_is_judged_for_training_holds_no_answer_and_is_read_whole():
    assert (
        JUDGED_POLICY == "answer_match" and SMALL_CROSS["tokens"] == RecipeSettings().cross_settings()["tokens"] == 160
    )


@pytest.mark.slow
@pytest.mark.parametrize("layers, spread", [(2, False), (6, True)])
def test_why_it_keeps_its_layers(layers, spread):
    """MiniLM's [CLS], which a cross-encoder reads, is the same for every text in the first layers, and differs in the
    last."""
    import torch

    from blindspot.backend.training.cross_encoder import CrossEncoderSettings, _initial_model

    model = _initial_model("minilm", CrossEncoderSettings(layers=layers, tokens=32), "cpu").eval()
    texts = [
        "Where was Ada born?",
        "The capital of Norway is Oslo.",
        "A camera made of wood",
        "Rye, timber and salted fish",
    ]
    with torch.inference_mode():
        read = model.model.bert(**model.tokenizer(texts, padding=True, return_tensors="pt")).last_hidden_state[:, 0]
    assert (read.std(0).mean() > 0.1) == spread and (spread or read.std(0).mean() < 0.01)
    assert SMALL_CROSS.get("layers") is None


@pytest.mark.slow
def test_it_begins_to_learn_from_random_passages(tmp_path):
    """A few hundred pairs teach it to distinguish an answering passage from a random one, on unseen questions."""
    from blindspot.backend.training.checkpoints import TrainingFolders
    from blindspot.backend.training.cross_encoder import CrossEncoderSettings, train

    asked = [question for question in questions_of(2000) if question.dataset == DATASET and question.split != "dev"]
    study = make_study(tmp_path / "s", passages_of(2000), asked)
    generator = random.Random(0)
    examples = [
        Example(
            one.id,
            one.text,
            tuple(study.corpus.passages(study.corpus.ordinals(set(one.gold)).values())),
            tuple(study.corpus.passages([generator.randrange(2000) for _ in range(5)])),
        )
        for one in study.questions.all()
    ]
    settings = CrossEncoderSettings(
        tokens=160,
        negatives=1,
        batch=8,
        steps=30,
        learning_rate=SMALL_CROSS["learning_rate"],
        held_out=50,
        pairs=80,
        evaluate_every=30,
        precision="bfloat16",
    )
    train("minilm", examples, TrainingFolders(tmp_path / "model", tmp_path / "working", "cpu"), settings)
    about = json.loads((tmp_path / "model" / "training.json").read_text())
    report = json.loads((tmp_path / "model" / "calibration.json").read_text())
    print(about["curve"], report["pairs"], report["positives"], report["brier"])
    last = about["curve"][-1]
    assert last["average_precision"] > 1.3 * last["positives"] / last["pairs"]  # by chance it is their share
