"""RocketQA's four steps on a tiny study: they run to the end, resume after a kill, and report skipped steps."""

import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from blindspot.app.commands.train import rocketqa
from blindspot.backend.core.manifest import read_json
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.recipes.rocketqa import Recipe, train_rocketqa
from blindspot.backend.recipes.settings import RecipeSettings
from blindspot.backend.retrieval import dense
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.training.scoring import CrossEncoderScorer
from blindspot.backend.training_sets.builder import build
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.errors import BadInput, Refused
from blindspot.db.people import People
from blindspot.db.records import Question
from tests.indexes import bm25_of
from tests.studies import births, copied, make_study, people, tiny_bert
from tests.training_studies import say

pytest.importorskip("accelerate", reason="training needs accelerate")

SHORT = {"steps": 3, "evaluate_every": 3, "held_out": 4, "learning_rate": 1e-3}
DUAL = {**SHORT, "batch": 8, "mini_batch": None, "pool": 20, "question_tokens": 24, "passage_tokens": 48}
CROSS = {**SHORT, "batch": 4, "negatives": 2, "pairs": 16, "tokens": 64}
SETTINGS = {"depth": 20, "dual": DUAL, "cross": CROSS}


def questions():
    passages = people()
    asked = births(passages, "train")
    dev = [dataclasses.replace(q, id=f"dev.{q.id}", split="dev") for q in asked[30:]]
    free = [
        Question(f"free.{q.id}", f"In which town was {q.subject} born?", dataset=q.dataset, split="unlabelled")
        for q in asked[20:30]
    ]
    return passages, [*asked[:20], *free, *dev]


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """60 passages; 20 training, 10 unlabelled and 10 dev questions; a BM25 run to mine; a tiny start model. Tests must
    not write to it.
    """
    passages, asked = questions()
    study = make_study(tmp_path_factory.mktemp("studies") / "s", passages, asked)
    bm25_of(study)
    retrieve(study, "bm25", k=20, split="train", name="mined")
    tiny_bert(study.folder / "models" / "start")
    add_encoder(
        study.settings_path,
        "tiny",
        {"model": str(study.folder / "models" / "start"), "pooling": "cls", "max_tokens": 64},
    )
    return study


def train(study, progress=None):
    return train_rocketqa(study, "rocket", "mined", "tiny", SETTINGS, "cpu", progress)


def knows(judge, pairs, batch=32):
    """A confident and correct cross-encoder: only the article about the question's person scores high."""
    return np.array([0.95 if passage.title in question else 0.02 for question, passage in pairs])


@pytest.fixture(scope="module")
def whole(bare, tmp_path_factory):
    """A study with the outputs of a recipe with a confident judge. People found a false negative; the initial model is
    indexed.
    """
    study = copied(bare, tmp_path_factory.mktemp("whole") / "s")
    dense.build_index(study, "tiny", device="cpu")
    People(study.labels_path).add("ann", "annotator")
    first = study.questions.all(split="train")[0]
    mined = study.run("mined").hits.ordinals[study.run("mined").row(first.id)].tolist()
    others = [passage.id for passage in study.corpus.passages(mined) if passage.id not in first.gold]
    say(study, "ann", first.id, {others[0]: "positive", others[1]: "negative"})
    seen = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CrossEncoderScorer, "score", knows)
        made = train(study, lambda done, total, doing: seen.append(doing))
    return study, made, seen, (first.id, others)


def test_the_four_steps(whole):
    study, made, seen, _ = whole
    assert made.skipped == {} and made.notes == []
    assert made.runs == ["rocket-0-dev", "rocket-1-dev", "rocket-3-dev", "rocket-4-dev"]
    assert set(study.parts("training_sets")) == {"rocket-1", "rocket-2", "rocket-3", "rocket-4"}
    assert {path.name for path in study.folder.glob("models/rocket*")} == {
        f"rocket-{step}" for step in ("1", "2-judge", "3", "4")
    }
    report = read_json(study.folder / "recipes" / "rocket" / "report.json")
    assert list(report["runs"]) == made.runs
    assert all(set(run["k"]) == {"1", "5", "20"} and run["n"] == 10 for run in report["runs"].values())
    assert [doing for doing in seen if doing.startswith("step 2: ")][0] == "step 2: training set"
    again = []
    assert train(study, lambda *each: again.append(each)) == made and again == []


