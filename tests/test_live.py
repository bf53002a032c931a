"""Live questions, in this process or behind a backend: the same function; a backend that is down or wrong gives one
line.
"""

import http.server
import json
import threading
import time

import pytest
from fastapi.testclient import TestClient

from blindspot.backend.retrieval import live, remote
from blindspot.backend.retrieval.remote import BACKEND, Backend, ServiceUnavailable
from blindspot.backend.service.api import make_api
from blindspot.backend.service.service import Service
from blindspot.db.errors import BlindspotError, Missing, Refused
from tests.studies import make_study, people
from tests.ties import same_ranking

QUESTION = "Where was Arve Aurset0 born?"
NAMES = ["bm25", "tiny", "hybrid:tiny"]


@pytest.fixture(autouse=True)
def no_backend(monkeypatch):
    monkeypatch.delenv(BACKEND, raising=False)
    monkeypatch.delenv(remote.TOKEN, raising=False)
    remote._backend_at.cache_clear()


@pytest.fixture(scope="module")
def client(indexed_study):
    with TestClient(make_api(Service(indexed_study, "cpu")), "http://localhost") as client:
        yield client


@pytest.fixture
def through(client, monkeypatch):
    """The environment names a backend; requests go to the application in this process."""

    def ask(self, method, path, body, seconds):
        answer = client.request(method, path, json=body)
        return answer.status_code, answer.json()

    monkeypatch.setenv(BACKEND, "http://backend.example:8600")
    monkeypatch.setattr(Backend, "_send_request", ask)


@pytest.fixture
def says(monkeypatch):
    """A local server with a fixed answer to every request."""
    servers = []

    def start(status, text, seconds=0.0):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                time.sleep(seconds)
                self.send_response(status)
                self.send_header("Location", "http://elsewhere.example/")
                self.end_headers()
                self.wfile.write(text.encode())

            do_POST = do_GET  # noqa: N815

            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(BACKEND, f"http://127.0.0.1:{server.server_port}")

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_here(indexed_study):
    assert live.answering_retrievers(indexed_study) == NAMES
    for name in NAMES:
        assert live.search(indexed_study, name, [QUESTION], 5).ordinals.shape == (1, 5)
    assert live.search(indexed_study, "bm25", [QUESTION], 5).ordinals[0, 0] == 0


def test_a_backend_gives_what_is_found_here(indexed_study, through, monkeypatch):
    assert live.answering_retrievers(indexed_study) == NAMES
    questions = [QUESTION, "the of", *(f"Where was number {i} born?" for i in range(70))]
    for name in NAMES:
        far = live.search(indexed_study, name, questions, 100)
        monkeypatch.delenv(BACKEND)
        here = live.search(indexed_study, name, questions, 100)
        monkeypatch.setenv(BACKEND, "http://backend.example:8600")
        same_ranking(far, here, 1e-5)


def test_what_a_page_keeps_answers_by(indexed_study, through, monkeypatch):
    far = live.index_state(indexed_study)
    monkeypatch.delenv(BACKEND)
    here = live.index_state(indexed_study)
    assert far[0] and here[0] is None and far[1:] == here[1:] and [name for name, _ in here[1:]] == ["bm25", "tiny"]


@pytest.mark.parametrize("question", ["", "  ", "x" * 2001])
def test_no_question(indexed_study, question):
    with pytest.raises(Refused, match="between 1 and 2000 characters"):
        live.search(indexed_study, "bm25", [question], 5)


def test_an_unknown_retriever(indexed_study, through):
    with pytest.raises(Missing, match="unknown retriever 'other'"):
        live.search(indexed_study, "other", [QUESTION], 5)


def test_other_passages_are_refused(tmp_path, through):
    with pytest.raises(Refused, match="another passage collection"):
        live.search(make_study(tmp_path / "other", people(50)), "bm25", [QUESTION], 5)


