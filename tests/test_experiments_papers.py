"""The papers' experiments run to their complete tables on a tiny study."""

import dataclasses
from functools import partial

import numpy as np
import pytest

from blindspot.backend.experiments import rocketqa_steps, running
from blindspot.backend.experiments.papers import EXPERIMENTS
from blindspot.backend.experiments.running import experiment_named, run_experiment
from blindspot.backend.experiments.trainings import DualEncoder, TrainingData
from blindspot.backend.experiments.workbench import Workbench
from blindspot.backend.retrieval.bm25 import BM25
from blindspot.backend.training.training_settings import check_settings
from blindspot.backend.training_sets.denoising import Thresholds
from blindspot.db.errors import BadInput
from tests.experiments import TINY, experiment_study


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study shared by all tests: a later test reuses the models of an earlier one."""
    return experiment_study(tmp_path_factory.mktemp("studies") / "s")


def found(study, name, **more):
    given = {key: value for key, value in TINY.items() if key != "reader" or "reader" in experiment_named(name).takes}
    return run_experiment(study, name, {**given, **more}, "cpu")


def rows(result):
    return list(dict.fromkeys(cell["row"] for cell in result["cells"]))


@pytest.mark.slow
def test_negatives(study):
    result = found(study, "negatives", batches=[2, 3, 4])
    assert rows(result) == [
        "1 random",
        "1 BM25",
        "1 gold",
        "1 gold, IB",
        "2 gold, IB",
        "3 gold, IB",
        "2 gold + 3 BM25, IB",
        "2 gold + 6 BM25, IB",
        "3 gold + 4 BM25, IB",
    ]
    assert result["verdict"] == "inconclusive" and "only 1 seed (at least 3 needed)" in result["sentence"]


@pytest.mark.slow
def test_similarity(study):
    assert len(rows(found(study, "similarity"))) == 6


def test_distant_supervision(study):
    result = found(study, "distant-supervision", ks=[1, 5])
    assert [(cell["row"], cell["published"]) for cell in result["cells"]] == [
        ("gold", 44.9),
        ("gold", 66.8),
        ("distant", 43.9),
        ("distant", 65.3),
    ]


def test_sample_efficiency_trains_on_more_and_more(study):
    result = found(study, "sample-efficiency", sizes=[8])
    assert rows(result) == ["BM25", "8", "20"]
    assert result["plot"]["series"]["dense, @5"] == [[8, "8", "Success@5"], [20, "20", "Success@5"]]
    with pytest.raises(BadInput, match="20 training questions"):
        found(study, "sample-efficiency", sizes=[50])


def test_bm25_is_tuned_on_one_half_and_measured_on_the_other(study):
    """The best pair of the grid, found by plain loops over the first half."""
    result = found(study, "tune-bm25")
    bench = Workbench(study)
    plan = experiment_named("tune-bm25").plan(experiment_named("tune-bm25").setting({"on": "dev", "ks": (5,)}), bench)
    tuned = plan.cells[-1].measures[0].hits
    halves = [[question.id for question in asked.questions_of(bench)] for asked in (tuned.tuned_on, tuned.asked)]
    assert not set(halves[0]) & set(halves[1]) and len(halves[0] + halves[1]) == 12 and result["cells"][0]["n"] == 6
    by_hand = {}
    for k1, b in tuned.grid:
        hits = (
            BM25(bench, k1, b).search([question.text for question in tuned.tuned_on.questions_of(bench)], 20).ordinals
        )
        by_hand[k1, b] = np.mean(
            [
                any(
                    question.answers[0] in passage.text for passage in bench.corpus.passages([o for o in row if o >= 0])
                )
                for question, row in zip(tuned.tuned_on.questions_of(bench), hits.tolist(), strict=True)
            ]
        )
    bench.make(tuned)
    manifest = tuned.open(bench).manifest
    assert manifest["tuned"] == {f"{k1:g}, {b:g}": pytest.approx(value, abs=1e-4) for (k1, b), value in by_hand.items()}
    assert by_hand[manifest["k1"], manifest["b"]] == max(by_hand.values())


def test_what_needs_no_training(study):
    assert rows(found(study, "hybrid")) == ["BM25", "dense", "BM25 + weight x dense", "reciprocal ranks"]
    result = found(study, "retrieval", encoders=["tiny"])
    assert rows(result) == ["BM25", "tiny", "BM25 + tiny"]
    assert {cell["column"] for cell in result["cells"]} == {
        f"{name}/dev @{k}" for name in ("births", "deaths") for k in (5, 10)
    }


@pytest.mark.slow
def test_several_question_sets(study):
    cross = found(study, "cross-dataset", ks=[5])
    assert (
        rows(cross) == ["BM25", "trained on births", "trained on deaths"]
        and len(cross["cells"]) == 6
        and len(cross["claims"]) == 4
    )
    assert rows(found(study, "multi", ks=[5])) == ["BM25", "single", "multi"]
    with pytest.raises(BadInput, match="'nowhere' has no training questions"):
        found(study, "multi", sets=["nowhere", "births"])


@pytest.mark.parametrize("name", [name for name, about in EXPERIMENTS.items() if about.paper != "EntityQuestions"])
def test_every_plan_names_cells_that_are_there_and_settings_that_can_learn(study, name):
    """Experiments that are not run here are at least planned: claims and plots refer to cells, each row has a model for
    each seed.
    """
    chosen, bench = experiment_named(name), Workbench(study)
    given = {
        "start": "tiny",
        "seeds": (0, 1),
        **({"batches": (2, 3, 4)} if "batches" in chosen.takes else {}),
        **({"sizes": (8,)} if "sizes" in chosen.takes else {}),
        **({"encoders": ("tiny", "other")} if "encoders" in chosen.takes else {}),
    }
    plan = chosen.plan(chosen.setting(given), bench)
    places = {(cell.row, cell.column) for cell in plan.cells}
    assert len(places) == len(plan.cells) and len({row for row, _ in places}) > 1
    assert all({claim.expected_better, claim.expected_worse} - {None} <= places for claim in plan.claims)
    assert plan.plot is None or all(
        (row, column) in places for points in plan.plot.series.values() for _, row, column in points
    )
    for cell in plan.cells:
        assert not cell.is_trained or len(cell.measures) == 2
        for part in {
            part for measure in cell.measures for needed in measure.needs() for part in running.with_needs(needed)
        }:
            if isinstance(part, DualEncoder):
                check_settings(part.settings)


@pytest.fixture
def adds_positives(monkeypatch):
    """Step 4 takes every passage that its cross-encoder gives more than a probability of 0; a tiny one is sure of none."""
    thresholds = Thresholds(keep_below=0.0, propose_above=0.0)
    monkeypatch.setattr(rocketqa_steps, "TrainingData", partial(TrainingData, thresholds=thresholds))


def test_step_4_without_a_further_positive_is_not_trained(study, monkeypatch):
    """The tiny cross-encoder is sure of no passage: no model, no row and no claim, and the result says why."""
    trained, make = [], DualEncoder.make
    monkeypatch.setattr(DualEncoder, "make", lambda self, *given: (trained.append(self), make(self, *given))[1])
    result = found(study, "strategies", batches=[2])
    assert rows(result)[-1] == "hard negatives, denoised (step 3)" and len(rows(result)) == 4
    assert trained and all(len(model.data) == 1 for model in trained)
    assert not any("unlabelled" in claim["says"] for claim in result["claims"]) and len(result["claims"]) == 4
    assert (
        "Row 'data augmentation (step 4)' is not trained, because its unlabelled questions add no positive."
        in result["notes"]
    )
    assert found(study, "strategies", batches=[2])["key"] == result["key"]
    sizes = found(study, "augmentation-size", batches=[2], ks=[5])
    assert rows(sizes) == ["0"] and sizes["plot"]["series"] == {"step 4": [[0, "0", "Success@5"]]}


def test_rocketqas_strategies_share_their_steps(study, adds_positives):
    result = found(study, "strategies", batches=[2])
    assert len(rows(result)) == 5 and result["cells"][0]["published"] == 68.5
    assert len(result["claims"]) == 5 and not any("is not trained" in note for note in result["notes"])
    models = len(list((study.folder / "experiments" / "parts" / "models").glob("part-*")))
    ranks = found(study, "denoised-by-rank", batches=[2])
    assert rows(ranks) == ["rank 1", "ranks 2 to 5", "ranks 6 to 10"]
    assert (
        len(list((study.folder / "experiments" / "parts" / "models").glob("part-*"))) == models
    )  # every part that it needs existed


def test_better_retrieval_and_better_answers(study):
    """Two of the readings by hand: the answers that the reader gives, compared as SQuAD does, here plain enough for
    lower case alone."""
    from blindspot.backend.reader.reading import Reading

    result = found(study, "end-to-end", ks=[1, 5])
    assert rows(result) == [
        "BM25",
        "dense",
        "BM25 + dense",
        "dense, read by BM25's reader",
        "the one that finds most",
        "the one that finds least",
    ]
    assert [cell["n"] for cell in result["cells"][-2:]] == [6, 6]
    bench = Workbench(study)
    plan = experiment_named("end-to-end").plan(
        experiment_named("end-to-end").setting(running.hashable_options({**TINY, "ks": [1, 5]})), bench
    )
    read = next(cell.measures[0].reading for cell in plan.cells if cell.column == "EM@5")
    reading = Reading.open(bench, bench.name(read.hits), bench.name(read.reader))
    said = reading.answers(bench, [5])[5]
    asked = bench.questions.with_ids(reading.run.question_ids)
    by_hand = [
        answer is not None and answer.lower() in [each.lower() for each in question.answers]
        for answer, question in zip(said, asked, strict=True)
    ]
    cell = next(cell for cell in result["cells"] if (cell["row"], cell["column"]) == ("BM25", "EM@5"))
    assert cell["value"] == pytest.approx(np.mean(by_hand)) and cell["n"] == 12


@pytest.mark.slow
def test_more_and_more_unlabelled_questions(study, adds_positives):
    assert rows(found(study, "augmentation-size", batches=[2], ks=[5])) == ["0", "2", "4", "8"]


@pytest.mark.slow
def test_starts_and_random_negatives(study):
    assert rows(found(study, "pretrained", encoders=["tiny", "other"], batches=[1])) == ["tiny", "other"]
    with pytest.raises(BadInput, match="two encoders"):
        found(study, "pretrained", encoders=["tiny"])
    assert len(rows(found(study, "random-negatives", batches=[2, 3, 4]))) == 6
    with pytest.raises(BadInput, match="three sizes"):
        found(study, "random-negatives", batches=[2, 3])


def test_shares_of_unlabelled_questions_count_after_leaks_are_out(tmp_path):
    """Of four unlabelled questions one has the text of a dev question: a limit of half of them is half of three."""
    from blindspot.backend.experiments.rocketqa_steps import unlabelled_question_count
    from tests.studies import births, make_study, people

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