def test_what_each_step_takes(whole):
    """The policies, questions, mined ranks and numbers of negatives of each step (RocketQA, section 3.4)."""
    study, _, _, _ = whole
    sets = {step: TrainingSet.open(study, f"rocket-{step}").manifest["request"] for step in (1, 2, 3, 4)}
    policies = ["none", "answer_match+labels", "cross_encoder+labels", "cross_encoder+labels"]
    assert [sets[step]["policy"] for step in sets] == policies
    trained_on = ["rocket-1-train"]
    runs = [["mined"], trained_on, trained_on, [*trained_on, "rocket-3-unlabelled"]]
    assert [sets[step]["runs"] for step in sets] == runs
    assert [sets[step]["random"] for step in sets] == [0] * 4 and RecipeSettings(small=True).random_negatives == 80
    assert sets[4]["questions"] == ["train", "unlabelled"]
    assert sets[4]["positives"] == ["gold", "distant", "cross_encoder"]
    trained = {step: read_json(study.folder / "models" / f"rocket-{step}" / "training.json") for step in (1, 3, 4)}
    assert [about["settings"]["hard_negatives"] for about in trained.values()] == [0, 1, 1]
    starts = {about["start"]["model"] for about in trained.values()}
    assert starts == {study.settings.encoders["tiny"].model}


def test_pseudo_labels_are_what_the_judge_is_sure_of(whole):
    """An unlabelled question is used if its article was retrieved, which is then its only positive."""
    study, _, _, _ = whole
    run, made = study.run("rocket-3-unlabelled"), TrainingSet.open(study, "rocket-4")
    expected = {}
    for question, row in zip(study.questions.with_ids(run.question_ids), run.hits.ordinals.tolist(), strict=True):
        about = {passage.id: passage.title in question.text for passage in study.corpus.passages(row)}
        if any(about.values()):
            expected[question.id] = {
                id: ("positive", "cross_encoder") if yes else ("negative", "run") for id, yes in about.items()
            }
    assert expected and made.left_out() == dict.fromkeys(set(run.question_ids) - set(expected), "no positive")
    assert {question: made.roles(question) for question in expected} == expected


def test_the_judge_teaches_where_it_is_asked_to():
    taught = RecipeSettings.from_values({"small": True, "distil": 0.5})
    assert "distil" not in taught.dual_settings(1, "judge")
    assert "distil" not in RecipeSettings(small=True).dual_settings(3, "judge")
    for step in (3, 4):
        assert taught.dual_settings(step, "judge").items() >= {"distil": "judge", "distil_weight": 0.5}.items()
    with pytest.raises(BadInput, match="distil must be a number of at least 0, not -1"):
        RecipeSettings.from_values({"distil": -1})


def test_an_unsure_judge_adds_nothing(bare, tmp_path):
    study = copied(bare, tmp_path / "s")
    build(study, "plain-4", ["mined"])
    why = Recipe(study, "plain", "mined", "tiny", RecipeSettings.from_values(SETTINGS), "cpu").why_nothing_to_teach()
    assert "scored no passage of the 10 unlabelled questions above 0.9" in why


def test_people_stand_over_the_cross_encoder(whole):
    study, _, _, (question, others) = whole
    for step in (2, 3, 4):
        roles = TrainingSet.open(study, f"rocket-{step}").roles(question)
        assert roles[others[0]] == ("positive", "label") and roles[others[1]] == ("negative", "label")


def test_the_state_names_every_stage_and_what_stays_fixed(whole):
    study, _, _, _ = whole
    state = read_json(study.folder / "recipes" / "rocket" / "state.json")
    assert all(stage["seconds"] >= 0 for stage in state["stages"].values())
    made = {(stage["kind"], stage["made"]) for stage in state["stages"].values()}
    assert made >= {("training set", "rocket-3"), ("model", "rocket-2-judge"), ("run", "rocket-4-dev")}
    assert state["request"]["run_sha256"] and state["request"]["start_sha256"] and state["pinned"]["labels"]
    last = read_json(study.folder / "training_sets" / "rocket-4" / "manifest.json")["request"]["until"]
    assert last == state["pinned"]["until"]


def test_other_settings_and_names_that_are_taken_are_refused(whole):
    study, _, _, _ = whole
    with pytest.raises(Refused, match="'rocket' was started with another settings"):
        train_rocketqa(study, "rocket", "mined", "tiny", {**SETTINGS, "seed": 1}, "cpu")
    (study.folder / "training_sets" / "rocket-1").rename(study.folder / "training_sets" / "other-3")
    try:
        with pytest.raises(Refused, match="a training set 'other-3' already exists"):
            train_rocketqa(study, "other", "mined", "tiny", SETTINGS, "cpu")
    finally:
        (study.folder / "training_sets" / "other-3").rename(study.folder / "training_sets" / "rocket-1")


def test_settings_that_cannot_be():
    rows = [
        ({"depht": 5}, "unknown setting depht; known: small, depth"),
        ({"dual": {"bach": 3}}, "unknown setting dual.bach; known: layers, batch"),
        ({"depth": 0}, "depth must be a whole number of at least 1, not 0"),
        ({"thresholds": [0.9, 0.1]}, "lower first"),
    ]
    for values, said in rows:
        with pytest.raises(BadInput, match=said):
            RecipeSettings.from_values(values)


