"""Downloads from a local server that breaks off, sends wrong sizes, redirects and changes the file."""

import http.server
import stat
import threading
import zipfile

import pytest

from blindspot.backend.data import download as module
from blindspot.backend.data.download import download_file, unpack
from blindspot.db.errors import BadInput, Missing, Refused

BODY = bytes(range(256)) * 5000


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        getattr(self, "send_" + self.path.split("/")[1])()

    def log_message(self, *_):
        pass

    def _send(self, body, start=0, length=None, etag='"one"', until=None):
        self.server.asked.append((self.path, self.headers.get("Range")))
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if etag:
            self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(body) - start if length is None else length))
        self.end_headers()
        self.wfile.write(body[start:until])
        self.close_connection = True

    def _start(self, etag='"one"'):
        wanted = self.headers.get("Range")
        return int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.headers.get("If-Range") == etag else 0

    def send_whole(self):
        self._send(BODY, self._start())

    def send_breaks(self):
        """A server that breaks off twice and supports resuming."""
        start = self._start()
        self._send(BODY, start, until=None if len(self.server.asked) >= 2 else start + 400_000)

    def send_forgets(self):
        """A server that breaks off once, and then sends a changed file from the start."""
        if not self.server.asked:
            self._send(BODY, until=400_000)
        else:
            self._send(BODY[::-1], self._start('"two"'), etag='"two"')

    def send_promises(self):
        """A server that always announces too large a size."""
        self._send(BODY, self._start(), length=len(BODY) + 1000)

    def send_redirect(self, to="/whole/elsewhere.bin"):
        self.send_response(302)
        self.send_header("Location", to)
        self.end_headers()

    def send_circle(self):
        self.send_redirect(self.path)

    def send_file(self):
        self.send_redirect("file:///etc/hostname")

    def send_absent(self):
        self.send_error(404)

    def send_busy(self):
        self.server.asked.append((self.path, None))
        self.send_error(503) if len(self.server.asked) < 3 else self._send(BODY)


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.asked = []
        threading.Thread(target=made.serve_forever, daemon=True).start()
        made.url = f"http://127.0.0.1:{made.server_address[1]}"
        yield made
        made.shutdown()


def got(server, what, folder):
    return download_file(f"{server.url}/{what}/data.bin", folder, wait=0.01)


def test_a_file_is_whole_recorded_and_not_fetched_again(server, tmp_path):
    done = got(server, "whole", tmp_path)
    assert done.read_bytes() == BODY and got(server, "whole", tmp_path) == done
    assert len(server.asked) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.bin", "downloads.json"]


def test_goes_on_where_it_broke_off(server, tmp_path):
    assert got(server, "breaks", tmp_path).read_bytes() == BODY
    assert [wanted for _, wanted in server.asked] == [None, "bytes=400000-", "bytes=800000-"]


def test_goes_on_in_a_later_call(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TRIES", 1)
    for _ in range(2):
        with pytest.raises(Missing, match="bytes are kept; run the same command to resume"):
            got(server, "breaks", tmp_path)
    assert got(server, "breaks", tmp_path).read_bytes() == BODY


def test_a_file_that_changed_meanwhile_is_fetched_from_the_start(server, tmp_path):
    assert got(server, "forgets", tmp_path).read_bytes() == BODY[::-1]


def test_less_than_announced_is_no_file(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TRIES", 2)
    with pytest.raises(Missing, match="cannot be fetched"):
        got(server, "promises", tmp_path)
    assert not (tmp_path / "data.bin").exists()


def test_redirects_are_followed_but_not_to_files_nor_in_circles(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TRIES", 1)
    assert got(server, "redirect", tmp_path).read_bytes() == BODY
    for what in ("file", "circle"):
        with pytest.raises((Missing, Refused)):
            download_file(f"{server.url}/{what}/other.bin", tmp_path, wait=0.01)
    assert not (tmp_path / "other.bin").exists()


def test_a_busy_server_is_asked_again_an_absent_file_is_not(server, tmp_path):
    assert got(server, "busy", tmp_path).stat().st_size == len(BODY)
    with pytest.raises(Missing, match="404"):
        got(server, "absent", tmp_path / "..")


def test_a_download_that_differs_from_the_last_one_is_reported(server, tmp_path):
    got(server, "whole", tmp_path)
    (tmp_path / "data.bin").unlink()
    server.asked.append(("", None))  # `forgets` then sends the changed file at once
    with pytest.raises(BadInput, match="differs from the download of"):
        got(server, "forgets", tmp_path)
    assert not (tmp_path / "data.bin").exists()


def zipped(path, *members):
    with zipfile.ZipFile(path, "w") as file:
        for name, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            file.writestr(info, "x")
    return path


def test_an_archive_that_points_outside_is_not_unpacked_at_all(tmp_path):
    members = [(name, 0o644) for name in ("../up", "/etc/x", "a/../../b", "..\\up", "C:\\x")]
    for member in (*members, ("link", stat.S_IFLNK | 0o777)):
        archive = zipped(tmp_path / "a.zip", ("good.json", 0o644), member)
        with pytest.raises(BadInput, match="points outside"):
            unpack(archive, tmp_path / "out")
        assert not (tmp_path / "out").exists() and sorted(p.name for p in tmp_path.iterdir()) == ["a.zip"]


def test_a_bomb_and_a_damaged_archive(tmp_path, monkeypatch):
    archive = zipped(tmp_path / "a.zip", ("good.json", 0o644))
    data = bytearray(archive.read_bytes())
    data[data.index(b"x", 30 + len("good.json"))] = ord("y")
    (tmp_path / "b.zip").write_bytes(data)
    with pytest.raises(BadInput, match="damaged"):
        unpack(tmp_path / "b.zip", tmp_path / "out")
    monkeypatch.setattr(module, "MAX_UNPACKED", 0)
    with pytest.raises(BadInput, match="would unpack"):
        unpack(archive, tmp_path / "out2")


def test_everything_by_name(server, tmp_path, monkeypatch):
    archive = zipped(tmp_path / "source.zip", ("dataset/test/P19.test.json", 0o644))
    monkeypatch.setattr(Handler, "send_zip", lambda handler: handler._send(archive.read_bytes()), raising=False)
    monkeypatch.setitem(module.FILES, "entityquestions", (f"{server.url}/zip/dataset.zip",))
    module.download("entityquestions", tmp_path / "got")
    assert (tmp_path / "got" / "dataset" / "test" / "P19.test.json").read_text() == "x"
    with pytest.raises(Missing, match="entityquestions, wikipedia, nq, dpr"):
        module.download("everything", tmp_path)
    with pytest.raises(Missing, match="cannot be fetched"):  # the tests are offline
        module.download("dpr", tmp_path)
