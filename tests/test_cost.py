"""What a retriever costs is measured when its run is made, and shown beside the run's quality."""

from __future__ import annotations

import json
import time

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.report import report
from blindspot.backend.retrieval.cost import LATENCY_QUESTIONS, Cost, cost_of, index_bytes, live_latency
from blindspot.backend.retrieval.retriever import RETRIEVERS
from blindspot.db.records import Hits


class Slow:
    """A retriever that notes its questions and takes a known time for each search."""

    name, settings = "slow", {"retriever": "slow"}

    def __init__(self, seconds: float):
        self.seconds, self.asked = seconds, []

    def search(self, questions, k, progress=None):
        self.asked.append(list(questions))
        time.sleep(self.seconds)
        return Hits(np.zeros((len(questions), k), np.int32), np.ones((len(questions), k), np.float32))


def test_latency_is_the_median_of_questions_asked_alone_over_the_whole_set():
    retriever = Slow(0.002)
    questions = [f"question {i}" for i in range(200)]
    found = live_latency(retriever, questions, 3)
    assert found["n"] == LATENCY_QUESTIONS and found["p50_ms"] >= 2
    assert all(len(asked) == 1 for asked in retriever.asked)
    assert retriever.asked[0] == ["question 0"] and retriever.asked[-1] == ["question 199"]


def test_a_slow_retriever_is_asked_fewer_questions_and_no_question_gives_no_figure(monkeypatch):
    monkeypatch.setattr("blindspot.backend.retrieval.cost.LATENCY_SECONDS", 0.01)
    assert live_latency(Slow(0.02), ["a", "b", "c"], 1)["n"] == 1
    assert live_latency(Slow(0), [], 1) == {}


def test_the_size_of_an_index_is_that_of_the_files_a_search_reads(indexed_study):
    dense, hybrid = RETRIEVERS.get("dense"), RETRIEVERS.get("hybrid")
    folder = indexed_study.path("indexes", "tiny")
    only = sum((folder / name).stat().st_size for name in ("embeddings.npy", "manifest.json"))
    assert index_bytes(indexed_study, dense, dense.options(encoder="tiny")) == only
    bm25 = index_bytes(indexed_study, RETRIEVERS.get("bm25"), RETRIEVERS.get("bm25").options())
    assert bm25 and index_bytes(indexed_study, hybrid, hybrid.options(encoder="tiny")) == only + bm25


def test_a_manifest_without_the_figures_has_none_of_them():
    assert cost_of({"questions": 10, "search_seconds": 2.0}) == Cost(5.0, None, 0, None)
    assert cost_of({"questions": 10}) == Cost(None, None, 0, None)


def test_a_run_records_its_cost_and_the_report_shows_it(indexed_study, tmp_path):
    from blindspot.backend.retrieval.retrieve import retrieve
    from tests.studies import copied

    copied(indexed_study, tmp_path / "copy")
    study = Study.open(tmp_path / "copy")
    run = retrieve(study, "dense", encoder="tiny", split="dev", k=5, device="cpu")
    cost = cost_of(run.manifest)
    assert cost.n == LATENCY_QUESTIONS and cost.p50_ms > 0 and cost.index_bytes > 60 * 32 * 2
    made = report(study, [run.name])
    told = json.loads(made.as_json())["runs"][run.name]["cost"]
    assert told["p50_ms"] == cost.p50_ms and told["index_bytes"] == cost.index_bytes
    assert "Cost, measured with each run" in made.as_latex()
