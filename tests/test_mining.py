"""Mining: ranks of runs, sampled negatives, distant supervision, and questions that must not train."""

import numpy as np
import pytest

from blindspot.backend.core.runs import write_run
from blindspot.backend.data.leaks import BAD, BUCKET_LEAK, FACT_LEAK, TEXT_LEAK, eligible_questions, fact_key
from blindspot.backend.retrieval import bm25
from blindspot.backend.text.answers import has_answer
from blindspot.backend.training_sets.mining import (
    EasyNegativeSampler,
    NegativeCandidate,
    candidates_by_question,
    distant_positives,
    match_answers,
    mine_passages,
    run_scores,
)
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Hits, Question
from tests.studies import copied
from tests.training_studies import PASSAGES, training_study


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return training_study(tmp_path_factory.mktemp("mining") / "study")


def mine_runs(runs, questions, first_rank, last_rank, corpus, rule):
    mined = mine_passages(runs, questions, first_rank, last_rank, corpus, rule)
    return candidates_by_question(mined, range(len(questions)), [run.name for run in runs], len(questions))


def test_a_run_is_mined_at_the_ranks_asked_for(study):
    questions = study.questions.with_ids(["q1", "q0"])
    found = mine_runs([study.run("r")], questions, 2, 4, study.corpus, "dpr")
    wanted = ((5, 2, 8.0, True), (4, 3, 7.0, False), (8, 4, 6.0, False))
    assert found[0] == [
        NegativeCandidate(ordinal, "run", "r", rank, score, answer) for ordinal, rank, score, answer in wanted
    ]
    assert [each.ordinal for each in found[1]] == [0, 2, 3]


def test_of_several_runs_the_better_rank_counts_and_padding_is_nothing(study, tmp_path):
    study = copied(study, tmp_path / "s")
    rows = np.array([[3, 1, -1]], np.int32)
    write_run(study, "other", ["q0"], Hits(rows, np.array([[2.0, 1.0, -np.inf]], np.float32)), {})
    found = mine_runs(
        [study.run("r"), study.run("other")], study.questions.with_ids(["q0", "q1"]), 1, 3, study.corpus, "dpr"
    )
    assert [(each.ordinal, each.run, each.rank) for each in found[0]] == [
        (1, "r", 1),
        (3, "other", 1),
        (0, "r", 2),
        (2, "r", 3),
    ]
    assert [each.ordinal for each in found[1]] == [6, 5, 4]  # the other run lacks the question


def test_a_question_without_answers_is_not_called_without_an_answer(study):
    assert {
        each.answer
        for each in mine_runs([study.run("r")], study.questions.with_ids(["free"]), 1, 6, study.corpus, "dpr")[0]
    } == {None}


def test_a_rule_that_the_run_has_no_matrix_for_is_computed(study):
    found = mine_runs([study.run("r")], study.questions.with_ids(["q0"]), 1, 6, study.corpus, "rocketqa_mining")[0]
    texts = study.corpus.passages([each.ordinal for each in found])
    assert [each.answer for each in found] == [has_answer(p.text, ("Oslo",), "rocketqa_mining", p.title) for p in texts]


def test_scores_of_positives_at_any_rank(study):
    assert run_scores([study.run("r")], "q0", {0, 30}) == ({"r": {0: 8.0}}, {"r": 4.0})
    assert run_scores([study.run("r")], "nobody", {0}) == ({}, {})


def test_random_negatives_hang_on_the_question_and_the_seed_alone(study):
    q0, q1 = study.questions.with_ids(["q0", "q1"])
    drawer = EasyNegativeSampler(PASSAGES, 7)
    taken = set(range(10))
    drawn = drawer.random(q0, 12, taken)
    assert len({each.ordinal for each in drawn}) == 12 and taken.isdisjoint(each.ordinal for each in drawn)
    assert drawn == EasyNegativeSampler(PASSAGES, 7).random(q0, 12, taken)
    assert drawn != drawer.random(q1, 12, taken) and drawn != EasyNegativeSampler(PASSAGES, 8).random(q0, 12, taken)
    assert len(drawer.random(q0, 99, taken)) == PASSAGES - 10


def test_random_negatives_are_uniform():
    """Chi-square over 4,000 questions' draws of 2 out of 36 passages."""
    from scipy.stats import chisquare

    drawer = EasyNegativeSampler(40, 0)
    counts = np.zeros(40)
    for number in range(4000):
        for each in drawer.random(Question(f"x{number}", "?"), 2, {0, 1, 2, 3}):
            counts[each.ordinal] += 1
    assert counts[:4].sum() == 0
    assert chisquare(counts[4:]).pvalue > 0.001


