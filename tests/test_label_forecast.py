"""What labels are expected to change, and what one person's labels changed."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import betabinom

from blindspot.analysis.forecast_intervals import Forecast, count_forecast, half_width_forecast, step_forecast
from blindspot.backend.judges.feature_judge import settled_labels
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.training import adapter_steps
from blindspot.backend.training.curve_bench import CurveBench, curve_inputs
from blindspot.backend.training.label_forecast import (
    LABELS,
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


def test_the_sentence_names_the_use_that_pays_most_and_what_cleaning_does_not():
    found = forecast_of(reranker=(0.02, 0.01, 0.03), cleaning_retriever=(0.0, -0.01, 0.006))
    assert found.sentence == (
        "On this study, labels pay most in the reranker: the next 300 are expected to raise Success@1 by 2.0 points (90%: +1.0 to +3.0); "
        "cleaning your training set is not expected to change the retriever's Success@20 (90%: −1.0 to +0.6)."
    )
    assert "narrow the half-width" in forecast_of(reranker=(0.02, 0.01, 0.03), evaluation=(0.06, 0.05, 0.07)).sentence
    unsure = forecast_of(reranker=(0.01, -0.01, 0.03), cleaning_reranker=(-0.01, -0.03, 0.01)).sentence
    assert unsure == (
        "On this study, no gain of the next 300 labels is certain; likeliest is that in the reranker they raise Success@1 by "
        "1.0 points (90%: −1.0 to +3.0). Judge some dev questions to see what labels give the evaluation."
    )
    few = forecast_of(reranker=(0.01, -0.01, 0.03)).short_sentence
    assert few == (
        "It is not certain that labels pay here: likeliest is that in the reranker the next 300 raise Success@1 by 1.0 points "
        "(90%: −1.0 to +3.0)."
    )
    assert found.short_sentence == (
        "Labels pay most in the reranker: the next 300 are expected to raise Success@1 by 2.0 points (90%: +1.0 to +3.0)."
    )
    assert forecast_of(cleaning_reranker=(-0.01, -0.03, 0.01)).short_sentence.startswith("Labels may not pay here")
    worse = forecast_of(cleaning_reranker=(-0.01, -0.03, 0.01), evaluation=(0.1, 0.09, 0.11)).sentence
    assert worse == "On this study, no gain of the next 300 labels is certain."
    assert "judge about 30 passages" in forecast_of().sentence


def test_the_answer_is_the_use_that_the_next_labels_help_most():
    unsure = forecast_of(reranker=(0.009, -0.018, 0.035), cleaning_reranker=(-0.005, -0.05, 0.04))
    assert unsure.answer == (
        "No gain of 300 more labels is established: the best of 2 forecasts is +0.9 points of Success@1 in a reranker (90%: −1.8 to +3.5)."
    )
    assert unsure.basis == (
        "Forecast from trial fits with and without a part of the labels so far (0 judged pairs, 100 training questions with "
        "a known positive), compared on questions of dev."
    )
    both = forecast_of(reranker=(0.03, -0.01, 0.07), cleaning_retriever=(0.02, 0.01, 0.03))
    assert both.answer == (
        "300 more labels are expected to bring +2.0 points of Success@20 in a retriever trained on the cleaned set "
        "(90%: +1.0 to +3.0)."
    ), "an established gain is named before a larger one that is not"
    assert "is established: −2.0" in forecast_of(reranker=(-0.02, -0.03, -0.01)).answer
    assert forecast_of(evaluation=(0.1, 0.09, 0.11)).answer == ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((0.0, -0.01, 0.01), "is not expected to change the retriever"),
        ((0.001, -0.035, 0.036), "would change in the retriever's Success@20 (90%: −3.5 to +3.6) cannot be told yet"),
        ((0.02, 0.01, 0.03), "is expected to raise the retriever"),
        ((-0.02, -0.03, -0.01), "is expected to lower the retriever"),
    ],
)
def test_a_wide_interval_is_no_finding_that_cleaning_changes_nothing(change, words):
    assert words in forecast_of(reranker=(0.02, 0.01, 0.03), cleaning_retriever=change).sentence


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
    assert "needs 100 training questions" in by_use["cleaning_retriever"].lacking
    # Labels of dev questions make the evaluation forecastable and change nothing of the reranker's.
    for question in study.run("bm25-dev").question_ids[:6]:
        say(study, question, {p: "negative" for p, _ in listed(study, question, "bm25-dev")[:2]})
    forecast_labels(study)
    again = stored_forecast(study)
    assert again is not None and again.uses[0] == found.uses[0]
    assert len({each.use: each for each in again.uses}["evaluation"].expected) == len(LABELS)


def test_an_adapter_learns_from_enough_questions_only(own, monkeypatch):  # noqa: F811
    study, question = own, "P19.train.0"
    held = listed(study, question)[:3]
    say(study, question, {p: "positive" if holds else "negative" for p, holds in held})
    bench = CurveBench(study, curve_inputs(study), 0, None)
    by_people = settled_labels(bench.consensus(bench.labels.last_event))
    lists, _, truth, _ = bench.training_lists("all", by_people)
    learned_from = []
    original = adapter_steps.learn_map
    monkeypatch.setattr(adapter_steps, "learn_map", lambda *a: learned_from.append(a[0]) or original(*a))
    dense = Dense(study, "tiny")
    data = SimpleNamespace(lists=lists, truth=truth, without=truth)
    assert not adapter_steps.adapter_steps(bench, dense, data, by_people).any() and not learned_from  # 30 questions
    monkeypatch.setattr(adapter_steps, "ADAPTER_QUESTIONS", 30)
    assert adapter_steps.adapter_steps(bench, dense, data, by_people).shape == (2, 40)
    assert [len(each) for each in learned_from] == [30] * 4
    # A passage that people call positive is one, and gold stays.
    row = study.corpus.ordinals(p for p, _ in held)
    expected = {row[p] for p, holds in held if holds}
    gold = set(study.corpus.ordinals(study.questions.get(question).gold).values())
    assert set(learned_from[0].positives[0].tolist()) - {-1} == expected | gold


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
