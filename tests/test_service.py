"""The retrieval service: answers, batches, limits, tokens, and one real server on loopback."""

import json
import os
import re
import shutil
import threading
import time

import numpy as np
import pytest
from fastapi.testclient import TestClient
from openapi_pydantic import OpenAPI
from prometheus_client.parser import text_string_to_metric_families

from blindspot.backend.core.manifest import file_sha256, read_manifest, write_manifest
from blindspot.backend.retrieval.bm25 import BM25
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.hybrid import Hybrid
from blindspot.backend.retrieval.remote import BACKEND, Backend, configured_backend, use_backend
from blindspot.backend.service.api import make_api
from blindspot.backend.service.batching import BatchedHits, Batcher, Busy
from blindspot.backend.service.guard import Hosts
from blindspot.backend.service.running import read_token, serve
from blindspot.backend.service.service import Service
from blindspot.db.errors import BlindspotError, Missing, Refused
from blindspot.db.records import Hits
from tests.http_service import served

URL = "http://localhost"
QUESTIONS = ["Where was Arve Aurset0 born?", "Where was Arve Burset1 born?", "a weaver from Oslo", "an aunt in Bodo"]


@pytest.fixture(scope="module")
def client(indexed_study):
    with TestClient(make_api(Service(indexed_study, "cpu")), URL) as client:
        deadline = time.monotonic() + 60
        while client.get("/health").status_code == 503 and time.monotonic() < deadline:
            time.sleep(0.02)
        yield client


def ask(client, retriever="bm25", questions=QUESTIONS, k=10, **more):
    return client.post("/search", json={"retriever": retriever, "questions": questions, "k": k, **more})


@pytest.mark.parametrize("name", ["bm25", "tiny", "hybrid:tiny"])
def test_the_answer_is_the_retriever_s_own(client, indexed_study, name):
    ours = {
        "bm25": BM25,
        "tiny": lambda study: Dense(study, "tiny", "cpu"),
        "hybrid:tiny": lambda study: Hybrid(study, "tiny", device="cpu"),
    }
    hits, answer = ours[name](indexed_study).search(QUESTIONS, 10), ask(client, name).json()
    for row, (places, scores) in enumerate(zip(answer["ordinals"], answer["scores"], strict=True)):
        kept = hits.ordinals[row] >= 0
        assert places == hits.ordinals[row][kept].tolist()
        np.testing.assert_allclose(scores, hits.scores[row][kept], rtol=1e-5)
    assert answer["corpus"] == indexed_study.corpus.digest and answer["k"] == 10
    parts = ["bm25", "tiny"] if name.startswith("hybrid") else [name]
    indexes = indexed_study.folder / "indexes"
    assert answer["indexes"] == {part: file_sha256(indexes / part / "manifest.json") for part in parts}


def test_the_retrievers_and_their_hashes(client, indexed_study):
    said = client.get("/retrievers").json()
    assert (said["passages"], said["corpus"]) == (60, indexed_study.corpus.digest)
    assert list(said["retrievers"]) == ["bm25", "tiny", "hybrid:tiny"]
    assert client.get("/health").json() == {"status": "ready", "failed": {}}
    assert said["retrievers"]["hybrid:tiny"] == ask(client, "hybrid:tiny").json()["indexes"]


WRONG = (
    ({"retriever": "other"}, 404, "unknown retriever 'other'; available: bm25, tiny, hybrid:tiny"),
    ({"retriever": "../../etc"}, 404, "unknown retriever"),
    ({"questions": []}, 422, "questions: List should have at least 1"),
    ({"questions": ["   "]}, 422, "questions.0"),
    ({"questions": ["x" * 2001]}, 422, "questions.0: String should have at most 2000 characters"),
    ({"questions": ["x"] * 65}, 422, "questions: List should have at most 64"),
    ({"k": 0}, 422, "k: Input should be greater"),
    ({"k": 2049}, 422, "k: Input should be less than or equal to 2048"),
    ({"k": "ten"}, 422, "k: "),
    ({"why": 1}, 422, "why: Extra inputs"),
    ({"corpus": "0" * 64}, 409, "another passage collection"),
    ({"indexes": {"bm25": "0" * 64}}, 409, "another index 'bm25'"),
)  # fmt: skip