def test_gold_of_other_questions_is_of_other_facts(study):
    drawer = EasyNegativeSampler.for_questions(study, ["q0", "q1", "q2", "q3"], 0, with_gold=True)
    assert sorted(drawer.golds.tolist()) == [0, 5, 7]
    drawn = drawer.other_gold(study.questions.get("q0"), 5, set())
    assert sorted(each.ordinal for each in drawn) == [5, 7] and {each.source for each in drawn} == {"other_gold"}
    same_fact = Question("x", "Ben's place of birth?", relation="P19", subject="BEN")
    assert sorted(each.ordinal for each in drawer.other_gold(same_fact, 5, {0})) == [7]
    assert (
        EasyNegativeSampler.for_questions(study, ["q0"], 0, with_gold=False).other_gold(
            study.questions.get("q1"), 3, set()
        )
        == []
    )


def test_drawn_passages_are_looked_at_for_answers(study):
    questions = study.questions.with_ids(["q0", "free"])
    found = match_answers(
        questions,
        [[NegativeCandidate(2, "random"), NegativeCandidate(30, "random")], [NegativeCandidate(2, "random")]],
        study.corpus,
        "dpr",
    )
    assert [[each.answer for each in row] for row in found] == [[True, False], [None]]


class Fixed:
    """A retriever with a fixed order of passages, which records its questions."""

    def __init__(self, *ordinals):
        self.row, self.asked = ordinals, []

    def search(self, texts, k):
        self.asked += texts
        rows = np.full((len(texts), k), -1, np.int32)
        rows[:, : len(self.row[:k])] = self.row[:k]
        return Hits(rows, np.zeros((len(texts), k), np.float32))


def test_distant_supervision_takes_the_highest_passage_with_an_answer(study):
    q0, q3, free = study.questions.with_ids(["q0", "q3", "free"])
    finder = Fixed(9, 2, 1, 7)
    assert distant_positives(finder, study.corpus, [q0, free, q3], "dpr", {}) == [2, None, 7]
    assert finder.asked == ["Where was Ann born? Oslo", "Where was Dag born? Bodo"]
    assert distant_positives(finder, study.corpus, [q0], "dpr", {"q0": {2}}) == [1]  # people say that 2 does not answer
    assert distant_positives(finder, study.corpus, [q3], "dpr", {}, depth=3) == [None]


def test_distant_supervision_with_lucene_is_the_first_hit_that_holds_an_answer(indexed_study):
    """Against the whole list of BM25, searched and matched here one by one."""
    questions = indexed_study.questions.all(split="dev")[:12]
    retriever = bm25.BM25(indexed_study)
    found = distant_positives(retriever, indexed_study.corpus, questions, "dpr", {}, depth=20)
    for question, ordinal in zip(questions, found, strict=True):
        hits = retriever.search([f"{question.text} {question.answers[0]}"], 20).ordinals[0]
        first = next(
            (
                int(hit)
                for hit in hits
                if hit >= 0 and has_answer(indexed_study.corpus.passage(hit).text, question.answers)
            ),
            None,
        )
        assert ordinal == first
    assert all(ordinal is not None for ordinal in found)


def test_leaks_stay_out_and_are_counted(study):
    found = eligible_questions(study, ("train",))
    assert found.ids == ["q0", "q1", "q2", "q3"]
    assert found.left_out == {"leak": TEXT_LEAK, "fact": FACT_LEAK, "bucket": BUCKET_LEAK}
    assert eligible_questions(study, ("train",), {"q2"}).left_out["q2"] == BAD
    assert eligible_questions(study, ("unlabelled", "births/train")).ids == ["free", "q0", "q1", "q2", "q3"]


def test_what_is_asked_in_a_bucket_set_leaks_as_a_test_question_does(study, tmp_path):
    study = copied(study, tmp_path / "s")
    study.questions.add([Question("again", "Where was Gro born?", dataset="x", split="train", gold=("p0",))])
    assert eligible_questions(study, ("train",)).left_out["again"] == TEXT_LEAK


@pytest.mark.parametrize("split", ["dev", "test", "births/dev"])
def test_dev_and_test_never_train(study, split):
    with pytest.raises(Refused, match="never train"):
        eligible_questions(study, (split,))


def test_an_unknown_split_is_one_line(study):
    with pytest.raises(Refused, match="'births'"):
        eligible_questions(study, ("births",))
    with pytest.raises(Missing, match="no questions of nothing/train"):
        eligible_questions(study, ("nothing/train",))


def test_facts_are_told_by_relation_and_subject_whatever_the_capitals():
    assert fact_key("P19", "Ann  Lee") == fact_key("P19", "ann lee") != fact_key("P20", "ann lee")
