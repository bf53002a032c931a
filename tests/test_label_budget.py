"""The label-budget experiment: figures by hand, the coverage of the interval, and a whole experiment on a tiny study,
killed and resumed.
"""

import dataclasses
import json

import numpy as np
import pytest
import scipy.stats

from blindspot.analysis.accuracy import mean
from blindspot.analysis.crossed import crossed_mean
from blindspot.backend.core.manifest import read_json
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.experiments import budget_results, label_budget
from blindspot.backend.experiments.gain import Gain
from blindspot.backend.judges.label_judge import learn_label_judge
from blindspot.backend.retrieval import bm25
from blindspot.backend.retrieval.retrieve import retrieve
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
        found = crossed_mean(values, signed=binary)
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


def gain(before, after, seeds=3, questions=400, found=(40, 80)):
    """Every seed answers the first so many questions."""
    rows = [np.tile(np.arange(questions) < count, (seeds, 1)) for count in found]
    return Gain.of(before, after, *rows)


def test_the_verdicts():
    """10 points more for 200 labels are 5 points per hundred labels."""
    better = gain(100, 300)
    assert better.difference.value == 0.1 and better.per_hundred(0.1) == pytest.approx(5.0)
    verdict, sentence = better.verdict(1.0)
    assert (
        verdict == "worth it"
        and "the last 200 labels changed Success@k by +10.0 points" in sentence
        and "+5.00 points per hundred labels" in sentence
    )
    assert better.verdict(20.0)[0] == "not worth it" and better.verdict(5.0)[0] == "inconclusive"
    assert gain(100, 300, found=(80, 40)).verdict(0.1)[0] == "not worth it"
    # No question changed. Of 400 that leaves changes of up to a point, and two for 200 labels are one per hundred.
    unchanged = gain(100, 300, found=(40, 40))
    assert unchanged.verdict(1.0)[0] == "not worth it" and unchanged.verdict(0.1)[0] == "inconclusive"
    assert -0.01 < unchanged.difference.low < 0 < unchanged.difference.high < 0.01


def test_too_little_to_tell():
    assert gain(100, 300, seeds=2).verdict(0.1) == (
        "inconclusive",
        "Inconclusive: only 2 seeds (at least 3 needed).",
    )
    assert gain(100, 300, questions=29, found=(1, 20)).verdict(0.1)[0] == "inconclusive"
    assert gain(7, 7).verdict(0.1) == ("inconclusive", "Inconclusive: the last two budgets have the same labels.")
    with pytest.raises(ValueError, match="same seeds and questions"):
        Gain.of(1, 2, np.ones((3, 5)), np.ones((2, 5)))


