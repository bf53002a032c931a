"""Prediction-powered rates cover for judges of every bias."""

import numpy as np
import pytest

from blindspot.analysis.prediction_powered import FEW, ScoredSample, powered_rate

QUESTIONS, POOL, SHOWN = 400, 12, 6


@pytest.fixture(scope="module")
def world():
    """(hits, calibrated scores), (QUESTIONS, POOL) each: questions differ in their share."""
    rng = np.random.default_rng(1)
    base = rng.normal(-2.2, 1, QUESTIONS)[:, None]
    chance = 1 / (1 + np.exp(-(base + rng.normal(0, 2, (QUESTIONS, POOL)))))
    return rng.random(chance.shape) < chance, chance


def drawn(hits, scores, n, seed):
    rng = np.random.default_rng(seed)
    chosen = rng.choice(QUESTIONS, n, replace=False)
    columns = np.array([rng.permutation(POOL)[:SHOWN] for _ in chosen])
    rows = (chosen[:, None], columns)
    count = n * SHOWN
    return ScoredSample(
        hits[rows].ravel(),
        np.ones(count, bool),
        scores[rows].ravel(),
        np.full(count, n / QUESTIONS * SHOWN / POOL),
        np.repeat(chosen, SHOWN),
    )


@pytest.mark.parametrize("judge", ["honest", "up", "down", "reversed"])
@pytest.mark.parametrize("n", [15, 60])
def test_the_interval_covers_the_truth_whatever_the_judge(world, judge, n):
    hits, chance = world
    scores = {"honest": chance, "up": np.minimum(4 * chance, 1), "down": chance / 4, "reversed": 1 - chance}[judge]
    found = [powered_rate(drawn(hits, scores, n, seed), scores.ravel()) for seed in range(500)]
    covered = np.mean([each.low <= hits.mean() <= each.high for each in found])
    assert covered >= 0.94
    assert np.mean([each.value for each in found]) == pytest.approx(hits.mean(), abs=0.015)
    assert (judge == "reversed") == (np.mean([each.weight for each in found]) < 0.2)


def test_a_good_judge_narrows_the_interval(world):
    hits, chance = world
    good = [powered_rate(drawn(hits, chance, 60, seed), chance.ravel()).width for seed in range(60)]
    useless = np.zeros_like(chance)
    alone = [powered_rate(drawn(hits, useless, 60, seed), useless.ravel()).width for seed in range(60)]
    assert np.mean(good) < 0.9 * np.mean(alone)


def test_a_judge_who_says_the_same_of_everything_gives_the_classical_rate(world):
    from blindspot.analysis.audit import rate

    hits, chance = world
    sample = drawn(hits, np.full_like(chance, 0.3), 40, 0)
    found = powered_rate(sample, np.full(hits.size, 0.3))
    classical = rate(sample.hits, sample.settled, sample.probabilities, sample.questions)
    assert found.value == pytest.approx(classical.value) and found.weight == 0 and found.predicted == pytest.approx(0.3)
    assert found.width == pytest.approx(classical.width, rel=0.2)


def test_few_questions_give_no_estimate_and_wrong_arrays_are_refused(world):
    hits, chance = world
    few = powered_rate(drawn(hits, chance, FEW - 1, 0), chance.ravel())
    assert few.value is None and few.questions == FEW - 1 and few.width is None
    sample = drawn(hits, chance, 20, 0)
    none = ScoredSample(np.zeros(120, bool), sample.settled, sample.scores, sample.probabilities, sample.questions)
    assert powered_rate(none, chance.ravel()).value == 0.0
    with pytest.raises(ValueError, match="needs a score"):
        powered_rate(sample, np.array([np.nan]))
    with pytest.raises(ValueError, match="above 0"):
        powered_rate(
            ScoredSample(sample.hits, sample.settled, sample.scores, np.zeros(120), sample.questions), chance.ravel()
        )
    with pytest.raises(ValueError, match="equal lengths"):
        powered_rate(
            ScoredSample(sample.hits[1:], sample.settled, sample.scores, sample.probabilities, sample.questions),
            chance.ravel(),
        )


def test_unsettled_pairs_do_not_enter_the_rate(world):
    hits, chance = world
    sample = drawn(hits, chance, 40, 3)
    settled = np.arange(len(sample.hits)) % 5 > 0
    some = ScoredSample(sample.hits, settled, sample.scores, sample.probabilities, sample.questions)
    assert powered_rate(some, chance.ravel()).labelled == settled.sum()


def test_an_audit_without_labels_is_one_line(tmp_path):
    from typer.testing import CliRunner

    from blindspot.app.cli import app
    from tests.training_studies import training_study

    study = training_study(tmp_path / "s")
    done = CliRunner().invoke(app, ["labels", "audit", "--study", str(study.folder)])
    assert "no question of a random audit is judged completely yet" in str(done.exception)
