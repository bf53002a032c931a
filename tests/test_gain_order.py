"""The order "gain" on numbers worked out by hand, batches by it, and labels generalised to unjudged pairs."""

import numpy as np
import pytest

from blindspot.backend.core.runs import write_run
from blindspot.backend.judges.label_judge import fit_label_model, judge_with_labels, learn_label_judge
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.batches import ArmShares, make_batch
from blindspot.backend.judging.gain import (
    DrawingRules,
    GainPairs,
    PairLimits,
    choose_pairs,
    entropy,
    reason,
    reasons,
    unit,
    word_vectors,
)
from blindspot.backend.training_sets.judged_batches import make_batch_by_gain
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.people import People
from blindspot.db.queue import Queue
from blindspot.db.records import Hits, Passage, Question
from tests.studies import make_study
from tests.training_studies import build, copied, say

UNALIKE = np.eye(8, dtype=np.float32)
ALL = PairLimits(8, 8, 8)


def places(pairs, limits=ALL, vectors=UNALIKE, seed=0):
    return [pair.place for pair in choose_pairs(pairs, limits, lambda rows: vectors[rows], seed)]


def pairs(probability, draws=None, question=None, relation=None, **judged):
    n = len(probability)
    return GainPairs(
        np.array(probability),
        np.ones(n) if draws is None else np.array(draws, float),
        np.arange(n) if question is None else np.array(question),
        np.full(n, -1) if relation is None else np.array(relation),
        **judged,
    )


def test_uncertainty_is_entropy_in_bits():
    assert entropy(np.array([0.5, 0.25, 0.0, 1.0])) == pytest.approx([1.0, 0.8112781, 0.0, 0.0], abs=1e-6)


def test_draws_follow_the_rules_of_the_training_set():
    rules = DrawingRules(first=2, last=5, hard_negatives=4, epochs=10)
    found = rules.draws(np.array([1, 2, 5, 6, 3]), np.array([8, 8, 16, 8, 2]))
    assert found.tolist() == [0.0, 5.0, 2.5, 0.0, 10.0], "4 of 8, 4 of 16, and all of 2 in each of 10 epochs"
    for wrong in ({"first": 3, "last": 2}, {"hard_negatives": 0}, {"epochs": 0}):
        with pytest.raises(BadInput):
            DrawingRules(**wrong)


def test_the_most_uncertain_and_most_drawn_come_first():
    """Values 0.72 x 1, 1 x 1, 1 x 0.5 and 0.47 x 3; the last pair is never drawn, so it is not chosen."""
    assert places(pairs([0.2, 0.5, 0.5, 0.1, 0.5], draws=[1, 1, 0.5, 3, 0])) == [3, 1, 0, 2]


def test_a_pair_of_a_question_or_relation_chosen_before_counts_half():
    assert places(pairs([0.5, 0.49, 0.3], question=[0, 0, 1])) == [0, 2, 1]
    assert places(pairs([0.5, 0.49, 0.3], relation=[0, 0, 1])) == [0, 2, 1]
    judged = {"question_judged": np.array([1, 0, 0])}
    assert places(pairs([0.5, 0.4, 0.3], **judged)) == [1, 2, 0], "labels of earlier batches count as well"


def test_a_near_duplicate_of_a_chosen_passage_counts_little():
    """Their cosine is 0.998, so the second is worth 0.002 bits after the first; the third is worth 0.29."""
    vectors = unit(np.array([[1, 0], [1, 0.06], [0, 1]]))
    assert places(pairs([0.5, 0.49, 0.05]), vectors=vectors) == [0, 2, 1]


def test_limits():
    many = pairs([0.5, 0.49, 0.48, 0.47], question=[0, 0, 1, 2])
    assert places(many, PairLimits(2, 8, 8)) == [0, 2]
    assert places(many, PairLimits(8, 1, 8)) == [0, 2, 3]
    assert places(many, PairLimits(8, 8, 1)) == [0, 1]


@pytest.mark.parametrize("n, shortlist", [(300, 4096), (300, 20)])
def test_the_lazy_selection_equals_comparing_all_pairs(n, shortlist, monkeypatch):
    monkeypatch.setattr("blindspot.backend.judging.gain.SHORTLIST", shortlist)
    monkeypatch.setattr("blindspot.backend.judging.gain.BLOCK", 7)
    rng = np.random.default_rng(3)
    vectors = unit(rng.normal(size=(n, 6)) + 1)
    given = pairs(rng.random(n).round(1), rng.integers(0, 4, n), rng.integers(0, 40, n), rng.integers(-1, 5, n))
    order = np.random.default_rng(1).permutation(n)
    free, similarity, expected = np.ones(n, bool), np.zeros(n), []
    questions, relations = np.zeros(40), np.zeros(5)
    for _ in range(60):
        of_relation = np.where(given.relation < 0, 0, relations[given.relation])
        value = entropy(given.probability) * given.draws * (1 - similarity)
        value = np.where(free, value / ((1 + questions[given.question]) * (1 + of_relation)), -1)
        best = order[np.argmax(value[order])]
        expected.append(int(best))
        free[best] = False
        questions[given.question[best]] += 1
        relations[given.relation[best]] += given.relation[best] >= 0
        similarity = np.maximum(similarity, np.clip(vectors @ vectors[best], 0, 1))
    assert places(given, PairLimits(60, n, n), vectors, seed=1) == expected


