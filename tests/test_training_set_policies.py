"""What each denoising policy, people and judges make of the mined passages of a training set."""

from collections import Counter

import numpy as np
import pytest

from blindspot.backend.core.registry import Registry, instance_check
from blindspot.backend.core.runs import write_run
from blindspot.backend.data.leaks import BAD, BUCKET_LEAK, FACT_LEAK, TEXT_LEAK
from blindspot.backend.judges.llm.judge import add_llm_judge
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.training_sets import denoising, spec
from blindspot.backend.training_sets.assemble import NO_POSITIVE
from blindspot.backend.training_sets.builder import make_training_set
from blindspot.backend.training_sets.denoising import policy_names
from blindspot.backend.training_sets.spec import TrainingSetSpec
from blindspot.backend.training_sets.training_set import roles
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.events import LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.records import Hits
from tests.indexes import bm25_of
from tests.installed import installed
from tests.studies import copied
from tests.training_studies import build, content, judge_report, say, score, told


@pytest.fixture
def study(mined_study, tmp_path):
    return copied(mined_study, tmp_path / "study")


def test_without_cleaning_every_mined_passage_is_a_negative(study):
    made = build(study)
    assert told(made, "q0") == {"p0": ("positive", "gold")} | dict.fromkeys(
        ("p1", "p2", "p3", "p4", "p8"), ("negative", denoising.MINED)
    )
    assert [question for question, _ in made.groups()] == ["q0", "q1", "q2"]
    gold, *_ = next(made.groups())[1]
    assert (gold.run, gold.rank, gold.score, gold.answer, gold.machine) == ("r", 2, 8.0, True, "positive")
    assert made.left_out() == {"leak": TEXT_LEAK, "fact": FACT_LEAK, "bucket": BUCKET_LEAK, "q3": NO_POSITIVE}


def test_answer_match_drops_the_false_negative_and_the_chance_match_alike(study):
    found = told(build(study, "answer_match"), "q0")
    assert {p for p, (role, _) in found.items() if role == "dropped"} == {"p1", "p2"}
    assert found["p3"] == ("negative", denoising.NO_ANSWER)


def test_the_cross_encoder_tells_them_apart_and_unknown_is_not_zero(study):
    score(study, {("q0", "p0"): 0.97, ("q0", "p1"): 0.95, ("q0", "p2"): 0.04, ("q0", "p3"): 0.5})
    found = told(build(study, "cross_encoder", model="judge"), "q0")
    assert found["p1"] == ("dropped", denoising.SURE_POSITIVE)
    assert found["p2"] == ("negative", denoising.SURE_NEGATIVE)
    assert found["p3"] == ("dropped", denoising.BETWEEN)
    assert found["p4"] == found["p8"] == ("dropped", denoising.UNKNOWN)
    made = build(study, "cross_encoder", model="judge", positives=("gold", "cross_encoder"))
    assert roles(study, made.name, "q0")["p1"] == ("positive", "cross_encoder")


def test_positive_aware_with_probabilities_and_with_a_margin(study):
    score(study, {("q0", "p0"): 0.8, ("q0", "p1"): 0.9, ("q0", "p2"): 0.77, ("q0", "p3"): 0.75})
    found = told(build(study, "positive_aware", model="judge"), "q0")
    assert [found[p][0] for p in ("p1", "p2", "p3", "p4")] == ["dropped", "dropped", "negative", "dropped"]
    found = told(build(study, "positive_aware", margin=1.5), "q0")  # scores 9, 8 (gold), 7, 6, 5, 4
    assert [found[p][0] for p in ("p1", "p2", "p3", "p4", "p8")] == [
        "dropped",
        "dropped",
        "negative",
        "negative",
        "negative",
    ]


