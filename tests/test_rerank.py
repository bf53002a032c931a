"""The reranker as a retriever like the others: live questions, hybrid lists below it, and the service."""

import os
import time

import numpy as np
import pytest
from fastapi.testclient import TestClient

from blindspot.backend.core.manifest import file_sha256
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.judges.feature_judge import FeatureJudge, learn_judge
from blindspot.backend.judges.rerank import Rerank
from blindspot.backend.retrieval import dense, live
from blindspot.backend.retrieval.bm25 import BM25
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.hybrid import Hybrid
from blindspot.backend.retrieval.indexes import OpenRetrievers
from blindspot.backend.retrieval.question_vectors import question_vectors
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.service.api import make_api
from blindspot.backend.service.service import Service
from blindspot.db.errors import Refused
from tests.indexes import bm25_of
from tests.studies import births, make_study, people, tiny_bert

NAME = "rerank:meaning"
K = 10


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    passages = people(105)
    train, dev = births(passages, "train")[:30], births(passages, "dev")[30:]
    study = make_study(tmp_path_factory.mktemp("rerank") / "s", passages, [*train, *dev])
    tiny_bert(study.folder / "models" / "tiny")
    add_encoder(
        study.settings_path,
        "tiny",
        {"model": str(study.folder / "models" / "tiny"), "pooling": "cls", "max_tokens": 64},
    )
    bm25_of(study)
    dense.build_index(study, "tiny", device="cpu")
    retrieve(study, "bm25", split="train", k=K)
    retrieve(study, "hybrid", encoder="tiny", method="weighted", weight=2.0, split="train", k=K, name="mixed")
    learn_judge(study, "meaning", "bm25-train", encoder="tiny", settings={"depth": K})
    learn_judge(study, "over-hybrid", "mixed", settings={"depth": K})
    return study


def expected(study, questions, k=K):
    """The judge over BM25, put together by hand."""
    judge = FeatureJudge(study, "meaning")
    return Rerank(study, judge, BM25(study)).search(questions, k)


QUESTIONS = ["Where was Arve Burset1 born?", "a weaver from Oslo"]


def test_live_questions_are_reranked(study):
    assert NAME in live.answering_retrievers(study)
    hits = live.search(study, NAME, QUESTIONS, K)
    assert hits.ordinals.tolist() == expected(study, QUESTIONS).ordinals.tolist()
    assert hits.ordinals.tolist() != live.search(study, "bm25", QUESTIONS, K).ordinals.tolist()


def test_it_shares_open_indexes_and_opens_again_when_one_of_them_or_the_judge_changes(study):
    held = OpenRetrievers(study, "cpu")
    opened = held.open(NAME).retriever
    assert (
        opened.base_retriever is held.open("bm25").retriever
        and opened.judge._dense_index is held.open("tiny").retriever
    )
    assert held.open(NAME).retriever is opened
    assert held.thread_key(NAME) == held.thread_key("tiny") == "tiny"  # one thread at a time may search a dense index
    os.utime(study.path("indexes", "bm25", "manifest.json"))
    assert held.open(NAME).retriever is not opened
    again = held.open(NAME).retriever
    learn_judge(study, "meaning", "bm25-train", encoder="tiny", settings={"depth": K}, replace=True)
    assert held.open(NAME).retriever is not again


def test_it_reranks_what_hybrid_retrieval_found(study):
    """The judge learned from a weighted hybrid run: the same fusion is below it, whatever study.toml says now."""
    below = Hybrid(study, "tiny", "weighted", 2.0, device="cpu")
    hits = live.search(study, "rerank:over-hybrid", QUESTIONS, K)
    found = below.search(QUESTIONS, K).ordinals
    assert [sorted(row) for row in hits.ordinals.tolist()] == [sorted(row) for row in found.tolist()]
    run = retrieve(study, "rerank", judge="over-hybrid", split="dev", k=K, name="over-hybrid-dev")
    assert run.manifest["over"]["method"] == "weighted" and run.manifest["over"]["weight"] == 2.0
    judge = FeatureJudge(study, "over-hybrid")
    assert judge.about["retriever_name"] == "hybrid:tiny"


def test_the_service_offers_it_with_the_indexes_that_it_searches(study):
    with TestClient(make_api(Service(study, "cpu")), "http://localhost") as client:
        deadline = time.monotonic() + 60
        while client.get("/health").status_code == 503 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert client.get("/health").json() == {"status": "ready", "failed": {}}
        hashes = {part: file_sha256(study.path("indexes", part, "manifest.json")) for part in ("bm25", "tiny")}
        assert client.get("/retrievers").json()["retrievers"][NAME] == hashes
        answer = client.post("/search", json={"retriever": NAME, "questions": QUESTIONS, "k": K}).json()
    hits = expected(study, QUESTIONS)
    for row, (places, scores) in enumerate(zip(answer["ordinals"], answer["scores"], strict=True)):
        assert places == hits.ordinals[row].tolist()
        np.testing.assert_allclose(scores, hits.scores[row], rtol=1e-5)
    assert answer["indexes"] == hashes


def test_a_judge_whose_retriever_is_gone_is_refused_with_its_name(study):
    learn_judge(study, "lost", "bm25-train", settings={"depth": K})
    path = study.path("indexes", "bm25", "manifest.json")
    path.rename(path.with_suffix(".away"))
    try:
        with pytest.raises(Refused, match="'lost' reorders lists of 'bm25', which cannot search here now"):
            OpenRetrievers(study, "cpu").open("rerank:lost")
    finally:
        path.with_suffix(".away").rename(path)


def test_a_study_that_may_only_be_read_keeps_no_vectors(study, monkeypatch):
    opened = Dense(study, "tiny", "cpu")
    monkeypatch.setattr("blindspot.backend.retrieval.question_vectors.os.access", lambda *_: False)
    before = sorted(study.path("indexes", "tiny").iterdir())
    vectors = question_vectors(study, opened, ["Who is new here?"])
    assert np.allclose(vectors, opened.encode(["Who is new here?"])) and vectors.shape == (1, 32)
    assert sorted(study.path("indexes", "tiny").iterdir()) == before
