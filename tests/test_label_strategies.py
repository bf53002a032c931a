"""Strategies of judging beside each other: the simulated annotator, figures by hand, and a whole small experiment."""

import json

import numpy as np
import pytest

from blindspot.backend.core.manifest import read_json
from blindspot.backend.core.runs import write_run
from blindspot.backend.experiments import label_strategies as experiment
from blindspot.backend.experiments.label_simulation import SimulatedAnnotator, simulated_pool, truths_of
from blindspot.backend.experiments.label_strategies import label_strategies
from blindspot.backend.experiments.strategy_results import as_lines, share_of_gain
from blindspot.backend.judges.feature_model import NEGATIVE, POSITIVE
from blindspot.backend.judging.gain import DrawingRules
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.labels import Labels
from tests.training_studies import copied

ASKED = {
    "run": "mined",
    "encoder": "tiny",
    "strategies": ["random", "gain"],
    "budgets": [4, 8],
    "seeds": [0, 1],
    "k": 3,
}
QUICK = {"steps": 2, "batch": 8, "random_passages": 8}


@pytest.fixture(scope="module")
def study(indexed_study, tmp_path_factory):
    """The 40 questions: 25 of train, the rest dev; a run whose rank 2 answers as well as the gold, by the truth file."""
    study = copied(indexed_study, tmp_path_factory.mktemp("strategies") / "s")
    ids = [question.id for question in study.questions.all()]
    study.questions.connection.execute("UPDATE question SET split = 'train'")
    study.questions.connection.execute(
        "UPDATE question SET split = 'dev' WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(ids[25:]),)
    )
    study.questions.connection.commit()
    retrieve(study, "bm25", k=6, split="train", name="mined")
    run, rows = study.run("mined"), []
    for question in study.questions.all():
        gold = list(question.gold)
        if (row := run.row(question.id)) is not None:
            passages = [p.id for p in study.corpus.passages(run.hits.ordinals[row].tolist())]
            gold.append(next(id for id in passages if id not in question.gold))
        rows.append({"question": question.id, "passages": gold})
    (study.folder / "truth.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return study


@pytest.fixture(scope="module")
def pool(study):
    truths = truths_of(study, study.folder / "truth.jsonl")
    return simulated_pool(study, "mined", Dense(study, "tiny"), truths, 5)


def annotator(pool, right=1.0, seed=0):
    return SimulatedAnnotator(pool, right, seed, DrawingRules(1, 5), 4)


def test_the_annotator_knows_the_truth_and_errs_as_often_as_said(pool):
    assert pool.truth.sum() == len(pool.questions), "one planted passage for each training question"
    assert (annotator(pool).labels == np.where(pool.truth, POSITIVE, NEGATIVE)).all()
    wrong = np.mean([(annotator(pool, 0.8, seed).labels == POSITIVE) != pool.truth for seed in range(40)])
    assert wrong == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("strategy", ["random", "priority", "gain"])
def test_a_smaller_budget_is_the_beginning_of_a_larger_one(pool, strategy):
    more, less = annotator(pool).judge(strategy, 12), annotator(pool).judge(strategy, 8)
    assert more[:8] == less and len(set(more)) == 12
    assert annotator(pool, seed=1).judge("random", 12) != annotator(pool).judge("random", 12)
    assert sorted(annotator(pool).judge(strategy, 10_000)) == list(range(len(pool.truth))), "all pairs, each once"


def test_hidden_answers(study):
    truths = truths_of(study, study.folder / "truth.jsonl")
    hidden = simulated_pool(study, "mined", Dense(study, "tiny"), truths, 5, answers_known=False)
    assert set(hidden.evidence) == {(None, None)} and not hidden.pairs.features[:, -2:].any()


def test_the_share_of_the_gain():
    """None answers 20 of 100 questions, all judged 60, and half the way is 40."""
    none, half, everything = (np.tile(np.arange(100) < count, (3, 1)).astype(float) for count in (20, 40, 60))
    found = share_of_gain(half, none, everything)
    assert found["value"] == pytest.approx(0.5) and 0.3 < found["low"] < 0.5 < found["high"] < 0.7
    assert share_of_gain(half, none, none) == {"value": None, "low": None, "high": None}


def test_a_whole_experiment_killed_and_resumed(study, tmp_path, monkeypatch):
    copy = copied(study, tmp_path / "s")
    asked = {**ASKED, "truth": str(copy.folder / "truth.jsonl"), "settings": QUICK, "depth": 5, "batch": 4}
    trained, learn = [], experiment.learn

    def counting(*arguments):
        if len(trained) == 3:
            trained.append("killed")
            raise KeyboardInterrupt
        trained.append("trained")
        return learn(*arguments)

    monkeypatch.setattr(experiment, "learn", counting)
    with pytest.raises(KeyboardInterrupt):
        label_strategies(copy, "compared", **asked)
    result = label_strategies(copy, "compared", **asked)
    cells = 2 * (4 + 2 * 2)  # seeds x (none, prior, answers, all, and two strategies of two budgets)
    assert trained.count("trained") == cells, "a finished training is not repeated"
    assert [(row["strategy"], row["pairs"]) for row in result["rows"]] == [
        ("prior", 0), ("answers", 0), ("random", 4), ("random", 8), ("gain", 4), ("gain", 8)
    ]  # fmt: skip
    folder = copy.path("experiments", "compared")
    found = np.mean([np.load(folder / f"gain-8-{seed}.npy").mean() for seed in (0, 1)])
    assert result["rows"][-1]["success"]["value"] == pytest.approx(found)
    assert result["rows"][-1]["over_random"]["n"] == result["questions"] == 15
    assert label_strategies(copy, "compared", **asked) == read_json(folder / "result.json")
    assert Labels(copy.labels_path).last_event == Labels(study.labels_path).last_event, "the study's labels stay"
    with pytest.raises(Refused, match="with other settings already exists"):
        label_strategies(copy, "compared", **{**asked, "k": 2})
    lines = as_lines(result)
    assert lines[1].startswith("no labels: ") and any(line.lstrip().startswith("gain     8 pairs") for line in lines)


@pytest.mark.parametrize("asked, error, said", [
    ({"strategies": ["best"]}, BadInput, "random, priority, gain"), ({"budgets": [0]}, BadInput, "at least 1 pair"), ({"seeds": []}, BadInput, "at least one seed"),
    ({"right": 0.4}, BadInput, "more than half"), ({"split": "train"}, Refused, "training questions"), ({"truth": "absent"}, Missing, "no file")])  # fmt: skip
def test_what_cannot_be_asked(study, asked, error, said):
    with pytest.raises(error, match=said):
        label_strategies(study, "wrong", **{**ASKED, **asked})


def test_a_truth_file_with_a_bad_line(study, tmp_path):
    (tmp_path / "t.jsonl").write_text('{"question": "q", "passages": []}\n{"question": 3}\n')
    with pytest.raises(BadInput, match="question") as error:
        truths_of(study, tmp_path / "t.jsonl")
    assert ":2" in str(error.value) or "line 2" in str(error.value)


def test_the_command(study, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from blindspot.app.cli import app

    copy = copied(study, tmp_path / "s")
    words = [
        "experiment",
        "label-budget",
        "c",
        "--run",
        "mined",
        "--start",
        "tiny",
        "--strategies",
        "random",
        "--pairs",
        "4",
    ]
    words += ["--seeds", "0", "--k", "3", "--labels-only", "--study", str(copy.folder)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "random     4 pairs" in done.output and "unjudged pairs are negatives" in done.output
    assert CliRunner().invoke(app, [*words, "--small"]).exit_code == 2


def test_no_question_to_judge(study, tmp_path):
    copy = copied(study, tmp_path / "s")
    run = study.run("mined")
    dev = [question.id for question in copy.questions.all(split="dev")]
    write_run(
        copy,
        "held-out",
        dev,
        type(run.hits)(run.hits.ordinals[: len(dev)], run.hits.scores[: len(dev)]),
        {"retriever": "bm25", "split": "dev"},
    )
    with pytest.raises(Refused, match="holds no question that may train"):
        label_strategies(copy, "wrong", **{**ASKED, "run": "held-out"})
