"""The experiment label-budget: figures by hand, the coverage of the interval, and a whole experiment on a tiny study,
killed and resumed.
"""

import dataclasses

import numpy as np
import pytest
import scipy.stats

from blindspot.analysis.accuracy import mean
from blindspot.analysis.crossed import crossed_mean
from blindspot.backend.core.manifest import atomic_folder, read_json, write_json, write_manifest
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.experiments import tables
from blindspot.backend.experiments.plan import PaperClaim
from blindspot.backend.experiments.running import results, run_experiment
from blindspot.backend.experiments.workbench import Workbench
from blindspot.backend.retrieval import bm25
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.errors import BadInput, Refused
from blindspot.db.labels import Labels
from blindspot.db.people import People
from tests.studies import births, make_study, people, tiny_bert
from tests.training_studies import copied, say


def test_one_seed_has_the_interval_of_the_questions():
    values = np.random.default_rng(1).random((1, 300)) < 0.3
    ours, plain = crossed_mean(values), mean(values[0])
    assert ours.value == pytest.approx(plain.value) == values.mean()
    assert ours.low == pytest.approx(plain.low, abs=0.001) and ours.high == pytest.approx(plain.high, abs=0.001)
    exact = scipy.stats.ttest_1samp(values[0].astype(float), 0).confidence_interval()
    assert (ours.low, ours.high) == (pytest.approx(exact.low, abs=0.006), pytest.approx(exact.high, abs=0.006))


def test_the_interval_lets_seeds_vary():
    """If all questions of a seed have the same value, they count as one: the interval is Student's over the five
    seeds. The values lie beyond 1, as influences do: the interval is symmetric.
    """
    values = 10 * np.repeat(np.array([[0.2], [0.3], [0.4], [0.5], [0.6]]), 500, axis=1)
    ours, exact = crossed_mean(values), scipy.stats.ttest_1samp(values[:, 0], 0).confidence_interval()
    assert (ours.low, ours.high) == (pytest.approx(exact.low), pytest.approx(exact.high))
    alike = crossed_mean(np.tile(values[:, :1].T, (3, 1)))
    assert (alike.low, alike.high) == (pytest.approx(exact.low), pytest.approx(exact.high)), "seeds that do not differ"


def coverage(rounds, seeds, questions, of_seeds, seed=0, binary=False):
    """Return the share of intervals that contain the true mean 0 of crossed effects; `of_seeds`: standard deviation
    between seeds.
    """
    rng, covered = np.random.default_rng(seed), 0
    for _ in range(rounds):
        shape = (seeds, questions)
        shift = rng.normal(0, of_seeds, (seeds, 1))
        if binary:  # differences of success: -1, 0 or 1
            rate = np.clip(0.3 * rng.random((1, questions)), 0.05, 0.3)
            u = rng.random(shape)
            values = np.where(u < (rate + shift) / 2, 1.0, np.where(u < rate, -1.0, 0.0))
        else:
            values = shift + rng.normal(0, 0.3, (1, questions)) + rng.normal(0, 0.3, shape)
        found = crossed_mean(values, is_signed=binary)
        covered += found.low <= 0 <= found.high
    return covered / rounds


def test_the_interval_covers():
    """19 in 20 intervals contain the truth, even if three seeds vary more than the questions (a bootstrap covered 0.82
    there).
    """
    assert coverage(300, 8, 60, 0.02) >= 0.91
    assert coverage(300, 3, 400, 0.1) >= 0.91


@pytest.mark.slow
@pytest.mark.parametrize("of_seeds", [0, 0.01, 0.02, 0.05, 0.1])
@pytest.mark.parametrize("seeds", [3, 5, 8])
def test_the_interval_covers_in_many_rounds(seeds, of_seeds):
    for questions in (60, 400, 1348):
        assert coverage(2000, seeds, questions, of_seeds, seed=questions) >= 0.935
    # Differences of success on identical questions: the interval is conservative.
    assert coverage(2000, seeds, 400, min(of_seeds, 0.03), seed=1, binary=True) >= 0.935


def judged(found=(40, 80), labels=200, worth=0.1, seeds=3, questions=400):
    """Return the verdict on labels after which every seed answers `found[1]` questions, and `found[0]` before."""
    before, after = (np.tile(np.arange(questions) < count, (seeds, 1)).astype(float) for count in found)
    claim = PaperClaim("worth it", ("after", ""), ("before", ""), minimum_gain=worth / 100 * labels / 100)
    return claim.judge(after, before, is_trained=True, confidence=0.95)


def test_the_verdicts():
    """10 points more for 200 labels are 5 points per hundred labels."""
    assert judged()["difference"] == pytest.approx(0.1)
    assert [judged(worth=points)["word"] for points in (1.0, 5.0, 20.0)] == [
        "supported",
        "inconclusive",
        "not supported",
    ]
    assert judged(found=(80, 40))["word"] == "not supported"
    # No question changed. Of 400 that leaves changes of up to a point, and two for 200 labels are one per hundred.
    assert judged(found=(40, 40), worth=1.0)["word"] == "not supported"
    assert judged(found=(40, 40))["word"] == "inconclusive"


