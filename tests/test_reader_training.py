"""Training a reader: it learns to answer, resumes exactly, and refuses invalid input in one line."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from blindspot.backend.core.manifest import read_json
from blindspot.backend.core.runs import write_run
from blindspot.backend.reader.examples import MAY_NOT_TRAIN, NEGATIVE, NEITHER, POSITIVE, RunExamples
from blindspot.backend.reader.loss import reader_loss
from blindspot.backend.reader.model import load_reader, reader_logits, start_reader
from blindspot.backend.reader.reader import Reader
from blindspot.backend.reader.trainer import ReaderCollator, measure
from blindspot.backend.reader.training import train_reader
from blindspot.backend.training.examples import sample_passages
from blindspot.backend.training.training_log import read_log
from blindspot.db.errors import BadInput, Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.records import Hits
from tests import forked
from tests.readers import QUICK, reading_study
from tests.studies import tiny_bert
from tests.training import Stopped, stop_at, weights

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    tiny_bert(folder)
    return str(folder)


@pytest.fixture
def study(tmp_path):
    return reading_study(tmp_path / "study")


def quick(study, name, bert, progress=None, restart=False, replace=False, run="train", **settings):
    more = {"replace": replace, "restart": restart, "progress": progress}
    return train_reader(study, name, run, QUICK | settings, start=bert, device="cpu", **more)


def test_it_learns_to_answer_and_is_an_ordinary_folder(study, tmp_path):
    """Such a small network memorises its few questions, which is enough for this test."""
    config = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    tiny_bert(tmp_path / "bert", width=64)
    path = tmp_path / "bert" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    settings = {"steps": 120, "evaluate_every": 60, "learning_rate": 2e-3, "batch": 8, "tokens": 96, "held_out": 0}
    made = quick(study, "r", str(tmp_path / "bert"), **settings)
    examples = RunExamples(study, study.run("train"))
    every = [examples[number] for number in range(len(examples))]
    before = measure(Reader(start_reader(str(tmp_path / "bert"), tokens=96), "cpu"), every, 6)
    after = measure(Reader(load_reader(made.folder), "cpu"), every, 6)
    assert before["exact_match"] < 0.2 and after["exact_match"] > 0.8 and after["f1"] >= after["exact_match"]
    losses = [line["loss"] for line in read_log(study, "r") if "loss" in line]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) / 3
    about = read_json(Path(made.folder) / "training.json")
    assert (about["kind"], about["run"], about["questions"]) == ("reader", "train", len(every))
    assert about["settings"]["tokens"] == 96
    files = {p.suffix for p in Path(made.folder).iterdir()}
    assert files == {".json", ".jsonl", ".safetensors"}
    anywhere, ours = transformers.DPRReader.from_pretrained(made.folder), load_reader(made.folder)
    assert all(torch.equal(weight, ours.network.state_dict()[name]) for name, weight in anywhere.state_dict().items())
    assert ours.inputs.limit == 96 and ours.hash == about["model_hash"]


def test_kill_9_and_go_on_ends_with_the_same_bytes(study, bert, tmp_path):
    """Killed between two checkpoints, in the second epoch; then stopped once more, after its last step."""
    whole = quick(study, "whole", bert)
    code = (
        "import os, signal, sys, torch; from blindspot.backend.core.study import Study; from blindspot.backend.reader.training import train_reader\n"
        "from tests.readers import QUICK\ntorch.set_num_threads(1)\n"
        "def kill(done, total, doing):\n    if done == 5: os.kill(os.getpid(), signal.SIGKILL)\n"
        "train_reader(Study.open(sys.argv[1]), 'again', 'train', QUICK, start=sys.argv[2], device='cpu', progress=kill)"
    )
    done = forked.python("-c", code, str(study.folder), bert)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not study.path("models", "again").exists()
    again = quick(study, "again", bert)
    assert weights(Path(again.folder)) == weights(Path(whole.folder))
    logs = [
        [{key: value for key, value in line.items() if "second" not in key} for line in read_log(study, name)]
        for name in ("whole", "again")
    ]
    assert logs[0] == logs[1] and (again.steps, again.best_step) == (whole.steps, whole.best_step)
    other = quick(study, "other", bert, seed=1)
    assert weights(Path(other.folder)) != weights(Path(whole.folder))


def test_another_unfinished_training_is_not_overwritten(study, bert):
    with pytest.raises(Stopped):
        quick(study, "r", bert, stop_at(3))
    with pytest.raises(Refused, match="differs in learning_rate.*--restart"):
        quick(study, "r", bert, learning_rate=5e-4)
    quick(study, "r", bert, restart=True, learning_rate=5e-4)
    with pytest.raises(Refused, match="already a model named 'r'"):
        quick(study, "r", bert)
    goes_on = quick(study, "small", "r", steps=2)  # a small set, from a trained reader
    assert read_json(Path(goes_on.folder) / "training.json")["start"].endswith("models/r")


def test_the_batch_is_loss_ready(study, bert):
    """Each positive comes first and its spans are the answer; the loss of the batch is the mean of its questions'
    own."""
    examples, model = RunExamples(study, study.run("train")), start_reader(bert, tokens=80)
    drawn = [sample_passages(examples[number], 3 if number else 1, 0, 0) for number in range(5)]
    collator = ReaderCollator(model.inputs)
    batch = collator(drawn)
    assert batch["places"].tolist()[0][2:] == [-1, -1] and (batch["places"][1:] >= 0).all()
    for row, each in enumerate(drawn):
        ids = batch["input_ids"][batch["places"][row, 0]]
        said = [model.inputs.tokenizer.decode(ids[s : t + 1]) for s, t in batch["spans"][row].tolist() if s >= 0]
        assert said and {word.replace(" ", "") for word in said} == {each.example.answers[0].lower()}

    def loss(some):
        made = collator(some)
        logits = reader_logits(model.network.eval(), made["input_ids"], made["real"])
        return reader_loss(*logits, made["real"], made["places"], made["spans"]).item()

    assert loss(drawn) == pytest.approx(np.mean([loss([each]) for each in drawn]), rel=1e-5)


def test_roles_follow_answers_people_and_leaks(study):
    run = study.run("train")
    examples = RunExamples(study, run)
    first = examples[0]
    assert first.roles.count(POSITIVE) == 1 and first.positives[0].title in first.question
    People(study.labels_path).add("Ann")
    choices = (Choice(first.positives[0].id, "negative"), Choice(first.hard_negatives()[0].id, "positive"))
    Labels(study.labels_path, passages=study.corpus.ordinals).add("Ann", LabelEvent("g", "label", first.id, choices))
    changed = RunExamples(study, run)
    assert changed.digest != examples.digest and len(changed) == len(examples) - 1
    assert first.id not in {changed[i].id for i in range(len(changed))}
    second = examples[1]
    wrong = Choice(second.hard_negatives()[0].id, "positive")
    Labels(study.labels_path, passages=study.corpus.ordinals).add("Ann", LabelEvent("h", "label", second.id, (wrong,)))
    again = next(each for each in (RunExamples(study, run)[i] for i in range(len(changed))) if each.id == second.id)
    assert again.roles.count(NEITHER) == 1 and again.roles.count(NEGATIVE) == second.roles.count(NEGATIVE) - 1
    assert sum(examples.left_out.values()) == 0 and len(RunExamples(study, run, depth=1)) < len(examples)


def test_nothing_to_train_on_is_one_line(study, bert):
    with pytest.raises(Refused, match=f"no question of run 'dev' has .*: {MAY_NOT_TRAIN}.*--split train"):
        quick(study, "r", bert, run="dev")
    ids = study.run("train").question_ids
    nothing = Hits(np.full((len(ids), 4), -1, np.int32), np.full((len(ids), 4), -np.inf, np.float32))
    write_run(study, "none", ids, nothing, {"retriever": "x"})
    with pytest.raises(Refused, match="no question of run 'none' .*no passage in the top 100 contains an answer"):
        quick(study, "r", bert, run="none")
    assert not study.path("models", "r").exists()


def test_what_cannot_learn_is_refused(study, bert):
    rows = [
        ({"passages": 1}, "passages must be a whole number of at least 2, not 1"),
        ({"batch": 0}, "batch must be a whole number of at least 1, not 0"),
        ({"tokens": 3}, "tokens must be a whole number of at least 16, not 3"),
        ({"layers": 9}, "layers must be between 1 and 2"),
        ({"warmup": 2.0}, "warmup must be a number of at least 0 and below 1, not 2.0"),
        ({"precision": "half"}, "precision must be one of"),
    ]
    for settings, reason in rows:
        with pytest.raises((Refused, BadInput), match=reason):
            quick(study, "r", bert, **settings)
    made = quick(study, "r", bert, steps=2, precision="bfloat16", held_out=2)
    assert {weight.dtype for weight in load_reader(made.folder).network.state_dict().values()} == {torch.float32}
    assert all(np.isfinite(line["loss"]) for line in read_log(study, "r") if "loss" in line)
