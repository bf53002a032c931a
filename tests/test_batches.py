"""Creating batches: the arms have their shares, the audit is a uniform sample with stored probabilities, no question is
drawn twice.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.app.commands.batches import batch_app
from blindspot.backend.core.runs import write_run
from blindspot.backend.judging.batch_order import select_spread
from blindspot.backend.judging.batches import batch_of_pairs, make_batch, pair_items, questions_of
from blindspot.backend.judging.near_duplicates import near_duplicates
from blindspot.backend.judging.pools import Pools
from blindspot.backend.judging.priority import Calibration, PooledPassage, false_negative_cost
from blindspot.backend.judging.settings import ArmShares
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue
from blindspot.db.records import Hits, Passage, Question
from tests.judging import searched_study
from tests.studies import births, make_study, people


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    return searched_study(tmp_path_factory.mktemp("searched") / "study")


@pytest.fixture
def study(searched, tmp_path):
    """A fresh copy, because tests write to labels.db."""
    import shutil

    from blindspot.backend.core.study import Study

    searched.questions.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copytree(searched.folder, tmp_path / "study")
    opened = Study.open(tmp_path / "study")
    for name in ("ann", "ben", "cid"):
        People(opened.labels_path).add(name)
    return opened


def judge(study, who, question, labels, number=[0], kind="label", batch=None):  # noqa: B006
    number[0] += 1
    gesture = LabelEvent(
        f"g{number[0]}", kind, question, tuple(Choice(passage, label) for passage, label in labels.items()), batch=batch
    )
    Labels(study.labels_path, passages=study.corpus.ordinals).add(who, gesture)


def judged_half(study, settled=40):
    """ann judged the first questions' pools, ben half of them too; a few are in dispute."""
    pools = Pools(study, ["a", "b"], 10, "dpr").pools_of(study.questions.with_ids([f"q{i}" for i in range(settled)]))
    for i in range(settled):
        pool = [study.corpus.passage(one.ordinal).id for one in pools[f"q{i}"]]
        judge(study, "ann", f"q{i}", dict.fromkeys(pool[:4], "negative"))
        if i % 2:
            judge(study, "ben", f"q{i}", dict.fromkeys(pool[:4], "positive" if i % 10 == 1 else "negative"))


def items(study, name):
    return Queue(study.labels_path).items(name)


def test_the_arms_have_their_shares_and_no_question_comes_twice(study):
    judged_half(study)
    made = make_batch(study, "b", ["a", "b"], size=40)
    assert made.arms == {"priority": 30, "audit": 4, "second": 4, "repeat": 2} and made.frame == 120
    made_items = items(study, "b")
    questions = [item.question for item in made_items]
    assert len(set(questions)) == len(questions) == 40
    by_arm = {arm: [item for item in made_items if item.arm == arm] for arm in made.arms}
    labels = Labels(study.labels_path)
    for item in by_arm["second"]:
        assert {each.annotator for each in labels.judgements([item.question])} == {"ann"} and item.people_needed == 1
        assert {one.passage for one in item.candidates} == {each.passage for each in labels.judgements([item.question])}
    for item in by_arm["repeat"]:
        assert item.assigned_to in {each.annotator for each in labels.judgements([item.question])}
        assert all(pair.state == "agreed" for pair in labels.consensus([item.question]))
    places = [place for place, item in enumerate(made_items) if item.arm != "priority"]
    assert places != list(range(10)) and places != list(range(30, 40)), "a place does not betray an arm"


def test_where_nothing_is_judged_priority_takes_what_the_others_cannot_fill(study):
    made = make_batch(study, "b", ["a"], size=20)
    assert made.arms == {"priority": 18, "audit": 2}


