"""Training jobs: from a training set to an encoder, a cross-encoder, or question encoders by relation over one
index."""

import dataclasses
import os

import numpy as np
import pytest

from blindspot.backend.core.settings import EncoderSettings, add_encoder
from blindspot.backend.experiments.question_encoders import PerRelationRetriever, train_per_relation
from blindspot.backend.retrieval import dense
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training.dual_encoder import train_dual_encoder
from blindspot.backend.training.training_log import read_log, working_folder
from blindspot.backend.training.training_settings import DualEncoderSettings
from blindspot.backend.training_sets.builder import build
from blindspot.db.errors import Missing, Refused
from tests.absent import hide
from tests.indexes import bm25_of
from tests.studies import births, make_study, people, tiny_bert

QUICK = {
    "steps": 4,
    "evaluate_every": 2,
    "batch": 8,
    "held_out": 6,
    "question_tokens": 24,
    "passage_tokens": 48,
    "learning_rate": 1e-3,
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """60 passages, 40 training questions of two relations, a run to mine, a training set, and a tiny start model."""
    passages = people()
    questions = [
        dataclasses.replace(question, relation="P19" if number % 2 else "P20")
        for number, question in enumerate(births(passages, "train"))
    ]
    study = make_study(tmp_path_factory.mktemp("studies") / "s", passages, questions)
    bm25_of(study)
    retrieve(study, "bm25", k=10, split="train", name="mined")
    build(study, "clean", ["mined"])
    tiny_bert(study.folder / "start")
    add_encoder(study.settings_path, "tiny", {"model": str(study.folder / "start"), "pooling": "cls", "max_tokens": 64})
    return study


@pytest.fixture(scope="module")
def trained(study):
    return train_dual_encoder(study, "first", "clean", QUICK, start="tiny", device="cpu")


def test_a_training_reports_to_tensorboard(study):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from blindspot.backend.training.tracking import LOGGING_DIR

    settings = {**QUICK, "report_to": "tensorboard"}
    train_dual_encoder(study, "tracked", "clean", settings, start="tiny", device="cpu")
    assert not os.environ[LOGGING_DIR].startswith(str(study.folder / "models"))
    events = EventAccumulator(str(study.folder / "tracking" / "tracked"))
    events.Reload()
    lines = read_log(study, "tracked")
    losses = {event.step: event.value for event in events.Scalars("train/loss")}
    assert losses == pytest.approx({line["step"]: line["loss"] for line in lines if "loss" in line}, rel=1e-4)
    assert any(tag.startswith("eval/") for tag in events.Tags()["scalars"])


def test_a_tracker_without_its_package_is_one_line(study, monkeypatch):
    hide(monkeypatch, "wandb", "tensorboard")
    with pytest.raises(Missing, match="^--report-to wandb needs the package wandb; run: pip install wandb$"):
        train_dual_encoder(study, "untracked", "clean", {**QUICK, "report_to": "wandb"}, start="tiny", device="cpu")
    with pytest.raises(Missing, match=r"needs the extra tracking: pip install 'blindspot\[tracking\]'$"):
        train_dual_encoder(
            study, "untracked", "clean", {**QUICK, "report_to": "tensorboard"}, start="tiny", device="cpu"
        )
    assert not (study.folder / "models" / "untracked").exists()


def test_a_training_set_becomes_an_encoder(study, trained):
    about = models_of(study)["first"]
    assert (about["training_set"], about["questions"] + about["held_out"], trained.steps) == ("clean", 40, 4)
    assert study.settings.encoders["first"] == EncoderSettings(model=trained.folder, max_tokens=48)
    manifest = dense.build_index(study, "first", device="cpu")
    assert manifest["model_hash"] == about["model_hash"] and manifest["similarity"] == "dot"
    run = retrieve(study, "dense", encoder="first", k=5, split="train", device="cpu")
    assert len(run.question_ids) == 40
    assert [line["step"] for line in read_log(study, "first") if "average_rank" in line] == [0, 2, 4]
    assert not working_folder(study, "first").exists()


def test_names_that_are_taken(study, trained):
    with pytest.raises(Refused, match="already a model named 'first'"):
        train_dual_encoder(study, "first", "clean", QUICK, start="tiny")
    with pytest.raises(Refused, match="already names another encoder tiny"):
        train_dual_encoder(study, "tiny", "clean", QUICK, start="tiny")
    with pytest.raises(Missing, match="no training set 'dirty'"):
        train_dual_encoder(study, "second", "dirty", QUICK, start="tiny")


def test_killed_before_study_toml_named_it(study, trained, monkeypatch):
    from blindspot.backend.training import dual_encoder

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(dual_encoder, "add_encoder", killed)
    with pytest.raises(KeyboardInterrupt):
        train_dual_encoder(study, "third", "clean", QUICK, start="tiny", device="cpu")
    monkeypatch.undo()
    made = models_of(study)["third"]["made"]
    with pytest.raises(Refused, match="already a model named 'third'"):  # another training does not match
        train_dual_encoder(study, "third", "clean", QUICK | {"seed": 5}, start="tiny", device="cpu")
    assert train_dual_encoder(study, "third", "clean", QUICK, start="tiny", device="cpu").steps == 4
    assert models_of(study)["third"]["made"] == made and "third" in study.settings.encoders


def test_the_log_can_be_read_while_it_trains(study):
    seen = []

    def watch(done, total, doing):
        seen.append(len(read_log(study, "watched")))
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_dual_encoder(study, "watched", "clean", QUICK, start="tiny", device="cpu", progress=watch)
    assert seen == sorted(seen) and seen[-1] >= 3 and "watched" not in models_of(study)
    assert train_dual_encoder(study, "watched", "clean", QUICK, start="tiny", device="cpu").steps == 4


def test_question_encoders_by_relation_over_one_index(study, trained, loads_one_at_a_time):
    if "first" not in study.parts("indexes"):
        dense.build_index(study, "first", device="cpu")
    index = (study.folder / "indexes" / "first" / "embeddings.npy").read_bytes()
    settings = DualEncoderSettings(**QUICK | {"held_out": 3})
    made = train_per_relation(study, "by-relation", "first", "clean", settings, device="cpu")
    assert [each["questions"] for each in made.values()] == [20, 20] and all(each["steps"] for each in made.values())
    routed = PerRelationRetriever(study, "by-relation", "cpu")
    questions = study.questions.all(split="train")[:6]
    asked = [
        *questions,
        dataclasses.replace(questions[0], relation="P999"),
        dataclasses.replace(questions[0], relation=None),
    ]
    vectors = routed.encode(asked)
    own = routed.index.encode([question.text for question in asked])
    same = [np.allclose(a, b, atol=1e-6) for a, b in zip(vectors, own, strict=True)]
    assert same == [False] * 6 + [True, True]  # a relation without an encoder uses the model's own
    one_by_one = np.concatenate([routed.encode([question]) for question in asked])
    np.testing.assert_allclose(vectors, one_by_one, atol=1e-5)
    hits = routed.search(asked, 5)
    expected = routed.index.search_vectors(vectors, 5)
    assert np.array_equal(hits.ordinals, expected.ordinals) and hits.ordinals.shape == (8, 5)
    assert (study.folder / "indexes" / "first" / "embeddings.npy").read_bytes() == index
    assert {path.suffix for path in (study.folder / "models" / "by-relation").rglob("*") if path.is_file()} == {
        ".json",
        ".safetensors",
    }


def test_question_encoders_need_two_towers_and_enough_questions(study, trained):
    with pytest.raises(Missing, match="no dense index for encoder 'minilm'"):
        train_per_relation(study, "none", "minilm", "clean", DualEncoderSettings(**QUICK))
    with pytest.raises(Missing, match="no question encoders named 'first'"):
        PerRelationRetriever(study, "first")


def test_the_commands(study, trained):
    from typer.testing import CliRunner

    from blindspot.app.commands.train import train_app
    from blindspot.backend.judges.scores import ScoreStore

    def run(*words):
        done = CliRunner().invoke(train_app, [*words, "--study", str(study.folder)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    few = ("--steps", "2", "--batch", "4", "--device", "cpu", "--held-out", "6")
    said = run("dual-encoder", "second", "--on", "clean", "--from", "tiny", *few)
    assert (
        "Trained second: 2 steps in" in said
        and "average rank" in said
        and "blindspot index dense --encoder second" in said
    )
    assert "step 0 (epoch 0.00): average rank" in run("log", "second")
    said = run("cross-encoder", "judge", "--on", "clean", "--from", str(study.folder / "start"), *few)
    assert "Calibrated (platt) on" in said and "At 0.1:" in said
    assert "pairs; " in run("score", "judge", "--run", "mined", "--depth", "2", "--device", "cpu")
    assert len(ScoreStore.open(study, "judge")) == 80


def test_models_of_any_kind_are_listed(study, trained, tmp_path):
    """An adapter, or a judge of an older version, whose training.json does not say when it was made."""
    from blindspot.backend.training.checkpoints import models_of

    folder = study.path("models", "undated")
    folder.mkdir()
    (folder / "training.json").write_text('{"kind": "adapter", "name": "undated"}')
    assert list(models_of(study))[0] == "undated" and trained.name in models_of(study)
    (folder / "training.json").unlink()
    folder.rmdir()


ONLY = {**QUICK, "only": "question", "hard_negatives": 2, "precision": "float32", "steps": 6, "held_out": 0}


def test_questions_alone_are_trained_on_the_vectors_of_the_index(study, trained, monkeypatch):
    """The index holds 16 bits, so the losses and the questions' vectors are equal within that; no passage is encoded again."""
    from blindspot.backend.core.manifest import read_json
    from blindspot.backend.retrieval.encoder import load_encoder
    from blindspot.backend.training.stored_vectors import StoredVectors
    from blindspot.backend.training.trainer import Collator

    if "first" not in study.parts("indexes"):
        dense.build_index(study, "first", device="cpu")
    tokens, columns = Collator._tokens, []
    monkeypatch.setattr(
        Collator, "_tokens", lambda self, name, *rest: columns.append(name) or tokens(self, name, *rest)
    )
    looked_up = train_dual_encoder(study, "looked-up", "clean", ONLY, start="first", device="cpu")
    assert set(columns) == {"question"} and looked_up.passages_from_index
    monkeypatch.setattr(StoredVectors, "open", lambda *_: None)
    encoded = train_dual_encoder(study, "encoded", "clean", ONLY, start="first", device="cpu")
    assert {"question", "passage0", "passage2"} <= set(columns) and not encoded.passages_from_index
    losses = [[line["loss"] for line in read_log(study, name) if "loss" in line] for name in ("looked-up", "encoded")]
    np.testing.assert_allclose(*losses, rtol=2e-3)
    questions = [question.text for question in study.questions.all(split="train")[:5]]
    both = [
        load_encoder(study.settings.encoders[name], "cpu").encode_questions(questions)
        for name in ("looked-up", "encoded")
    ]
    assert not np.allclose(
        both[0], load_encoder(study.settings.encoders["first"], "cpu").encode_questions(questions), atol=1e-3
    )
    # Where the true gradient is zero, Adam turns rounding noise into full steps, so single components differ by processor.
    assert (both[0] * both[1]).sum(axis=1) == pytest.approx(
        np.prod([np.linalg.norm(v, axis=1) for v in both], axis=0), rel=0.002
    )
    # The new encoder is searched over the same file of vectors.
    paths = [study.path("indexes", name, "embeddings.npy") for name in ("first", "looked-up")]
    assert paths[0].samefile(paths[1]) and not study.path("indexes", "encoded").exists()
    run = retrieve(study, "dense", encoder="looked-up", k=5, split="train", device="cpu")
    assert len(run.question_ids) == 40
    assert read_json(study.path("models", "looked-up", "training.json"))["passages_from_index"] is True


def test_gradient_caching_over_stored_vectors_gives_the_same_model(study, trained):
    from tests.training import weights

    if "first" not in study.parts("indexes"):
        dense.build_index(study, "first", device="cpu")
    for name, more in (("at-once", {}), ("cached", {"mini_batch": 3})):
        train_dual_encoder(study, name, "clean", {**ONLY, **more}, start="first", device="cpu")
    losses = [[line["loss"] for line in read_log(study, name) if "loss" in line] for name in ("at-once", "cached")]
    assert len(weights(study.path("models", "cached"))) > 0
    np.testing.assert_allclose(*losses, rtol=0.05)  # dropout draws per mini-batch


def test_vectors_of_another_length_or_model_are_not_taken(study, trained):
    from blindspot.backend.retrieval.encoder import load_encoder
    from blindspot.backend.training.stored_vectors import StoredVectors

    if "first" not in study.parts("indexes"):
        dense.build_index(study, "first", device="cpu")
    stored = StoredVectors.open(study, "first", 48)
    assert stored is not None and StoredVectors.open(study, "first", 32) is None
    assert StoredVectors.open(study, "nothing", 48) is None
    model = load_encoder(study.settings.encoders["first"], "cpu").model
    template = study.settings.encoders["first"].passage_template
    assert stored.matches_model(model, template) and not stored.matches_model(model, "{text}")
    assert not stored.matches_model(load_encoder(study.settings.encoders["tiny"], "cpu").model, template)
