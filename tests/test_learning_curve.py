"""The learning curve: how much labels improve retrieval on dev, one point at a time."""

import json
from itertools import count

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from blindspot.backend.core.settings import add_encoder
from blindspot.backend.evaluation.comparison import Comparison, measure
from blindspot.backend.judging.batches import batch_of_pairs
from blindspot.backend.retrieval import bm25, dense
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.text.answers import match_run
from blindspot.backend.training import curve_bench, learning_curve
from blindspot.backend.training.curve_bench import curve_inputs
from blindspot.backend.training.learning_curve import add_history, add_point
from blindspot.backend.training.stored_curve_points import LABELS_PER_POINT, changed_pairs, curve_points, is_point_due
from blindspot.db.errors import Missing
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue
from tests.studies import births, make_study, people, tiny_bert
from tests.training_studies import copied

TRAIN = 30
_numbers = count(1)


def ready(folder):
    """A study of 30 training and 40 dev questions. Every training question has one gold passage, and BM25 finds it first."""
    passages = people(105)
    train, dev = births(passages, "train")[:TRAIN], births(passages, "dev")[TRAIN:]
    study = make_study(folder, passages, [*train, *dev])
    tiny_bert(folder / "models" / "tiny")
    add_encoder(
        study.settings_path, "tiny", {"model": str(folder / "models" / "tiny"), "pooling": "cls", "max_tokens": 64}
    )
    bm25.build_index(study, threads=1)
    dense.build_index(study, "tiny", device="cpu")
    for split in ("train", "dev"):
        retrieve(study, "bm25", split=split, k=10)
    everybody = People(study.labels_path)
    everybody.add("lea", "lead")
    everybody.add("ann")
    return study


@pytest.fixture(scope="module")
def unlabelled(tmp_path_factory):
    """The study of `ready`. Tests copy it."""
    return ready(tmp_path_factory.mktemp("bare") / "s")


@pytest.fixture(scope="module")
def study(unlabelled, tmp_path_factory):
    return copied(unlabelled, tmp_path_factory.mktemp("curve") / "s")


@pytest.fixture
def own(unlabelled, tmp_path):
    """A copy for one test."""
    return copied(unlabelled, tmp_path / "s")


def say(study, question, labels, who="ann"):
    event = LabelEvent(f"c{next(_numbers)}", "label", question, tuple(Choice(*each) for each in labels.items()))
    Labels(study.labels_path, passages=study.corpus.ordinals).add(who, event)


def listed(study, question, run="bm25-train"):
    """(passage id, whether it contains an answer) of the hits of a training question that gold does not name."""
    opened = study.run(run)
    row = opened.row(question)
    gold = study.questions.get(question).gold
    passages = study.corpus.passages(opened.hits.ordinals[row].tolist())
    return [(p.id, bool(a)) for p, a in zip(passages, opened.answers()[row], strict=True) if p.id not in gold]


@pytest.fixture(scope="module")
def told(study):
    """The point without labels, then one after the labels of 12 training questions: three passages each."""
    first = add_point(study)
    for number in range(12):
        question = f"P19.train.{number}"
        say(study, question, {p: "positive" if holds else "negative" for p, holds in listed(study, question)[:3]})
    return first, add_point(study)


def test_a_point_says_what_it_measured_and_with_what(study, told):
    first, point = told
    answers = np.asarray(study.run("bm25-dev").answers())
    base = point.base_reranker
    assert (base.n, base.value) == (len(answers), pytest.approx(answers[:, 0].mean()))
    assert (base.low, base.high) == pytest.approx(
        proportion_confint(answers[:, 0].sum(), len(answers), method="wilson")
    )
    reranked = study.run(point.scopes["judged"].run)
    assert point.scopes["judged"].reranker.value == pytest.approx(np.asarray(reranked.answers())[:, 0].mean())
    questions = study.questions.with_ids(reranked.question_ids)
    assert np.array_equal(reranked.answers(), match_run(study.corpus, questions, reranked.hits.ordinals))
    assert not np.array_equal(reranked.answers(), answers)  # reordered
    assert point.inputs == {"train": "bm25-train", "dev": "bm25-dev", "retriever": "bm25", "encoder": "tiny"}
    assert point.settings["seed"] == 0 and point.settings["judge"]["depth"] == 10
    assert point.relevance == "answers"


