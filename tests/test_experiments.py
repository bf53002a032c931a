"""Running experiments: parts are made once and shared, a killed experiment resumes, a rule judges claims, tables show
the results.
"""

import csv
import dataclasses
import io

import numpy as np
import pytest

from blindspot.analysis.crossed import crossed_mean
from blindspot.backend.core.study import Study
from blindspot.backend.experiments import planned, running, tables
from blindspot.backend.experiments.hits import Bm25Hits
from blindspot.backend.experiments.papers import EXPERIMENTS, ExperimentDescription
from blindspot.backend.experiments.parts import QuestionSelection
from blindspot.backend.experiments.plan import (
    SMALL_STEPS,
    Cell,
    Experiment,
    ExperimentPlan,
    PaperClaim,
    Success,
    dense_row,
    macro_values,
    overall_verdict,
    success_cells,
)
from blindspot.backend.experiments.planned import _singular_noun, planned_parts
from blindspot.backend.experiments.running import run_experiment
from blindspot.backend.experiments.trainings import DualEncoder, TrainingData
from blindspot.backend.experiments.workbench import Workbench
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.errors import BadInput, Missing
from blindspot.db.events import LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from tests.experiments import TINY as ALL
from tests.experiments import experiment_study
from tests.studies import copied

TINY = {key: value for key, value in ALL.items() if key != "reader"}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return experiment_study(tmp_path_factory.mktemp("studies") / "s")


def two_batches(setting, bench):
    """Dual encoders trained with batches of 2 and of 4 questions, and BM25."""
    data = setting.data(mined=setting.mined())
    return ExperimentPlan(
        [
            *dense_row(setting, "two", data, batch=2),
            *dense_row(setting, "four", data, batch=4),
            *success_cells("BM25", [Bm25Hits(setting.question_selection(), 10)], setting.ks),
        ],
        [PaperClaim("four is better", ("four", "Success@5"), ("two", "Success@5"))],
    )


@pytest.fixture
def small_experiment(monkeypatch):
    for module in (running, planned):
        monkeypatch.setattr(
            module,
            "experiment_named",
            lambda name: Experiment(name, ExperimentDescription("a paper", "Table 1", "Which batch?"), two_batches),
        )


@pytest.fixture
def done(study, tmp_path_factory, small_experiment):
    """The study after the small experiment, which runs once for all tests of this file. Copy it before writing to it."""
    folder = tmp_path_factory.getbasetemp() / "small-experiment"
    if not folder.exists():
        run_experiment(copied(study, folder), "negatives", TINY, "cpu")
    return Study.open(folder)


class Stopped(BaseException):
    """Simulates a kill: nothing may catch it."""


def test_parts_are_made_once_and_shared(study, tmp_path, monkeypatch, small_experiment):
    """A second experiment with other cells trains only the missing parts; the same experiment is read from its
    result.
    """
    study, trained = copied(study, tmp_path / "s"), []
    made = DualEncoder.make
    monkeypatch.setattr(DualEncoder, "make", lambda self, *rest: (trained.append(self), made(self, *rest)))
    first = run_experiment(study, "negatives", TINY, "cpu")
    assert len(trained) == len(set(trained)) == 2
    assert run_experiment(study, "negatives", TINY, "cpu") == first and len(trained) == 2
    run_experiment(study, "negatives", {**TINY, "seeds": [0, 1]}, "cpu")
    assert len(trained) == 4 and {model.settings.seed for model in trained[2:]} == {1}
    assert len(study.parts("experiments")) == 2
    assert study.runs() == [] and set(study.parts("indexes")) == {
        "bm25",
        "tiny",
    }  # the study's own lists stay unchanged


def test_a_killed_experiment_goes_on(study, done, tmp_path):
    """Stopped at every sixth report, it ends with the same table as an undisturbed experiment."""
    left_alone = run_experiment(done, "negatives", TINY, "cpu")
    stopped, kills = copied(study, tmp_path / "b"), 0

    def killer():
        seen = 0

        def told(*_):
            nonlocal seen
            seen += 1
            if seen == 6:
                raise Stopped

        return told

    while True:
        try:
            found = run_experiment(stopped, "negatives", TINY, "cpu", killer())
            break
        except Stopped:
            kills += 1
    assert kills >= 3
    assert found["cells"] == left_alone["cells"] and found["claims"] == left_alone["claims"]