def test_positive_aware_takes_a_share_of_cosines_without_a_model(study):
    """The scores of the run are cosines: 0.9, 0.8 (gold), 0.77, 0.5, 0.1, -0.2."""
    run = study.run("r")
    rows = np.asarray(run.hits.ordinals).copy()
    scores = np.tile(np.array([0.9, 0.8, 0.77, 0.5, 0.1, -0.2], np.float32), (len(rows), 1))
    made = write_run(study, "cosines", run.question_ids, Hits(rows, scores), {"retriever": "x", "similarity": "cosine"})
    found = told(make_training_set(study, TrainingSetSpec("c", (made.name,), "positive_aware")), "q0")
    assert [found[p][0] for p in ("p1", "p2", "p3", "p4", "p8")] == [
        "dropped",
        "dropped",
        "negative",
        "negative",
        "negative",
    ]
    with pytest.raises(Refused, match="raw retrieval scores have no zero"):
        make_training_set(study, TrainingSetSpec("both", ("cosines", "r"), "positive_aware"))


JUDGED = {("q0", "p1"): 0.6, ("q0", "p2"): 0.19, ("q0", "p3"): 0.89, ("q0", "p4"): 0.9}  # p1 and p2 contain an answer


def test_the_judge_decides_by_the_thresholds_of_its_report(study):
    score(study, JUDGED)
    judge_report(study, drop=0.2, add=0.9, add_with_answer=0.6)
    made = build(study, "judge", model="judge")
    assert told(made, "q0") == {
        "p0": ("positive", "gold"),
        "p1": ("dropped", denoising.JUDGE_SURE_POSITIVE),
        "p2": ("negative", denoising.JUDGE_SURELY_NOT),
        "p3": ("dropped", denoising.JUDGE_BETWEEN),
        "p4": ("dropped", denoising.JUDGE_SURE_POSITIVE),
        "p8": ("dropped", denoising.UNKNOWN),
    }
    found = roles(study, build(study, "judge", model="judge", positives=("gold", "judge")).name, "q0")
    assert found["p1"] == found["p4"] == ("positive", "judge")
    assert found["p3"] == ("dropped", "run") and found["p2"] == ("negative", "run")
    held = made.manifest["request"]["thresholds"]
    assert (held["keep_below"], held["propose_above"], held["propose_above_with_answer"]) == (0.2, 0.9, 0.6)


def test_a_judge_keeps_no_passage_with_an_answer_as_a_negative_unless_labels_of_such_passages_allow_it(study):
    """The threshold was chosen without the unlabelled passages that contain an answer. p2 is below it and contains
    one."""
    score(study, JUDGED)
    judge_report(study, drop=0.2, drop_with_answer=None)
    assert told(build(study, "judge", model="judge"), "q0")["p2"] == ("dropped", denoising.HOLDS_ANSWER)
    built = build(study, "judge", model="judge", name="cautious")
    again = build(study, "judge", model="judge", **built.manifest["request"]["thresholds"])
    assert told(again, "q0")["p2"] == (
        "dropped",
        denoising.HOLDS_ANSWER,
    )  # the same settings, given as the manifest has them
    judge_report(study, drop=0.2, drop_with_answer=0.19)
    assert told(build(study, "judge", model="judge"), "q0")["p2"][0] == "dropped"
    judge_report(study, drop=0.2, drop_with_answer=0.195)
    assert told(build(study, "judge", model="judge"), "q0")["p2"] == ("negative", denoising.JUDGE_SURELY_NOT)
    judge_report(study, drop=0.1, drop_with_answer=None)
    given = build(study, "judge", model="judge", keep_below=0.2)  # a person's own threshold holds for all passages
    assert told(given, "q0")["p2"] == ("negative", denoising.JUDGE_SURELY_NOT)


