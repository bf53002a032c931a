"""Store which servers a person allows the texts of a study to be sent to, and which environment variable holds each
server's key.

A consent belongs to the person and the machine. The person's own folder holds it (`consent.json`, readable by them
alone). It is never read from a study, because a study may come from a stranger. It is valid for one study folder and
one server (scheme, host and port). Only the consent names the environment variable with the server's key. A copied or
downloaded study, or another study that replaces the folder, has no consent. Addresses of this machine need consent as
well, because other programs listen there.

`blindspot.backend.core.http_client` sends nothing without a `Consent`, and neither does the client of Milvus.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shlex
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from blindspot.backend.core.manifest import write_text
from blindspot.backend.core.user_folder import user_folder
from blindspot.db.errors import BadInput, Refused

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

FILE = "consent.json"
IDENTITY = ".identity"
"""File in a study folder that contains a random word, made with the first consent. Copies of the study and pushes to
the Hub leave it out.
"""
DEFAULT_PORTS = {"http": 80, "https": 443}
_ODD = re.compile(r"[\s\\\x00-\x1f\x7f]")  # programs that read addresses do not agree on these
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_WORD = re.compile(r"[0-9a-f]{32}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WRITABLE_BY_OTHERS = 0o022


class NeedsConsent(Refused):
    """Raised when texts would be sent to a server without a person's consent. `server`: as `server_of` returns it."""

    def __init__(self, server: str, message: str):
        self.server = server
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Consent:
    """A person's consent to send the texts of one study to one server.

    Attributes:
        study: The study's folder.
        identity: The content of the study's file `.identity` when the consent was given.
        server: As in `server_of`.
        key_variable: The environment variable with the server's key; "" for requests without a key.
        given: When the consent was given, in UTC.
    """

    study: str
    identity: str
    server: str
    key_variable: str
    given: str

    @property
    def key(self) -> str:
        """The server's key from the environment variable; "" if there is none."""
        return os.environ.get(self.key_variable, "").strip() if self.key_variable else ""

    @property
    def key_in_words(self) -> str:
        """The end of an error message for a refused key: what may be wrong with the key, and what to do."""
        if not self.key_variable:
            line = f"blindspot consent give {shlex.quote(self.server)} --study {shlex.quote(self.study)} --key-variable NAME"
            return f"a request without a key; name the environment variable that holds it: {line}"
        if not self.key:
            return f"a request without a key; set ${self.key_variable}"
        return f"the key in ${self.key_variable}; set the variable to a valid key"


def server_of(url: str) -> str:
    """Return scheme, host and port of a URL, as in https://api.example.org:443. Raises Refused if it is not a URL of a
    server.
    """
    try:
        parts = urlsplit("" if _ODD.search(url.strip()) else url.strip())
        host, port = (parts.hostname or "").lower(), parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        host, port = "", None
    if not _HOST.fullmatch(host) or port is None:
        raise Refused(f"{re.sub(r'//[^/@]*@', '//', url)[:80]!r} is no address such as https://api.example.org")
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def give_consent(study: Study, url: str, key_variable: str = "") -> Consent:
    """Record a person's consent to send the texts of a study to a server, with the key in an environment variable.
    Replaces an earlier consent for this server.

    Call this only where a person decides, at the command line or in the app. Never call it from a job: a job's record
    may come from a stranger's study.

    Raises Refused if `url` is not a URL, and if the study or the person's folder cannot be written.
    """
    if key_variable and not _VARIABLE.fullmatch(key_variable):
        raise Refused(f"{key_variable[:80]!r} is no name of an environment variable; give the name, never the key")
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    server = server_of(url)
    with _edit_consents() as known:
        word = _study_identity(study) or _new_identity(study)
        given = Consent(str(study.folder), word, server, key_variable, now)
        known[:] = [each for each in known if (each.study, each.server) != (given.study, server)] + [given]
    return given


def withdraw_consent(study: Study, url: str) -> bool:
    """Withdraw a consent. Returns whether there was one."""
    server, folder = server_of(url), str(study.folder)
    with _edit_consents() as known:
        before = len(known)
        known[:] = [each for each in known if (each.study, each.server) != (folder, server)]
        return len(known) < before


def consents(study: Study) -> list[Consent]:
    """Return the consents for a study, in the order in which they were given."""
    identity, folder = _study_identity(study), str(study.folder)
    return [each for each in _read_consents() if identity and (each.study, each.identity) == (folder, identity)]


def find_consent(study: Study, url: str) -> Consent | None:
    """Return the consent for the server of a URL, or None."""
    server = server_of(url)
    return next((each for each in consents(study) if each.server == server), None)


def require_consent(study: Study, url: str, noun: str) -> Consent:
    """Return the consent for the server of a URL.

    Args:
        noun: What would be sent, as the start of the message: "judge 'llm' would send the texts of questions and
        passages".

    Raises NeedsConsent if there is no consent.
    """
    consent = find_consent(study, url)
    if consent is not None:
        return consent
    server = server_of(url)
    plain = "" if urlsplit(server).scheme == "https" else " (not encrypted)"
    raise NeedsConsent(server, f"{noun} to {server}{plain}; nothing was sent. {how_to_allow(study, server)}")


def how_to_allow(study: Study, url: str) -> str:
    """Return the sentence that tells a person how to give the consent."""
    command = f"blindspot consent give {shlex.quote(server_of(url))} --study {shlex.quote(str(study.folder))}"
    return f"If you trust this server with them, run: {command}"


def _study_identity(study: Study) -> str:
    """Return the study's random identifier, which distinguishes it from another study later placed in the same folder;
    "" if it has none that this person wrote.
    """
    path = study.folder / IDENTITY
    try:
        word = path.read_bytes()[:100].decode("ascii", "replace").strip() if path.is_file() else ""
    except OSError as error:
        raise Refused(f"{path}: cannot be read ({error.strerror or error}), so nothing is sent") from None
    return word if _WORD.fullmatch(word) else ""


def _new_identity(study: Study) -> str:
    path, word = study.folder / IDENTITY, secrets.token_hex(16)
    try:
        write_text(path, word + "\n")
    except OSError as error:
        reason = error.strerror or error
        raise Refused(f"{path}: cannot be written ({reason}), so no consent can be kept for this study") from None
    return word


def _read_consents() -> list[Consent]:
    """Return all consents of this person. Raises Refused where others can write the file, BadInput if it is damaged."""
    path = user_folder() / FILE
    try:
        with open(path, encoding="utf-8") as file:
            state = os.fstat(file.fileno())
            if state.st_uid != os.geteuid() or state.st_mode & _WRITABLE_BY_OTHERS:
                raise Refused(f"{path}: others can write it, so it is not believed; make it yours alone (chmod 600)")
            content = json.load(file)
        return [Consent(**each) for each in content["consents"]]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Refused(f"{path}: cannot be read ({error.strerror or error}), so nothing is sent") from None
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"is damaged ({type(error).__name__}); delete it and give consent again", path) from None


@contextmanager
def _edit_consents() -> Iterator[list[Consent]]:
    """Yield the list of consents for changes, and write it atomically when the `with` block ends."""
    path = user_folder() / FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(path.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = _read_consents()
            yield known
            content = {"form": 1, "consents": [asdict(each) for each in known]}
            handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600
            try:
                with open(handle, "w", encoding="utf-8") as file:
                    json.dump(content, file, indent=1)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(beside, path)
            except BaseException:
                os.unlink(beside)
                raise
    except OSError as error:
        raise Refused(
            f"{path}: cannot be written ({error.strerror or error}); make room, or give the right to write"
        ) from None