def test_too_little_to_tell():
    few = judged(seeds=2)
    assert few["word"] == "inconclusive" and few["because"] == "only 2 seeds (at least 3 needed)"
    assert judged(questions=29, found=(1, 20))["word"] == "inconclusive"


GIVEN = {
    "start": "tiny",
    "shares": [0, 50, 100],
    "seeds": [0, 1],
    "ks": [5],
    "depth": 10,
    "training": {
        "steps": 2,
        "batch": 4,
        "evaluate_every": 2,
        "held_out": 3,
        "pool": 10,
        "question_tokens": 24,
        "passage_tokens": 48,
        "learning_rate": 1e-3,
    },
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """BM25, a start model, four labels of training questions, and one of a dev question between them. Tests must not
    write to it.
    """
    passages = people()
    asked = births(passages, "train")
    dev = [
        dataclasses.replace(q, id=f"dev.{q.id}", split="dev", frequency=1 + 9 * (n % 2))
        for n, q in enumerate(asked[20:])
    ]
    study = make_study(tmp_path_factory.mktemp("studies") / "s", passages, [*asked[:20], *dev])
    bm25.build_index(study, threads=2)
    tiny_bert(study.folder / "models" / "start")
    add_encoder(
        study.settings_path,
        "tiny",
        {"model": str(study.folder / "models" / "start"), "pooling": "cls", "max_tokens": 64},
    )
    People(study.labels_path).add("ann", "annotator")
    for number in range(4):
        question = asked[number]
        say(study, "ann", question.id, {next(p.id for p in passages if p.id not in question.gold): "positive"})
        if number == 1:
            say(study, "ann", dev[0].id, {"p2": "positive"})  # it trains nothing, and counts towards no budget
    return study


@pytest.fixture(scope="module")
def whole(bare, tmp_path_factory):
    """A study in which the experiment was killed in its third training and resumed; its result, and the trainings of
    each call.
    """
    pytest.importorskip("accelerate", reason="training needs accelerate")
    study, trainings = copied(bare, tmp_path_factory.mktemp("whole") / "s"), [[]]

    def watch(done, total, doing):
        if "training a dual encoder" in doing and doing.split(":")[0] not in trainings[-1]:
            trainings[-1].append(doing.split(":")[0])
        if len(trainings) == 1 and len(trainings[0]) == 3:
            trainings.append([])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(study, "label-budget", GIVEN, "cpu", watch)
    result = run_experiment(study, "label-budget", GIVEN, "cpu", watch)
    return study, result, trainings


def sets_of(study):
    bench = Workbench(study, "cpu")
    return [TrainingSet.open(bench, path.name) for path in bench.home.glob("training_sets/part-*")]


def test_budgets_hold_the_labels_up_to_an_event(whole):
    study, result, _ = whole
    events = [event.number for event in Labels(study.labels_path).events() if event.kind == "label"]
    rows = list(dict.fromkeys(cell["row"] for cell in result["cells"]))
    assert rows[::3] == ["0% (0 labels)", "50% (2 labels)", "100% (4 labels)"]
    found = {}
    for each in sets_of(study):
        pairs = [pair for _, group in each.groups() for pair in group]
        positives = sum(pair.label == "positive" and pair.role == "positive" for pair in pairs)
        found[each.manifest["request"]["until"]] = positives
    assert found == {0: 0, events[1]: 2, events[4]: 4}  # the third label is of dev


def test_it_resumes_where_it_was_killed(whole):
    _, result, trainings = whole
    assert len(trainings[0]) == 3 and len(trainings[1]) == 4, "two of six models were finished, the third resumes"
    assert all(cell["seeds"] == 2 for cell in result["cells"])


def test_results_stay_as_they_are(whole):
    study, result, _ = whole
    (folder,) = (study.folder / "experiments").glob("label-budget-*")
    before = (folder / "result.json").read_bytes()
    assert run_experiment(study, "label-budget", GIVEN, "cpu") == read_json(folder / "result.json")
    assert (folder / "result.json").read_bytes() == before and results(study)[0]["key"] == result["key"]


def test_figures_are_of_the_hits_that_are_kept(whole):
    """Counted by hand from the arrays, with the one label of dev."""
    study, result, _ = whole
    p2 = study.corpus.ordinals(["p2"])["p2"]
    shares = []
    for run in (study.folder / "experiments" / "parts" / "runs").glob("part-*"):
        ids, ordinals = read_json(run / "questions.json"), np.load(run / "ordinals.npy")
        if not ids[0].startswith("dev."):
            continue
        right = []
        for id, row in zip(ids, ordinals.tolist(), strict=True):
            question = study.questions.get(id)
            texts = [passage.text for passage in study.corpus.passages(row)]
            right.append(any(question.answers[0] in text for text in texts) or (id == ids[0] and p2 in row))
        shares.append(np.mean(right))
    cells = [cell for cell in result["cells"] if cell["row"].endswith("labels)")]
    assert sorted(sum((cell["by_seed"] for cell in cells), [])) == pytest.approx(sorted(shares)) and len(shares) == 6
    assert all(cell["value"] == pytest.approx(np.mean(cell["by_seed"])) and cell["n"] == 20 for cell in cells)
    buckets = [cell for cell in result["cells"] if cell["row"].startswith("0% (0 labels), ")]
    assert {cell["row"].split(", ")[1]: cell["n"] for cell in buckets} == {"<=1 mentions": 10, "10-29 mentions": 10}
    assert result["sentence"] == (
        "The finding is inconclusive here: only 2 seeds (at least 3 needed) and 20 independent questions (at least 30 "
        "needed)."
    )


def test_the_command(whole):
    from typer.testing import CliRunner

    from blindspot.app.cli import app

    study, result, _ = whole
    words = "experiment label-budget --from tiny --shares 0,50,100 --seeds 0,1 --k 5 --depth 10 --device cpu".split()
    words += [word for name, value in GIVEN["training"].items() for word in ("--training", f"{name}={value}")]
    runner = CliRunner()
    done = runner.invoke(app, [*words, "--study", str(study.folder), "--csv"], catch_exceptions=False)
    assert done.exit_code == 0 and done.stdout == tables.as_csv(result)
    assert runner.invoke(app, [*words, "--seeds", "0;1"]).exit_code == 2


def test_the_same_labels_twice_make_no_claim(bare, tmp_path):
    from blindspot.backend.experiments.papers.label_budget import plan
    from blindspot.backend.experiments.running import experiment_named, hashable_options

    setting = experiment_named("label-budget").setting(hashable_options({**GIVEN, "shares": [0, 10]}))
    planned = plan(setting, Workbench(bare, "cpu"))
    assert not planned.claims and "contain the same labels" in list(planned.notes)[0]


@pytest.mark.parametrize("given, error, said", [
    ({"on": "train"}, Refused, "training questions"), ({"shares": [50]}, BadInput, "two shares"), ({"shares": [0, 101]}, BadInput, "0 to 100"),
    ({"policy": "answer_match"}, BadInput, "does not use labels"), ({"seeds": []}, BadInput, "at least one seed"),
    ({"training": {"bach": 1}}, BadInput, "bach")])  # fmt: skip
def test_what_cannot_be_asked(bare, given, error, said):
    with pytest.raises(error, match=said):
        run_experiment(bare, "label-budget", {**GIVEN, **given}, "cpu")


def test_without_labels_there_is_nothing_to_compare(bare, tmp_path):
    study = copied(bare, tmp_path / "s")
    study.questions.connection.execute(
        "UPDATE question SET split = 'test' WHERE split = 'train' AND id IN (SELECT question FROM label_event)"
    )
    study.questions.connection.commit()
    with pytest.raises(Refused, match="nobody has labelled a passage of a training question"):
        run_experiment(study, "label-budget", GIVEN, "cpu")


def test_a_result_of_an_older_version_opens(bare, tmp_path):
    """As versions before 0.3.0 stored it, under the name that the user gave."""
    study = copied(bare, tmp_path / "s")
    share = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 20, "units": 10, "method": "t"}
    old = {
        "name": "mine",
        "k": 20,
        "split": "dev",
        "seeds": [0, 1, 2],
        "convention": "Success@20 over the questions of dev.",
        "budgets": [
            {"share": each, "labels": each, "until": 0, "name": "", "success": share, "by_seed": [0.5] * 3,
             "buckets": {"10-29 mentions": share}}
            for each in (0, 100)
        ],
        "gain": {"labels_before": 0, "labels_after": 100, **share},
        "worth": 0.1,
        "verdict": "worth it",
        "sentence": "The next hundred labels are worth it: so it was.",
    }  # fmt: skip
    with atomic_folder(study.folder / "experiments" / "mine") as folder:
        write_json(folder / "result.json", old)
        write_manifest(folder, {"kind": "experiment", "what": "label budget", "name": "mine", "request": {}})
    (result,) = results(study)
    assert result["verdict"] == "supported" and result["sentence"] == old["sentence"]
    rows, columns, cells = tables.result_grid(result)
    assert rows == [
        "0% (0 labels)",
        "0% (0 labels), 10-29 mentions",
        "100% (100 labels)",
        "100% (100 labels), 10-29 mentions",
    ]
    assert columns == ["Success@20"] and cells[rows[0], "Success@20"]["by_seed"] == [0.5] * 3
    assert "50.0 (40.0–60.0)" in tables.result_table(result).as_markdown() and old["sentence"] in tables.as_latex(
        result
    )