def test_scores_of_a_language_model_clean_a_set_and_the_difference_says_who_was_sure(study, blindspot):
    add_llm_judge(study, "llm", "http://localhost:1/v1", "m")
    score(study, JUDGED)
    judge_report(study, drop=0.2, add=0.9, add_with_answer=0.6)
    build(study, "judge", model="judge", name="by-features")
    store = ScoreStore.create(study, "llm", False)
    store.add([("q0", "p1", 0.75), ("q0", "p2", 0.0), ("q0", "p3", 0.25), ("q0", "p4", 0.625)])
    made = build(study, "judge", model="llm", name="by-llm", positives=("gold", "judge"))
    assert told(made, "q0") == {
        "p0": ("positive", "gold"),
        "p1": ("positive", denoising.JUDGE_SURE_POSITIVE),
        "p2": ("negative", denoising.JUDGE_SURELY_NOT),
        "p3": ("negative", denoising.JUDGE_SURELY_NOT),
        "p4": ("dropped", denoising.JUDGE_BETWEEN),
        "p8": ("dropped", denoising.UNKNOWN),
    }
    code, out, err = blindspot("training-set", "diff", "by-features", "by-llm", "--study", study.folder)
    assert not code and "dropped -> positive: llm is sure it answers" in out, err
    assert "dropped -> negative: llm is sure it does not answer" in out
    build(study, "cross_encoder", model="llm", name="by-threshold")
    code, out, err = blindspot("training-set", "diff", "by-llm", "by-threshold", "--study", study.folder)
    assert not code and "llm is not sure" in out and "cross-encoder" not in out, err


def test_given_thresholds_replace_the_judges(study):
    score(study, JUDGED)
    judge_report(study, drop=0.2, add=0.9, add_with_answer=0.6)
    positives = ("gold", "judge")
    found = roles(study, build(study, "judge", model="judge", positives=positives, keep_below=0.1).name, "q0")
    assert found["p2"] == ("dropped", "run") and found["p1"] == ("positive", "judge")
    found = roles(study, build(study, "judge", model="judge", positives=positives, propose_above=0.85).name, "q0")
    assert found["p1"] == ("dropped", "run") and found["p3"] == ("positive", "judge")
    # A judge that learned again does not change a set that was built with given thresholds.
    judge_report(study, drop=None, add=None, add_with_answer=None)
    given = build(study, "judge", model="judge", positives=positives, keep_below=0.2, propose_above=0.9)
    assert roles(study, given.name, "q0")["p2"] == ("negative", "run")


def test_people_decide_over_the_judge(study):
    score(study, JUDGED)
    judge_report(study)
    say(study, "ann", "q0", {"p1": "negative", "p2": "positive"})
    found = roles(study, build(study, "judge+labels", model="judge", positives=("gold", "judge")).name, "q0")
    assert (
        found["p1"] == ("negative", "label")
        and found["p2"] == ("positive", "label")
        and found["p4"] == ("positive", "judge")
    )


def test_a_judge_that_is_missing_or_has_no_thresholds_is_one_line(study):
    def refused(error, match, **more):
        with pytest.raises(error, match=match) as raised:
            build(study, "judge", **more)
        assert "\n" not in str(raised.value)

    commands = "'blindspot judge learn {0} --run RUN' .* 'blindspot judge run {0} --run RUN'"
    refused(BadInput, commands.format("NAME"))
    refused(Missing, "no scores of a model 'judge'.*" + commands.format("judge"), model="judge")
    score(study, JUDGED)
    refused(Missing, "unknown feature judge 'judge'; learn one with 'blindspot judge learn judge", model="judge")
    judge_report(study, drop=None)
    refused(
        Refused,
        "'judge' has no threshold below .*'blindspot judge learn judge --run RUN --replace'.*--keep-below",
        model="judge",
    )
    judge_report(study, add=None, add_with_answer=None)
    refused(Refused, "'judge' has no threshold above .*--propose-above", model="judge", positives=("gold", "judge"))
    build(study, "judge", model="judge")
    refused(BadInput, "only the policy cross_encoder proposes", model="judge", positives=("cross_encoder",))
    refused(BadInput, "lower first, not 0.9 and 0.2", model="judge", keep_below=0.9, propose_above=0.2)