def test_the_command(whole, monkeypatch):
    of = RecipeSettings.from_values
    monkeypatch.setattr(RecipeSettings, "from_values", lambda values: of({**SETTINGS, "depth": values["depth"]}))
    app = typer.Typer()
    app.command()(rocketqa)
    study, made, _, _ = whole
    words = f"rocket --run mined --start tiny --depth 20 --device cpu --study {study.folder}".split()
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0 and all(run in done.output for run in made.runs) and "Success@" in done.output
    assert done.output.startswith(f"Recipe rocket: {made.seconds:,.0f} s in all.")


class Killed(BaseException):
    """Simulates the end of a process: nothing handles it."""


def cut(study, monkeypatch, after):
    """Run the recipe until `after` stages are made, and stop before the last one is recorded."""
    count, finish = [], Recipe.finish

    def stop(self, stage, seconds):
        count.append(stage.key)
        if len(count) == after:
            raise Killed
        finish(self, stage, seconds)

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(Recipe, "finish", stop)
        train(study)
    return count


def test_it_goes_on_where_it_was_killed_and_says_that_nothing_is_unlabelled(bare, tmp_path, monkeypatch):
    study = copied(bare, tmp_path / "s")
    study.questions.connection.execute("DELETE FROM question WHERE split = 'unlabelled'")
    study.questions.connection.commit()
    first = cut(study, monkeypatch, 2)
    assert first == ["1 training set", "1 dual encoder"]
    weights = (study.folder / "models" / "rocket-1" / "training.json").read_bytes()
    gone = copied(study, tmp_path / "gone")
    for place in ("training_sets", "models"):
        shutil.rmtree(gone.folder / place / "rocket-1")
    with pytest.raises(Refused, match="the training set 'rocket-1', which this recipe made, is gone"):
        train(gone)
    second = cut(study, monkeypatch, 4)
    assert second[0] == "1 dual encoder"  # made but not recorded: reused, not trained again
    assert (study.folder / "models" / "rocket-1" / "training.json").read_bytes() == weights
    seen = []
    monkeypatch.setattr(CrossEncoderScorer, "score", lambda self, pairs, **_: np.full(len(pairs), 0.5))  # never sure
    made = train(study, lambda done, total, doing: seen.append(doing))
    assert "there are no unlabelled questions" in made.skipped[4]
    assert any(doing.startswith("step 4: left out: there are no unlabelled questions") for doing in seen)
    assert len(made.notes) == 1 and "no passage of step 3 below 0.1" in made.notes[0]
    assert made.runs == ["rocket-1-dev", "rocket-3-dev"] and "rocket-4" not in study.parts("training_sets")
    stages = read_json(study.folder / "recipes" / "rocket" / "state.json")["stages"]
    assert not [key for key in stages if key.startswith("4")] and all("seconds" in stage for stage in stages.values())


def one_of_two(folder: str) -> None:
    """Run one of the two processes."""
    import torch

    torch.set_num_threads(1)
    train(Study.open(folder))


@pytest.mark.slow
def test_two_processes_and_one_of_them_killed(bare, tmp_path):
    """Under a launcher the first process leads and the second takes part; both resume after a kill."""
    study = copied(bare, tmp_path / "s")
    models = study.folder / "models"
    running = launched(study.folder)
    try:
        wait_until(lambda: (models / "rocket-1" / "training.json").is_file(), running)
        for process in running:
            process.send_signal(signal.SIGKILL)
            process.wait()
        first = (models / "rocket-1" / "training.json").read_bytes()
        running = launched(study.folder)
        for process in running:
            _, errors = process.communicate(timeout=240)
            assert process.returncode == 0, errors.decode()[-3000:]
    finally:
        for process in running:
            process.kill()
    assert (models / "rocket-1" / "training.json").read_bytes() == first
    trained = [read_json(models / name / "training.json") for name in ("rocket-1", "rocket-2-judge", "rocket-3")]
    assert [about["processes"] for about in trained] == [2, 2, 2]
    assert read_json(study.folder / "recipes" / "rocket" / "manifest.json")["runs"] == ["rocket-1-dev", "rocket-3-dev"]


def launched(folder: Path) -> list[subprocess.Popen]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    return [
        subprocess.Popen(
            [sys.executable, "-m", "tests.test_recipe", str(folder)],
            cwd=Path(__file__).parents[1],
            stderr=subprocess.PIPE,
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]


def wait_until(ready, running, seconds=240):
    for _ in range(10 * seconds):
        if ready():
            return
        for process in running:
            assert process.poll() is None, process.communicate()[1].decode()[-3000:]
        time.sleep(0.1)
    raise AssertionError("waited in vain")


if __name__ == "__main__":
    one_of_two(sys.argv[1])
