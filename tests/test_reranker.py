"""The reranker away from its study: the same order as in it, an empty environment, bad input in one line."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import blindspot
from blindspot.backend.judges.feature_judge import FeatureJudge, learn_judge
from blindspot.backend.judges.lists import lists_of
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.errors import BadInput, Missing
from tests.indexes import bm25_of
from tests.studies import births, make_study, people

MOST_MEGABYTES = 50


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    passages = people(105)
    study = make_study(
        tmp_path_factory.mktemp("reranker") / "s",
        passages,
        [*births(passages, "train")[:40], *births(passages, "dev")[40:]],
    )
    bm25_of(study)
    for split in ("train", "dev"):
        retrieve(study, "bm25", split=split, k=20)
    learn_judge(study, "judge", "bm25-train")
    return study


def candidates(study, place=0):
    """A dev question, its list as titles and texts, the retriever's scores, and the judge's log-odds."""
    run, judge = study.run("bm25-dev"), FeatureJudge(study, "judge")
    lists = lists_of(run, study.questions.with_ids(run.question_ids[place : place + 1]), 20)
    passages = [{"title": p.title, "text": p.text} for p in study.corpus.passages(lists.rows[0].tolist())]
    return lists.questions[0].text, passages, lists.scores[0].tolist(), judge.ranking_scores(judge.features(lists))[0]


def test_it_scores_as_the_judge_does_in_its_study(study):
    question, passages, scores, expected = candidates(study)
    ranked = blindspot.Reranker.load(study.path("models", "judge")).rank(question, passages, scores=scores)
    assert {each["corpus_id"] for each in ranked} == set(range(20))
    assert all(each["score"] == pytest.approx(expected[each["corpus_id"]], abs=1e-6) for each in ranked)
    assert all(a["score"] >= b["score"] for a, b in zip(ranked, ranked[1:]))


def test_it_ranks_texts_as_a_cross_encoder_does(study):
    question, passages, _, _ = candidates(study)
    reranker = blindspot.Reranker.load(str(study.path("models", "judge")))
    texts = [f"{each['title']} {each['text']}" for each in passages]
    first = reranker.rank(question, texts, top_k=3, return_documents=True)
    assert len(first) == 3 and [each["text"] for each in first] == [texts[each["corpus_id"]] for each in first]
    assert reranker.rank(question, []) == []
    # Without an order of their own, passages are scored alike wherever they stand.
    there, back = (
        {texts[each["corpus_id"]]: each["score"] for each in reranker.rank(question, listed, in_order=False)}
        for listed in (texts, texts[::-1])
    )
    assert len(set(texts)) == 20
    same = [there[text] == pytest.approx(back[text]) for text in texts]
    assert np.mean(same) == 1


def test_it_works_where_there_is_no_study(study, tmp_path):
    shutil.copytree(study.path("models", "judge"), tmp_path / "ranker")
    size = sum(path.stat().st_size for path in (tmp_path / "ranker").rglob("*") if path.is_file())
    assert size < MOST_MEGABYTES * 2**20
    code = (
        "import sys, json, blindspot\n"
        "found = blindspot.Reranker.load('ranker').rank('Where was Arve born?', ['Arve was born in Molde.', 'A town.'])\n"
        "heavy = {'torch', 'sklearn', 'jnius', 'streamlit'} & set(sys.modules)\n"
        "print(json.dumps([found, sorted(heavy)]))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "BLINDSPOT_STUDY"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found, heavy = json.loads(done.stdout)
    assert [each["corpus_id"] for each in found] == [0, 1] and heavy == []


def test_bad_input_is_one_line(study, tmp_path):
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(Missing, match="holds no judge of 'blindspot judge learn'"):
            blindspot.Reranker.load(folder)
    reranker = blindspot.Reranker.load(study.path("models", "judge"))
    with pytest.raises(BadInput, match="passage 1 must be a text"):
        reranker.rank("Who?", ["a text", 3])
    with pytest.raises(BadInput, match="scores must hold one number for each of the 2 passages"):
        reranker.rank("Who?", ["a", "b"], scores=[1.0])
