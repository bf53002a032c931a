"""The rate of false negatives from the audit arm, compared with known truth and with other implementations."""

import numpy as np
import pytest

from blindspot.analysis.audit import rate, rates_by
from blindspot.analysis.by_question import bootstrap_sums, ratio_error, share_interval, sums_by_question
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.judging.pools import Pools
from blindspot.backend.judging.settings import ArmShares
from blindspot.db.connection import write_transaction
from blindspot.db.queue import Item, Queue
from tests.overlap import RUN, encyclopedia_study
from tests.rounds import in_rounds, least

ROUNDS = 200


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A study, and the passages that answer each question."""
    return encyclopedia_study(tmp_path_factory.mktemp("audit") / "study")


def true_rate(study, truth) -> float:
    """Return the share of answering passages among all unlabelled passages in all pools."""
    pools = Pools(study, [RUN], 10, "dpr").pools_of(study.questions.all())
    ids = study.corpus.passages([each.ordinal for pool in pools.values() for each in pool])
    questions = [question for question, pool in pools.items() for _ in pool]
    return float(np.mean([passage.id in truth[question] for question, passage in zip(questions, ids, strict=True)]))


def judged_by_truth(items: list[Item], truth) -> tuple[np.ndarray, ...]:
    """Return hits, settled, probabilities and questions of some items, with every passage labelled by the truth."""
    rows = [
        (each.passage in truth[item.question], True, each.inclusion_probability or 1.0, item.question)
        for item in items
        for each in item.candidates
    ]
    return tuple(map(np.array, zip(*rows, strict=True)))


def forget_batches(queue: Queue) -> None:
    """Forget earlier audits: an audit leaves out the questions of earlier ones."""
    with write_transaction(queue.connection) as connection:
        for table in ("candidate", "batch_question", "batch"):
            connection.execute(f"DELETE FROM {table}")


@pytest.mark.long
@in_rounds(ROUNDS)
def test_the_interval_covers_the_truth_and_prioritised_items_do_not(known, rounds):
    study, truth = known
    expected, queue = true_rate(study, truth), Queue(study.labels_path)
    covered = {"audit": 0, "priority": 0}
    estimates: dict[str, list[float]] = {"audit": [], "priority": []}
    for seed in range(rounds):
        make_batch(
            study,
            "b",
            [RUN],
            size=60,
            depth=10,
            candidates=6,
            mix=ArmShares(audit=2 / 3, second=0, repeat=0),
            seed=seed,
        )
        items = queue.items("b")
        forget_batches(queue)
        for arm in covered:
            found = rate(*judged_by_truth([item for item in items if item.arm == arm], truth), resamples=1000)
            covered[arm] += found.low <= expected <= found.high
            estimates[arm].append(found.value)
    assert covered["audit"] >= least(rounds, 180, ROUNDS, 0.95), covered
    assert covered["priority"] <= 0.05 * rounds, covered
    assert np.mean(estimates["audit"]) == pytest.approx(expected, abs=3 * np.std(estimates["audit"]) / rounds**0.5), (
        "biased"
    )
    assert min(estimates["priority"]) > expected + 0.1, (
        "what looks like a false negative is one more often than others are"
    )


def test_weights_are_what_makes_it_right():
    """4 passages are shown of pools of 4, all of them hits, and of pools of 40, one in four a hit: 4 + 10 of 44 are
    hits."""
    hits, probabilities = np.tile([True] * 4 + [True, False, False, False], 50), np.tile(np.repeat([1.0, 0.1], 4), 50)
    questions = np.repeat(np.arange(100), 4)
    assert rate(hits, np.ones(400, bool), probabilities, questions).value == pytest.approx(14 / 44)
    assert rate(hits, np.ones(400, bool), np.ones(400), questions).value == pytest.approx(5 / 8), (
        "small pools count too much"
    )


def test_by_hand():
    # Question a: weights 2, hits 1 of 2. Question b: weight 10, hits 0 of 1. (1 x 2) / (2 x 2 + 10) = 1/7.
    found = rate([True, False, False], [True] * 3, [0.5, 0.5, 0.1], ["a", "a", "b"])
    assert found.value == pytest.approx(1 / 7) and (found.questions, found.passages, found.unsettled) == (2, 3, 0)
    assert found.lower_bound == found.upper_bound == found.value


def test_the_error_is_that_of_cluster_robust_least_squares():
    """A weighted mean is a regression on a constant alone; statsmodels' sandwich estimator by clusters is its error."""
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(0)
    questions = np.repeat(np.arange(150), rng.integers(1, 9, 150))
    weights = rng.uniform(1, 5, 150)[questions]
    hits = rng.random(len(questions)) < rng.beta(0.5, 1, 150)[questions]
    fitted = sm.WLS(hits.astype(float), np.ones(len(hits)), weights=weights).fit(
        cov_type="cluster", cov_kwds={"groups": questions}
    )
    top, bottom = sums_by_question(np.stack([hits * weights, weights], axis=1), questions).T
    assert rate(hits, np.ones(len(hits), bool), 1 / weights, questions).value == pytest.approx(fitted.params[0])
    assert ratio_error(top, bottom, resamples=20_000) == pytest.approx(fitted.bse[0], rel=0.05)


