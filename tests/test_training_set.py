"""Training sets: their contents and reasons, that they never change, that a killed build leaves nothing, and the
difference of two sets.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
from typer.testing import CliRunner

from app.commands.training_sets import training_set_app
from backend.core import jobs
from backend.core.registry import Registry, must_be
from backend.core.runs import write_run
from backend.data.leaks import BAD, BUCKET_LEAK, FACT_LEAK, TEXT_LEAK
from backend.judges.scores import ScoreStore, lookup
from backend.judging.batches import make_batch
from backend.training.examples import TrainingSetExamples
from backend.training_sets import builder as building
from backend.training_sets import denoising, spec
from backend.training_sets.assemble import DENIED, NO_POSITIVE
from backend.training_sets.builder import make_training_set
from backend.training_sets.denoising import policy_names
from backend.training_sets.differences import KINDS, NewLabel, change_summary, changes_of_kind, diff, new_labels
from backend.training_sets.sources import NOT_SEARCHED
from backend.training_sets.spec import TrainingSetSpec
from backend.training_sets.stratified_sample import KEPT, PSEUDO, REMOVED, queue_stratified_sample, stratified_sample
from backend.training_sets.training_set import TrainingSet, read_groups, roles, training_sets
from db.errors import BadInput, BlindspotError, Missing, Refused
from db.events import LabelEvent
from db.labels import Labels
from db.queue import Queue
from db.records import Hits
from tests.test_registry import installed
from tests.training_studies import born, build, copied, judge_report, say, score, told, training_study


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    return training_study(tmp_path_factory.mktemp("sets") / "study")


@pytest.fixture
def study(untouched, tmp_path):
    return copied(untouched, tmp_path / "study")


def content(training_set):
    return list(training_set.groups())


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
    older = TrainingSetSpec.of(
        "older", ["r"], policy="cross_encoder", model="judge", thresholds={"keep_below": 0.1, "propose_above": 0.9}
    )
    first, second = make_training_set(study, older), build(study, "cross_encoder", model="judge")
    assert first.manifest["fingerprint"] == second.manifest["fingerprint"]
    held = {"keep_below": 0.1, "propose_above": 0.9, "share": 0.95, "margin": None, "related": "drop"}
    assert second.manifest["request"]["thresholds"] == held


POLICY_OF_A_PACKAGE = """
from backend.training_sets.denoising import DenoisingPolicy, OwnThresholds

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
    fresh = Registry("denoising policy", group="blindspot.denoising", check=must_be(denoising.DenoisingPolicy))
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
    from backend.retrieval.bm25 import build_index

    with pytest.raises(Missing, match="BM25 index"):
        build(study, positives=("gold", "distant"))
    build_index(study, threads=1)
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


def test_the_same_inputs_give_the_same_bytes(study, tmp_path):
    say(study, "ann", "q0", {"p1": "positive"})
    score(study, {("q0", "p2"): 0.01})
    again = copied(study, tmp_path / "again")
    for one in (study, again):
        build(one, "cross_encoder+labels", "first", model="judge", random=2, other_gold=1)
    first, second = (TrainingSet.open(one, "first") for one in (study, again))
    assert first.manifest["fingerprint"] == second.manifest["fingerprint"]
    for name in ("pairs.parquet", "left_out.jsonl"):
        assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes()
    say(study, "ben", "q0", {"p1": "negative"})
    later = build(study, "cross_encoder+labels", model="judge", random=2, other_gold=1)
    assert later.manifest["fingerprint"] != first.manifest["fingerprint"]
    event = first.manifest["inputs"]["labels"]["last_event"]
    back = build(study, "cross_encoder+labels", model="judge", random=2, other_gold=1, until=event)
    assert (back.folder / "pairs.parquet").read_bytes() == (first.folder / "pairs.parquet").read_bytes()
    assert back.manifest["fingerprint"] == first.manifest["fingerprint"]


def test_how_many_questions_make_a_part_changes_no_pair(study, monkeypatch):
    whole = content(build(study, "answer_match", random=2))
    monkeypatch.setattr(building, "QUESTIONS_PER_PART", 1)
    assert content(build(study, "answer_match", random=2)) == whole


