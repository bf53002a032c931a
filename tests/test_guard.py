"""The guard in front of both servers: hosts, origins, bodies, rates, and clients that are slow on purpose."""

from __future__ import annotations

import http.client
import socket
import subprocess
import threading
import time
from contextlib import contextmanager, suppress

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from blindspot.app import server, who
from blindspot.backend.service import guard
from blindspot.backend.service import running as running_service
from blindspot.backend.service.guard import Guard, Hosts, PatientProtocol, RequestRate, is_loopback
from blindspot.db.errors import BlindspotError, Refused
from tests.studies import births, make_study, people

BIG = 64 << 20


async def answer(request):
    body = await request.body()
    return PlainTextResponse("x" * int(request.query_params.get("size", 0)) + f"{len(body)}")


def application(**options):
    options.setdefault("hosts", Hosts("localhost"))
    return Starlette(
        routes=[Route("/", answer, methods=["GET", "POST"])], middleware=[Middleware(Guard, max_body=100, **options)]
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    passages = people(12)
    return make_study(tmp_path_factory.mktemp("guard") / "s", passages, births(passages))


@contextmanager
def running(app, ws="none"):
    """Run a real server in a thread and yield its port."""
    with guard.bind_socket("127.0.0.1", 0) as listening:
        config = uvicorn.Config(
            app, http=PatientProtocol, ws=ws, log_level="critical", limit_concurrency=200, lifespan="off"
        )
        serving = uvicorn.Server(config)
        thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            serving.should_exit = serving.force_exit = True
            thread.join(timeout=10)


def get(port, path="/", address="127.0.0.1", headers=None, timeout=10):
    connection = http.client.HTTPConnection(address, port, timeout=timeout)
    connection.request("GET", path, headers=headers or {})
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def test_which_addresses_are_local():
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.0.0.2", "::1")))
    others = ("0.0.0.0", "::", "192.168.1.5", "127.evil.example", "localhost.evil.example")
    assert not any(map(is_loopback, others))


def test_a_local_server_answers_to_loopback_names_alone():
    hosts = Hosts("localhost")
    for host in ("localhost", "LOCALHOST:8501", "127.0.0.1:80", "127.0.0.2", "[::1]:8501", "localhost."):
        assert host in hosts
    for host in (
        "", "evil.example", "localhost.evil.example", "192.168.1.5", "user@localhost", "localhost/x", "localhost:x",
        "127.0.0.1.evil.example", "[::1", "testserver",
    ):  # fmt: skip
        assert host not in hosts


def test_a_server_for_others_answers_to_addresses_and_given_names():
    hosts = Hosts("0.0.0.0", ["Judging.example.org"])
    assert "192.168.1.5:8501" in hosts and "judging.example.org" in hosts and f"{socket.gethostname()}:8501" in hosts
    assert "evil.example" not in hosts


def test_a_name_of_a_proxy_makes_a_local_server_one_for_others(study, monkeypatch):
    assert not Hosts("localhost", ["judging.example.org"]).is_local
    with pytest.raises(Refused, match="others can reach judging.example.org, and nobody could sign in"):
        server.serve(study, 1, hosts=["judging.example.org"])
    with pytest.raises(Refused, match="others can reach retrieval.example.org: give a token"):
        running_service.serve(study, 1, hosts=["retrieval.example.org"])
    for name, value in server.environment(study, hosts=["judging.example.org"]).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("blindspot.app.who._oidc", lambda: False)
    monkeypatch.setattr("streamlit.get_option", lambda name: "localhost")
    assert who.mode() == "links"


def test_another_host_and_another_origin_are_refused():
    client = TestClient(application(), "http://localhost:8501")
    assert client.get("/").status_code == 200
    assert client.get("/", headers={"Host": "evil.example:8501"}).status_code == 400
    for origin in ("http://evil.example:8501", "null", "http://localhost:9999", "http://localhost:8501.evil.example"):
        assert client.post("/", headers={"Origin": origin}).status_code == 403, origin
    for origin in ("http://localhost:8501", "https://LOCALHOST:8501"):
        assert client.post("/", headers={"Origin": origin}).status_code == 200


def test_a_long_body_is_refused_whether_it_says_so_or_not():
    client = TestClient(application(), "http://localhost")
    assert client.post("/", content=b"x" * 100).status_code == 200
    assert client.post("/", content=b"x" * 101).status_code == 413
    assert client.post("/", content=(b"x" * 60 for _ in range(2))).status_code == 413


def test_a_flood_of_one_address_is_refused_for_a_while():
    now = [0.0]
    rate = RequestRate(3, 0.5, lambda: now[0])
    assert [rate.take_token("a") for _ in range(4)] == [0, 0, 0, 2.0] and rate.take_token("b") == 0
    now[0] = 1.9
    assert rate.take_token("a") == pytest.approx(0.1)
    now[0] = 2.0
    assert rate.take_token("a") == 0 and rate.take_token("a") == 2.0
    for number in range(guard.ADDRESSES_REMEMBERED + 100):
        rate.take_token(f"address {number}")
    assert len(rate._buckets) == guard.ADDRESSES_REMEMBERED
    client = TestClient(application(rate=RequestRate(2, 0.001)), "http://localhost")
    assert [client.get("/").status_code for _ in range(3)] == [200, 200, 429]
    assert int(client.get("/").headers["Retry-After"]) > 500


def test_answers_bring_security_headers():
    headers = TestClient(application(), "http://localhost").get("/").headers
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["X-Frame-Options"] == "SAMEORIGIN"
    assert headers["Referrer-Policy"] == "same-origin"
    assert "frame-ancestors 'self'" in headers["Content-Security-Policy"]


def test_unfinished_requests_lock_nobody_out():
    """300 connections, more than the server accepts: a third in the header, in the body, and silent."""
    body = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\nhalf"
    with running(application()) as port:
        slow = []
        try:
            for part in 100 * [b"GET / HT", body, b""]:
                slow.append(socket.create_connection(("127.0.0.1", port), timeout=5))
                with suppress(OSError):
                    slow[-1].sendall(part)
            time.sleep(0.5)
            assert [get(port) for _ in range(5)] == [200] * 5
        finally:
            for one in slow:
                one.close()


def test_an_unfinished_request_ends_in_time(monkeypatch):
    monkeypatch.setattr(guard, "SECONDS_TO_SEND_REQUEST", 0.4)
    with running(application()) as port, socket.create_connection(("127.0.0.1", port), timeout=5) as slow:
        began = time.monotonic()
        slow.settimeout(0.05)
        with suppress(ConnectionError):
            while time.monotonic() < began + 5:  # sending a byte now and then does not help
                slow.sendall(b"G")
                with suppress(TimeoutError):
                    if slow.recv(1) == b"":
                        break
        assert 0.3 < time.monotonic() - began < 5, "the server ends it, not the loop"


def test_the_next_request_of_a_connection_has_its_own_time(monkeypatch):
    monkeypatch.setattr(guard, "SECONDS_TO_SEND_REQUEST", 0.5)
    with running(application()) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        for _ in range(4):
            connection.request("GET", "/")
            assert connection.getresponse().read() == b"0"
            time.sleep(0.3)
        connection.sock.sendall(b"GET / HTTP")
        assert connection.sock.recv(1) == b""
        connection.close()


def test_an_open_websocket_is_no_unfinished_request(monkeypatch):
    """A tab's connection stays open for hours; the time limit is for its handshake alone."""
    from starlette.routing import WebSocketRoute
    from websockets.sync.client import connect

    async def echo(websocket):
        await websocket.accept()
        async for text in websocket.iter_text():
            await websocket.send_text(text)

    monkeypatch.setattr(guard, "SECONDS_TO_SEND_REQUEST", 0.4)
    with (
        running(Starlette(routes=[WebSocketRoute("/ws", echo)]), ws="websockets-sansio") as port,
        connect(f"ws://127.0.0.1:{port}/ws", proxy=None) as tab,
    ):
        for text in ("first", "second", "third"):
            tab.send(text)
            assert tab.recv(5) == text
            time.sleep(0.5)


def test_a_client_that_does_not_read_is_dropped(monkeypatch):
    monkeypatch.setattr(guard, "SECONDS_TO_READ_ANSWER", 0.5)
    with running(application()) as port, socket.create_connection(("127.0.0.1", port), timeout=5) as slow:
        slow.sendall(f"GET /?size={BIG} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        time.sleep(2)
        received = 0
        with suppress(ConnectionResetError):
            while received < BIG and (part := slow.recv(1 << 20)):
                received += len(part)
        assert received < BIG, "the server waited for a client that does not read"
        assert get(port) == 200


def free_port(address):
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def app_port(study):
    """The app on 127.0.0.2, which is this machine as well."""
    port = free_port("127.0.0.2")
    process = subprocess.Popen(server.command(port, "127.0.0.2"), env=server.environment(study))
    try:
        server.wait_until_up(port, process, "127.0.0.2")
        yield port
    finally:
        process.kill()
        process.wait()


def handshake(port, **headers):
    """The status of a websocket handshake with the app."""
    given = {
        "Host": f"127.0.0.2:{port}",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": "streamlit",
        **headers,
    }
    return get(port, "/_stcore/stream", "127.0.0.2", given)


def test_the_app_checks_host_and_origin_of_page_and_websocket(app_port):
    own = f"127.0.0.2:{app_port}"
    assert get(app_port, "/", "127.0.0.2") == 200
    assert get(app_port, "/", "127.0.0.2", {"Host": f"rebound.example:{app_port}"}) == 400
    assert get(app_port, "/", "127.0.0.2", {"Origin": "http://evil.example"}) == 403
    assert handshake(app_port, Origin=f"http://{own}") == 101
    rebound = f"rebound.example:{app_port}"
    assert handshake(app_port, Host=rebound, Origin=f"http://{rebound}") in (400, 403)
    assert handshake(app_port, Origin="http://evil.example") in (400, 403)
    assert handshake(app_port, Origin="http://localhost:1") in (400, 403), "another server of this machine"


def test_a_taken_port_is_one_line(study, app_port):
    with pytest.raises(Refused, match=f"port {app_port} is in use"):
        server.serve(study, app_port, "127.0.0.2")
    with pytest.raises(BlindspotError, match="cannot listen on 203.0.113.7"):
        server.serve(study, app_port, "203.0.113.7", without_sign_in=True)
