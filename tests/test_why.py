"""Why a run missed a question: facts worked by hand, and neighbours compared with a plain product."""

from __future__ import annotations

import pytest

from blindspot.app.components.why import why_panel
from blindspot.backend.evaluation.cause_figures import cause_figures
from blindspot.backend.evaluation.causes import Cause
from blindspot.backend.evaluation.miss_facts import (
    GoldRank,
    MissExplanation,
    explain_question,
    name_words,
    near_name_in_excerpt,
    near_namesake,
    summary_sentence,
)
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.records import Passage, Question
from tests.app_pages import HOSTILE, hand_made_study, words


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return hand_made_study(tmp_path_factory.mktemp("why") / "toy")


def panel(study, question, runs):
    return why_panel(explain_question(study, question, runs), runs)


def test_ranks_margins_and_words_by_hand(study):
    """Question 2: alpha has its gold at 3 of scores 9, 8.5, 8 ...; beta at 1. The winner of alpha is a filler."""
    found = explain_question(study, study.questions.get("q2"), ["alpha", "beta", "short", "alpha"])
    alpha, beta, short = found.standings
    assert (alpha.rank, alpha.score, alpha.margin, alpha.top) == (3, 8.0, 1.0, 9.0) and (beta.rank, beta.margin) == (
        1,
        0.0,
    )
    assert (
        found.passages[alpha.winner].title == "Filler 0"
        and not found.holds_answer[alpha.winner]
        and found.holds_answer[beta.winner]
    )
    assert found.words[alpha.gold].shared == ("2",) and found.words[alpha.winner].missing == ("thing", "2")
    assert found.frequency == 20 and found.trained is None and found.neighbours == {}
    missed = explain_question(study, study.questions.get("q3"), ["alpha"]).standings[0]
    assert (missed.rank, missed.score, missed.margin, missed.gold) == (None, None, None, None)
    last = study.run("alpha").hits.scores[study.run("alpha").row("q3")]
    assert missed.last == (len(last), float(last[-1])) and alpha.last is None, "the gold's score is no higher"
    told = words(panel(study, study.questions.get("q3"), ["alpha"]))
    assert (
        f"gold score at most {last[-1]:.3f}, that of rank {len(last)} margin at least {last[0] - last[-1]:.3f}" in told
    )
    assert explain_question(study, study.questions.get("q4"), ["short"]).standings == [], "short did not search it"


def test_near_namesakes():
    assert near_namesake("Arve Furset", "Arve Henriksen") == 0.5
    assert near_namesake("Arve Furset", "Arve Furset") == near_namesake("Arve Furset", "Arve Furset (skier)") == 0.0
    assert near_namesake("Arve Furset", "Oslo") == near_namesake(None, "Oslo") == near_namesake("!", "Oslo") == 0.0
    assert name_words("The Battle of Hastings (film)") == ["battle", "hastings"]


def test_a_similar_name_in_the_first_passage_is_told_where_its_mark_is_shown():
    question = Question("q", "Where is Selingbury?", ("Oslo",), subject="Selingbury")
    first = Passage("p", "Deepelbeach", "Selangbury lies in Xanavia.")
    assert near_name_in_excerpt(question, first) == "Selangbury"
    folded = Passage("p", "Deepelbeach", f"{'Xanavia is wide. ' * 60}Selangbury lies there.")
    own = Passage("p", "Deepelbeach", "Selingbury lies in Xanavia.")
    assert near_name_in_excerpt(question, folded) == near_name_in_excerpt(question, own) == ""

    def told(rank: int | None, holds_answer: bool) -> str:
        standing = GoldRank("beta", "minilm", 10, None, rank, None, 1.0, None, 7)
        facts = ({7: first}, {}, {7: holds_answer}, {}, None, None, None, {}, {7: "Selangbury"})
        return summary_sentence(MissExplanation(question, [standing], *facts))

    sentence = "beta ranks a passage with a similar name first: Selangbury (in Deepelbeach) instead of Selingbury."
    assert told(None, False) == told(3, False) == sentence
    assert told(1, False) != sentence and told(3, True) != sentence


def test_the_figures_that_decided_a_cause():
    question = Question("q", "Where was Ada Holm born?", ("Oslo",), subject="Ada Holm", frequency=1, gold=("g",))
    gold = Passage("g", "Short notices", "Nothing of Oslo here.")
    found = cause_figures(MissExplanation(question, [], {1: gold}, {}, {}, {}, 1, None, None, {}), "beta")
    assert found == {
        Cause.OTHER_WORDS: "the passage has none of “born”",
        Cause.LATE_FACT: "the answer begins at word 3 of 4",
        Cause.OTHER_ENTITY_PASSAGE: "its title is Short notices, the subject is Ada Holm",
        Cause.RARE_SUBJECT: "1 mention",
    }


def test_training_by_relation_wording_and_subject(tmp_path):
    study = hand_made_study(tmp_path / "trained")
    study.questions.add(
        [
            Question("t1", "Where is THING 1?", ("x",), "P19", "THING 1", split="train"),
            Question("t2", "Who made that?", ("x",), "P19", "that", template="Who made [X]?", split="train"),
        ]
    )
    found = explain_question(study, study.questions.get("q1"), ["alpha"]).trained
    assert (found.total, found.relation, found.template, found.subject) == (2, 2, 1, 1)


def test_with_vectors_the_neighbours_of_the_gold_are_shown(indexed_study, tmp_path):
    import shutil

    from blindspot.backend.core.study import Study

    study = Study.open(shutil.copytree(indexed_study.folder, tmp_path / "copy"))
    run = retrieve(study, "dense", encoder="tiny", split="dev", k=5, device="cpu")
    question = study.questions.all()[0]
    found = explain_question(study, question, [run.name], neighbours=3)
    near = found.neighbours["tiny"]
    assert len(near) == 3 and all(each.ordinal in found.passages for each in near)
    assert near[0].similarity >= near[1].similarity
    assert "Neighbours of the gold passage (tiny)" in words(panel(study, question, [run.name]))


def test_the_panel_says_it_in_words_and_escapes(study):
    shown = words(panel(study, study.questions.get("q2"), ["alpha", "beta"]))
    assert (
        "alpha B beta gold rank 3 Town 2 1 Town 2 gold score 8.000" in shown
        and "margin 1.000 none, it is first top passage Filler 0" in shown
    )
    assert "contains an answer no yes" in shown and "training the study has no training questions" in shown
    hostile = panel(study, study.questions.get("q6"), ["alpha", "beta"])
    assert "<script" not in hostile and HOSTILE.split("<")[0] in words(hostile)