def test_inclusion_probabilities_stand_with_the_audit_and_nowhere_else(study):
    make_batch(study, "b", ["a", "b"], size=40, candidates=5, mix=ArmShares(audit=0.25))
    pools = Pools(study, ["a", "b"], 20, "dpr").pools_of(study.questions.all())
    for item in items(study, "b"):
        if item.arm == "audit":
            assert item.inclusion_probability == pytest.approx(10 / 120)
            share = 5 / len(pools[item.question])
            assert [one.inclusion_probability for one in item.candidates] == pytest.approx([10 / 120 * share] * 5)
        else:
            assert item.inclusion_probability is None and {one.inclusion_probability for one in item.candidates} == {
                None
            }
    connection = Queue(study.labels_path).connection
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("UPDATE batch_question SET inclusion_probability = 0.5 WHERE arm = 'priority'")
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("UPDATE batch_question SET inclusion_probability = NULL WHERE arm = 'audit'")


def test_the_audit_is_a_uniform_draw_of_questions_and_of_passages(study):
    """Over 200 seeds each question is drawn as often as its probability says (chi-square), and every rank alike."""
    from scipy.stats import chisquare

    from blindspot.backend.judging.batch_builder import BatchBuilder
    from blindspot.backend.judging.settings import BatchSettings

    pools, drawn, ranks, pool_size = Pools(study, ["a"], 10, "dpr"), Counter(), Counter(), 9
    asked = study.questions.with_ids([f"q{i}" for i in range(40)])
    for seed in range(200):
        maker = BatchBuilder(study, pools, asked, BatchSettings(candidates=3, seed=seed))
        for item in maker.audit(10, 1):
            drawn[item.question] += 1
            assert len(item.candidates) == 3 and item.inclusion_probability == 0.25
            ranks.update(one.rank for one in item.candidates)
    assert len(drawn) == 40 and sum(drawn.values()) == 2000
    assert chisquare(list(drawn.values())).pvalue > 1e-4
    assert set(ranks) == {1, 2, *range(4, 11)} and len(ranks) == pool_size, "rank 3 is the gold"
    full = [count for rank, count in ranks.items()]
    assert chisquare(full).pvalue > 1e-4


def test_audits_add_up_without_drawing_a_question_again(study):
    make_batch(study, "first", ["a"], size=40, mix=ArmShares(0.5, 0, 0))
    make_batch(study, "second", ["a"], size=40, mix=ArmShares(0.5, 0, 0))
    first, second = (
        {item.question for item in items(study, name) if item.arm == "audit"} for name in ("first", "second")
    )
    assert len(first) == len(second) == 20 and not first & second
    assert {item.inclusion_probability for item in items(study, "second") if item.arm == "audit"} == {20 / 100}


def test_the_same_seed_makes_the_same_batch(study):
    make_batch(study, "one", ["a", "b"], size=30, seed=7)
    made = items(study, "one")
    other = Queue(study.labels_path).connection
    for table in ("candidate", "batch_question", "batch"):
        other.execute(f"DELETE FROM {table}")
    make_batch(study, "two", ["a", "b"], size=30, seed=7)
    assert items(study, "two") == made
    make_batch(study, "three", ["a", "b"], size=30, seed=8)
    assert {item.question for item in items(study, "three")} != {item.question for item in made}