def test_words_stand_in_for_vectors():
    vectors = word_vectors(["the cat sat", "Sat the CAT", "quantum chromodynamics", ""])
    assert vectors[0] @ vectors[1] == pytest.approx(1) and vectors[0] @ vectors[2] < 0.5 and not vectors[3].any()


def test_the_reason_is_a_sentence():
    chosen = choose_pairs(pairs([0.5, 0.4], [2, 2], [0, 0], [0, 0]), ALL, lambda rows: UNALIKE[rows])
    assert reason(chosen[1].as_dict()) == (
        "It answers with a probability of 40%; training would draw it as a negative 2.0 times; its similarity to the "
        "passages chosen before is at most 0.00; 1 pair of its question and 1 of its relation came before it."
    )


@pytest.fixture
def study(tmp_path):
    """12 questions of two relations. In run r each has its gold first; of the five passages below, those at ranks 2
    and 3 contain the answer and name the subject, and only the one at rank 2 is about it.
    """
    passages, questions, rows = [], [], []
    for i in range(12):
        texts = [f"S{i} is A{i}", f"indeed S{i} was always A{i}", f"list: S{i} A{i} of many", "x", "y", "z"]
        passages += [Passage(f"p{i}-{j}", f"Title {i}", f"{text} number {i} {j}") for j, text in enumerate(texts)]
        questions.append(
            Question(
                f"q{i:02}",
                f"What is S{i}?",
                (f"A{i}",),
                f"P{i % 2}",
                f"S{i}",
                split="train",
                gold=(f"p{i}-0",),
                dataset="d",
            )
        )
        rows.append(list(range(6 * i, 6 * i + 6)))
    study = make_study(tmp_path / "s", passages, questions)
    scores = np.tile(np.arange(6, 0, -1, dtype=np.float32), (12, 1))
    hits = Hits(np.array(rows, np.int32), scores)
    write_run(study, "r", [q.id for q in questions], hits, {"retriever": "bm25", "split": "train"}, rule="dpr")
    People(study.labels_path).add("ann")
    return study


NO_MIX = ArmShares(audit=0, second=0, repeat=0)


def test_a_batch_by_gain(study):
    made = make_batch_by_gain(study, "g", ["r"], size=12, pairs=8, candidates=2, mix=NO_MIX, seed=5)
    items = Queue(study.labels_path).items("g")
    asked = [candidate.passage for item in items for candidate in item.candidates]
    assert made.passages == len(asked) == 8 and len(items) == 8, "one pair of a question before a second one"
    assert {passage[-1] for passage in asked} <= {"1", "2"}, "the estimate is uncertain where an answer stands"
    settings = next(batch for batch in Queue(study.labels_path).batches() if batch.name == "g").settings
    assert (settings["order"], settings["seed"], settings["pairs"], settings["similar_by"]) == ("gain", 5, 8, "words")
    assert settings["drawing"] == {"first": 1, "last": 20, "hard_negatives": 4, "epochs": 10}
    why = reasons(settings)
    assert sorted(passage for _, passage, _ in why) == sorted(asked)
    assert "training would draw it as a negative 8.0 times" in why[0][2], "4 of 5 in each of 10 epochs"
    assert reasons(settings, why[3][0]) == [why[3]] and reasons({}) == []
    make_batch_by_gain(study, "again", ["r"], size=12, pairs=8, candidates=2, mix=NO_MIX)
    assert len(Queue(study.labels_path).items("again")) == 4, "the questions of the first batch still wait"


def test_the_same_seed_gives_the_same_batch(study, tmp_path):
    def made(number, seed):
        copy = copied(study, tmp_path / str(number))
        make_batch_by_gain(copy, "b", ["r"], size=12, pairs=5, mix=NO_MIX, seed=seed)
        return [(item.question, item.candidates) for item in Queue(copy.labels_path).items("b")]

    assert made(0, 1) == made(1, 1) != made(2, 2)


def test_the_training_set_tells_how_often_a_pair_is_drawn(study):
    build(study, "answer_match", name="few", last=4)
    make_batch_by_gain(study, "g", ["r"], training_set="few", size=12, mix=NO_MIX, hard_negatives=1, epochs=3)
    settings = next(iter(Queue(study.labels_path).batches())).settings
    assert settings["drawing"] == {"first": 1, "last": 4, "hard_negatives": 1, "epochs": 3}
    by_rank = {passage[-1]: parts for _, passage, parts in settings["why"]}
    assert set(by_rank) == {"1", "2", "3"}, "ranks 5 and 6 are not mined"
    assert by_rank["1"]["draws"] == 3.0, "one negative of the one that answer match kept, three epochs"