def test_a_point_counts_the_labels_that_it_learned_from(told):
    first, point = told
    assert (first.labels, first.judged, first.new_labels, first.before) == (0, 0, 0, None)
    assert (point.labels, point.judged, point.new_labels, point.before) == (36, 12, 36, first.number)
    assert point.authors == {"ann": 36} and point.scopes["judged"].questions == 12
    # Gold alone teaches the scope "all" from the start; the prior orders the other one before the first label.
    assert first.scopes["judged"].model == "prior"
    assert first.scopes["all"].questions == TRAIN and first.scopes["all"].model == "ensemble"
    assert point.scopes["judged"].model == "ensemble"


def test_the_changed_pairs_are_those_whose_role_the_labels_changed(study, told):
    """A passage without an answer was a negative before; to say so changes nothing. One with an answer was left out."""
    _, point = told
    pairs = changed_pairs(study, point.number)
    held = {f"P19.train.{number}": dict(listed(study, f"P19.train.{number}")[:3]) for number in range(12)}
    expected = {(question, p) for question, row in held.items() for p, answer in row.items() if answer}
    assert {(pair.question, pair.passage) for pair in pairs} == expected and len(pairs) == point.changed > 0
    assert {(pair.before, pair.now) for pair in pairs} == {("left out", "positive")}
    with pytest.raises(Missing, match="no point 99.*judge curve --list"):
        changed_pairs(study, 99)


def test_answered_and_lost_are_the_cells_that_compare_opens(study, told):
    _, point = told
    for learned in point.scopes.values():
        compared = Comparison.of_runs(measure(study, learned.run_before), measure(study, learned.run))
        before, now = compared.first_ranks_a == 1, compared.first_ranks_b == 1
        assert (learned.answered, learned.lost) == ((~before & now).sum(), (before & ~now).sum())


def test_dev_never_trains(own, monkeypatch):
    """Labels that would turn everything round are on dev questions. They change nothing, and are counted as what they are."""
    study = own
    say(study, "P19.train.0", {p: "negative" for p, _ in listed(study, "P19.train.0")[:2]})
    before = add_point(study)
    for question in study.run("bm25-dev").question_ids:
        labels = {p: "positive" for p, _ in listed(study, question, "bm25-dev")}
        say(study, question, labels | dict.fromkeys(study.questions.get(question).gold, "negative"))
    taught = []
    original = curve_bench.fit_ranker
    monkeypatch.setattr(curve_bench, "fit_ranker", lambda *a: taught.append(a[0]) or original(*a))
    lists_seen = []
    original_lists = curve_bench.CurveBench.training_lists

    def training_lists(self, *a):
        made = original_lists(self, *a)
        lists_seen.extend(question.split for question in made[0].questions)
        return made

    monkeypatch.setattr(curve_bench.CurveBench, "training_lists", training_lists)
    after = add_point(study)
    assert taught and set(lists_seen) == {"train"}
    assert after.held_out_labels > 300 and after.labels == before.labels == 2 and after.changed == 0
    assert after.new_labels == 0 and after.authors == {}
    for scope in before.scopes:
        assert after.scopes[scope].reranker == before.scopes[scope].reranker
        assert (after.scopes[scope].answered, after.scopes[scope].lost) == (0, 0)
    assert is_point_due(study) is None  # labels of dev call for no point


def test_points_stay_and_the_runs_of_old_points_go(own):
    study = own
    folders = []
    for number in range(4):
        question = f"P19.train.{number}"
        say(study, question, {p: "negative" for p, _ in listed(study, question)[:2]})
        add_point(study)
        files = sorted(path for path in study.path("learning_curve").rglob("*") if path.is_file())
        assert all(path.read_bytes() == content for path, content in folders)
        folders = [(path, path.read_bytes()) for path in files]
    points = curve_points(study)
    assert [point.number for point in points] == [1, 2, 3, 4, 5] and points[0].reason == "start"
    kept = {name for name in study.runs() if name.startswith("curve-")}
    assert kept == {f"curve-{scope}-{number}" for scope in ("judged", "all") for number in (3, 4, 5)}


def test_a_point_is_due_every_25_labels_and_after_a_finished_batch(own):
    study = own
    assert LABELS_PER_POINT == 25 and is_point_due(study) is None
    pairs = [(f"P19.train.{i}", p) for i in range(3) for p, _ in listed(study, f"P19.train.{i}")[:2]]
    batch_of_pairs(study, "b", pairs)
    add_point(study)
    queue = Queue(study.labels_path)
    labels = Labels(study.labels_path, passages=study.corpus.ordinals)
    for lease in queue.claim("ann", 3):
        assert is_point_due(study) is None
        chosen = tuple(Choice(p, "negative") for q, p in pairs if q == lease.question)
        labels.add("ann", LabelEvent(f"c{next(_numbers)}", "label", lease.question, chosen, batch="b"))
        queue.finish("ann", "b", lease.question)
    assert is_point_due(study) == "batch"
    add_point(study, "batch")
    assert is_point_due(study) is None
    for number in range(4, 12):
        say(study, f"P19.train.{number}", {p: "negative" for p, _ in listed(study, f"P19.train.{number}")[:3]})
    assert is_point_due(study) is None  # 24 labels since
    say(study, "P19.train.20", {listed(study, "P19.train.20")[0][0]: "unsure"})
    assert is_point_due(study) == "labels"


