"""A chat endpoint for tests, in the test's own process: it grades by a rule and can be slow, garbled, busy, away or another model."""

from __future__ import annotations

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BLOCK = re.compile(r"<(question|passage)-(\w+)>\n(.*?)\n</\1-\2>", re.DOTALL)


class ChatServer:
    """Answers POST /v1/chat/completions.

    Args:
        grade: question text, passage text -> grade.
        behave: request number (from 1), body -> None for a usual answer, else (status, headers, content), or "hang up".
        seconds: how long each answer takes.
        model: the model that answers claim; default the one that was asked for.
        key: the key that a request must carry.
    """

    def __init__(self, grade, behave=None, seconds=0.0, model=None, key=None):
        self.grade, self.behave, self.seconds, self.model, self.key = (grade, behave, seconds, model, key)
        self.requests, self.bodies, self.under_way, self.most, self.headers = 0, [], 0, 0, []
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def do_POST(self):
                outer.handle(self)

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, request, client_address):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def port(self):
        return self.server.server_address[1]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def handle(self, request):
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        with self._lock:
            self.requests += 1
            number, self.under_way = self.requests, self.under_way + 1
            self.most = max(self.most, self.under_way)
            self.bodies.append(body)
            self.headers.append(dict(request.headers))
        try:
            self._answer(request, number, body)
        finally:
            with self._lock:
                self.under_way -= 1

    def _answer(self, request, number, body):
        if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
            send(request, 401, {}, {"error": {"message": "invalid key"}})
            return
        time.sleep(self.seconds)
        other = None if self.behave is None else self.behave(number, body)
        if other == "hang up":
            request.close_connection = True
            request.connection.close()
            return
        if other is not None:
            send(request, *other)
            return
        question, passage = pair_of(body)
        grade = self.grade(question, passage)
        send(request, 200, {}, answer(json.dumps({"grade": grade}), self.model or body["model"]))


def pair_of(body):
    """The question and the passage of a request, as a model that heeds the markers reads them."""
    found = {kind: text for kind, _, text in BLOCK.findall(body["messages"][-1]["content"])}
    return found["question"], found["passage"]


def answer(text, model):
    message = {"role": "assistant", "content": text}
    return {"model": model, "choices": [{"message": message}], "usage": {"prompt_tokens": 120, "completion_tokens": 8}}


def send(request, status, headers, content):
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    request.send_response(status)
    for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(data)
