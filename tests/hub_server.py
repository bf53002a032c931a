"""A Hub for tests, in the test's own process: enough of the API for huggingface_hub's client to make repositories, commit (LFS files
included), list, and download.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

LFS_SUFFIXES = (".parquet", ".safetensors", ".db", ".npy", ".npz")
TOKEN = "hf_test"


class Repo:
    """A repository with one branch. files: path to content."""

    def __init__(self, private: bool):
        self.private, self.files, self.commits = private, {}, 0

    @property
    def sha(self) -> str:
        return hashlib.sha1(f"{id(self)} {self.commits}".encode()).hexdigest()


def git_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class HubServer:
    """Serves on a free port of this machine.

    repos: (type, "user/name") to Repo. blobs: LFS content by sha256. requests: (method, path) of each request.
    """

    def __init__(self):
        self.repos, self.blobs, self.requests = {}, {}, []
        self.tokens = {TOKEN: "write", "hf_reader": "read"}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments):
                pass

            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = (
                    self._chunks()
                    if "chunked" in self.headers.get("Transfer-Encoding", "")
                    else self.rfile.read(length)
                )
                path = unquote(urlsplit(self.path).path)
                outer.requests.append((self.command, path))
                status, headers, content = outer.handle(self.command, path, body, self.headers)
                if not isinstance(content, bytes):
                    content = json.dumps(content).encode()
                self.send_response(status)
                for key, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def _chunks(self):
                content = b""
                while size := int(self.rfile.readline(), 16):
                    content += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return content

            do_GET = do_POST = do_PUT = do_HEAD = answer

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def store(self) -> str:
        """The address of LFS content: another host than the Hub's, as on the Hub."""
        return f"http://localhost:{self.server.server_address[1]}/lfs"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def handle(self, method, path, body, headers):
        if path.startswith("/lfs/"):
            return self._lfs(method, path, body)
        right = self.tokens.get(headers.get("Authorization", "").removeprefix("Bearer "))
        if right is None and headers.get("Authorization"):
            return (
                401,
                {"X-Error-Message": "Invalid credentials in Authorization header"},
                {"error": "Invalid credentials"},
            )
        if path == "/api/validate-yaml":
            return 200, {}, {"errors": [], "warnings": []}
        if path == "/api/repos/create":
            return self._create(json.loads(body), right)
        parts = path.strip("/").split("/")
        if parts[0] == "api":
            return self._api(method, parts[1].rstrip("s"), "/".join(parts[2:4]), parts[4:], body, right)
        kind = "dataset" if parts[0] == "datasets" else "model"
        parts = parts[1:] if kind == "dataset" else parts
        name = f"{parts[0]}/{parts[1].removesuffix('.git')}"
        repo = self.repos.get((kind, name))
        if repo is None or (repo.private and right is None):
            return 401 if right is None else 404, {"X-Error-Code": "RepoNotFound"}, {"error": "Repository not found"}
        if parts[2:4] == ["info", "lfs"]:
            return self._lfs_batch(json.loads(body))
        return self._resolve(repo, "/".join(parts[4:]))

    def _create(self, wanted, right):
        if right is None:
            return 401, {"X-Error-Message": "Invalid username or token"}, {"error": "Unauthorized"}
        if right != "write":
            return 403, {"X-Error-Message": "Forbidden: pass a token with write access"}, {"error": "Forbidden"}
        key = wanted.get("type", "model"), f"{wanted['organization']}/{wanted['name']}"
        if key in self.repos:
            return 409, {}, {"error": "You already created this repo", "url": f"{self.url}/{key[1]}"}
        self.repos[key] = Repo(wanted.get("visibility") == "private")
        return 200, {}, {"url": f"{self.url}/{key[1]}", "id": key[1]}

    def _api(self, method, kind, name, rest, body, right):
        repo = self.repos.get((kind, name))
        if repo is None or (repo.private and right is None):
            return 401 if right is None else 404, {"X-Error-Code": "RepoNotFound"}, {"error": "Repository not found"}
        if not rest or rest[0] == "revision":
            about = {"id": name, "sha": repo.sha, "private": repo.private, "siblings": [], "tags": []}
            return 200, {}, {**about, "downloads": 0, "likes": 0, "gated": False, "disabled": False}
        if rest[0] == "tree":
            return 200, {}, [self._entry(path, content) for path, content in sorted(repo.files.items())]
        if right != "write":
            return 403, {"X-Error-Message": "Forbidden"}, {"error": "Forbidden"}
        if rest[0] == "preupload":
            return 200, {}, {"files": [self._mode(repo, file["path"]) for file in json.loads(body)["files"]]}
        assert method == "POST" and rest[0] == "commit", (method, rest)
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                repo.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                repo.files[value["path"]] = self.blobs[value["oid"]]
            elif line["key"] == "deletedFile":
                del repo.files[value["path"]]
        repo.commits += 1
        return 200, {}, {"commitUrl": f"{self.url}/{name}/commit/{repo.sha}", "commitOid": repo.sha, "hookOutput": ""}

    @staticmethod
    def _mode(repo, path):
        mode = "lfs" if path.endswith(LFS_SUFFIXES) else "regular"
        return {"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": None}

    @staticmethod
    def _entry(path, content):
        entry = {"type": "file", "path": path, "size": len(content), "oid": git_oid(content)}
        if path.endswith(LFS_SUFFIXES):
            entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
        return entry

    def _lfs_batch(self, wanted):
        objects = []
        for each in wanted["objects"]:
            href = f"{self.store}/{each['oid']}"
            known = {} if each["oid"] in self.blobs else {"actions": {"upload": {"href": href}}}
            objects.append({"oid": each["oid"], "size": each["size"], **known})
        return 200, {"Content-Type": "application/vnd.git-lfs+json"}, {"transfer": "basic", "objects": objects}

    def _lfs(self, method, path, body):
        oid = path.split("/")[-1]
        if method == "PUT":
            assert hashlib.sha256(body).hexdigest() == oid
            self.blobs[oid] = body
        return 200, {}, self.blobs[oid] if method == "GET" else b""

    def _resolve(self, repo, path):
        if path not in repo.files:
            return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": repo.sha}, {"error": "Entry not found"}
        content = repo.files[path]
        if path.endswith(LFS_SUFFIXES):
            oid = hashlib.sha256(content).hexdigest()
            self.blobs[oid] = content
            linked = {"X-Linked-Etag": f'"{oid}"', "X-Linked-Size": str(len(content))}
            return (
                302,
                {"X-Repo-Commit": repo.sha, "Location": f"{self.store}/{oid}", "ETag": f'"{oid}"', **linked},
                b"",
            )
        return 200, {"X-Repo-Commit": repo.sha, "ETag": f'"{git_oid(content)}"'}, content