def test_labels_start_the_job_by_themselves(own, monkeypatch):
    """The first label asks for the point without labels. Labels that come while it is computed get theirs in the same job."""
    from blindspot.backend.core import jobs
    from blindspot.backend.training.learning_curve import start_if_due

    study = own
    assert start_if_due(study) is None
    submitted = []
    monkeypatch.setattr(jobs, "submit", lambda function, study, *a, **named: submitted.append((a, named)) or "id")
    say(study, "P19.train.0", {p: "negative" for p, _ in listed(study, "P19.train.0")[:3]})
    assert start_if_due(study) == "id" and submitted == [(("start",), {"until": 0})]
    for number in range(1, 10):
        say(study, f"P19.train.{number}", {p: "negative" for p, _ in listed(study, f"P19.train.{number}")[:3]})
    jobs.run(add_point, study, "start", until=0)
    assert [(point.reason, point.labels) for point in curve_points(study)] == [("start", 0), ("labels", 30)]
    assert is_point_due(study) is None


def test_a_point_that_fails_is_not_tried_after_every_label(own, monkeypatch):
    from blindspot.backend.core import jobs
    from blindspot.backend.training.learning_curve import start_if_due

    study = own
    add_point(study)
    for number in range(9):
        say(study, f"P19.train.{number}", {p: "negative" for p, _ in listed(study, f"P19.train.{number}")[:3]})
    last = Labels(study.labels_path).last_event
    monkeypatch.setattr(learning_curve, "_add", lambda *a: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        jobs.run(add_point, study, "labels", until=last)
    monkeypatch.setattr(jobs, "submit", lambda *a, **named: "id")
    say(study, "P19.train.20", {p: "negative" for p, _ in listed(study, "P19.train.20")[:3]})
    assert is_point_due(study) == "labels" and start_if_due(study) is None
    for number in range(10, 18):
        say(study, f"P19.train.{number}", {p: "negative" for p, _ in listed(study, f"P19.train.{number}")[:3]})
    assert start_if_due(study) == "id"  # 27 labels later it may have another go


def test_the_history_has_the_points_that_lack(own):
    study = own
    for number in range(20):
        say(study, f"P19.train.{number}", {p: "negative" for p, _ in listed(study, f"P19.train.{number}")[:3]})
    numbers = add_history(study)
    points = {point.number: point for point in curve_points(study)}
    assert [points[number].labels for number in numbers] == [25, 50]
    assert add_history(study) == []


def test_what_lacks_is_said_with_its_command(tmp_path):
    passages = people(30)
    study = make_study(tmp_path / "s", passages, births(passages, "dev"))
    with pytest.raises(Missing, match="retrieve --with bm25 --split train"):
        curve_inputs(study)
    with pytest.raises(Missing, match="no run 'mine'"):
        curve_inputs(study, train="mine")


def test_a_point_needs_no_dense_index(tmp_path):
    passages = people(60)
    study = make_study(tmp_path / "s", passages, [*births(passages, "train")[:15], *births(passages, "dev")[15:]])
    bm25.build_index(study, threads=1)
    for split in ("train", "dev"):
        retrieve(study, "bm25", split=split, k=10)
    point = add_point(study)
    assert point.inputs["encoder"] is None and point.scopes["all"].questions > 0


def test_the_command_line_adds_a_point_and_says_what_labels_changed(study, told):
    from typer.testing import CliRunner

    from blindspot.app.cli import app

    run = CliRunner()
    found = run.invoke(app, ["judge", "curve", "--list", "--study", str(study.folder)])
    assert found.exit_code == 0, found.output
    _, point = told
    assert f"The last 36 labels changed {point.changed} training pairs" in found.output
    assert "40 questions of dev by answers, 95% intervals" in found.output
    made = run.invoke(app, ["judge", "curve", "--json", "--study", str(study.folder)])
    assert made.exit_code == 0, made.output

    points = json.loads(made.output[made.output.index("[") :])
    assert points[-1]["reason"] == "asked" and points[-1]["scopes"]["judged"]["reranker"]["n"] == 40