def test_a_set_is_never_changed(study):
    made = build(study, name="once")
    before = (made.folder / "pairs.parquet").read_bytes()
    with pytest.raises(Refused, match="sets do not change"):
        build(study, "answer_match", name="once")
    assert (made.folder / "pairs.parquet").read_bytes() == before


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        ({"runs": ("nothing",)}, Missing, "no run 'nothing'; runs of this study: r"),
        ({"runs": ()}, BadInput, "at least one run"),
        ({"model": "nobody", "policy": "cross_encoder"}, Missing, "no scores of a model 'nobody'"),
        ({"policy": "cross_encoder"}, BadInput, "no model is named"),
        ({"policy": "positive_aware"}, Refused, "raw retrieval scores have no zero"),
        ({"positives": ("silver",)}, BadInput, "no positives 'silver'"),
        ({"first": 5, "last": 2}, BadInput, "not 5 to 2"),
        ({"random": -1}, BadInput, "0 or more"),
        ({"questions": ("dev",)}, Refused, "never train"),
        ({"name": "../x"}, Refused, "training set name"),
        ({"rule": "luck"}, Missing, "no matching rule"),
        ({"positives": ()}, BadInput, r"no question can train \(4 left out: no positive; .* Positives come from gold"),
    ],
)
def test_what_cannot_be_made_is_one_line(study, wrong, error, message):
    with pytest.raises(error, match=message) as raised:
        make_training_set(study, TrainingSetSpec(**{"name": "x", "runs": ("r",), **wrong}))
    assert "\n" not in str(raised.value)
    assert training_sets(study) == {}


def test_a_study_whose_labels_are_all_in_dispute_is_one_line(study):
    for question, gold in (("q0", "p0"), ("q1", "p5"), ("q2", "p7")):
        say(study, "ann", question, {gold: "negative"})
        say(study, "ben", question, {gold: "positive"})
    with pytest.raises(BadInput, match=f"3 left out: {DENIED}"):
        build(study, "labels")


def test_a_run_over_other_questions_is_one_line(study):
    with pytest.raises(Missing, match="searched none of the 1 questions .* --split train"):
        study.questions.add([born("new", "Hans", "Oslo", gold=("p0",))])
        study.questions.connection.execute(
            "UPDATE question SET split = 'unlabelled' WHERE split = 'train' AND id <> 'new'"
        )
        build(study)


def test_a_question_that_the_run_lacks_is_counted(study):
    study.questions.add([born("new", "Hans", "Oslo", gold=("p0",))])
    assert build(study).left_out()["new"] == NOT_SEARCHED


def test_cancelled_and_gone_on_with(study, monkeypatch):
    monkeypatch.setattr(building, "QUESTIONS_PER_PART", 1)
    wanted = content(build(study, "answer_match", "whole"))

    def stop(done, total, doing):
        if done == 2:
            raise jobs.Cancelled("enough")

    with pytest.raises(jobs.Cancelled):
        build(study, "answer_match", "half", progress=stop)
    assert list(training_sets(study)) == ["whole"]
    made = []
    real = building.PairBuilder.pairs
    monkeypatch.setattr(building.PairBuilder, "pairs", lambda self, ids: made.append(ids) or real(self, ids))
    assert content(build(study, "answer_match", "half")) == wanted
    assert made == [["q2"], ["q3"]]
    assert not [path.name for path in (study.folder / "training_sets").iterdir() if path.name.startswith(".")]


def test_parts_of_another_making_are_not_gone_on_with(study, monkeypatch):
    monkeypatch.setattr(building, "QUESTIONS_PER_PART", 1)

    def stop(done, total, doing):
        if done == 2:
            raise jobs.Cancelled("enough")

    with pytest.raises(jobs.Cancelled):
        build(study, "labels", "half", progress=stop)
    say(study, "ann", "q0", {"p1": "positive"})
    assert told(build(study, "labels", "half"), "q0")["p1"] == ("positive", denoising.RELABELLED)


KILLED = """
import sys, time
from backend.core.study import Study
from backend.training_sets import builder as building
from backend.training_sets.spec import TrainingSetSpec
building.QUESTIONS_PER_PART = 1
def slow(done, total, doing):
    print(done, flush=True)
    time.sleep(0.2)
building.make_training_set(Study.open(sys.argv[1]), TrainingSetSpec("killed", ("r",), "answer_match", random=2), slow)
"""


