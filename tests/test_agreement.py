"""Alpha and kappa, compared with published worked examples and other libraries."""

import numpy as np
import pytest

from blindspot.analysis.agreement import _alpha_of, _coincidences, _kappa_of, alpha, kappa

# Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability": examples A (two values), B (five values), C (gaps).
TWO_VALUES = ("0 1 0 0 0 0 0 0 1 0", "1 1 1 0 0 1 0 0 0 0")
FIVE_VALUES = ("a a b b d c c c e d d a", "b a b b b c c c e d d d")
WITH_GAPS = ("1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3", ". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 .")


def counted(observers: tuple[str, ...]) -> np.ndarray:
    """Return (units, values): the number of observers who gave each unit each value."""
    rows = [line.split() for line in observers]
    values = sorted({value for row in rows for value in row} - {"."})
    return np.array([[sum(row[unit] == value for row in rows) for value in values] for unit in range(len(rows[0]))])


def random_labels(seed: int, units: int = 120, people: int = 4, gaps: float = 0.4):
    """(people, units) labels 0 to 3, NaN where somebody did not judge, and the question of each unit."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(4, units, p=[0.2, 0.1, 0.6, 0.1])
    labels = np.where(rng.random((people, units)) < 0.7, truth, rng.integers(0, 4, (people, units))).astype(float)
    labels[rng.random((people, units)) < gaps] = np.nan
    return labels, np.repeat(np.arange(units // 4), 4)


def counts_of(labels: np.ndarray) -> np.ndarray:
    return np.stack([(labels == value).sum(axis=0) for value in range(4)], axis=1)


@pytest.mark.parametrize(
    ("observers", "published", "units"), [(TWO_VALUES, 0.095, 10), (FIVE_VALUES, 0.692, 12), (WITH_GAPS, 0.743, 11)]
)
def test_alpha_of_krippendorffs_examples(observers, published, units):
    found = alpha(counted(observers), np.arange(len(counted(observers))))
    assert found.value == pytest.approx(published, abs=0.0006) and found.passages == units


def test_alpha_is_the_librarys_where_people_are_missing():
    krippendorff = pytest.importorskip("krippendorff")
    labels, questions = random_labels(0)
    found = alpha(counts_of(labels), questions)
    assert found.value == pytest.approx(krippendorff.alpha(reliability_data=labels, level_of_measurement="nominal"))
    assert found.low < found.value < found.high
    judged = (~np.isnan(labels)).sum(axis=0) >= 2
    assert (found.passages, found.questions) == (judged.sum(), len(np.unique(questions[judged])))


def test_the_resampled_alpha_is_the_librarys_of_the_resample():
    krippendorff = pytest.importorskip("krippendorff")
    labels, _ = random_labels(1, gaps=0)
    drawn = np.random.default_rng(2).integers(0, labels.shape[1], 150)
    ours = _alpha_of(_coincidences(counts_of(labels)[drawn]).sum(axis=0)[None])[0]
    assert ours == pytest.approx(krippendorff.alpha(reliability_data=labels[:, drawn], level_of_measurement="nominal"))


@pytest.mark.parametrize(("table", "published"), [
    # Fleiss (1981), Statistical Methods for Rates and Proportions, table 13.1
    ([[75, 1, 4], [5, 4, 1], [0, 0, 10]], 0.68),  
    ([[25, 3, 5], [6, 32, 8], [1, 0, 20]], 0.654),  # the example of Bonnardel's Kappa.exe
    ([[20, 5], [10, 15]], 0.4),                     # the grant proposals of many textbooks
])  # fmt: skip
def test_kappa_of_published_tables(table, published):
    a, b = (np.repeat(each.ravel(), np.ravel(table)) for each in np.indices(np.shape(table)))
    found = kappa(a, b, np.arange(len(a)))
    assert found.value == pytest.approx(published, abs=0.0045) and found.passages == np.sum(table)
    assert found.low < found.value < found.high


def test_kappa_is_that_of_scikit_learn_and_so_are_its_resamples():
    from sklearn.metrics import cohen_kappa_score

    labels, questions = random_labels(3, gaps=0)
    a, b = labels[:2].astype(int)
    assert kappa(a, b, questions).value == pytest.approx(cohen_kappa_score(a, b))
    assert kappa(np.full(10, 1), np.arange(10) % 2, np.arange(10)).value == pytest.approx(0), (
        "one who always says the same"
    )
    table = np.zeros((4, 4))
    np.add.at(table, (a, b), 1)
    assert _kappa_of(table[None])[0] == pytest.approx(cohen_kappa_score(a, b))


def test_the_interval_is_that_of_the_questions():
    """100 questions whose 6 passages are all alike: as wide as with one passage each, not narrower by the root of 6."""
    labels, _ = random_labels(4, units=100, people=2, gaps=0)
    once, six = (
        alpha(counts_of(labels), np.arange(100)),
        alpha(np.repeat(counts_of(labels), 6, axis=0), np.repeat(np.arange(100), 6)),
    )
    assert six.high - six.low == pytest.approx(once.high - once.low, rel=0.05)
    assert (six.passages, six.questions) == (600, 100)


def test_the_interval_covers():
    """The true alpha comes from many questions; intervals from samples of 40 contain it about 95 times in 100."""
    labels, _ = random_labels(5, units=40_000, people=2, gaps=0)
    counts = counts_of(labels)
    truth = alpha(counts, np.arange(len(counts)), resamples=1).value
    rng, covered = np.random.default_rng(6), 0
    for seed in range(100):
        rows = rng.integers(0, 10_000, 40)[:, None] * 4 + np.arange(4)
        found = alpha(counts[rows.ravel()], np.repeat(np.arange(40), 4), resamples=500, seed=seed)
        covered += found.low <= truth <= found.high
    assert covered >= 88


def test_where_all_labels_are_the_same_there_is_no_value():
    same = alpha(np.array([[2, 0], [3, 0]]), np.array(["a", "b"]))
    assert (same.value, same.low, same.agreed, same.passages) == (None, None, 1.0, 2)
    assert kappa(np.zeros(5), np.zeros(5), np.arange(5)).value is None
    once = alpha(np.array([[1, 0], [0, 1]]), np.array(["a", "b"]))
    assert (once.value, once.agreed, once.passages) == (None, None, 0), (
        "what one person judged says nothing of agreement"
    )
    nothing = kappa(np.zeros(0), np.zeros(0), np.zeros(0))
    assert (nothing.value, nothing.agreed, nothing.passages) == (None, None, 0)


def test_the_same_seed_gives_the_same_interval():
    labels, questions = random_labels(7)
    assert alpha(counts_of(labels), questions, seed=1) == alpha(counts_of(labels), questions, seed=1)
    assert alpha(counts_of(labels), questions, seed=1).low != alpha(counts_of(labels), questions, seed=2).low
