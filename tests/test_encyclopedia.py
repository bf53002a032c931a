"""The demo's data: every gold passage answers its question, splits share no fact, and the counts are those that are said."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict

import pytest

import blindspot
from blindspot.backend.data.encyclopedia import DATASET, SECOND_DATASET, SECOND_WORDINGS, answering_passages, collection
from blindspot.backend.data.formats.entityquestions import TEMPLATES
from blindspot.backend.text.answers import has_answer
from blindspot.db.errors import Refused
from tests.overlap import passages_of, questions_of


@pytest.fixture(scope="module", params=[600, 2000])
def size(request):
    return request.param


def test_every_passage_that_answers_holds_an_answer_and_gold_is_one_of_them(size):
    passages, truth = {each.id: each for each in passages_of(size)}, answering_passages(collection(size))
    questions = questions_of(size)
    assert truth.keys() == {question.id for question in questions} and len(passages) == size
    for question in questions:
        assert set(question.gold) <= truth[question.id] and len(question.gold) == 1
        for id in truth[question.id]:
            assert has_answer(f"{passages[id].title} {passages[id].text}", question.answers), (question, passages[id])


def test_no_subject_is_in_two_splits(size):
    splits = defaultdict(set)
    for question in questions_of(size):
        splits[question.subject].add(question.split)
    assert all(len(found) == 1 for found in splits.values())
    assert set.union(*splits.values()) == {"train", "dev", "test"}


def test_a_second_wording_asks_for_the_same_fact(size):
    by_id = {question.id: question for question in questions_of(size)}
    second = [question for question in by_id.values() if question.dataset == SECOND_DATASET]
    for question in second:
        first = by_id[question.id.removesuffix(".second")]
        assert (first.dataset, first.split, first.gold) == (DATASET, question.split, question.gold)
        assert question.text == SECOND_WORDINGS[question.relation].replace("[X]", question.subject)
        assert first.text == TEMPLATES[question.relation].replace("[X]", question.subject)


def test_the_counts_are_those_of_the_files(size):
    about = json.loads((collection(size) / "about.json").read_text())
    questions, truth = questions_of(size), answering_passages(collection(size))
    splits = Counter(question.split for question in questions if question.dataset == DATASET)
    assert {name: about[name] for name in splits} == splits
    assert about["second_wording"] == sum(question.dataset == SECOND_DATASET for question in questions)
    assert (about["passages"], about["questions"]) == (size, len(questions))
    assert about["planted"] == sum(len(passages) > 1 for passages in truth.values()) > 0.7 * len(questions)
    with gzip.open(collection(size) / "unlabelled.txt.gz", "rt") as file:
        assert about["unlabelled"] == len(set(file))


def test_rare_subjects_share_passages(size):
    passages = {each.id: each for each in passages_of(size)}
    rare = [question for question in questions_of(size) if passages[question.gold[0]].title != question.subject]
    assert len(rare) > 0.1 * size and {question.frequency for question in rare} == {1, 2, 3}
    assert all(passages[question.gold[0]].title.startswith("Short notices, No. ") for question in rare)


def test_the_example_study(tmp_path):
    study = blindspot.Study.example(tmp_path / "study")
    assert len(study.study.corpus) == 600
    assert study.questions().groupby("split").size().to_dict() == {"dev": 142, "test": 168, "train": 51}
    assert list(study.study.questions.all()) == questions_of(600)
    with pytest.raises(Refused, match="collections of 600 or 2,000 passages, not of 700"):
        blindspot.Study.example(tmp_path / "other", passages=700)
    assert not (tmp_path / "other").exists()
