"""Stand-ins for Elasticsearch, OpenSearch and Vespa: servers in the test's process that speak their wire formats.

Ranking is somebody else's: a function of the test from (fields, question, k), or a vector, to (passage id, score).
"""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.llm_server import send

YQL_WORDS = re.compile(r'\{defaultIndex:"(\w+)", grammar:"weakAnd", targetHits:\d+\}userInput\(@question\)')
YQL_NEAREST = re.compile(r"\{targetHits:(\d+)\}nearestNeighbor\((\w+), q\)")


class SearchEngine:
    """A server on a free port.

    Args:
        words: (fields, question, k) -> [(passage id, score)]. nearest: (vector, k) -> the same. documents: how many.
        key: the whole Authorization header that requests must carry. busy: how many first requests get 503.
    """

    dims = "dims"

    def __init__(self, words, nearest=None, documents=60, width=32, key=None, busy=0):
        self.words, self.nearest, self.documents, self.width, self.key, self.busy = (
            words,
            nearest,
            documents,
            width,
            key,
            busy,
        )
        self.paths, self.bodies, self.is_down = [], [], False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def do_POST(self):  # noqa: N802
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                if outer.is_down:  # connections that stay open outlive the server's own thread
                    self.close_connection = True
                    return
                outer.paths.append(self.path)
                outer.bodies.append(body)
                if outer.busy:
                    outer.busy -= 1
                    send(self, 503, {}, {"error": "busy"})
                elif outer.key is not None and self.headers.get("Authorization") != outer.key:
                    send(self, 401, {}, {"error": {"reason": "missing authentication credentials"}, "status": 401})
                else:
                    send(self, *outer.answer(urlsplit(self.path).path, body, self.headers))

            do_GET = do_POST  # noqa: N815

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.is_down = True
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path, body, headers):
        _, index, action = path.split("/")
        if index != "wiki":
            root = [{"type": "index_not_found_exception", "reason": f"no such index [{index}]"}]
            return 404, {}, {"error": {"root_cause": root, "reason": f"no such index [{index}]"}, "status": 404}
        if action == "_count":
            return 200, {}, {"count": self.documents, "_shards": {"total": 1, "failed": 0}}
        if action == "_mapping":
            vector = {"type": "dense_vector", self.dims: self.width}
            text = {"type": "text", "fields": {"exact": {"type": "keyword"}}}
            fields = {"title": text, "text": text, "docid": {"type": "keyword"}, "vector": vector}
            return 200, {}, {"wiki": {"mappings": {"properties": fields}}}
        assert action == "_msearch" and headers["Content-Type"] == "application/x-ndjson" and body.endswith("\n")
        lines = [json.loads(line) for line in body.splitlines()]
        assert not any(lines[::2]), "a header names no other index"
        return 200, {}, {"took": 1, "responses": [self.one(asked) for asked in lines[1::2]]}

    def one(self, asked):
        size = asked["size"]
        if size > 10_000:
            reason = "Result window is too large, from + size must be less than or equal to: [10000]"
            return {"error": {"root_cause": [{"type": "illegal_argument_exception", "reason": reason}]}, "status": 400}
        found = self.rank(asked, size)
        hits = [
            {"_index": "wiki", "_id": f"doc-{id}" if asked["_source"] else id, "_score": score}
            | ({"_source": {"docid": id}} if asked["_source"] else {})
            for id, score in found
        ]
        return {"took": 1, "timed_out": False, "hits": {"max_score": 1.0, "hits": hits}, "status": 200}

    def rank(self, asked, size):
        if "knn" in asked:
            assert asked["knn"]["field"] == "vector" and asked["knn"]["num_candidates"] >= asked["knn"]["k"] == size
            return self.nearest(asked["knn"]["query_vector"], size)
        query = asked["query"]
        if "match" in query:
            ((field, match),) = query["match"].items()
            return self.words([field], match["query"], size)
        return self.words(query["multi_match"]["fields"], query["multi_match"]["query"], size)


class OpenSearchEngine(SearchEngine):
    dims = "dimension"

    def rank(self, asked, size):
        if "knn" in asked.get("query", {}):
            return self.nearest(asked["query"]["knn"]["vector"]["vector"], asked["query"]["knn"]["vector"]["k"])
        return super().rank(asked, size)


class VespaEngine(SearchEngine):
    def answer(self, path, body, headers):
        assert path == "/search/" and headers["Content-Type"] == "application/json"
        asked = json.loads(body)
        if " from wiki where " not in asked["yql"]:
            errors = [{"code": 4, "summary": "Invalid query", "message": "Could not resolve source ref 'other'"}]
            return 400, {}, {"root": {"id": "toplevel", "errors": errors}}
        if asked["yql"].endswith(" where true"):
            return 200, {}, {"root": {"id": "toplevel", "fields": {"totalCount": self.documents}}}
        nearest = YQL_NEAREST.search(asked["yql"])
        if nearest:
            assert asked["ranking.profile"] == "closeness"
            found = self.nearest(asked["input.query(q)"], int(nearest[1]))
        else:
            fields = YQL_WORDS.findall(asked["yql"])
            assert fields and asked["ranking.profile"] == "bm25"
            found = self.words(fields, asked["question"], asked["hits"])
        children = [
            {"id": f"id:wiki:wiki::{id}", "relevance": score, "source": "wiki", "fields": {"docid": id}}
            for id, score in found
        ]
        return 200, {}, {"root": {"id": "toplevel", "relevance": 1.0, "children": children}}