def test_what_is_wrong_is_one_line(client):
    for change, status, said in WRONG:
        answer = client.post("/search", json={"retriever": "bm25", "questions": ["Who?"], "k": 3, **change})
        assert answer.status_code == status and list(answer.json()) == ["error"], change
        assert said in answer.json()["error"] and "\n" not in answer.json()["error"], change
    no_text = b'{"retriever": "bm25", "questions": ["\\ud800"]}'
    for body, status in ((b"{", 422), (b"[]", 422), (no_text, 422), (b" " * (1 << 20) + b"{}", 413)):
        answer = client.post("/search", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == status and list(answer.json()) == ["error"]
    assert client.get("/nowhere").json() == {"error": "Not Found"} and client.get("/search").status_code == 405
    assert client.get("/retrievers", headers={"Host": "evil.example"}).status_code == 400, "as after DNS rebinding"


def test_more_than_there_are_gives_what_there_is(client):
    answer = ask(client, "tiny", ["Oslo"], 2048)
    assert [len(row) for row in answer.json()["ordinals"]] == [60]
    json.loads(answer.text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert ask(client, "bm25", ["the of"], 5).json()["ordinals"] == [[]], "stop words alone find nothing"


def test_the_token_is_asked_for(indexed_study):
    with TestClient(make_api(Service(indexed_study, "cpu"), token="x" * 20, hosts=Hosts("0.0.0.0")), URL) as client:
        for given in ("", "Bearer " + "y" * 20, "x" * 20, "Bearer é"):
            answer = client.get("/retrievers", headers={"Authorization": given.encode()} if given else {})
            assert answer.status_code == 401 and "token" in answer.json()["error"]
            assert ask(client).status_code == client.get("/metrics").status_code == 401
        assert client.get("/retrievers", headers={"Authorization": "Bearer " + "x" * 20}).status_code == 200
        assert client.get("/health").status_code in (200, 503), "whoever watches over the service needs no token"
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert client.request(method, "/retrievers", json={}).status_code == 405, "nothing can be changed"
        wrong = {"Authorization": "Bearer " + "y" * 20}
        statuses = [client.get("/retrievers", headers=wrong).status_code for _ in range(25)]
        assert statuses[0] == 401 and statuses[-1] == 429, "guesses are slowed down"


def test_the_description_has_every_path(client):
    described = client.get("/openapi.json").json()
    OpenAPI.model_validate(described)
    assert {"/search", "/retrievers", "/metrics", "/health"} == set(described["paths"])
    assert {"409", "429", "504"} <= set(described["paths"]["/search"]["post"]["responses"])


def test_metrics_count_what_was_asked(client):
    def read(name):
        return float(re.search(rf"^{re.escape(name)} (\S+)$", client.get("/metrics").text, re.M)[1])

    ask(client)
    name = 'blindspot_questions_total{retriever="bm25"}'
    before = read(name)
    ask(client)
    assert read(name) == before + len(QUESTIONS)
    every = read('blindspot_answer_seconds_bucket{le="+Inf",retriever="bm25"}')
    assert every == read('blindspot_answer_seconds_count{retriever="bm25"}') and read("blindspot_ready") == 1
    families = {family.name: family for family in text_string_to_metric_families(client.get("/metrics").text)}
    assert families["blindspot_questions"].type == "counter"
    assert families["blindspot_answer_seconds"].type == "histogram"
    for name in ("blindspot_ready", "blindspot_waiting_requests", "process_resident_memory_bytes"):
        assert families[name].type == "gauge" and families[name].documentation


class Slow:
    """A search that waits for `go` and records its arguments."""

    def __init__(self):
        self.go, self.asked = threading.Event(), []

    def __call__(self, retriever, questions, k):
        self.asked.append((retriever, list(questions), k))
        assert self.go.wait(10)
        if "bad" in questions:
            raise Refused("bad question")
        ordinals = np.array([[len(question)] * k for question in questions], np.int32)
        return BatchedHits(Hits(ordinals, ordinals.astype(np.float32)), {}, {})


def until(condition):
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_questions_that_wait_are_searched_together_and_come_back_to_their_askers():
    slow = Slow()
    batcher = Batcher(slow, window=0)
    first = batcher.submit("t", "a", ["x"], 2)
    until(lambda: slow.asked)
    others = [batcher.submit("t", "a", ["y" * n, "z"], 2) for n in range(2, 6)]
    deeper, elsewhere = batcher.submit("t", "a", ["w"], 3), batcher.submit("t", "b", ["v"], 2)
    slow.go.set()
    assert first.result(5).hits.ordinals.tolist() == [[1, 1]]
    assert [future.result(5).hits.ordinals.tolist() for future in others] == [[[n, n], [1, 1]] for n in range(2, 6)]
    assert deeper.result(5).hits.k == 3 and elsewhere.result(5).hits.k == 2
    assert [len(questions) for _, questions, _ in slow.asked] == [1, 8, 1, 1]
    batcher.close()


def test_the_window_gathers_those_that_come_a_moment_later():
    slow = Slow()
    slow.go.set()
    batcher = Batcher(slow, window=0.3)
    futures = [batcher.submit("t", "a", ["x"], 1), batcher.submit("t", "a", ["yy"], 1)]
    assert [future.result(5).hits.ordinals.tolist() for future in futures] == [[[1]], [[2]]]
    assert len(slow.asked) == 1
    batcher.close()


def test_a_full_queue_refuses_and_room_comes_back():
    slow = Slow()
    batcher = Batcher(slow, window=0, waiting=2)
    running = batcher.submit("t", "a", ["x"], 1)
    until(lambda: slow.asked)
    waiting = [batcher.submit("t", "a", ["x"], 1) for _ in range(2)]
    with pytest.raises(Busy, match="2 requests are already waiting"):
        batcher.submit("t", "a", ["x"], 1)
    assert batcher.queue_lengths() == {"t": 2}
    waiting[0].cancel()
    late = batcher.submit("t", "a", ["late"], 1)
    slow.go.set()
    assert running.result(5) and waiting[1].result(5) and late.result(5)
    assert sum(len(questions) for _, questions, _ in slow.asked) == 3, "the cancelled one was not searched"
    batcher.close()


def test_one_person_s_bad_question_fails_alone():
    slow = Slow()
    batcher = Batcher(slow, window=0.2)
    good, bad = batcher.submit("t", "a", ["good"], 1), batcher.submit("t", "a", ["bad"], 1)
    slow.go.set()
    assert good.result(5).hits.ordinals.tolist() == [[4]]
    with pytest.raises(Refused, match="bad question"):
        bad.result(5)
    batcher.close()


def test_too_many_at_once_get_429_and_too_slow_ones_504(indexed_study, monkeypatch):
    slow = Slow()
    monkeypatch.setattr(Service, "_search", lambda self, *asked: slow(*asked))
    monkeypatch.setattr(Service, "warm_up", lambda self: self.ready.set())
    with TestClient(make_api(Service(indexed_study, "cpu", window=0, waiting=1), time_limit=0.3), URL) as client:
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(ask(client))) for _ in range(4)]
        for thread in threads:
            thread.start()
            time.sleep(0.03)
        for thread in threads:
            thread.join()
        slow.go.set()
        assert sorted(answer.status_code for answer in answers) == [429, 429, 504, 504]
        assert all("bm25" in answer.json()["error"] for answer in answers)
        assert {answer.headers.get("Retry-After") for answer in answers if answer.status_code == 429} == {"1"}