def test_thresholds_of_older_sets_are_read_and_keep_their_fingerprint(study):
    score(study, JUDGED)
    older = TrainingSetSpec.from_values(
        "older", ["r"], policy="cross_encoder", model="judge", thresholds={"keep_below": 0.1, "propose_above": 0.9}
    )
    first, second = make_training_set(study, older), build(study, "cross_encoder", model="judge")
    assert first.manifest["fingerprint"] == second.manifest["fingerprint"]
    held = {"keep_below": 0.1, "propose_above": 0.9, "share": 0.95, "margin": None, "related": "drop"}
    assert second.manifest["request"]["thresholds"] == held


POLICY_OF_A_PACKAGE = """
from blindspot.backend.training_sets.denoising import DenoisingPolicy, OwnThresholds

def under_half(evidence, thresholds, ceiling):
    score = evidence.score if ceiling.from_run else evidence.probability
    if score is None or ceiling.value is None:
        return "dropped", "toy: unknown"
    if score < ceiling.value / 2:
        return "negative", "toy: under half of the ceiling"
    return ("positive", "toy: above the ceiling") if score > ceiling.value else ("dropped", "toy: between")

TOY = DenoisingPolicy("toy", "Toy", "A toy.", under_half, uses_model=True, uses_ceiling=True, proposes="cross_encoder")
"""