def test_candidates_are_pooled_without_gold_or_duplicates_and_near_duplicates_stand_together(study):
    make_batch(study, "b", ["a", "b"], size=120, candidates=30, mix=ArmShares(0, 0, 0))
    gold, grouped = {question.id: set(question.gold) for question in study.questions.all()}, 0
    runs = {name: study.run(name) for name in ("a", "b")}
    for item in items(study, "b"):
        shown = [one.passage for one in item.candidates]
        assert len(set(shown)) == len(shown) and not gold[item.question] & set(shown)
        for one in item.candidates:
            ordinal = study.corpus.ordinals([one.passage])[one.passage]
            ranks = {
                name: np.flatnonzero(run.hits.ordinals[run.row(item.question)] == ordinal) + 1
                for name, run in runs.items()
            }
            assert one.rank == min(rank.min() for rank in ranks.values() if len(rank)) and one.rank in ranks[one.run]
        groups = [one.near_duplicates for one in item.candidates]
        runs_of_groups = [group for place, group in enumerate(groups) if place == 0 or groups[place - 1] != group]
        assert len(runs_of_groups) == len(set(groups)), "a group is not broken up"
        twins = {int(passage[1:]) // 2 for passage in shown}
        assert len(set(groups)) == len(twins)
        grouped += len(shown) - len(twins)
    assert grouped > 50


def test_depth_and_number_of_candidates_are_kept(study):
    make_batch(study, "b", ["a", "b"], size=20, depth=4, candidates=5)
    for item in items(study, "b"):
        assert 1 <= len(item.candidates) <= 5 and max(one.rank for one in item.candidates) <= 4


def test_dev_and_test_questions_can_be_judged_too(study):
    make_batch(study, "held out", ["a"], size=10, splits=["dev", "test"])
    splits = {
        question.split for question in study.questions.with_ids([item.question for item in items(study, "held out")])
    }
    assert splits == {"dev", "test"}


def test_a_slice_is_all_that_is_drawn_from(study):
    rare = questions_of(study, ["P1"], ["<=1"])
    assert rare == questions_of(study, ["P1"], ["<=1 mentions"]) == [f"q{i}" for i in range(0, 120, 4)]
    made = make_batch(study, "b", ["a"], size=100, slice=rare)
    assert made.frame == 30 and {item.question for item in items(study, "b")} == set(rare)
    with pytest.raises(Missing, match="relation 'P9'; there are: P1, P2"):
        questions_of(study, ["P9"])
    with pytest.raises(Missing, match="bucket '7'"):
        questions_of(study, [], ["7"])


def test_every_frequency_group_gets_its_turn_from_the_rarest(study):
    make_batch(study, "b", ["a"], size=20, mix=ArmShares(0, 0, 0))
    frequencies = [
        question.frequency for question in study.questions.with_ids([item.question for item in items(study, "b")])
    ]
    assert frequencies == [1, 5, 20, 200] * 5


def test_what_waits_in_an_open_batch_or_is_practised_is_not_put_into_another(study):
    make_batch(study, "first", ["a"], size=60, mix=ArmShares(0, 0, 0))
    make_batch(study, "second", ["a"], size=100, mix=ArmShares(0, 0, 0))
    first, second = ({item.question for item in items(study, name)} for name in ("first", "second"))
    assert len(first) == len(second) == 60 and not first & second
    Queue(study.labels_path).set_state("first", "closed")
    practised = pair_items(study, [(question, "p1") for question in sorted(first)[:10]])
    Queue(study.labels_path).add_batch("practice", practised, {}, practice=True)
    make_batch(study, "third", ["a"], size=100, mix=ArmShares(0, 0, 0))
    assert {item.question for item in items(study, "third")} == first - set(sorted(first)[:10])


def test_settled_candidates_are_not_asked_again_by_priority(study):
    judged_half(study, 4)
    make_batch(study, "b", ["a", "b"], size=120, candidates=30, mix=ArmShares(0, 0, 0))
    settled = {(pair.question, pair.passage) for pair in Labels(study.labels_path).consensus() if pair.state != "open"}
    opened = {(pair.question, pair.passage) for pair in Labels(study.labels_path).consensus() if pair.state == "open"}
    asked = {(item.question, one.passage) for item in items(study, "b") for one in item.candidates}
    assert settled and not settled & asked and opened and opened <= asked


def test_priority_uses_what_there_is(study):
    """A cross-encoder's probability, the training set's hard negatives, else answer match, subject and rank."""
    target = {("q5", study.corpus.passage(int(study.run("a").hits.ordinals[study.run("a").row("q5"), 8])).id): 0.99}
    scores = lambda pairs: {pair: target.get(pair, 0.001) for pair in pairs}  # noqa: E731
    make_batch(study, "scored", ["a"], size=120, candidates=3, mix=ArmShares(0, 0, 0), scores=scores)
    (item,) = [item for item in items(study, "scored") if item.question == "q5"]
    assert (item.question, item.candidates[0].passage) in target and item.candidates[0].probability == 0.99
    Queue(study.labels_path).set_state("scored", "closed")
    ((_, passage),) = target
    make_batch(study, "trained", ["a"], size=120, mix=ArmShares(0, 0, 0), trained={"q5": {passage}})
    worth = {item.question: item.priority for item in items(study, "trained")}
    Queue(study.labels_path).set_state("trained", "closed")
    make_batch(study, "plain", ["a"], size=120, mix=ArmShares(0, 0, 0))
    plain = {item.question: item.priority for item in items(study, "plain")}
    assert worth["q5"] > plain["q5"] and {id for id in plain if worth[id] != plain[id]} == {"q5"}


def test_calibration_follows_the_labels():
    guess = Calibration()
    both, match, chance, unknown, lacks = (True, True), (True, None), (True, False), (None, None), (False, None)
    for rank in (1, 5, 20, 21):
        of = [guess.probability(evidence, rank) for evidence in (both, match, chance, lacks)]
        assert of == sorted(of, reverse=True) and len(set(of)) == 4, "an answer without the subject may be chance"
        assert guess.probability(match, rank) > guess.probability(unknown, rank) > guess.probability(lacks, rank)
    for evidence in (both, match, chance, unknown, lacks):
        of = [guess.probability(evidence, rank) for rank in (1, 5, 20, 21)]
        assert of == sorted(of, reverse=True) and len(set(of)) == 4
    # 90 of 100 positive, and the guess (0.05 of 10 labels) weighs ten: (0.5 + 90) / 110.
    told = Calibration(
        [(lacks, 3, "positive")] * 90 + [(lacks, 3, "related")] * 10 + [(lacks, 3, "unsure"), (lacks, None, "positive")]
    )
    assert told.probability(lacks, 2) == pytest.approx(90.5 / 110) and told.labels == 100
    assert told.probability(lacks, 1) == guess.probability(lacks, 1)


def test_harm_and_quotas():
    above, below = (PooledPassage(1, "a", 1, 1.0, True, place) for place in (True, False))
    assert [
        false_negative_cost(above, True),
        false_negative_cost(above, False),
        false_negative_cost(below, True),
        false_negative_cost(below, False),
    ] == [4.0, 2.0, 3.0, 1.0]
    questions = [Question(f"q{i}", "?", bucket=bucket) for i, bucket in enumerate((0, 0, 0, 7, 3, 7))]
    worth = {"q0": 1.0, "q1": 9.0, "q2": 5.0, "q3": 0.1, "q4": 2.0, "q5": 0.2}
    assert select_spread(questions, worth, 5) == ["q5", "q4", "q1", "q3", "q2"]
    assert select_spread(questions, worth, 9) == ["q5", "q4", "q1", "q3", "q2", "q0"], "all that there are"
    assert select_spread([], {}, 3) == []


def test_relations_share_the_places_in_proportion_to_their_priorities():
    """Twelve questions of P1 promise 3 each, six of P2 promise 2 each: without spreading, P1 would fill all ten places."""
    questions = [Question(f"q{i:02}", "?", relation="P1" if i < 12 else "P2", frequency=1) for i in range(18)]
    worth = {question.id: 3.0 if question.relation == "P1" else 2.0 for question in questions}
    chosen = select_spread(questions, worth, 10)
    assert len(set(chosen)) == 10 and Counter(id < "q12" for id in chosen) == {True: 6, False: 4}
    halves = [replace(each, frequency=1 + 99 * (i % 2)) for i, each in enumerate(questions)]
    chosen = select_spread(halves, worth, 10)
    assert Counter(id < "q12" for id in chosen) == {True: 6, False: 4}, "over both buckets together"
    assert Counter(int(id[1:]) % 2 for id in chosen) == {0: 5, 1: 5}


def test_a_passage_with_answer_and_subject_comes_before_chance_matches(tmp_path):
    """One passage of the first pool says where the subject was born; the second pool repeats the answer's word only."""
    held = [
        Passage("gold", "Ada", "Ada was born in Oslo."),
        Passage("other", "Notice", "In Oslo Ada was born, the notice says."),
        *(Passage(f"chance{i}", f"Town {i}", f"Town {i} is far from Oslo.") for i in range(6)),
    ]
    asked = [
        Question("qa", "Where was Ada born?", ("Oslo",), subject="Ada", frequency=1, split="train", gold=("gold",)),
        Question("qb", "Where was Bo born?", ("Oslo",), subject="Bo", frequency=1, split="train", gold=("gold",)),
    ]
    study = make_study(tmp_path / "study", held, asked)
    rows = np.array([[0, 2, 3, 1], [0, 2, 3, 4]], np.int32)
    write_run(study, "r", ["qa", "qb"], Hits(rows, np.tile(np.float32([4, 3, 2, 1]), (2, 1))), {"retriever": "r"})
    make_batch(study, "b", ["r"], size=1, candidates=2, mix=ArmShares(0, 0, 0))
    (item,) = items(study, "b")
    assert item.question == "qa" and item.candidates[0].passage == "other"
    assert item.candidates[0].probability > 2 * item.candidates[1].probability


def test_labels_correct_the_estimate_of_their_own_evidence(tmp_path):
    """Labels of passages with answer and subject leave the estimate of chance matches as it was."""
    held = [Passage(f"p{i}", "Ada" if i < 4 else "", f"Number {i} names Oslo.") for i in range(8)]
    asked = [
        Question(f"q{i}", "Where was Ada born?", ("Oslo",), subject="Ada", split="train", gold=()) for i in range(4)
    ]
    study = make_study(tmp_path / "study", held, asked)
    rows = np.array([[i, 4 + i] for i in range(4)], np.int32)
    write_run(
        study, "r", [f"q{i}" for i in range(4)], Hits(rows, np.tile(np.float32([2, 1]), (4, 1))), {"retriever": "r"}
    )
    People(study.labels_path).add("ann")
    before = make_batch(study, "before", ["r"], size=4, mix=ArmShares(0, 0, 0)) and items(study, "before")
    for i in range(3):
        judge(study, "ann", f"q{i}", {f"p{i}": "positive"}, batch="before")
    Queue(study.labels_path).set_state("before", "closed")
    make_batch(study, "after", ["r"], size=4, mix=ArmShares(0, 0, 0))
    then, now = (
        {one.passage: one.probability for item in made for one in item.candidates if item.question == "q3"}
        for made in (before, items(study, "after"))
    )
    assert now["p3"] > then["p3"] and now["p7"] == then["p7"]


def test_near_duplicates_are_handed_on():
    long = "one two three four five six seven eight nine ten eleven twelve"
    assert near_duplicates([long, "quite another text with words of its own in it", long + " thirteen", "short", "short", "words"]) == [
        0, 1, 0, 2, 2, 3]  # fmt: skip
    assert near_duplicates(["", ""]) == [0, 1] and near_duplicates([]) == []


def test_pairs_of_anybodys_choosing(study):
    made = batch_of_pairs(
        study, "map", [("q3", "p9"), ("q1", "p8"), ("q3", "p8"), ("q3", "p9")], people_needed=2, origin="map"
    )
    assert made.passages == 3 and [(item.question, [one.passage for one in item.candidates]) for item in items(study, "map")] == [
        ("q3", ["p9", "p8"]), ("q1", ["p8"])]  # fmt: skip
    assert [one.near_duplicates for one in items(study, "map")[0].candidates] == [0, 0]
    for pairs, says in (([("q3", "p999")], "p999"), ([("q999", "p1")], "q999")):
        with pytest.raises(Missing, match=says):
            batch_of_pairs(study, "other", pairs)
    with pytest.raises(Refused, match="nothing to judge"):
        batch_of_pairs(study, "other", [])


@pytest.mark.parametrize(
    "wrong, error, says",
    [
        ({"runs": []}, BadInput, "at least one run"),
        ({"runs": ["z"]}, Missing, "no run 'z'"),
        ({"size": 0}, BadInput, "size must be a whole number of at least 1, not 0"),
        ({"depth": 0}, BadInput, "depth"),
        ({"splits": ["prod"]}, BadInput, "splits must be one of train, dev, test, unlabelled, not 'prod'"),
        ({"mix": ArmShares(0.9, 0.9, 0)}, BadInput, "shares"),
        ({"slice": ["q999"]}, Missing, "q999"),
        ({"by": "ann"}, Refused, "takes the role lead"),
        ({"splits": ["unlabelled"]}, Missing, "none of these"),
    ],
)
def test_what_cannot_be_made_is_said(study, wrong, error, says):
    with pytest.raises(error, match=says):
        make_batch(study, "b", **{"runs": ["a"], "size": 10, **wrong})
    assert Queue(study.labels_path).batches() == []


def test_from_the_command_line(study):
    def run(*arguments, fails=False):
        result = CliRunner().invoke(batch_app, [*map(str, arguments), "--study", str(study.folder)])
        assert (result.exit_code != 0) == fails, result.output
        return str(result.exception) + result.output if fails else result.output

    assert "No batches yet" in run("list")
    told = run("new", "one", "--run", "a", "--run", "b", "--size", 20, "--depth", 5, "--candidates", 4, "--split", "train",
               "--split", "dev", "--people", 2, "--seed", 3, "--relation", "P1")  # fmt: skip
    assert "Created batch one: 20 of 40 questions (" in told and "18 priority" in told
    made = items(study, "one")
    assert {item.people_needed for item in made} == {2}
    assert {question.relation for question in study.questions.with_ids([item.question for item in made])} == {"P1"}
    assert "have no more free" in run("new", "small", "--run", "a", "--bucket", "<=1", "--size", 90)
    listed = run("list")
    assert "one" in listed and "open" in listed and "20" in listed
    assert "closed" in run("close", "one") and "closed" in run("list") and "open" in run("open", "one")
    assert "needs 3 people" in run("people", "one", 3) and {item.people_needed for item in items(study, "one")} == {3}
    assert "are now assigned to ben" in run("assign", "one", "ben") and {
        item.assigned_to for item in items(study, "one")
    } == {"ben"}
    assert "are now assigned to anybody" in run("assign", "one", "--anybody", "--bucket", "<=1")
    assigned = [(study.questions.get(item.question).frequency, item.assigned_to) for item in items(study, "one")]
    assert set(assigned) == {(1, None), (20, "ben")}
    assert "nobody is named 'zoe'" in run("assign", "one", "zoe", fails=True)
    assert "PERSON" in run("assign", "one", fails=True)
    assert "already" in run("new", "one", "--run", "a", fails=True)


def test_the_form_for_a_batch_draws_from_train_or_says_what_dev_is_for(tmp_path):
    """Labels of dev never train: the form starts with training questions, and says so where there are none."""
    from tests.app_pages import Page

    passages = people(12)
    asked = births(passages)
    for name, split in (("trains", "train"), ("measures", "dev")):
        study = make_study(tmp_path / name, passages, [replace(question, split=split) for question in asked])
        hits = Hits(
            np.tile(np.arange(5), (len(asked), 1)), np.tile(np.arange(5, 0, -1.0, dtype=np.float32), (len(asked), 1))
        )
        write_run(study, "r", [question.id for question in asked], hits, {"retriever": "bm25", "split": split})
        People(study.labels_path).add("Lea", "lead")
        page = Page(study.folder, "team", "Lea")
        chosen = {each.label: each.value for each in page.app.multiselect}
        assert chosen["Splits"] == (["train"] if split == "train" else []) and chosen["Runs to pool"] == ["r"]
        assert ("corrects the evaluation and never trains" in page.text) == (split == "dev")
