"""Denoising policies: the pairs they keep, drop and propose, exactly at their thresholds; people's labels override
every policy.
"""

import pytest

from blindspot.backend.training_sets import denoising
from blindspot.backend.training_sets.assemble import DENIED, NO_POSITIVE, QuestionEvidence, assemble
from blindspot.backend.training_sets.denoising import (
    DENOISING,
    OwnThresholds,
    PassageEvidence,
    Policy,
    ScoreCeiling,
    Thresholds,
    check_scale,
    label_role,
    policy_named,
    policy_names,
    score_ceiling,
)
from blindspot.backend.training_sets.mining import NegativeCandidate
from blindspot.db.errors import BadInput, Refused

DEFAULT = Thresholds()


def machine_role(base, evidence, thresholds, ceiling=None):
    return DENOISING.get(base).decide(evidence, thresholds, ceiling)


def evidence(candidates, gold=(0,), labels=None, probabilities=None, **more):
    """Passage of ordinal n is called str(n)."""
    values = {"unused": frozenset(), "distant": None, "listed": {}, "floors": {}} | more
    return QuestionEvidence(
        gold=list(gold),
        candidates=candidates,
        labels=labels or {},
        probabilities=probabilities or {},
        ids={n: str(n) for n in range(50)},
        **values,
    )


def mined(*ordinals, answer=False, score=1.0):
    return [NegativeCandidate(ordinal, "run", "r", rank, score, answer) for rank, ordinal in enumerate(ordinals, 1)]


def roles(found, policy="none", thresholds=DEFAULT, pseudo=False):
    pairs, reason = assemble("q", found, policy_named(policy), thresholds, pseudo)
    assert (reason is None) == bool(pairs)
    return {int(pair.passage): pair.role for pair in pairs}


def test_every_policy_is_found_by_its_name():
    for name in policy_names():
        policy = policy_named(name)
        assert policy.name == name
        assert policy.labels == ("labels" in name) and policy.base in DENOISING.names()
    for name in ("", "labels+none", "cross_encoder+", "none+labels", "human"):
        with pytest.raises(BadInput, match=r"no denoising policy .* answer_match\+labels"):
            policy_named(name)


def test_answer_match_drops_what_holds_an_answer_and_says_nothing_of_questions_without():
    assert machine_role("answer_match", PassageEvidence(True), DEFAULT) == ("dropped", denoising.HOLDS_ANSWER)
    assert machine_role("answer_match", PassageEvidence(False), DEFAULT) == ("negative", denoising.NO_ANSWER)
    assert machine_role("answer_match", PassageEvidence(None), DEFAULT) == ("negative", denoising.MINED)
    assert machine_role("none", PassageEvidence(True, 9.0, 1.0), DEFAULT) == ("negative", denoising.MINED)


@pytest.mark.parametrize(
    "probability, role, reason",
    [
        (0.0, "negative", denoising.SURE_NEGATIVE),
        (0.0999, "negative", denoising.SURE_NEGATIVE),
        (0.1, "dropped", denoising.BETWEEN),
        (0.9, "dropped", denoising.BETWEEN),
        (0.9001, "positive", denoising.SURE_POSITIVE),
        (None, "dropped", denoising.UNKNOWN),
    ],
)
def test_the_cross_encoder_at_its_thresholds(probability, role, reason):
    """RocketQA 4.1.3: below 0.1 negative, above 0.9 positive; a pair without a score stays unknown."""
    assert machine_role("cross_encoder", PassageEvidence(probability=probability), DEFAULT) == (role, reason)


def test_drawn_negatives_need_no_score_but_a_known_one_counts():
    assert machine_role("cross_encoder", PassageEvidence(easy=True), DEFAULT) == ("negative", denoising.DRAWN)
    assert machine_role("cross_encoder", PassageEvidence(probability=0.5, easy=True), DEFAULT)[0] == "dropped"
    assert machine_role("judge", PassageEvidence(easy=True), DEFAULT) == ("negative", denoising.DRAWN)