def test_an_installed_policy_that_uses_a_ceiling_works_in_full(study, tmp_path, monkeypatch):
    installed(tmp_path, "toy_policies", "blindspot.denoising", {"toy": "toy_policies:TOY"}, POLICY_OF_A_PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    fresh = Registry("denoising policy", group="blindspot.denoising", check=instance_check(denoising.DenoisingPolicy))
    for policy in denoising.DENOISING:
        fresh.register(policy)
    for module in (denoising, spec):
        monkeypatch.setattr(module, "DENOISING", fresh)
    with pytest.raises(BadInput, match="the policy toy needs a model's scores"):
        build(study, "toy")
    score(study, {("q0", "p0"): 0.8, ("q0", "p1"): 0.9, ("q0", "p2"): 0.5, ("q0", "p3"): 0.3}, calibrated=False)
    with pytest.raises(Refused, match="^toy takes a share of the positive's probability.* not calibrated"):
        build(study, "toy", model="judge")
    ScoreStore.remove(study, "judge")
    score(study, {("q0", "p0"): 0.8, ("q0", "p1"): 0.9, ("q0", "p2"): 0.5, ("q0", "p3"): 0.3})
    made = build(study, "toy+labels", model="judge", positives=("gold", "cross_encoder"))
    found = told(made, "q0")  # the ceiling is 95% of 0.8
    assert found["p1"] == ("positive", "toy: above the ceiling") and found["p2"] == ("dropped", "toy: between")
    assert found["p3"] == ("negative", "toy: under half of the ceiling") and found["p4"] == ("dropped", "toy: unknown")
    assert roles(study, made.name, "q0")["p1"] == ("positive", "cross_encoder")
    assert "toy+labels" in policy_names()


def test_labels_relabel_keep_and_drop(study):
    say(
        study,
        "ann",
        "q0",
        {"p1": "positive", "p2": "negative", "p3": "unsure", "p4": "related", "p8": "negative", "p30": "positive"},
    )
    say(study, "ben", "q0", {"p8": "positive"})
    made = build(study, "labels")
    assert told(made, "q0") == {
        "p0": ("positive", "gold"),
        "p1": ("positive", denoising.RELABELLED),
        "p30": ("positive", denoising.PEOPLE_POSITIVE),
        "p2": ("negative", denoising.PEOPLE_NEGATIVE),
        "p3": ("dropped", denoising.UNSURE),
        "p4": ("dropped", denoising.PEOPLE_RELATED),
        "p8": ("dropped", denoising.OPEN),
    }
    assert roles(study, made.name, "q0")["p1"] == ("positive", "label")
    assert told(build(study, "labels", related="negative"), "q0")["p4"][0] == "negative"
    assert told(build(study, "answer_match+labels"), "q0")["p2"] == (
        "negative",
        denoising.PEOPLE_NEGATIVE,
    )  # although it contains the answer
    say(study, "ada", "q0", {"p8": "positive"}, kind="adjudicate")
    assert told(build(study, "labels"), "q0")["p8"] == ("positive", denoising.RELABELLED)


def test_labels_count_only_where_the_policy_names_them(study):
    say(study, "ann", "q0", {"p0": "negative", "p1": "positive"})
    assert told(build(study), "q0")["p0"] == ("positive", "gold")
    with_labels = build(study, "labels")
    assert told(with_labels, "q0")["p0"] == ("negative", denoising.GOLD_DENIED)
    assert with_labels.manifest["inputs"]["labels"] == {"last_event": 2, "used": True}


def test_a_question_that_people_call_bad_is_left_out_where_labels_are_used(study):
    Labels(study.labels_path).add("ann", LabelEvent("bad1", "bad_question", "q1"))
    assert build(study, "labels").left_out()["q1"] == BAD
    assert "q1" not in build(study).left_out()


def test_judgements_of_dev_and_test_never_enter(study):
    before = build(study, "labels")
    say(study, "ann", "dev", {"p1": "positive"})
    say(study, "ann", "test", {"p1": "positive"})
    after = build(study, "labels")
    assert content(after) == content(before)
    assert not {"dev", "test"} & {question for question, _ in after.groups()}


def test_distant_supervision_fills_in_where_there_is_no_gold(study):
    with pytest.raises(Missing, match="BM25 index"):
        build(study, positives=("gold", "distant"))
    bm25_of(study)
    made = build(study, "answer_match", positives=("gold", "distant"))
    assert told(made, "q3")["p7"] == ("positive", denoising.DISTANT)  # the one passage with Bodo
    assert told(made, "q0")["p0"] == ("positive", "gold")
    alone = build(study, "none", positives=("distant",))
    assert "positive" in {role for role, _ in told(alone, "q0").values()}
    assert told(alone, "q0")["p0"] in (("positive", denoising.DISTANT), ("dropped", denoising.GOLD_UNUSED))
    say(study, "ann", "q3", {"p7": "negative"})
    assert build(study, "labels", positives=("gold", "distant")).left_out()["q3"] == NO_POSITIVE


def test_drawn_negatives(study):
    made = build(study, "answer_match", random=3, other_gold=1, seed=5)
    for _, pairs in made.groups():
        drawn = Counter(pair.source for pair in pairs if pair.rank is None and pair.source in ("random", "other_gold"))
        assert drawn == {"random": 3, "other_gold": 1}
        assert len({pair.passage for pair in pairs}) == len(pairs)
        assert not any(pair.hard for pair in pairs if pair.source in ("random", "other_gold"))
    assert content(made) != content(build(study, "answer_match", random=3, other_gold=1, seed=6))


def test_unlabelled_questions_train_on_pseudo_labels(study):
    score(study, {("free", "p19"): 0.99, ("free", "p20"): 0.01, ("free", "p21"): 0.5})
    made = build(
        study, "cross_encoder", questions=("train", "unlabelled"), model="judge", positives=("gold", "cross_encoder")
    )
    assert roles(study, made.name, "free") == {
        "p19": ("positive", "cross_encoder"),
        "p20": ("negative", "run"),
        "p21": ("dropped", "run"),
        "p22": ("dropped", "run"),
        "p23": ("dropped", "run"),
        "p24": ("dropped", "run"),
    }


@pytest.mark.parametrize("policy", policy_names())
def test_no_policy_makes_a_positive_a_negative_or_names_a_passage_twice(study, policy):
    rng = np.random.default_rng(0)
    score(study, {(q, f"p{p}"): float(rng.random()) for q in ("q0", "q1", "q2") for p in range(20)})
    say(study, "ann", "q0", {"p1": "positive"})
    judge_report(study)
    made = build(study, policy, model="judge", random=5, other_gold=2)
    for question, pairs in made.groups():
        assert len({pair.passage for pair in pairs}) == len(pairs)
        positives = {pair.passage for pair in pairs if pair.role == "positive"}
        assert set(study.questions.get(question).gold) <= positives
