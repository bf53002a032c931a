"""The cross-encoder: it learns, it is calibrated, it resumes exactly, and bad input gets one line."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from blindspot.backend.core import processor
from blindspot.backend.core.manifest import read_json
from blindspot.backend.core.study import Study
from blindspot.backend.judges.calibration import (
    ProbabilityCalibration,
    brier_score,
    cross_validated_probabilities,
    fit,
    measure_thresholds,
    reliability,
)
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.training import cross_encoder
from blindspot.backend.training.checkpoints import TrainingFolders, uses_bfloat16
from blindspot.backend.training.cross_encoder import CrossEncoderSettings, held_out_pairs, train, whole_lists
from blindspot.backend.training.evaluators import PairEvaluator, mean_average_precision
from blindspot.backend.training.examples import Example, hold_out
from blindspot.backend.training.scoring import CrossEncoderScorer, LabelledPair, correct_base_rate, logits, score_run
from blindspot.backend.training.training_log import read_lines
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Passage
from tests.training import examples, start, weights

QUICK = {"batch": 8, "steps": 6, "evaluate_every": 2, "held_out": 8}
QUICK |= {"learning_rate": 1e-3, "tokens": 64, "negatives": 2}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return start(tmp_path_factory.mktemp("bert")).model


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def quick(bert):
    def trained(target: Path, data=None, labels=None, retrieved=None, progress=None, restart=False, **settings):
        working = target.with_name(f"{target.name}~working")
        folders = TrainingFolders(target, working, "cpu", restart, progress=progress)
        chosen = CrossEncoderSettings(**{**QUICK, **settings})
        data = examples() if data is None else data
        return train(bert, data, folders, chosen, labels=labels, keep_retrieved=retrieved)

    return trained


def test_it_learns_is_calibrated_and_loads_anywhere(quick, tmp_path):
    from sentence_transformers import CrossEncoder

    made = quick(tmp_path / "model", steps=60, evaluate_every=20, learning_rate=3e-3)
    about, report = read_json(tmp_path / "model" / "training.json"), read_json(tmp_path / "model" / "calibration.json")
    lines = read_lines(tmp_path / "model")
    losses = [line["loss"] for line in lines if "loss" in line]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    assert {"held_out_loss", "average_precision"} <= set(about["curve"][0])
    assert made.calibration == report["method"] == "platt" and report["of"] == "whole lists of held-out questions"
    count = sum(len(each.positives) + len(each.hard_negatives()) for each in held_out(8))
    assert (report["pairs"], report["positives"]) == (count, 8)
    pairs = [(one.question, passage) for one in examples()[:3] for passage in (*one.positives, *one.negatives)]
    given = CrossEncoderScorer(tmp_path / "model", "cpu").score(pairs, precision="float32")
    texts = [(question, f"{passage.title} [SEP] {passage.text}") for question, passage in pairs]
    model = CrossEncoder(str(tmp_path / "model"), device="cpu")
    plain = model.predict(texts, activation_fn=torch.nn.Identity())
    np.testing.assert_allclose(given, 1 / (1 + np.exp(-(report["slope"] * plain + report["intercept"]))), atol=1e-6)
    assert ((given >= 0) & (given <= 1)).all() and CrossEncoderScorer(tmp_path / "model", "cpu").score([]).shape == (0,)
    suffixes = {path.suffix for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert suffixes == {".json", ".jsonl", ".safetensors"}


def held_out(count):
    return [examples()[number] for number in hold_out(examples(), count)[1]]


def test_broken_off_it_ends_with_the_same_bytes(quick, tmp_path, loads_one_at_a_time):
    def stop(done, total, doing):
        if done == 5:
            raise KeyboardInterrupt

    quick(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        quick(tmp_path / "again", progress=stop)
    quick(tmp_path / "again")
    assert weights(tmp_path / "again") == weights(tmp_path / "whole")
    first, second = ((tmp_path / name / "calibration.json").read_bytes() for name in ("again", "whole"))
    assert first == second


def test_peoples_labels_calibrate_where_there_are_enough(quick, tmp_path):
    asked = []

    def labels(aside, each=20):
        asked.extend(aside)
        one = aside[0]
        pairs = [LabelledPair(one.id, one.question, one.negatives[0], positive) for positive in (True, False)]
        return pairs * each

    quick(tmp_path / "model", labels=labels, steps=2)
    report = read_json(tmp_path / "model" / "calibration.json")
    assert (report["of"], report["pairs"], report["positives"]) == ("people's labels of held-out questions", 40, 20)
    assert [one.id for one in asked] == [one.id for one in held_out(8)]
    quick(tmp_path / "few", labels=lambda aside: labels(aside, each=5), steps=2)
    assert read_json(tmp_path / "few" / "calibration.json")["of"] == "whole lists of held-out questions"


def test_what_is_held_out_was_retrieved(quick, tmp_path):
    """Random passages are used for training; calibration and the choice of checkpoints use retrieved passages."""
    asked = []

    def retrieved(one):
        asked.append(one.id)
        return Example(one.id, one.question, one.positives, one.negatives[:1])

    quick(tmp_path / "model", steps=2, retrieved=retrieved, pairs=1000)
    report = read_json(tmp_path / "model" / "calibration.json")
    assert asked == [one.id for one in held_out(8)] and (report["pairs"], report["positives"]) == (16, 8)


def test_probabilities_hold_for_whole_lists(quick, tmp_path):
    """Checkpoints are compared by 16 pairs, half of them positive; in the lists that are judged, one of 21 is."""
    data = examples(negatives=20)
    quick(tmp_path / "model", data=data, pairs=16, steps=4)
    report = read_json(tmp_path / "model" / "calibration.json")
    lists = [data[number] for number in hold_out(data, 8)[1]]
    pairs = [(one.question, p) for one in lists for p in (*one.positives, *one.hard_negatives())]
    share = len(lists) / len(pairs)
    assert (report["pairs"], report["positives"]) == (len(pairs), len(lists)) and share < 0.06
    assert report["base_rate"] == pytest.approx(share)
    assert CrossEncoderScorer(tmp_path / "model", "cpu").score(pairs).mean() == pytest.approx(share, rel=0.05)


def test_lists_are_whole_and_as_many_as_fit():
    passages = tuple(Passage(f"p{i}", "", "") for i in range(12))
    many = [Example(f"q{i}", "?", passages[:2], passages) for i in range(5)]
    assert len(whole_lists(many, 1000)) == 60
    fewer = whole_lists(many, 30)
    assert len(fewer) == 24 and sum(pair.positive for pair in fewer) == 4
    assert len(whole_lists(many, 1)) == 12  # one list at least


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_probabilities_are_corrected_to_another_share_of_positives(method):
    """Fitted where half is positive, right where 5% is: the scores of each class are spread alike in both."""
    generator = np.random.default_rng(0)

    def drawn(n, share):
        positive = generator.random(n) < share
        return generator.normal(size=n) + 1.5 * positive, positive

    fitted = fit(*drawn(20_000, 0.5), method)
    scores, positive = drawn(200_000, 0.05)
    corrected = correct_base_rate(fitted, 0.5, 0.05)(scores)
    assert fitted(scores).mean() > 0.2 and corrected.mean() == pytest.approx(0.05, abs=0.005)
    for low, high in ((0.0, 0.02), (0.02, 0.1), (0.1, 0.4)):
        inside = (corrected >= low) & (corrected < high)
        assert corrected[inside].mean() == pytest.approx(positive[inside].mean(), abs=0.02)


def test_checkpoints_are_compared_within_a_question(quick, tmp_path):
    """The scores of one question lie above those of the other: each list is in perfect order all the same."""
    passage = Passage("p", "", "")
    pairs = [LabelledPair(q, "?", passage, positive) for q in "ab" for positive in (True, False, False)]
    pairs += [LabelledPair("c", "?", passage, False)]  # one kind alone has no order
    scores = np.array([-5.0, -6, -7, 3, 2, 1, 9])
    assert mean_average_precision(scores, pairs) == 1.0
    assert PairEvaluator(pairs, lambda *_: scores, 8)(None)["average_precision"] < 0.6
    quick(tmp_path / "model", steps=8, data=examples(negatives=10))
    about = read_json(tmp_path / "model" / "training.json")
    best = max(line["mean_average_precision"] for line in about["curve"])
    assert about["mean_average_precision"] == best
    assert next(line for line in about["curve"] if line["step"] == about["best_step"])["mean_average_precision"] == best


def test_a_processor_with_bfloat16_uses_it(tmp_path, monkeypatch):
    """For training and for judging, unless somebody asks for float32."""

    class Model:
        device = torch.device("cpu")

        def predict(self, texts, **_):
            seen.append(torch.is_autocast_enabled("cpu"))
            return torch.zeros(len(texts))

    seen: list[bool] = []
    pair = [("?", Passage("p", "", ""))]
    monkeypatch.setattr(processor, "CPU_INFO", tmp_path / "cpuinfo")
    for flags, expected in (("fpu sse2 avx512_bf16", True), ("fpu sse2", False)):
        (tmp_path / "cpuinfo").write_text(f"flags : {flags}\n")
        assert uses_bfloat16("auto", "cpu") is expected and not uses_bfloat16("float32", "cpu")
        logits(Model(), pair)
        logits(Model(), pair, precision="float32")
    (tmp_path / "cpuinfo").unlink()
    assert not uses_bfloat16("auto", "cpu") and uses_bfloat16("bfloat16", "cpu")
    assert seen == [True, False, False, False]


def test_one_class_is_one_line(quick, tmp_path):
    only = [Example(one.id, one.question, one.positives) for one in examples()]
    with pytest.raises(Refused, match="none of the 40 questions has a hard negative"):
        quick(tmp_path / "model", data=only)
    with pytest.raises(Refused, match="all 3 pairs are positive"):
        fit(np.arange(3.0), np.ones(3, bool))
    with pytest.raises(Refused, match="all 0 pairs are negative"):
        fit(np.zeros(0), np.zeros(0, bool))


def test_what_is_no_cross_encoder(tmp_path, bert):
    with pytest.raises(Missing, match="holds no cross-encoder"):
        CrossEncoderScorer(tmp_path)
    with pytest.raises(Missing, match="holds no cross-encoder"):
        CrossEncoderScorer(Path(bert))


def test_pickled_weights_are_not_read(quick, bert, tmp_path):
    shutil.copytree(bert, tmp_path / "pickled")
    (tmp_path / "pickled" / "model.safetensors").unlink()
    torch.save({}, tmp_path / "pickled" / "pytorch_model.bin")
    folders = TrainingFolders(tmp_path / "model", tmp_path / "working", "cpu")
    with pytest.raises(Refused, match="would run code .* pytorch_model.bin: pickled weights.*--trust"):
        cross_encoder.train(str(tmp_path / "pickled"), examples(), folders)


def test_held_out_pairs_are_of_every_question_and_a_positive_is_no_negative():
    passages = tuple(Passage(f"p{i}", "", "") for i in range(12))
    many = [Example(f"q{i}", "?", passages[:1], passages) for i in range(5)]
    pairs = held_out_pairs(many, 20)
    assert [sum(pair.question_id == f"q{i}" for pair in pairs) for i in range(5)] == [4] * 5
    assert all(pair.positive == (pair.passage.id == "p0") for pair in pairs)
    assert len({pair.passage.id for pair in pairs}) > 4 and pairs == held_out_pairs(many, 20)
    assert len(held_out_pairs(many, 1)) == 10  # at least one of each kind


def sample(n=2000, seed=0):
    """Scores of known probability: positive with the logistic of twice the score less one."""
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=n) * 2
    truth = 1 / (1 + np.exp(-(2 * scores - 1)))
    return scores, generator.random(n) < truth, truth, [str(i // 4) for i in range(n)]


def test_platt_finds_the_curve():
    scores, positive, truth, _ = sample()
    fitted = fit(scores, positive, "platt")
    assert (fitted.slope, fitted.intercept) == (pytest.approx(2, abs=0.3), pytest.approx(-1, abs=0.3))
    assert np.abs(fitted(scores) - truth).mean() < 0.02


def test_isotonic_is_sklearns_after_a_round_trip_through_json():
    from sklearn.isotonic import IsotonicRegression

    scores, positive, _, _ = sample()
    fitted = fit(scores, positive)
    assert fitted.method == "isotonic"
    kept = json.loads(json.dumps(fitted.points))
    new = np.linspace(-9, 9, 301)
    expected = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scores, positive).predict(new)
    again = ProbabilityCalibration("isotonic", points=tuple(map(tuple, kept)))
    np.testing.assert_allclose(again(new), expected, atol=1e-12)


def test_few_pairs_are_fitted_by_platt():
    scores, positive, _, _ = sample(200)
    assert fit(scores, positive).method == "platt"
    apart = fit(np.array([-1.0, -2, 3, 4]), np.array([False, False, True, True]))  # separable: the slope stays finite
    assert np.isfinite(apart.slope) and apart(np.array([-1e6, 1e6])) == pytest.approx([0, 1])


def test_what_is_reported_was_not_fitted():
    """Random scores: isotonic regression looks good on its own pairs, but not on others."""
    generator = np.random.default_rng(0)
    scores, positive = generator.normal(size=600), generator.random(600) < 0.5
    questions = [str(i // 3) for i in range(600)]
    seen = fit(scores, positive, "isotonic")(scores)
    apart = cross_validated_probabilities(scores, positive, questions, "isotonic")
    assert brier_score(seen, positive) < 0.25 < brier_score(apart, positive)
    assert cross_validated_probabilities(scores[:3], np.array([True, False, False]), ["a", "a", "a"], "platt") is None


def test_reliability_is_sklearns_curve():
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import brier_score_loss

    scores, positive, truth, _ = sample()
    shares, means = calibration_curve(positive, truth, n_bins=10)
    rows = reliability(truth, positive)
    np.testing.assert_allclose([row["positive"]["value"] for row in rows], shares)
    np.testing.assert_allclose([row["probability"] for row in rows], means)
    assert sum(row["positive"]["n"] for row in rows) == len(positive)
    assert all(row["positive"]["low"] <= row["positive"]["value"] <= row["positive"]["high"] for row in rows)
    assert brier_score(truth, positive) == pytest.approx(brier_score_loss(positive, truth))


def test_precision_and_recall_are_sklearns():
    from sklearn.metrics import precision_score, recall_score

    _, positive, truth, _ = sample(500)
    for row in measure_thresholds(truth, positive):
        above = truth >= row["threshold"]
        assert row["precision"]["value"] == pytest.approx(precision_score(positive, above))
        assert row["recall"]["value"] == pytest.approx(recall_score(positive, above))
        assert row["missed"]["value"] == pytest.approx(positive[~above].mean()) and row["missed"]["n"] == (~above).sum()
    none = measure_thresholds(np.array([0.2]), np.array([True]), [0.9])[0]
    assert none["precision"] == {"value": None, "n": 0, "low": None, "high": None}


def test_a_runs_passages_are_judged_once(quick, indexed_study, tmp_path):
    shutil.copytree(indexed_study.folder, tmp_path / "study")
    study = Study.open(tmp_path / "study")
    retrieve(study, "bm25", k=5, name="r")
    quick(study.path("models", "judge"), steps=2)
    first = score_run(study, "judge", "r", depth=3, device="cpu")
    again = score_run(study, "judge", "r", depth=5, device="cpu")
    run = study.run("r")
    wanted = int((run.hits.ordinals >= 0).sum())
    assert 0 < first["scored"] < wanted and first["scored"] + again["scored"] == again["kept"] == wanted
    question = study.questions.get(run.question_ids[0])
    passage = study.corpus.passage(int(run.hits.ordinals[0, 0]))
    scorer = CrossEncoderScorer(study.path("models", "judge"), "cpu")
    kept = ScoreStore.open(study, "judge")([(question.id, passage.id)])[question.id, passage.id]
    assert kept == pytest.approx(scorer.score([(question.text, passage)])[0], abs=1e-6)