@pytest.mark.parametrize("after", [1, 3])
def test_kill_9_leaves_nothing_half_and_the_rest_ends_with_the_same_bytes(study, monkeypatch, after):
    monkeypatch.setattr(building, "QUESTIONS_PER_PART", 1)
    whole = build(study, "answer_match", "whole", random=2)
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(study.folder)], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if int(line) >= after:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert list(training_sets(study)) == ["whole"]
    with pytest.raises(Missing):
        TrainingSet.open(study, "killed")
    resumed = build(study, "answer_match", "killed", random=2)
    assert (resumed.folder / "pairs.parquet").read_bytes() == (whole.folder / "pairs.parquet").read_bytes()


def test_a_full_disk_leaves_nothing_half(study, monkeypatch):
    """The disk fills up while a shard is written, and while the shards are joined; with free space the same command
    succeeds.
    """
    import errno

    import pyarrow.parquet as parquet

    wanted = content(build(study, "answer_match", "whole"))

    def full(*arguments, **more):
        raise OSError(errno.ENOSPC, "No space left on device")

    for what in ("write_table", "ParquetWriter"):
        with monkeypatch.context() as patched:
            patched.setattr(parquet, what, full)
            with pytest.raises(BlindspotError, match="No space left"):
                build(study, "answer_match", "full")
        assert list(training_sets(study)) == ["whole"]
    assert content(build(study, "answer_match", "full")) == wanted


def test_two_processes_make_no_set_at_once(study):
    with (
        study.building("training_sets/both"),
        pytest.raises(Refused, match="another process is making training_sets/both"),
    ):
        build(study, name="both")


def test_as_a_job_of_its_own(study):
    made = jobs.run(
        building.build,
        study,
        "job",
        ["r"],
        policy="answer_match",
        positives=["gold"],
        questions=["train"],
        thresholds={"keep_below": 0.2},
    )
    assert made.manifest["request"]["thresholds"]["keep_below"] == 0.2
    assert jobs.recent(study)[0].result == {"name": "job"}


def test_counts_are_those_of_the_pairs(study):
    say(study, "ann", "q0", {"p1": "positive", "p2": "unsure", "p3": "negative"})
    made = build(study, "answer_match+labels", random=2)
    pairs = [pair for _, group in made.groups() for pair in group]
    counts = made.manifest["counts"]
    assert counts["questions"] == 3 and counts["pairs"] == len(pairs)
    assert {(role, source): n for role, row in counts["sources"].items() for source, n in row.items()} == Counter(
        (pair.role, pair.source) for pair in pairs
    )
    assert counts["reasons"] == Counter(pair.reason for pair in pairs)
    assert counts["by_rank"]["1"] == {
        "kept": 0,
        "removed": 1,
        "relabelled": 1,
        "removed_by_people": 0,
    }  # p6 of q1 contains Molde; p6 of q2 is gold
    assert counts["by_rank"]["3"]["removed_by_people"] == 1
    mined = sum(sum(row.values()) for row in counts["by_rank"].values())
    assert mined == sum(pair.mined for pair in pairs) == 15
    assert counts["by_relation"]["P19"]["questions"] == 3 and counts["by_relation"]["P19"]["positives"] == 4
    assert sum(row["kept"] for row in counts["by_bucket"].values()) == sum(
        row["kept"] for row in counts["by_rank"].values()
    )


def test_a_set_is_read_question_by_question_with_its_positives_first(study, monkeypatch):
    monkeypatch.setattr(building, "QUESTIONS_PER_PART", 2)
    made = build(study, "labels")
    every = content(made)
    assert [list(made.groups([question])) for question, _ in every] == [[group] for group in every]
    assert list(made.groups(["nobody"])) == [] and made.roles("nobody") == {}
    assert list(read_groups(made.folder / "pairs.parquet", [])) == []
    for _, pairs in every:
        assert [pair.role for pair in pairs] == sorted(
            (pair.role for pair in pairs), key=("positive", "negative", "dropped").index
        )


def test_trainers_get_texts_and_peoples_positives_first(study):
    say(study, "ann", "q0", {"p1": "positive"})
    made = build(study, "labels", random=1)
    examples = TrainingSetExamples(study, made)
    assert len(examples) == 3 and examples.ids == ["q0", "q1", "q2"]
    assert [passage.id for passage in examples[0].positives] == ["p1", "p0"]
    assert [passage.id for passage in examples[0].negatives] == ["p2", "p3", "p4", "p8"]
    assert examples[0].positives[1] == study.corpus.passage(0) and examples[0].question == "Where was Ann born?"
    assert [passage.id for passage in examples[-1].positives] == ["p7"]
    assert len(TrainingSetExamples(study, made, hard=False)[0].negatives) == 5
    assert len(TrainingSetExamples(study, made, first=2)[1].negatives) == 2
    with pytest.raises(IndexError):
        examples[3]