def test_a_small_run_finds_nothing_whatever_it_measures(done, tmp_path):
    found = run_experiment(copied(done, tmp_path / "s"), "negatives", {**TINY, "small": True}, "cpu")
    assert found["verdict"] == "no finding" and found["sentence"].startswith("This is no finding")


def test_cells_hold_what_the_runs_say(study, tmp_path):
    """Success@k of BM25, counted by hand from the run's answers."""
    bench = Workbench(copied(study, tmp_path / "s"))
    hits = Bm25Hits(QuestionSelection("dev"), 10)
    bench.make(hits)
    answers = np.asarray(hits.open(bench).answers())
    assert Success(hits, 5).values(bench).tolist() == [float(any(row[:5])) for row in answers.tolist()]
    names = [question.relation for question in bench.questions.with_ids(hits.open(bench).question_ids)]
    by_relation = [
        np.mean([any(row[:5]) for row, name in zip(answers.tolist(), names, strict=True) if name == relation])
        for relation in ("P19", "P20")
    ]
    assert Success(hits, 5, macro=True).values(bench).mean() == pytest.approx(np.mean(by_relation))


def test_macro_values_by_hand():
    """A group's mean counts once: the deviations of three questions weigh 2/3 each, that of one weighs 2."""
    values = macro_values(np.array([1.0, 0.0, 0.0, 1.0]), np.array(["a", "a", "a", "b"]))
    mean = (1 / 3 + 1) / 2
    assert values.mean() == pytest.approx(mean)
    assert values.tolist() == pytest.approx([mean + 2 / 3 * each for each in (2 / 3, -1 / 3, -1 / 3)] + [mean])


def values(ahead, behind, seeds=3, questions=200):
    """Every seed answers the first so many questions."""
    return [np.tile((np.arange(questions) < count).astype(float), (seeds, 1)) for count in (ahead, behind)]


CLAIM = PaperClaim("a beats b", ("a", "k"), ("b", "k"))
EQUAL = PaperClaim("a is as good as b", ("a", "k"), ("b", "k"), tolerance=0.05)


@pytest.mark.parametrize(("claim", "found", "word"), [
    (CLAIM, values(150, 100), "supported"), (CLAIM, values(100, 150), "not supported"), (CLAIM, values(101, 100), "inconclusive"),
    (CLAIM, values(150, 100, seeds=2), "inconclusive"), (CLAIM, values(20, 5, questions=29), "inconclusive"),
    (EQUAL, values(101, 100), "supported"), (EQUAL, values(150, 100), "not supported"), (EQUAL, values(110, 100), "inconclusive"),
])  # fmt: skip
def test_claims_are_judged_by_their_interval(claim, found, word):
    judged = claim.judge(*found, is_trained=True, confidence=0.95)
    assert judged["word"] == word
    assert judged["difference"] == pytest.approx(found[0].mean() - found[1].mean())


@pytest.mark.parametrize(
    ("minimum", "found", "word"),
    [
        # 10 points more of 400 questions, which are 7 to 13 for certain
        (0.02, (80, 40), "supported"),
        (0.10, (80, 40), "inconclusive"),
        (0.40, (80, 40), "not supported"),
        (0.02, (40, 80), "not supported"),
        # no question changed: of 400 that leaves changes of up to a point
        (0.02, (40, 40), "not supported"),
        (0.002, (40, 40), "inconclusive"),
    ],
)
def test_a_claim_of_a_minimum_gain(minimum, found, word):
    claim = dataclasses.replace(CLAIM, minimum_gain=minimum)
    assert claim.judge(*values(*found, questions=400), is_trained=True, confidence=0.95)["word"] == word


