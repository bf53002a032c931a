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
from blindspot.backend.experiments.papers import ExperimentDescription
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
from blindspot.backend.experiments.planned import planned_parts
from blindspot.backend.experiments.rocketqa_steps import unlabelled_question_count
from blindspot.backend.experiments.running import experiment_named, run_experiment
from blindspot.backend.experiments.trainings import DualEncoder, TrainingData
from blindspot.backend.experiments.workbench import Workbench
from blindspot.backend.reader.reading import Reading
from blindspot.backend.retrieval.bm25 import BM25
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.errors import BadInput, Missing
from blindspot.db.events import LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from tests.experiments import TINY as ALL
from tests.experiments import experiment_study
from tests.studies import births, copied, make_study, people

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


def test_a_plan_counts_what_is_not_made_yet(study, done, tmp_path):
    study = copied(study, tmp_path / "s")
    waiting, _ = planned_parts(study, "negatives", TINY, "cpu").as_words()
    assert set(waiting.split(", ")) == {"4 runs", "1 training set", "2 dual encoders", "2 indexes"}
    assert not (study.folder / "experiments").exists()  # nothing was made
    assert not planned_parts(done, "negatives", TINY, "cpu").waiting


def test_small_is_small_whatever_the_experiment_does_by_itself():
    chosen = experiment_named("negatives")
    made = chosen.setting({"small": True})
    assert (made.settings(0).steps, made.settings(0).layers, made.depth, made.seeds) == (SMALL_STEPS, 2, 20, (0,))
    assert chosen.setting({"small": True, "training": {"steps": 3}}).settings(0).steps == 3


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


def test_a_claim_of_a_minimum_gain():
    rows = [
        # 10 points more of 400 questions, which are 7 to 13 for certain
        (0.02, (80, 40), "supported"),
        (0.10, (80, 40), "inconclusive"),
        (0.40, (80, 40), "not supported"),
        (0.02, (40, 80), "not supported"),
        # no question changed: of 400 that leaves changes of up to a point
        (0.02, (40, 40), "not supported"),
        (0.002, (40, 40), "inconclusive"),
    ]
    for minimum, found, word in rows:
        claim = dataclasses.replace(CLAIM, minimum_gain=minimum)
        judged = claim.judge(*values(*found, questions=400), is_trained=True, confidence=0.95)
        assert judged["word"] == word, (minimum, found)


def test_without_training_one_seed_will_do():
    once = values(150, 100, seeds=1)
    assert CLAIM.judge(*once, is_trained=False, confidence=0.95)["word"] == "supported"
    assert "only 1 seed" in CLAIM.judge(*once, is_trained=True, confidence=0.95)["because"]


def test_the_word_of_several_claims():
    assert overall_verdict(["supported", "supported"]) == "supported"
    assert overall_verdict(["supported", "inconclusive"]) == "inconclusive"
    assert overall_verdict(["inconclusive", "not supported"]) == "not supported"
    assert overall_verdict([]) == "inconclusive"


def test_the_table_as_csv_and_latex():
    full = {"row": "50% of a_b", "column": "Success@5", "value": 0.5, "low": 0.4, "high": 0.61, "n": 120, "seeds": 3}
    empty = {**dict.fromkeys(full), "row": "rest", "column": "Success@5", "n": 0, "seeds": 1}
    result = {"experiment": "x", "unit": "%", "sentence": "So.", "cells": [{**full, "published": 65.0}]}
    result["cells"].append({**empty, "published": None})
    first = next(csv.DictReader(io.StringIO(tables.as_csv(result))))
    assert first == {name: str(value) for name, value in result["cells"][0].items()}
    latex = tables.as_latex(result)
    assert r"50\% of a\_b & 50.0 (40.0--61.0) & 65 & 120 x 3 \\" in latex and r"rest & - &  & 0 \\" in latex


def test_the_command_takes_every_setting(done, tmp_path, blindspot):
    study = copied(done, tmp_path / "s")
    result = run_experiment(study, "negatives", TINY, "cpu")
    words = f"experiment negatives --from tiny --k 5,10 --depth 10 --device cpu --study {study.folder}".split()
    for option in ("training", "cross"):
        words += [word for name, value in TINY[option].items() for word in (f"--{option}", f"{name}={value}")]
    assert blindspot(*words, "--seeds", "0", "--csv")[:2] == (0, tables.as_csv(result))
    assert blindspot(*words, "--seeds", "0;1")[0] == 2


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


# The papers' experiments


@pytest.fixture(scope="module")
def papers(study, tmp_path_factory):
    """A copy of the study: a later test reuses the models of an earlier one."""
    return copied(study, tmp_path_factory.mktemp("papers") / "s")


def found(study, name, **more):
    given = {key: value for key, value in ALL.items() if key != "reader" or "reader" in experiment_named(name).takes}
    return run_experiment(study, name, {**given, **more}, "cpu")