def test_what_training_pushes_away_is_known_to_batches(study):
    made = build(study, "answer_match", random=1)
    assert made.hard_negatives(["q0"]) == {"q0": {"p3", "p4", "p8"}}
    assert make_batch(study, "b", ["r"], size=2, splits=["train"], trained=made.hard_negatives()).passages


def test_a_diff_says_what_changed_and_why(study):
    before = build(study, "none")
    say(study, "ann", "q0", {"p1": "positive", "p0": "negative"})
    after = build(study, "answer_match+labels", last=3)
    found = {(change.question, change.passage): change for change in diff(before, after)}
    why = {key: (change.before, change.after, change.why) for key, change in found.items()}
    assert why["q0", "p1"] == (("negative", "run"), ("positive", "label"), denoising.RELABELLED)
    assert why["q0", "p0"] == (("positive", "gold"), ("negative", "label"), denoising.GOLD_DENIED)
    assert why["q0", "p2"] == (("negative", "run"), ("dropped", "run"), denoising.HOLDS_ANSWER)
    assert why["q0", "p3"] == (("negative", "run"), None, "not at ranks 1 to 3 of r")
    assert ("q1", "p4") not in found
    back = {(change.question, change.passage): change.why for change in diff(after, before)}
    assert back["q0", "p1"] == f"{denoising.MINED}; before, {denoising.RELABELLED}"
    made = change_summary(before, after)
    assert made.changed == len(found) and made.same == 15 + 3 - len(found)
    assert made.changes["negative", "positive", denoising.RELABELLED] == 1
    assert list(diff(after, after)) == []
    kinds = made.by_kind()
    assert list(kinds) == [kind for kind in KINDS if kind in {change.kind for change in found.values()}]
    assert list(kinds)[:3] == [("negative", "positive"), ("positive", "negative"), ("negative", "dropped")]
    for kind, reasons in kinds.items():
        of_kind = [change for change in found.values() if change.kind == kind]
        assert Counter(change.why for change in of_kind) == reasons
        assert changes_of_kind(before, after, kind, None, 0, 99) == of_kind
        assert changes_of_kind(before, after, kind, None, 1, 1) == of_kind[1:2]
        assert changes_of_kind(before, after, kind, "no such reason", 0, 99) == []


def test_an_unchanged_role_is_no_change(study):
    """A label that confirms a negative changes the pair's source and reason, and nothing for training."""
    before = build(study)
    say(study, "ann", "q0", {"p1": "negative", "p2": "negative"})
    after = build(study, "labels")
    assert after.roles("q0")["p1"] == ("negative", "label") and before.roles("q0")["p1"] == ("negative", "run")
    made = change_summary(before, after)
    assert made.changed == 0 and list(diff(before, after)) == []
    assert (made.same, made.other_source) == (sum(len(pairs) for _, pairs in before.groups()), 2)


def test_a_diff_says_which_questions_came_and_went(study):
    before = build(study)
    for who, label in (("ann", "negative"), ("ben", "positive")):
        say(study, who, "q1", {"p5": label})
    say(study, "ann", "q3", {"p7": "positive"})
    changes = list(diff(before, build(study, "labels")))
    assert {change.why for change in changes if change.question == "q1"} == {f"the question was left out: {DENIED}"}
    assert {change.before for change in changes if change.question == "q3"} == {None}
    assert f"{denoising.RELABELLED}; the question was left out before: {NO_POSITIVE}" in {
        change.why for change in changes
    }


def test_what_new_labels_would_change(study):
    say(study, "ann", "q0", {"p1": "positive", "p3": "negative"})
    made = build(study, "labels")
    assert new_labels(study, made) == []
    say(study, "ben", "q0", {"p1": "negative", "p4": "positive", "p8": "negative"})
    say(study, "ann", "q3", {"p7": "positive"})
    for question in ("dev", "leak"):
        say(study, "ann", question, {"p1": "positive"})
    assert new_labels(study, made) == [
        NewLabel("q0", "p1", "positive", "open", "positive", "dropped"),
        NewLabel("q0", "p4", None, "positive", "negative", "positive"),
        NewLabel("q0", "p8", None, "negative", "negative", "negative"),
        NewLabel("q3", "p7", None, "positive", None, "positive"),
    ]
    assert [label.matters for label in new_labels(study, made)] == [True, True, False, True]
    changed = {
        (change.question, change.passage) for change in diff(made, build(study, "labels")) if change.before is not None
    }
    assert {("q0", "p1"), ("q0", "p4")} <= changed
    assert len(new_labels(study, build(study, "none"))) == 5


