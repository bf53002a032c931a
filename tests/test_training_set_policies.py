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


def test_positive_aware_takes_a_share_of_cosines_without_a_model(study):
    """The scores of the run are cosines: 0.9, 0.8 (gold), 0.77, 0.5, 0.1, -0.2."""
    run = study.run("r")
    rows = np.asarray(run.hits.ordinals).copy()
    scores = np.tile(np.array([0.9, 0.8, 0.77, 0.5, 0.1, -0.2], np.float32), (len(rows), 1))
    made = write_run(study, "cosines", run.question_ids, Hits(rows, scores), {"retriever": "x", "similarity": "cosine"})
    found = told(make_training_set(study, TrainingSetSpec("c", (made.name,), "positive_aware")), "q0")
    assert [found[p][0] for p in ("p1", "p2", "p3", "p4", "p8")] == 2 * ["dropped"] + 3 * ["negative"]
    with pytest.raises(Refused, match="raw retrieval scores have no zero"):
        make_training_set(study, TrainingSetSpec("both", ("cosines", "r"), "positive_aware"))


JUDGED = {("q0", "p1"): 0.6, ("q0", "p2"): 0.19, ("q0", "p3"): 0.89, ("q0", "p4"): 0.9}  # p1 and p2 contain an answer


def test_a_judge_keeps_no_passage_with_an_answer_as_a_negative_unless_labels_of_such_passages_allow_it(study):
    """The threshold was chosen without the unlabelled passages that contain an answer. p2 is below it and contains
    one."""
    score(study, JUDGED)
    judge_report(study, drop=0.2, drop_with_answer=None)
    assert told(build(study, "judge", model="judge"), "q0")["p2"] == ("dropped", denoising.HOLDS_ANSWER)
    built = build(study, "judge", model="judge", name="cautious")
    again = build(study, "judge", model="judge", **built.manifest["request"]["thresholds"])
    assert told(again, "q0")["p2"] == told(built, "q0")["p2"], "the same settings, given as the manifest has them"
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


def test_a_judge_that_is_missing_or_has_no_thresholds_is_one_line(study):
    def refused(error, match, **more):
        with pytest.raises(error, match=match) as raised:
            build(study, "judge", **more)
        assert "\n" not in str(raised.value)

    commands = "'blindspot judge learn {0} --run RUN' .* 'blindspot judge run {0} --run RUN'"
    refused(BadInput, commands.format("NAME"))
    refused(Missing, "no scores of a model 'judge'.*" + commands.format("judge"), model="judge")
    score(study, JUDGED)
    refused(Missing, "unknown feature judge 'judge'", model="judge")
    judge_report(study, drop=None)
    refused(Refused, "'judge' has no threshold below .*--replace'.*--keep-below", model="judge")
    judge_report(study, add=None, add_with_answer=None)
    refused(Refused, "'judge' has no threshold above .*--propose-above", model="judge", positives=("gold", "judge"))
    build(study, "judge", model="judge")
    refused(BadInput, "only the policy cross_encoder proposes", model="judge", positives=("cross_encoder",))
    refused(BadInput, "lower first, not 0.9 and 0.2", model="judge", keep_below=0.9, propose_above=0.2)


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
    labels = {"p1": "positive", "p2": "negative", "p3": "unsure", "p4": "related", "p8": "negative", "p30": "positive"}
    say(study, "ann", "q0", labels)
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
    found = told(build(study, "answer_match+labels"), "q0")["p2"]
    assert found == ("negative", denoising.PEOPLE_NEGATIVE)  # although it contains the answer
    say(study, "ada", "q0", {"p8": "positive"}, kind="adjudicate")
    assert told(build(study, "labels"), "q0")["p8"] == ("positive", denoising.RELABELLED)


def test_labels_count_only_where_the_policy_names_them(study):
    say(study, "ann", "q0", {"p0": "negative", "p1": "positive"})
    plain = build(study)
    assert told(plain, "q0")["p0"] == ("positive", "gold")
    assert plain.left_out() == {"leak": TEXT_LEAK, "fact": FACT_LEAK, "bucket": BUCKET_LEAK, "q3": NO_POSITIVE}
    gold, *_ = next(plain.groups())[1]
    assert (gold.run, gold.rank, gold.score, gold.answer, gold.machine) == ("r", 2, 8.0, True, "positive")
    with_labels = build(study, "labels")
    assert told(with_labels, "q0")["p0"] == ("negative", denoising.GOLD_DENIED)
    assert with_labels.manifest["inputs"]["labels"] == {"last_event": 2, "used": True}
    Labels(study.labels_path).add("ann", LabelEvent("bad1", "bad_question", "q1"))
    assert build(study, "labels").left_out()["q1"] == BAD and "q1" not in build(study).left_out()


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