def test_bm25_is_tuned_on_one_half_and_measured_on_the_other(papers):
    """The best pair of the grid, found by plain loops over the first half."""
    result, bench = found(papers, "tune-bm25"), Workbench(papers)
    plan = experiment_named("tune-bm25").plan(experiment_named("tune-bm25").setting({"on": "dev", "ks": (5,)}), bench)
    tuned = plan.cells[-1].measures[0].hits
    tuned_on, measured_on = (asked.questions_of(bench) for asked in (tuned.tuned_on, tuned.asked))
    assert len({question.id for question in tuned_on + measured_on}) == 12 and result["cells"][0]["n"] == 6
    by_hand = {}
    for k1, b in tuned.grid:
        hits = BM25(bench, k1, b).search([question.text for question in tuned_on], 20).ordinals
        texts = [[each.text for each in bench.corpus.passages([o for o in row if o >= 0])] for row in hits.tolist()]
        answers = [question.answers[0] for question in tuned_on]
        by_hand[k1, b] = np.mean([any(answer in text for text in row) for answer, row in zip(answers, texts)])
    bench.make(tuned)
    manifest = tuned.open(bench).manifest
    assert manifest["tuned"] == {f"{k1:g}, {b:g}": pytest.approx(value, abs=1e-4) for (k1, b), value in by_hand.items()}
    assert by_hand[manifest["k1"], manifest["b"]] == max(by_hand.values())


def test_step_4_without_a_further_positive_is_not_trained(papers, monkeypatch):
    """The tiny cross-encoder is sure of no passage: no model, no row and no claim, and the result says why."""
    trained, make = [], DualEncoder.make
    monkeypatch.setattr(DualEncoder, "make", lambda self, *given: (trained.append(self), make(self, *given))[1])
    result = found(papers, "strategies", batches=[2])
    rows = list(dict.fromkeys(cell["row"] for cell in result["cells"]))
    assert len(rows) == 4 and rows[-1] == "hard negatives, denoised (step 3)"
    assert trained and all(len(model.data) == 1 for model in trained)
    assert not any("unlabelled" in claim["says"] for claim in result["claims"]) and len(result["claims"]) == 4
    assert any("(step 4)' is not trained" in note for note in result["notes"])


def test_better_retrieval_and_better_answers(papers):
    """A reading by hand: the answers that the reader gives, compared as SQuAD does, here plain enough for lower case
    alone."""
    result, bench = found(papers, "end-to-end", ks=[1, 5]), Workbench(papers)
    chosen = experiment_named("end-to-end")
    plan = chosen.plan(chosen.setting(running.hashable_options({**ALL, "ks": [1, 5]})), bench)
    read = next(cell.measures[0].reading for cell in plan.cells if cell.column == "EM@5")
    reading = Reading.open(bench, bench.name(read.hits), bench.name(read.reader))
    given, asked = reading.answers(bench, [5])[5], bench.questions.with_ids(reading.run.question_ids)
    by_hand = [
        answer is not None and answer.lower() in [each.lower() for each in question.answers]
        for answer, question in zip(given, asked, strict=True)
    ]
    cell = next(cell for cell in result["cells"] if (cell["row"], cell["column"]) == ("BM25", "EM@5"))
    assert cell["value"] == pytest.approx(np.mean(by_hand)) and cell["n"] == 12


def test_shares_of_unlabelled_questions_count_after_leaks_are_out(tmp_path):
    """Of four unlabelled questions one has the text of a dev question: a limit of half of them is half of three."""
    passages = people(12)
    asked = births(passages, "dev")
    free = [
        dataclasses.replace(q, id=f"u{i}", split="unlabelled", text=f"In what town did {i} live?", subject=None)
        for i, q in enumerate(asked[:3])
    ]
    leak = dataclasses.replace(asked[0], id="u3", split="unlabelled")
    bench = make_study(tmp_path / "s", passages, [*asked, *free, leak])
    assert unlabelled_question_count(bench) == 3
    assert unlabelled_question_count(make_study(tmp_path / "none", passages, asked)) == 0


@pytest.mark.parametrize(("name", "given", "error", "says"), [
    ("nothing", {}, Missing, "unknown experiment 'nothing'"), ("negatives", {"wrong": 1}, BadInput, "no setting 'wrong'"),
    ("negatives", {"relations": ["P19"]}, BadInput, "negatives has no setting relations"), ("negatives", {"seeds": []}, BadInput, "one seed"),
    ("negatives", {"start": "tiny", "training": {"speed": 1}}, BadInput, "speed"), ("negatives", {"start": "none"}, Missing, "none"),
    ("negatives", {**TINY, "on": "nowhere"}, Missing, "nowhere"), ("sample-efficiency", {**TINY, "sizes": [50]}, BadInput, "20 training questions"),
    ("multi", {**TINY, "sets": ["nowhere", "births"]}, BadInput, "'nowhere' has no training questions"),
    ("pretrained", {**TINY, "encoders": ["tiny"]}, BadInput, "two encoders"),
    ("random-negatives", {**TINY, "batches": [2, 3]}, BadInput, "three ascending batch sizes"),
])  # fmt: skip
def test_bad_input_is_one_line_and_makes_nothing(study, name, given, error, says):
    with pytest.raises(error) as caught:
        run_experiment(study, name, given, "cpu")
    assert says in str(caught.value) and "\n" not in str(caught.value)
    assert not (study.folder / "experiments").exists()