def test_strata_are_drawn_evenly_from_what_machines_decided(study):
    score(study, {("q0", "p1"): 0.95, ("q0", "p2"): 0.04, ("q0", "p3"): 0.5, ("q1", "p6"): 0.02, ("q1", "p4"): 0.03})
    say(study, "ann", "q1", {"p4": "negative"})
    made = build(study, "cross_encoder+labels", model="judge", positives=("gold", "cross_encoder"), random=2)
    drawn = stratified_sample(study, made.name, 2, seed=1)
    by_name = {
        name: {(each.question, each.passage) for each in drawn if each.stratum == name}
        for name in (KEPT, REMOVED, PSEUDO)
    }
    assert by_name[PSEUDO] == {("q0", "p1")}
    assert by_name[KEPT] == {("q0", "p2"), ("q1", "p6")}
    assert len(by_name[REMOVED]) == 2
    assert drawn == stratified_sample(study, made.name, 2, seed=1)
    times = Counter(
        each[:2]
        for seed in range(300)
        for each in stratified_sample(study, made.name, 1, seed)
        if each.stratum == REMOVED
    )
    removed = [
        (pair.question, pair.passage)
        for _, pairs in made.groups()
        for pair in pairs
        if pair.mined and pair.role == "dropped"
    ]
    assert set(times) == set(removed)
    from scipy.stats import chisquare

    assert chisquare(list(times.values())).pvalue > 0.001
    with pytest.raises(BadInput):
        stratified_sample(study, made.name, 0)
    assert queue_stratified_sample(study, "check", made.name, 2, seed=1).passages == len(drawn)
    (batch,) = Queue(study.labels_path).batches()
    assert sorted(map(tuple, batch.settings["strata"])) == sorted(drawn)
    assert all(each.run is None for item in Queue(study.labels_path).items("check") for each in item.candidates), (
        "nobody is told"
    )


def test_scores_are_kept_by_pair_and_model(study):
    store = score(study, {("q0", "p1"): 0.25, ("q0", "p2"): 0.0})
    assert lookup(study, "judge", [("q0", "p1"), ("q0", "p2"), ("q0", "p3"), ("x", "p1")]) == {
        ("q0", "p1"): 0.25,
        ("q0", "p2"): 0.0,
    }
    before = store.digest
    store.add([("q0", "p1", 0.5)])
    assert store.digest != before and len(store) == 2 and store([("q0", "p1")]) == {("q0", "p1"): 0.5}
    for wrong in (1.5, -0.1, float("nan")):
        with pytest.raises(BadInput, match="between 0 and 1"):
            store.add([("q0", "p5", 0.1), ("q0", "p4", wrong)])
    assert ("q0", "p5") not in store([("q0", "p5")])
    with pytest.raises(Refused, match="calibrated"):
        ScoreStore.create(study, "judge", calibrated=False)
    with pytest.raises(Missing, match="models with scores: judge"):
        ScoreStore.open(study, "other")
    assert make_batch(study, "b", ["r"], size=2, splits=["train"], scores=store).passages


def test_scores_of_other_passages_are_refused(study, untouched):
    score(study, {("q0", "p1"): 0.25})
    path = study.path("scores", "judge", "manifest.json")
    path.write_text(path.read_text().replace(study.corpus.digest, "0" * 64))
    with pytest.raises(Refused, match="other passages"):
        ScoreStore.open(study, "judge")


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


