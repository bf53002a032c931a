"""Prediction-powered rates: they cover for judges of every bias, and stand on the audit's own frame."""

import numpy as np
import pytest

from blindspot.analysis.prediction_powered import FEW, ScoredSample, powered_rate, powered_rates_by
from blindspot.backend.judges.powered_audit import powered_audits
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.audits import audit
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.judging.pools import Pools
from blindspot.backend.judging.settings import ArmShares
from blindspot.db.errors import Missing
from tests.annotators import annotate
from tests.overlap import RUN, encyclopedia_study

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
    groups = ["low" if each < 0.2 else None for each in sample.scores]
    rates = powered_rates_by(groups, sample, ["low" if each < 0.2 else None for each in chance.ravel()], chance.ravel())
    assert list(rates) == ["low"] and rates["low"].scored == (chance < 0.2).sum()


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """A study with a judged audit, and its truth."""
    study, truth = encyclopedia_study(tmp_path_factory.mktemp("powered") / "study", passages=600)
    made = make_batch(study, "a", [RUN], size=30, depth=10, candidates=5, mix=ArmShares(1.0, 0, 0), seed=1)
    assert made.arms == {"audit": 30}
    annotate(study, truth, {"ann": 1.0})
    return study, truth


def test_the_frame_is_what_the_audit_was_drawn_from(audited):
    study, truth = audited
    pools = Pools(study, [RUN], 10, "dpr").pools_of(study.questions.all())
    pairs = [(q, study.corpus.passages([p.ordinal])[0].id) for q, pool in pools.items() for p in pool]
    store = ScoreStore.create(study, "truthful", True)
    store.add((q, p, float(p in truth[q])) for q, p in pairs)
    partly = ScoreStore.create(study, "partly", True)
    partly.add((q, p, 0.5) for q, p in pairs[:7])
    found = {each.judge: each for each in powered_audits(study)}
    share = np.mean([p in truth[q] for q, p in pairs])
    whole = found["truthful"].overall
    assert whole.value == pytest.approx(share, abs=0.002) and whole.predicted == pytest.approx(share)
    assert whole.scored == found["truthful"].pairs == len(pairs) and whole.weight == pytest.approx(1, abs=0.05)
    assert found["partly"].overall is None
    assert found["partly"].reason == f"partly scored 7 of the {len(pairs):,} pairs that the audit was drawn from"
    classical = audit(study)
    assert whole.labelled == classical.overall.positive.passages and whole.questions == 30
    assert found["truthful"].by.keys() == classical.by.keys()
    assert [list(groups) for groups in found["truthful"].by.values()] == [list(g) for g in classical.by.values()]
    with pytest.raises(Missing, match="nobody"):
        powered_audits(study, judges=["nobody"])


def test_the_command_the_page_and_the_report_show_it_beside_the_classical_rate(audited):
    import json

    from typer.testing import CliRunner

    from blindspot.app.cli import app
    from blindspot.backend.reports.labels import label_findings, label_sentences
    from blindspot.db.people import People
    from tests.app_pages import Page

    study, _ = audited
    found = next(each for each in powered_audits(study) if each.judge == "truthful")
    said = f"{100 * found.overall.value:.1f}% ({100 * found.overall.low:.1f} to {100 * found.overall.high:.1f})"
    where = ["--study", str(study.folder)]
    printed = " ".join(CliRunner().invoke(app, ["labels", "audit", *where]).output.split())
    assert "labels alone" in printed and said in printed and "partly scored 7 of" in printed
    told = json.loads(CliRunner().invoke(app, ["labels", "audit", "--judge", "truthful", "--json", *where]).output)
    assert [each["judge"] for each in told["judges"]] == ["truthful"] and told["labels"]["drawn"] == 30
    People(study.labels_path).add("lea", "lead")
    page = Page(study.folder, "quality", "lea").text
    assert said in page and "lambda" in page and "with truthful, %" in page
    sentences = " ".join(label_sentences(label_findings(study, [RUN], "gold", "dpr"), 1))
    assert "With the scores of judge truthful on all" in sentences


def test_an_audit_without_labels_is_one_line(tmp_path):
    from typer.testing import CliRunner

    from blindspot.app.cli import app
    from tests.training_studies import training_study

    study = training_study(tmp_path / "s")
    done = CliRunner().invoke(app, ["labels", "audit", "--study", str(study.folder)])
    assert "no question of a random audit is judged completely yet" in str(done.exception)


def test_two_frames_are_not_mixed(audited):
    study, truth = audited
    make_batch(study, "b", [RUN], size=4, depth=3, candidates=5, mix=ArmShares(1.0, 0, 0), seed=2)
    annotate(study, truth, {"ann": 1.0}, seed=1)
    if not study.parts("scores"):
        ScoreStore.create(study, "other", True)
    assert "choose one batch" in powered_audits(study)[0].reason
    assert powered_audits(study, "a")[0].reason != powered_audits(study)[0].reason