def test_the_command_takes_every_setting(done, tmp_path, blindspot):
    study = copied(done, tmp_path / "s")
    result = run_experiment(study, "negatives", TINY, "cpu")
    words = f"experiment negatives --from tiny --k 5,10 --depth 10 --device cpu --study {study.folder}".split()
    for option in ("training", "cross"):
        words += [word for name, value in TINY[option].items() for word in (f"--{option}", f"{name}={value}")]
    assert blindspot(*words, "--seeds", "0", "--csv")[:2] == (0, tables.as_csv(result))
    assert blindspot(*words, "--seeds", "0;1")[0] == 2


@pytest.mark.parametrize(("given", "said"), [({"seeds": []}, "at least one seed"), ({"training": {"bach": 1}}, "bach")])
def test_what_cannot_be_asked(study, given, said):
    with pytest.raises(BadInput, match=said):
        run_experiment(study, "negatives", {**TINY, **given}, "cpu")


def test_without_training_one_seed_will_do():
    assert CLAIM.judge(*values(150, 100, seeds=1), is_trained=False, confidence=0.95)["word"] == "supported"
    assert (
        "only 1 seed (at least 3 needed)"
        in CLAIM.judge(*values(150, 100, seeds=1), is_trained=True, confidence=0.95)["because"]
    )


@pytest.mark.parametrize(
    ("words", "all"),
    [
        (["supported", "supported"], "supported"),
        (["supported", "inconclusive"], "inconclusive"),
        # fmt: skip
        (["inconclusive", "not supported"], "not supported"),
        ([], "inconclusive"),
    ],
)
def test_the_word_of_several_claims(words, all):
    assert overall_verdict(words) == all


RESULT = {"experiment": "x", "unit": "%", "sentence": "So.", "cells": [
    {"row": "50% of a_b", "column": "Success@5", "value": 0.5, "low": 0.4, "high": 0.61, "n": 120, "seeds": 3, "published": 65.0},
    {"row": "rest", "column": "Success@5", "value": None, "low": None, "high": None, "n": 0, "seeds": 1, "published": None},
]}  # fmt: skip


def test_the_table_as_csv_and_latex():
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(RESULT))))
    assert rows[0] == {
        "row": "50% of a_b",
        "column": "Success@5",
        "value": "0.5",
        "low": "0.4",
        "high": "0.61",
        "n": "120",
        "seeds": "3",
        "published": "65.0",
    }
    latex = tables.as_latex(RESULT)
    assert r"& Success@5 & paper & n \\" in latex
    assert r"50\% of a\_b & 50.0 (40.0--61.0) & 65 & 120 x 3 \\" in latex and r"rest & - &  & 0 \\" in latex


def test_a_plan_counts_what_is_not_made_yet(study, done, tmp_path):
    study = copied(study, tmp_path / "s")
    assert planned_parts(study, "negatives", TINY, "cpu").waiting
    assert not (study.folder / "experiments").exists()  # nothing was made
    assert not planned_parts(done, "negatives", TINY, "cpu").waiting


def test_a_plan_in_words(study, small_experiment):
    waiting, made = planned_parts(study, "negatives", TINY, "cpu").as_words()
    assert set(waiting.split(", ")) == {"4 runs", "1 training set", "2 dual encoders", "2 indexes"}
    assert made in ("nothing", "1 index")
    assert [
        _singular_noun(each) for each in ("indexes", "sets of question encoders", "readers with question encoders")
    ] == [
        "index",
        "set of question encoders",
        "reader with question encoders",
    ]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_small_is_small_whatever_the_experiment_does_by_itself(name):
    setting = running.experiment_named(name).setting({"small": True})
    made = setting.settings(0)
    assert (made.steps, made.layers, made.passage_tokens, setting.depth) == (
        SMALL_STEPS,
        2,
        64,
        20,
    ) and setting.seeds == (0,)
    assert running.experiment_named(name).setting({"small": True, "training": {"steps": 3}}).settings(0).steps == 3