def test_an_index_made_again_is_opened_again(own_indexed_study):
    study = own_indexed_study
    service = Service(study, "cpu")
    before = service.submit_search("hybrid:tiny", QUESTIONS, 5).result(60)
    folder = study.folder / "indexes" / "tiny"
    manifest = read_manifest(folder)
    vectors = np.load(folder / "embeddings.npy")
    np.save(folder / "new.npy", vectors[::-1])
    (folder / "new.npy").rename(folder / "embeddings.npy")
    write_manifest(folder, {**manifest, "made_by": "the test"})
    after = service.submit_search("hybrid:tiny", QUESTIONS, 5).result(60)
    assert after.indexes["tiny"] != before.indexes["tiny"] and after.indexes["bm25"] == before.indexes["bm25"]
    hits = service.submit_search("tiny", QUESTIONS, 60).result(60).hits
    assert hits.ordinals.tolist() == Dense(study, "tiny", "cpu").search(QUESTIONS, 60).ordinals.tolist()
    shutil.rmtree(folder)
    with pytest.raises(Missing, match="unknown retriever 'tiny'"):
        service.submit_search("tiny", QUESTIONS, 5)
    service.close()


def test_a_token_file(tmp_path):
    path = tmp_path / "token"
    with pytest.raises(Missing, match="no file"):
        read_token(path)
    path.write_text("a" * 32 + "\n")
    path.chmod(0o644)
    with pytest.raises(Refused, match="chmod 600"):
        read_token(path)
    path.chmod(0o600)
    assert read_token(path) == "a" * 32
    path.write_text("short")
    with pytest.raises(Refused, match="at least 16"):
        read_token(path)


def test_no_open_door_and_no_taken_port(indexed_study):
    with pytest.raises(Refused, match="--token-file"):
        serve(indexed_study, 0, "0.0.0.0")
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Refused, match="cannot listen"):
        serve(indexed_study, taken.getsockname()[1], "127.0.0.1")


def test_a_real_server(indexed_study):
    with served(indexed_study, "x" * 20) as url:
        backend = Backend(url, "x" * 20)
        hits, ours = backend.search(indexed_study, "bm25", QUESTIONS, 100), BM25(indexed_study).search(QUESTIONS, 100)
        assert hits.ordinals.tolist() == ours.ordinals.tolist() and hits.scores.tolist() == ours.scores.tolist()
        assert list(backend.retrievers()) == ["bm25", "tiny", "hybrid:tiny"]
        with pytest.raises(Refused, match="refused the token"):
            Backend(url, "wrong").search(indexed_study, "bm25", QUESTIONS, 5)
    with pytest.raises(BlindspotError, match="does not answer"):
        backend.search(indexed_study, "bm25", QUESTIONS, 5)
    assert list(backend.retrievers()) == ["bm25", "tiny", "hybrid:tiny"], "the last list, for a page"


def test_whom_the_app_asks(monkeypatch):
    monkeypatch.setenv(BACKEND, "http://elsewhere:8600")
    use_backend("http://there:8600")
    assert configured_backend().url == os.environ[BACKEND] == "http://there:8600"
    with pytest.raises(Refused, match="must be an address"):
        use_backend("there:8600")
    use_backend(None)
    assert configured_backend() is None and BACKEND not in os.environ
