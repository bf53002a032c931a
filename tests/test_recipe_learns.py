"""RocketQA's four steps for real, on a generated encyclopedia with the settings for a CPU: the cross-encoder learns what answers."""

import json

import numpy as np
import pytest

from backend import encyclopedia
from backend.importing.importer import import_passages, import_questions
from backend.retrieval import bm25
from backend.retrieval.retrieve import retrieve
from backend.study import Study
from backend.training.recipe import train_rocketqa
from backend.training.recipe_settings import JUDGED_POLICY, SMALL_CROSS, RecipeSettings
from backend.training.scores import ScoreStore
from backend.training.training_set import TrainingSet

pytest.importorskip("accelerate", reason="training needs accelerate")

UNLABELLED = 100


def planted(folder, passages):
    """A study of an encyclopedia: train and dev, and some of its test questions without what is known of them. And the truth."""
    study = Study.create(folder)
    source = study.path("encyclopedia")
    encyclopedia.write(source, passages, 0)
    rows = [row for row in map(json.loads, (source / "questions.jsonl").read_text().splitlines()) if row["dataset"] == "encyclopedia"]
    kept = [row for row in rows if row["split"] != "test"]
    kept += [{"id": row["id"], "question": row["question"], "split": "unlabelled"} for row in rows if row["split"] == "test"][:UNLABELLED]
    (source / "some.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    import_passages(study, str(source / "passages.tsv"))
    import_questions(study, str(source / "some.jsonl"))
    bm25.build_index(study, threads=1)
    retrieve(study, "bm25", split="train", k=20, name="mined")
    return study, {row["question"]: set(row["passages"]) for row in map(json.loads, (source / "truth.jsonl").read_text().splitlines())}


def area(scores, right, questions, resamples=500):
    """(area under the ROC curve, its lower and upper bound): questions drawn again, 95%."""
    from sklearn.metrics import roc_auc_score

    scores, right, numbers = np.asarray(scores), np.asarray(right), np.unique(questions, return_inverse=True)[1]
    generator, found = np.random.default_rng(0), []
    for _ in range(resamples):
        weights = np.bincount(generator.integers(0, numbers.max() + 1, numbers.max() + 1), minlength=numbers.max() + 1)[numbers]
        found.append(roc_auc_score(right, scores, sample_weight=weights))
    return roc_auc_score(right, scores), *np.quantile(found, [0.025, 0.975])


@pytest.mark.slow
def test_the_cross_encoder_learns_and_all_four_steps_are_done(tmp_path):
    study, truth = planted(tmp_path / "s", 3000)
    made = train_rocketqa(study, "rocket", "mined", settings={"small": True, "depth": 10}, device="cpu")
    assert made.skipped == {} and made.runs == ["rocket-1-dev", "rocket-3-dev", "rocket-4-dev"], made.notes
    free = study.run("rocket-3-unlabelled").question_ids
    given = [(question, passage, value) for question, values in ScoreStore.open(study, "rocket-2-judge").of(free).items()
             for passage, value in values.items()]
    value, low, high = area([p for *_, p in given], [passage in truth[question] for question, passage, _ in given],
                            [question for question, *_ in given])
    assert len(free) == UNLABELLED and low > 0.6, (value, low, high)  # 0.5 is chance
    sources = TrainingSet.open(study, "rocket-4").manifest["counts"]["sources"]
    assert sources["positive"]["cross_encoder"] > 0 and sources["negative"]["run"] > 0


def test_what_is_judged_for_training_holds_no_answer():
    """Where answers are known, step 2's negatives are passages without one; a positive is read whole."""
    assert JUDGED_POLICY == "answer_match" and SMALL_CROSS["tokens"] == RecipeSettings().cross_settings()["tokens"] == 160


@pytest.mark.parametrize("layers, spread", [(2, False), (6, True)])
def test_why_a_small_cross_encoder_keeps_its_layers(layers, spread):
    """MiniLM's [CLS], which a cross-encoder reads, is the same for every text in the first layers, and differs in the last."""
    import torch

    from backend.training.cross_encoder import CrossEncoderSettings, _start

    model = _start("minilm", CrossEncoderSettings(layers=layers, tokens=32), "cpu").eval()
    texts = ["Where was Ada born?", "The capital of Norway is Oslo.", "A camera made of wood", "Rye, timber and salted fish"]
    with torch.inference_mode():
        read = model.model.bert(**model.tokenizer(texts, padding=True, return_tensors="pt")).last_hidden_state[:, 0]
    assert (read.std(0).mean() > 0.1) == spread and (spread or read.std(0).mean() < 0.01)
    assert SMALL_CROSS.get("layers") is None