def test_positive_aware_takes_95_percent_of_the_best_positive():
    """One poor positive of many must not cost a question its negatives."""
    bar = score_ceiling([0.8, 0.02, 0.3], DEFAULT)
    assert bar.value == pytest.approx(0.76)
    rows = [
        (0.7599, bar, ("negative", denoising.UNDER)),
        (0.7601, bar, ("dropped", denoising.TOO_HIGH)),
        (None, bar, ("dropped", denoising.UNKNOWN)),
        (0.1, ScoreCeiling(None, False), ("dropped", denoising.NO_POSITIVE_SCORE)),
    ]
    for probability, ceiling, expected in rows:
        found = machine_role("positive_aware", PassageEvidence(probability=probability), DEFAULT, ceiling)
        assert found == expected, probability


def test_a_judge_at_its_very_thresholds():
    thresholds = DEFAULT.filled(OwnThresholds(0.3, 0.9, 0.6))
    only_with_answer = DEFAULT.filled(OwnThresholds(0.3, None, 0.6))
    rows = [
        (0.2999, "negative", "negative"),
        (0.3, "dropped", "dropped"),
        (0.5999, "dropped", "dropped"),
        (0.6, "dropped", "positive"),
        (0.8999, "dropped", "positive"),
        (0.9, "positive", "positive"),
        (None, "dropped", "dropped"),
    ]
    for probability, role, with_answer in rows:
        for answer, expected in ((True, with_answer), (False, role), (None, role)):
            found, _ = machine_role("judge", PassageEvidence(answer=answer, probability=probability), thresholds)
            assert found == expected, (probability, answer)
        assert machine_role("judge", PassageEvidence(probability=probability), only_with_answer)[0] != "positive"


def test_a_margin_is_the_same_wherever_the_scores_lie():
    """Dot products may be shifted by a constant: a relative threshold changes, a margin does not."""
    thresholds = Thresholds(margin=2.0)
    for moved in (0.0, -100.0, 80.0):
        bar = score_ceiling([moved + 5.0], thresholds)
        for score, role in ((2.9, "negative"), (3.1, "dropped")):
            assert machine_role("positive_aware", PassageEvidence(score=moved + score), thresholds, bar)[0] == role


@pytest.mark.parametrize("positive, ceiling", [(0.8, 0.76), (-0.2, -0.21), (0.0, 0.0)])
def test_a_share_of_a_cosine_is_below_it_whatever_its_sign(positive, ceiling):
    bar = score_ceiling([positive, positive - 0.5], DEFAULT, from_run=True)
    assert bar == ScoreCeiling(pytest.approx(ceiling), True)
    assert machine_role("positive_aware", PassageEvidence(score=positive), DEFAULT, bar)[0] == "dropped"
    assert machine_role("positive_aware", PassageEvidence(score=ceiling - 0.01), DEFAULT, bar)[0] == "negative"


def test_positive_aware_is_refused_on_raw_and_on_uncalibrated_scores():
    with pytest.raises(Refused, match="95% of a dot product"):
        check_scale(DEFAULT, None)
    with pytest.raises(Refused, match="not calibrated"):
        check_scale(DEFAULT, False)
    check_scale(DEFAULT, True)
    check_scale(DEFAULT, None, cosine=True)
    with pytest.raises(Refused, match="not calibrated"):
        check_scale(DEFAULT, False, cosine=True)
    check_scale(Thresholds(margin=0.0), None)


@pytest.mark.parametrize("name, wrong", [
    ("keep_below", -0.1), ("keep_below", 0.95), ("propose_above", 1.1), ("share", 0.0), ("share", 1.5), ("margin", -1.0),
    ("margin", float("nan")), ("related", "keep"),
])  # fmt: skip
def test_thresholds_out_of_range_are_refused(name, wrong):
    with pytest.raises(BadInput):
        Thresholds(**{name: wrong}).check()


@pytest.mark.parametrize(
    "label, related, role",
    [
        ("positive", "drop", "positive"),
        ("negative", "drop", "negative"),
        ("related", "drop", "dropped"),
        ("related", "negative", "negative"),
        ("unsure", "drop", "dropped"),
        ("open", "negative", "dropped"),
    ],
)
def test_what_people_say_becomes_of_a_passage(label, related, role):
    assert label_role(label, related, is_mined=True)[0] == role