QUICK = {
    "steps": 2,
    "batch": 4,
    "evaluate_every": 2,
    "held_out": 3,
    "pool": 10,
    "question_tokens": 24,
    "passage_tokens": 48,
    "learning_rate": 1e-3,
}
ASKED = {
    "run": "mined",
    "start": "tiny",
    "shares": [0, 50, 100],
    "seeds": [0, 1],
    "k": 5,
    "settings": QUICK,
    "device": "cpu",
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A run, a start model, four labels of training questions, then one of a dev question. Tests must not write to
    it.
    """
    passages = people()
    asked = births(passages, "train")
    dev = [
        dataclasses.replace(q, id=f"dev.{q.id}", split="dev", frequency=1 + 9 * (n % 2))
        for n, q in enumerate(asked[20:])
    ]
    study = make_study(tmp_path_factory.mktemp("studies") / "s", passages, [*asked[:20], *dev])
    bm25.build_index(study, threads=2)
    retrieve(study, "bm25", k=10, split="train", name="mined")
    tiny_bert(study.folder / "models" / "start")
    add_encoder(
        study.settings_path,
        "tiny",
        {"model": str(study.folder / "models" / "start"), "pooling": "cls", "max_tokens": 64},
    )
    People(study.labels_path).add("ann", "annotator")
    run = study.run("mined")
    for number in range(4):
        question = asked[number]
        others = [
            p.id
            for p in study.corpus.passages(run.hits.ordinals[run.row(question.id)].tolist())
            if p.id not in question.gold
        ]
        say(study, "ann", question.id, {others[0]: "positive"})
        if number == 1:
            say(study, "ann", dev[0].id, {"p2": "positive"})  # it trains nothing, and counts towards no budget
    return study


@pytest.fixture(scope="module")
def whole(bare, tmp_path_factory):
    """A study in which the experiment was killed in its third training and resumed, with its output and its steps."""
    pytest.importorskip("accelerate", reason="training needs accelerate")
    study, seen, folder = copied(bare, tmp_path_factory.mktemp("whole") / "s"), [], []

    def watch(done, total, doing):
        seen.append(doing)
        if doing.startswith("3 of 6") and "training" in doing and not folder:
            folder.extend(sorted(path.name for path in study.folder.glob("experiments/.budget~working/[0-9]*")))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        label_budget.label_budget(study, "budget", **ASKED, progress=watch)
    before = len(seen)
    result = label_budget.label_budget(study, "budget", **ASKED, progress=watch)
    return study, result, seen[before:], folder


def test_budgets_hold_the_labels_up_to_an_event(whole):
    study, result, _, _ = whole
    events = [event.number for event in Labels(study.labels_path).events() if event.kind == "label"]
    assert [(each["share"], each["labels"], each["until"]) for each in result["budgets"]] == [
        (0, 0, 0),
        (50, 2, events[1]),
        (100, 4, events[4]),
    ]  # the third label is of dev
    relabelled = []
    for budget in result["budgets"]:
        pairs = [pair for _, found in TrainingSet.open(study, budget["name"]).groups() for pair in found]
        relabelled.append(sum(pair.label == "positive" and pair.role == "positive" for pair in pairs))
    assert relabelled == [0, 2, 4]


def test_it_goes_on_where_it_was_killed(whole):
    _, result, later, cells = whole
    assert cells == ["000-0", "050-0"]  # kept when the third was begun
    assert not any(doing.startswith(("1 of 6", "2 of 6")) for doing in later) and any(
        doing.startswith("6 of 6") for doing in later
    )
    assert [len(budget["by_seed"]) for budget in result["budgets"]] == [2, 2, 2]


def test_results_stay_as_they_are(whole):
    study, result, _, _ = whole
    folder = study.folder / "experiments" / "budget"
    assert json.loads(json.dumps(result)) == read_json(folder / "result.json")
    assert sorted(path.name for path in folder.iterdir()) == [
        "000-0",
        "000-1",
        "050-0",
        "050-1",
        "100-0",
        "100-1",
        "manifest.json",
        "result.json",
    ]
    assert not list(study.folder.glob("experiments/.budget*"))
    assert label_budget.label_budget(study, "budget", **ASKED) == read_json(folder / "result.json")
    with pytest.raises(Refused, match="an experiment 'budget' with other settings already exists"):
        label_budget.label_budget(study, "budget", **{**ASKED, "k": 4})
    sets = read_json(folder / "manifest.json")["sets"]
    assert set(sets) == {"budget-000", "budget-050", "budget-100"} and all(each["sha256"] for each in sets.values())


def test_figures_are_of_the_hits_that_are_kept(whole):
    """Counted by hand from the arrays, with the one label of dev."""
    study, result, _, _ = whole
    p2 = study.corpus.ordinals(["p2"])["p2"]
    for budget in result["budgets"]:
        shares = []
        for seed in (0, 1):
            cell = study.folder / "experiments" / "budget" / f"{budget['share']:03d}-{seed}"
            ids, ordinals = read_json(cell / "questions.json"), np.load(cell / "ordinals.npy")
            right = []
            for id, row in zip(ids, ordinals.tolist(), strict=True):
                question = study.questions.get(id)
                texts = [passage.text for passage in study.corpus.passages(row)]
                right.append(any(question.answers[0] in text for text in texts) or (id == ids[0] and p2 in row))
            shares.append(np.mean(right))
        assert budget["by_seed"] == pytest.approx(shares) and budget["success"]["value"] == pytest.approx(
            np.mean(shares)
        )
        assert budget["success"]["n"] == 20 and {name: figure["n"] for name, figure in budget["buckets"].items()} == {
            "<=1 mentions": 10,
            "10-29 mentions": 10,
        }
    assert (
        result["verdict"] == "inconclusive"
        and "only 2 seeds (at least 3 needed) and 20 facts (at least 30 needed)" in result["sentence"]
    )
    lines = budget_results.as_lines(result)
    assert lines[0].startswith("Success@5, %") and lines[-1] == result["sentence"] and len(lines) == 1 + 3 * 3 + 2


def test_the_command(whole, monkeypatch):
    from typer.testing import CliRunner

    from blindspot.app.cli import app

    study, result, _, _ = whole
    asked = read_json(study.folder / "experiments" / "budget" / "manifest.json")["request"]
    monkeypatch.setattr(
        label_budget,
        "_request",
        lambda experiment: asked | {"k": experiment.settings.k, "seeds": list(experiment.settings.seeds)},
    )
    words = [
        "experiment",
        "label-budget",
        "budget",
        "--run",
        "mined",
        "--start",
        "tiny",
        "--shares",
        "0,50,100",
        "--seeds",
        "0,1",
        "--k",
        "5",
        "--study",
        str(study.folder),
    ]
    runner = CliRunner()
    done = runner.invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0 and result["sentence"] in done.output and "100% (4 labels)" in done.output
    assert json.loads(runner.invoke(app, [*words, "--json"], catch_exceptions=False).stdout) == result
    assert runner.invoke(app, [*words, "--seeds", "0;1"]).exit_code == 2


@pytest.mark.parametrize("asked, error, said", [
    ({"split": "train"}, Refused, "training questions"), ({"shares": [50]}, BadInput, "two shares"), ({"shares": [0, 101]}, BadInput, "0 to 100"),
    ({"policy": "answer_match"}, BadInput, "does not use labels"), ({"seeds": []}, BadInput, "at least one seed"), ({"k": 0}, BadInput, "k must be a whole number of at least 1"), ({"k": 61}, BadInput, "k must be from 1 to 60"),
    ({"settings": {"bach": 1}}, BadInput, "bach")])  # fmt: skip
def test_what_cannot_be_asked(bare, asked, error, said):
    with pytest.raises(error, match=said):
        label_budget.label_budget(bare, "wrong", **{**ASKED, **asked})


def test_a_judge_that_knows_all_labels_is_refused(bare, tmp_path):
    study = copied(bare, tmp_path / "s")
    learn_label_judge(study, "said", "mined")
    with pytest.raises(Refused, match="even the smallest share would know them all"):
        label_budget.label_budget(study, "wrong", **{**ASKED, "policy": "judge+labels", "model": "said"})


def test_without_labels_there_is_nothing_to_compare(bare, tmp_path):
    study = copied(bare, tmp_path / "s")
    study.questions.connection.execute(
        "UPDATE question SET split = 'test' WHERE split = 'train' AND id IN (SELECT question FROM label_event)"
    )
    study.questions.connection.commit()
    with pytest.raises(Refused, match="nobody has labelled a passage of a training question"):
        label_budget.label_budget(study, "wrong", **ASKED)