def test_labels_of_one_question_are_not_independent():
    """40 questions of 8 passages, identical within a question: the interval is that of 40 items, not of 320."""
    hits, questions = np.repeat(np.arange(40) < 12, 8), np.repeat(np.arange(40), 8)
    found = rate(hits, np.ones(320, bool), np.ones(320), questions)
    alone = rate(hits[::8], np.ones(40, bool), np.ones(40), questions[::8])
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high))


def test_where_no_question_has_any_the_interval_is_wilsons():
    from statsmodels.stats.proportion import proportion_confint

    found = rate(np.zeros(60, bool), np.ones(60, bool), np.full(60, 0.2), np.repeat(np.arange(20), 3))
    assert (found.value, found.low) == (0, 0)
    assert found.high == pytest.approx(proportion_confint(0, 20, method="wilson")[1])


def test_what_is_not_settled_is_left_out_and_bounds_the_rate():
    found = rate([True, True, False, True], [True, True, True, False], [1.0] * 4, ["a", "b", "c", "c"])
    assert found.value == pytest.approx(2 / 3) and (found.passages, found.unsettled) == (3, 1)
    assert (found.lower_bound, found.upper_bound) == (0.5, 0.75)
    nothing = rate([True], [False], [0.5], ["a"])
    assert (nothing.value, nothing.low, nothing.more, nothing.unsettled, nothing.lower_bound, nothing.upper_bound) == (
        None,
        None,
        None,
        1,
        0,
        1,
    )


def test_one_question_has_no_interval():
    found = rate([True, False], [True, True], [1.0, 1.0], ["a", "a"])
    assert (found.value, found.low, found.more, found.finished) == (0.5, None, None, False)


def test_the_stopping_rule_says_how_many_more():
    rng = np.random.default_rng(1)

    def sampled(count):
        questions = np.repeat(np.arange(count), 5)
        return rate(
            rng.random(5 * count) < rng.beta(1, 3, count)[questions],
            np.ones(5 * count, bool),
            np.ones(5 * count),
            questions,
        )

    first = sampled(40)
    assert not first.finished and first.width > 0.1
    enough = sampled(40 + first.more)
    assert enough.width == pytest.approx(0.1, rel=0.2)
    assert sampled(600).finished and sampled(600).more == 0
    assert 0 < rate(np.zeros(10, bool), np.ones(10, bool), np.ones(10), np.arange(10)).more < 40, (
        "rare ones too come to an end"
    )


def test_a_narrow_interval_of_few_questions_is_luck():
    two = rate([True, False] * 4, [True] * 8, np.array([0.5] * 4 + [0.51] * 4), np.repeat([0, 1], 4), target=1.0)
    assert two.width <= 1.0 and two.more is None and not two.finished
    ten = rate([True, False] * 20, [True] * 40, np.full(40, 0.5), np.repeat(np.arange(10), 4), target=1.0)
    assert ten.finished


def test_rates_by_group_are_those_of_the_group_alone():
    hits, groups = np.array([1, 0, 1, 1, 0, 0], bool), ["x", "x", "y", "y", None, "x"]
    questions = np.array(["a", "a", "b", "c", "c", "b"])
    found = rates_by(groups, hits, np.ones(6, bool), np.ones(6), questions)
    assert list(found) == ["x", "y"] and found["x"] == rate(
        hits[[0, 1, 5]], [True] * 3, np.ones(3), questions[[0, 1, 5]]
    )
    assert (found["y"].value, found["y"].questions) == (1, 2)


def test_a_probability_out_of_range_is_refused():
    for wrong in (0.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="inclusion probability"):
            rate([True], [True], [wrong], ["a"])
    with pytest.raises(ValueError, match="equal lengths"):
        rate([True, False], [True], [1.0], ["a"])


def test_resamples_draw_whole_questions():
    drawn = bootstrap_sums(np.array([[1.0, 8.0], [100.0, 8.0], [10_000.0, 8.0]]), 500, seed=1)
    assert (drawn[:, 1] == 24).all() and set(drawn[:, 0] % 1000 % 100) <= {0.0, 1.0, 2.0, 3.0}
    assert (drawn == bootstrap_sums(np.array([[1.0, 8.0], [100.0, 8.0], [10_000.0, 8.0]]), 500, seed=1)).all()


def test_the_interval_of_a_share_stays_within_0_and_1():
    for share, error in ((0.001, 0.2), (0.999, 0.2), (0.5, 5.0)):
        low, high = share_interval(share, error, 5)
        assert 0 <= low <= share <= high <= 1