@pytest.mark.parametrize("base", DENOISING.names())
@pytest.mark.parametrize("probability, answer", [(0.01, True), (0.99, False)])
def test_people_overrule_every_machine(base, probability, answer):
    """With +labels a person's label overrides the policy, for mined passages and for gold."""
    labels = {1: "positive", 2: "negative", 3: "related", 4: "unsure", 5: "open", 9: "positive", 8: "negative"}
    found = evidence(
        mined(1, 2, 3, 4, 5, answer=answer),
        gold=(0, 8),
        labels=labels,
        probabilities=dict.fromkeys(range(6), probability),
    )
    pairs, _ = assemble("q", found, Policy(base, True), DEFAULT, pseudo=True)
    told = {int(pair.passage): (pair.role, pair.source) for pair in pairs}
    assert told == {
        0: ("positive", "gold"),
        1: ("positive", "label"),
        2: ("negative", "label"),
        3: ("dropped", "label"),
        4: ("dropped", "label"),
        5: ("dropped", "label"),
        8: ("negative", "label"),
        9: ("positive", "label"),
    }
    reasons = {int(pair.passage): pair.reason for pair in pairs}
    assert reasons[8] == denoising.GOLD_DENIED and reasons[9] == denoising.PEOPLE_POSITIVE
    machine, _ = assemble(
        "q", evidence(found.candidates, (0, 8), {}, found.probabilities), Policy(base, False), DEFAULT, pseudo=True
    )
    assert {pair.passage: pair.role for pair in machine} == {
        pair.passage: pair.machine for pair in pairs if pair.machine is not None
    }


def test_a_positive_is_never_a_negative():
    assert roles(evidence(mined(0, 1), labels={1: "positive"}), "labels") == {0: "positive", 1: "positive"}
    assert roles(evidence(mined(0, 1, 2), gold=(), distant=1)) == {1: "positive", 0: "negative", 2: "negative"}
    unused = roles(evidence(mined(0, 1, 2), gold=(), distant=1, unused=frozenset({2})))
    assert unused == {1: "positive", 0: "negative", 2: "dropped"}


def test_a_pseudo_positive_is_proposed_or_taken():
    found = evidence(mined(1, 2), gold=(), probabilities={1: 0.95, 2: 0.05})
    assert assemble("q", found, policy_named("cross_encoder"), DEFAULT, False) == ([], NO_POSITIVE)
    assert roles(found, "cross_encoder", pseudo=True) == {1: "positive", 2: "negative"}
    with_gold = roles(evidence(mined(1, 2), probabilities={1: 0.95, 2: 0.05}), "cross_encoder")
    assert with_gold == {0: "positive", 1: "dropped", 2: "negative"}


def test_a_question_whose_gold_is_denied_or_in_dispute_cannot_train():
    for label in ("negative", "open", "unsure", "related"):
        made = assemble("q", evidence(mined(1), labels={0: label}), policy_named("labels"), DEFAULT, False)
        assert made == ([], DENIED)
    assert roles(evidence(mined(1), labels={0: "open", 1: "positive"}), "labels") == {1: "positive", 0: "dropped"}


def test_a_denied_gold_sets_no_bar():
    found = evidence(mined(1), labels={0: "negative", 2: "positive"}, probabilities={0: 0.2, 1: 0.5, 2: 0.9})
    assert roles(found, "positive_aware+labels") == {0: "negative", 1: "negative", 2: "positive"}
    assert roles(evidence(mined(1), probabilities={0: 0.2, 1: 0.5, 2: 0.9}), "positive_aware")[1] == "dropped"


def test_with_a_margin_a_positive_that_was_not_found_scores_no_higher_than_the_last():
    """The run's list ends at 3: a passage at 4 may score above the positive, so it is not a certain negative at any
    margin.
    """
    found = evidence(mined(1, score=4.0), listed={"r": {}}, floors={"r": 3.0})
    assert roles(found, "positive_aware", Thresholds(margin=0.0)) == {0: "positive", 1: "dropped"}
    found = evidence(mined(1, score=4.0), listed={"r": {0: 9.0}}, floors={"r": 3.0})
    assert roles(found, "positive_aware", Thresholds(margin=2.0)) == {0: "positive", 1: "negative"}
