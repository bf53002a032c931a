"""What labels are expected to change, and what one person's labels changed."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import betabinom

from blindspot.analysis.forecast_intervals import Forecast, count_forecast, half_width_forecast, step_forecast
from blindspot.backend.core.manifest import read_json, write_json
from blindspot.backend.training.label_forecast import (
    FILE,
    LABELS,
    USES,
    LabelForecast,
    UseForecast,
    forecast_labels,
    stored_forecast,
)
from blindspot.backend.training.own_labels import own_effect
from blindspot.db.people import People
from tests.test_learning_curve import listed, own, ready, say, unlabelled  # noqa: F401  # fixtures


def test_the_step_forecast_covers_what_is_measured_later():
    """Steps and later changes from one known model: the 90% interval holds the later one at least 85 times of 100."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        plus = (0.08 + rng.normal(0.01, 0.01)) / 2  # of the questions; 8% change
        draws = rng.random((6, 300))
        measured = np.where(draws < plus, 1.0, np.where(draws < 0.08, -1.0, 0.0))
        forecast = step_forecast(measured[:5], 1.0, (0.01, 0.01))
        held += forecast.low <= measured[5].mean() <= forecast.high
    assert held >= 340


def test_labels_that_changed_nothing_so_far_leave_an_interval():
    found = step_forecast(np.zeros((2, 300)), 1.0, (0.0, 0.01))
    assert found.low < 0 < found.high and found.value == 0
    assert step_forecast(np.zeros((2, 3000)), 1.0, (0.0, 0.01)).high < found.high


def test_a_count_is_forecast_by_the_beta_binomial():
    found = count_forecast(3, 30, 50)
    assert found.value == pytest.approx(50 * 4 / 32)
    assert (found.low, found.high) == tuple(betabinom.ppf(q, 50, 4, 28) for q in (0.05, 0.95))


def test_more_questions_narrow_the_evaluation():
    hits = np.random.default_rng(0).random(60) < 0.6
    now, later, much_later = (half_width_forecast(hits, more) for more in (0, 60, 600))
    assert now.low == now.value == now.high
    assert now.value > later.value > much_later.value and later.low <= later.value <= later.high
    # Questions in pairs about one fact are half as many observations.
    assert half_width_forecast(hits, 0, np.arange(60) // 2).value > 1.3 * now.value


def forecast_of(**expected):
    uses = tuple(
        UseForecast(use, 0.1 if use == "evaluation" else None, tuple([Forecast(*values)] * len(LABELS)))
        for use, values in expected.items()
    )
    return LabelForecast(0, 100, 0, uses)


def test_the_sentence_names_the_reranker_that_the_next_labels_help_most():
    unsure = forecast_of(reranker=(0.009, -0.018, 0.035), cleaning_reranker=(-0.005, -0.05, 0.04))
    assert unsure.sentence == (
        "No gain of 300 more labels is established: the better of 2 forecasts is +0.9 points of Success@1 in a reranker (90%: −1.8 to +3.5)."
    )
    assert unsure.basis == (
        "Forecast from trial fits with and without a part of the labels so far (0 judged pairs, 100 training questions with "
        "a known positive), compared on questions of dev. In trials the 90% intervals held in 87 to 98% of cases. What a "
        "retriever gains is not forecast."
    )
    both = forecast_of(reranker=(0.03, -0.01, 0.07), cleaning_reranker=(0.02, 0.01, 0.03))
    assert both.sentence == (
        "300 more labels are expected to bring +2.0 points of Success@1 in a reranker trained on the cleaned set "
        "(90%: +1.0 to +3.0)."
    ), "an established gain is named before a larger one that is not"
    assert "is established: −2.0" in forecast_of(reranker=(-0.02, -0.03, -0.01)).sentence
    early = forecast_of(evaluation=(0.1, 0.09, 0.11))
    assert not early.is_known and "judge about 30 passages" in early.sentence


def test_a_study_has_its_forecast_and_dev_never_teaches(own):  # noqa: F811
    study = own
    for number in range(8):
        question = f"P19.train.{number}"
        say(study, question, {p: "positive" if holds else "negative" for p, holds in listed(study, question)[:3]})
    before = forecast_labels(study)
    found = stored_forecast(study)
    assert found is not None and before["sentence"] == found.sentence and before["lines"] == found.lines()
    by_use = {each.use: each for each in found.uses}
    assert found.labels == 24 and len(by_use["reranker"].expected) == len(LABELS)
    assert all(each.low <= each.value <= each.high for each in by_use["reranker"].expected)
    assert by_use["evaluation"].lacking and by_use["gold"].lacking
    # Labels of dev questions make the evaluation forecastable and change nothing of the reranker's.
    for question in study.run("bm25-dev").question_ids[:6]:
        say(study, question, {p: "negative" for p, _ in listed(study, question, "bm25-dev")[:2]})
    forecast_labels(study)
    again = stored_forecast(study)
    assert again is not None and again.uses[0] == found.uses[0]
    assert len({each.use: each for each in again.uses}["evaluation"].expected) == len(LABELS)


def test_a_use_that_is_no_longer_forecast_is_left_out_of_an_older_file(own):  # noqa: F811
    found = forecast_labels(own)
    content = read_json(own.folder / FILE)
    content["uses"].append({"use": "cleaning_retriever", "now": None, "expected": [], "lacking": "", "command": ""})
    write_json(own.folder / FILE, content)
    read = stored_forecast(own)
    assert read is not None and [each.use for each in read.uses] == list(USES) and read.lines() == found["lines"]


def test_a_person_sees_what_theirs_changed_and_when_it_is_too_little(own):  # noqa: F811
    study = own
    People(study.labels_path).add("Ben (simulated)")
    for number in range(3):
        question = f"P19.train.{number}"
        pairs = {p: "positive" if holds else "negative" for p, holds in listed(study, question)[:3]}
        say(study, question, pairs)
        if number == 0:
            say(study, question, pairs, "Ben (simulated)")
    effect = own_effect(study, "ann")
    assert (effect.labels, effect.simulated, effect.others) == (9, 3, 0)
    assert effect.pairs >= 0 and effect.gained + effect.lost <= 40
    lines = effect.lines()
    assert lines[0] == "You gave 9 labels that teach, beside 3 of simulated annotators."
    if effect.further_labels_needed:
        assert "too few labels to tell yet; " in lines[-1] and " more would." in lines[-1]
    # Of a person without labels nothing changes.
    nobody = own_effect(study, "lea")
    assert (nobody.labels, nobody.pairs, nobody.gained, nobody.lost) == (0, 0, 0, 0)


def test_a_clear_difference_is_said_with_its_interval(own):  # noqa: F811
    effect = own_effect(own, "ann")
    clear = dataclasses.replace(
        effect,
        labels=200,
        gained=30,
        lost=2,
        difference=dataclasses.replace(effect.difference, value=0.2, low=0.1, high=0.3),
    )
    assert clear.further_labels_needed == 0
    assert clear.lines()[-1] == (
        "With them the reranker answers 30 dev questions first that it does not without, and loses 2: +20.0 points (95%: +10.0 to +30.0)."
    )