def test_another_index_of_the_name_is_refused(tmp_path, indexed_study, through):
    import shutil

    from blindspot.backend.core.study import Study

    shutil.copytree(indexed_study.folder, tmp_path / "copy")
    study = Study.open(tmp_path / "copy")
    assert live.search(study, "bm25", [QUESTION], 5).ordinals[0, 0] == 0, "a copy of the study is the same study"
    manifest = study.folder / "indexes" / "bm25" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"seconds"', '"took"'))
    with pytest.raises(Refused, match="another index 'bm25'"):
        live.search(study, "bm25", [QUESTION], 5)
    shutil.rmtree(manifest.parent)
    assert live.search(study, "bm25", [QUESTION], 5).ordinals[0, 0] == 0, "the app's machine need not hold the index"


def test_a_backend_that_is_down_is_one_line_and_the_list_stays(indexed_study, monkeypatch):
    monkeypatch.setenv(BACKEND, "http://127.0.0.1:9")
    assert live.answering_retrievers(indexed_study) == NAMES
    with pytest.raises(
        ServiceUnavailable, match=r"backend at http://127.0.0.1:9 does not answer \(Connection refused\).*judging work"
    ):
        live.search(indexed_study, "bm25", [QUESTION], 5)


def test_a_backend_that_never_answers_is_given_up(indexed_study, says, monkeypatch):
    says(200, "{}", seconds=3)
    monkeypatch.setattr(remote, "SECONDS_TO_SEARCH", 0.2)
    monkeypatch.setattr(remote, "SECONDS_TO_LIST", 0.2)
    started = time.monotonic()
    assert live.answering_retrievers(indexed_study) == NAMES
    with pytest.raises(ServiceUnavailable, match="no answer in time"):
        live.search(indexed_study, "bm25", [QUESTION], 5)
    assert time.monotonic() - started < 3, "before the backend answers"


@pytest.mark.parametrize("status, text, said", [
    (200, "<html>a router's page</html>", "not a retrieval backend"),
    (200, "{}", "not a retrieval backend of this version"),
    (200, '{"ordinals": [[60]], "scores": [[1.0]], "indexes": {}}', "a passage that is not in the collection"),
    (200, '{"ordinals": [[1, 2]], "scores": [[1.0]], "indexes": {}}', "other lengths"),
    (200, '{"ordinals": [], "scores": [], "indexes": {}}', "wrong number of questions"),
    (200, '{"ordinals": [["x"]], "scores": [[1.0]], "indexes": {}}', "not a retrieval backend of this version"),
    (302, "{}", "status 302"),
    (401, '{"error": "token"}', "BLINDSPOT_BACKEND_TOKEN"),
    (429, '{"error": "64 requests wait"}', "is busy: 64 requests wait"),
    (500, '{"error": "oh"}', "failed: oh"),
    (503, "Service Unavailable", "failed: too many connections"),
])  # fmt: skip
def test_what_a_backend_may_say_wrongly_is_one_line(indexed_study, says, status, text, said):
    says(status, text)
    with pytest.raises(BlindspotError, match=said):
        live.search(indexed_study, "bm25", [QUESTION], 5)
    assert live.answering_retrievers(indexed_study) == NAMES


@pytest.mark.parametrize(
    "url", ["backend:8600", "ftp://x", "http://", "http://x:port", "http://me:secret@x", "file:///etc/passwd"]
)
def test_an_address_that_is_none(indexed_study, monkeypatch, url):
    monkeypatch.setenv(BACKEND, url)
    with pytest.raises(Refused, match="must be an address such as"):
        live.search(indexed_study, "bm25", [QUESTION], 5)


def test_the_token_is_sent(monkeypatch):
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # noqa: N802
            seen.append(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"retrievers": {"bm25": {}}}).encode())

        def log_message(self, *arguments):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        monkeypatch.setenv(BACKEND, f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv(remote.TOKEN, "secret")
        assert remote.configured_backend().retrievers() == {"bm25": {}}
    assert seen == ["Bearer secret"]