def test_what_is_judged_is_what_trains(study, tmp_path):
    """A limit draws the same questions for a run and for its training set; leaks and bad questions are in neither."""
    study = copied(study, tmp_path / "s")
    train, dev = study.questions.all(split="train"), study.questions.all(split="dev")
    study.questions.add([dataclasses.replace(dev[0], id="train.leak", split="train")])
    People(study.labels_path).add("Ada")
    Labels(study.labels_path).add("Ada", LabelEvent("g", "bad_question", train[0].id))
    bench, data = Workbench(study, "cpu"), TrainingData(limit=7, mined=(Bm25Hits(QuestionSelection("train"), 10),))
    asked = [question.id for question in QuestionSelection("train", limit=7, trains=True).questions_of(bench)]
    bench.make(data)
    assert sorted(asked) == sorted(id for id, _ in TrainingSet.open(bench, bench.name(data)).groups())
    whole = {question.id for question in QuestionSelection("train", trains=True).questions_of(bench)}
    assert whole == {question.id for question in train[1:]} and len(asked) == 7


def test_the_interval_of_a_share_of_questions_is_wilsons(done):
    from statsmodels.stats.proportion import proportion_confint

    cells = run_experiment(done, "negatives", TINY, "cpu")["cells"]
    for cell in (each for each in cells if each["row"] == "BM25"):
        assert (cell["low"], cell["high"]) == pytest.approx(
            proportion_confint(round(cell["value"] * cell["n"]), cell["n"], method="wilson")
        )


def test_the_interval_of_a_share_does_not_pass_100(study):
    """19 of 20 in one relation and all in the other: the linearised interval of the average would exceed 1."""
    found = np.array([1.0] * 19 + [0.0] + [1.0] * 20)
    values = macro_values(found, np.array(["P19"] * 20 + ["P20"] * 20))
    cell = Cell("row", "column", (Success(Bm25Hits(QuestionSelection("dev"), 10), 5, macro=True),))
    assert crossed_mean(values[None]).high > 1
    assert running._estimate(cell, values[None], None, Workbench(study), 0.95).high == 1


@pytest.mark.parametrize(("name", "given", "error", "says"), [
    ("nothing", {}, Missing, "unknown experiment 'nothing'"), ("negatives", {"wrong": 1}, BadInput, "no setting 'wrong'"),
    ("negatives", {"relations": ["P19"]}, BadInput, "negatives has no setting relations"), ("negatives", {"seeds": []}, BadInput, "one seed"),
    ("negatives", {"start": "tiny", "training": {"speed": 1}}, BadInput, "speed"), ("negatives", {"start": "none"}, Missing, "none"),
    ("negatives", {**TINY, "on": "nowhere"}, Missing, "nowhere"),
])  # fmt: skip
def test_bad_input_is_one_line_and_makes_nothing(study, tmp_path, name, given, error, says):
    study = copied(study, tmp_path / "s")
    with pytest.raises(error) as caught:
        run_experiment(study, name, given, "cpu")
    assert says in str(caught.value) and "\n" not in str(caught.value)
    assert not (study.folder / "experiments").exists()


def test_every_experiment_has_its_file():
    from blindspot.backend.experiments.papers import EXPERIMENTS

    assert all(running.experiment_named(name).name == name for name in EXPERIMENTS)


def test_an_installed_package_adds_an_experiment(monkeypatch):
    from blindspot.backend.core.registry import Registry
    from blindspot.backend.experiments import papers

    foreign = Experiment("foreign", ExperimentDescription("a package", "Table 1", "Does it help?"), two_batches)
    registry = Registry("experiment", check=papers._check)
    registry._register_loaded(foreign)
    monkeypatch.setattr(papers, "INSTALLED", registry)
    assert list(papers.experiments())[-1] == "foreign" and running.experiment_named("foreign") is foreign
    with pytest.raises(Missing, match="known: negatives, .*foreign"):
        running.experiment_named("nothing")
    with pytest.raises(ValueError, match="already has an experiment 'negatives'"):
        registry._register_loaded(dataclasses.replace(foreign, name="negatives"))
    with pytest.raises(TypeError, match="str is not an Experiment"):
        registry._register_loaded("negatives")