def test_the_commands(study, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*words):
        done = CliRunner().invoke(training_set_app, [*map(str, words), "--study", str(study.folder)])
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output

    assert "No training sets yet" in run("list")
    out = run("build", "noisy", "--run", "r", "--ranks", "1-6")
    assert "3 questions, 18 pairs" in out and "1 question left out: no positive" in out
    say(study, "ann", "q0", {"p1": "positive"})
    run("build", "clean", "--run", "r", "--policy", "answer_match+labels", "--random", 1)
    assert "clean: answer_match+labels, 3 questions, 4 positives" in run("list")
    assert {each["name"] for each in json.loads(run("list", "--json"))} == {"noisy", "clean"}
    assert "people say it answers" in run("show", "clean")
    assert "p1: positive by label, r rank 1 (mined as a negative; people say it answers)" in run(
        "show", "clean", "--question", "q0"
    )
    assert "q3 is not in training set clean: no positive." in run("show", "clean", "--question", "q3")
    out = run("diff", "noisy", "clean", "--limit", 1)
    assert (
        "negative -> positive: mined as a negative; people say it answers" in out
        and "more; --limit 0 prints all" in out
    )
    rows = [json.loads(line) for line in run("diff", "noisy", "clean", "--json").splitlines()]
    assert {
        "question": "q0",
        "passage": "p1",
        "before": ["negative", "run"],
        "after": ["positive", "label"],
        "why": denoising.RELABELLED,
    } in rows
    assert "Wrote clean-dpr: train.json (3 rows)" in run("export", "clean", "--format", "dpr")
    assert (tmp_path / "clean-dpr" / "README.md").is_file()


@pytest.mark.parametrize(
    "words, message", [(["build", "x", "--run", "r", "--ranks", "a-b"], "--ranks"), (["build", "x"], "--run")]
)
def test_wrong_usage(study, words, message):
    done = CliRunner().invoke(training_set_app, [*words, "--study", str(study.folder)])
    assert done.exit_code == 2 and message in done.output


@pytest.mark.slow
def test_memory_does_not_grow_with_the_questions(tmp_path):
    """Measure the peak memory of building a set over 1,000 and over 8,000 questions, each with 50 mined passages."""
    peaks = []
    for count in (1000, 8000):
        code = f"from tests.test_training_set import many; many({str(tmp_path / str(count))!r}, {count})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        peaks.append(float(done.stdout.split()[-1]))
    assert peaks[1] < peaks[0] * 1.3, peaks


def many(folder, count, depth=50, passages=2000):
    """Make a study of `count` training questions and a set; print the seconds and the peak in MiB that the build
    adds.
    """
    import resource
    from pathlib import Path

    from backend.core.runs import write_run
    from db.records import Hits, Passage, Question
    from tests.studies import make_study

    rng = np.random.default_rng(0)
    asked = (
        Question(
            f"q{i:06d}",
            f"What is number {i} of all?",
            (f"w{i % 97}",),
            "P1",
            f"s{i}",
            dataset="d",
            split="train",
            gold=(f"p{i % passages}",),
        )
        for i in range(count)
    )
    held = (Passage(f"p{i}", f"t{i}", " ".join(f"w{n}" for n in rng.integers(500, size=60))) for i in range(passages))
    if os.fork() == 0:  # another process makes the study, so its memory does not count
        study = make_study(Path(folder), held, asked)
        rows = np.stack([rng.permutation(passages)[:depth] for _ in range(count)]).astype(np.int32)
        scores = np.tile(np.linspace(9, 1, depth, dtype=np.float32), (count, 1))
        write_run(study, "r", [f"q{i:06d}" for i in range(count)], Hits(rows, scores), {})
        os._exit(0)
    os.wait()
    from backend.core.study import Study

    study = Study.open(folder)
    began = time.perf_counter()
    made = make_training_set(study, TrainingSetSpec("all", ("r",), "answer_match", random=2, other_gold=1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(made.manifest["counts"]["pairs"], f"{time.perf_counter() - began:.1f}", peak)


def test_reasons_of_older_sets_read_as_the_present_ones(study):
    """Sets built before a rewording still open, compare and count by the present reasons."""
    from backend.data import leaks
    from backend.training_sets import assemble, sources
    from backend.training_sets.training_set import RENAMED_REASONS

    present = {
        value
        for module in (assemble, denoising, leaks, sources)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    assert set(RENAMED_REASONS.values()) <= present and not set(RENAMED_REASONS) & present
    made = build(study, "answer_match")
    old = {new: text for text, new in RENAMED_REASONS.items()}
    import pyarrow as pa
    import pyarrow.parquet as parquet

    table = parquet.read_table(made.folder / "pairs.parquet")
    reasons = pa.array([old.get(reason, reason) for reason in table["reason"].to_pylist()])
    wanted = list(made.groups())
    parquet.write_table(
        table.set_column(table.schema.get_field_index("reason"), "reason", reasons), made.folder / "pairs.parquet"
    )
    (made.folder / "left_out.jsonl").write_text(
        (made.folder / "left_out.jsonl").read_text().replace("no run searched it", "the runs did not search it")
    )
    assert set(reasons.to_pylist()) & set(RENAMED_REASONS)
    assert list(made.groups()) == wanted