def test_orders_that_do_not_exist(study):
    with pytest.raises(BadInput, match="there is no order 'best'; there are: priority, gain, random"):
        make_batch(study, "b", ["r"], order="best")
    with pytest.raises(BadInput, match="the order priority chooses whole questions"):
        make_batch(study, "b", ["r"], pairs=3)
    with pytest.raises(Missing):
        make_batch_by_gain(study, "b", ["r"], judge="nobody")


def test_random_pairs(study):
    make_batch(study, "b", ["r"], size=12, order="random", pairs=30, mix=NO_MIX, seed=1)
    items = Queue(study.labels_path).items("b")
    ranks = {candidate.rank for item in items for candidate in item.candidates}
    assert sum(len(item.candidates) for item in items) == 30 and ranks == {2, 3, 4, 5, 6}


def test_few_labels_stay_near_the_prior():
    """One label of one kind moves the estimate, and cannot make it certain."""
    pool = np.random.default_rng(0).normal(size=(200, 3))
    prior = np.full(200, 0.4)
    none = fit_label_model(pool[:0], np.zeros(0, bool), pool, prior).probabilities(pool)
    one = fit_label_model(pool[:1], np.ones(1, bool), pool, prior).probabilities(pool)
    assert none == pytest.approx(prior, abs=0.02)
    assert 0.4 < one[0] < 0.7


def judged(study, questions):
    for i in questions:
        say(study, "ann", f"q{i:02}", {f"p{i}-1": "positive", f"p{i}-2": "negative", f"p{i}-3": "negative"})


def test_labels_are_generalised_to_pairs_that_nobody_judged(study):
    with pytest.raises(Refused, match="nobody has labelled a passage"):
        learn_label_judge(study, "said", "r")
    judged(study, range(10))
    learned = learn_label_judge(study, "said", "r")
    assert (learned.labels, learned.positives, learned.pairs) == (30, 10, 60)
    assert learned.right == 1.0 and learned.low < 1.0
    known = ScoreStore.open(study, "said").of(["q11"])["q11"]
    assert known["p11-1"] > 0.5 > known["p11-2"], "rank 3 contains the answer too, and people denied it elsewhere"
    build(study, "judge+labels", name="generalised", model="said", positives=("gold", "judge"))
    roles = TrainingSet.open(study, "generalised").roles("q11")
    assert {id for id, (role, _) in roles.items() if role == "positive"} == {"p11-0", "p11-1"}
    assert roles["p11-2"][0] == "negative"


def test_a_label_judge_judges_new_lists(study, blindspot):
    judged(study, range(10))
    learn_label_judge(study, "said", "r")
    store, run = ScoreStore.open(study, "said"), study.run("r")
    learned = store.of(run.question_ids)
    store.connection.execute("DELETE FROM score WHERE question = 'q11'")
    code, out, err = blindspot("judge", "run", "said", "--run", "r", "--study", study.folder)
    assert not code and f"Judged {len(learned['q11'])} pairs of 1 question." in out, err
    assert store.of(run.question_ids) == learned, "the stored model is the one that learned"
    rows = np.roll(run.hits.ordinals, 1, axis=0)  # each question gets the list of another one
    made = write_run(
        study, "new", run.question_ids, Hits(rows, run.hits.scores), {"retriever": run.manifest["retriever"]}
    )
    found = judge_with_labels(study, "said", made.name)
    after = store.of(run.question_ids)
    assert found["pairs"] > 0 and found["questions"] == len(run.question_ids)
    assert all(after[question].items() >= learned[question].items() for question in learned)
    write_run(study, "other", run.question_ids, run.hits, {"retriever": "another"})
    with pytest.raises(Refused, match="judge 'said' learned from lists of .* and run 'other' was made by 'another'"):
        judge_with_labels(study, "said", "other")
    study.path("judges", "said", "model.npz").unlink()
    with pytest.raises(
        Refused, match="an older version learned 'said' .* learn it again: blindspot judge generalise said"
    ):
        judge_with_labels(study, "said", "new")


def test_a_budget_learns_from_its_own_labels_only(study):
    judged(study, range(3))
    until = Queue(study.labels_path).connection.execute("SELECT max(number) FROM label_event").fetchone()[0]
    judged(study, range(3, 9))
    assert learn_label_judge(study, "early", "r", until=until).labels == 9
    assert learn_label_judge(study, "all", "r").labels == 27
    with pytest.raises(Refused, match="already a judge named 'early'"):
        learn_label_judge(study, "early", "r")
    assert learn_label_judge(study, "early", "r", replace=True).labels == 27
