"""The cache of figures: several threads ask for a figure, and it is computed once."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from blindspot.analysis.overlap import rank_biased_overlap
from blindspot.backend.core.gold import gold_matrix
from blindspot.backend.evaluation import comparison as compared
from blindspot.backend.evaluation.comparison import Comparison, measure_all
from blindspot.backend.evaluation.held import ResultCache
from blindspot.db.records import Question
from tests.app_pages import hand_made_study


def test_many_who_ask_at_once_get_what_one_of_them_made():
    held, made, found = ResultCache(2), [], []

    def make():
        time.sleep(0.2)
        made.append(1)
        return object()

    threads = [threading.Thread(target=lambda: found.append(held.get_or_make("key", make))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and len(found) == 8 and len(set(map(id, found))) == 1


def test_the_one_that_was_asked_for_longest_ago_goes_and_an_error_is_not_held():
    held, made = ResultCache(2), []

    def make(key):
        return held.get_or_make(key, lambda: made.append(key) or key)

    assert [make(key) for key in "abaca"] == list("abaca") and made == list("abc")
    make("b")
    assert made == list("abcb")
    with pytest.raises(ValueError, match="once"):
        held.get_or_make("wrong", lambda: (_ for _ in ()).throw(ValueError("once")))
    assert held.get_or_make("wrong", lambda: 7) == 7


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Comparison:
    study = hand_made_study(tmp_path_factory.mktemp("held") / "toy")
    return Comparison.of_runs(*measure_all(study, ["alpha", "beta"]).values())


def test_figures_differ_by_what_they_are_of(pair, monkeypatch):
    some, others = np.array([True, False, True, False, True, False, False]), np.array([0, 2, 4])
    whole = compared.figures_at(pair, 5)
    assert compared.figures_at(pair, 5) is whole and compared.figures_at(pair, 1) is not whole
    assert (
        compared.figures_at(pair, 5, some).n == 3
        and compared.figures_at(pair, 5, others) == compared.figures_at(pair, 5, some) != whole
    )
    assert compared.figures_at(pair, 5, ~some).n == 4
    members = {"x": some, "y": ~some}
    assert compared.by_group(pair, 5, members) is compared.by_group(pair, 5, dict(members))
    assert compared.by_group(pair, 5, {"x": ~some, "y": some})["x"].n == 4
    assert compared.macro_at(pair, 5) is compared.macro_at(pair, 5)
    monkeypatch.setattr(compared, "compare", lambda *a, **k: pytest.fail("these figures were made before"))
    assert compared.figures_at(pair, 5) is whole


def test_the_overlap_of_some_rows_is_that_of_all(pair):
    rows = np.array([5, 0, 3])
    first = pair.overlap_of(rows)
    lists = [np.asarray(side.run.hits.ordinals) for side in (pair.run_a, pair.run_b)]
    np.testing.assert_array_equal(first, rank_biased_overlap(*lists)[rows])
    np.testing.assert_array_equal(pair.overlap[rows], first)
    np.testing.assert_array_equal(pair.overlap_of(rows), first)


def test_gold_is_found_where_membership_says(tmp_path):
    rng = np.random.default_rng(0)

    class Corpus:
        def ordinals(self, ids):
            return {id: int(id) for id in ids if id.isdigit()}

    golds = [tuple(map(str, rng.choice(60, size))) for size in rng.integers(0, 9, 200)] + [("unknown", "3", "3")]
    ordinals = np.array([rng.permutation(60)[:20] for _ in golds], np.int32)
    ordinals[::7, 12:] = -1
    named, counts = gold_matrix(Corpus(), ordinals, [Question(f"q{i}", "?", gold=gold) for i, gold in enumerate(golds)])
    wanted = [
        [ordinal in {int(id) for id in gold if id.isdigit()} for ordinal in row]
        for gold, row in zip(golds, ordinals, strict=True)
    ]
    assert named.tolist() == wanted and counts.tolist() == [len({id for id in gold if id.isdigit()}) for gold in golds]
