"""Sign-in with an identity provider: Streamlit's OIDC against a local provider."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlparse

import pytest

from blindspot.app import server
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue
from blindspot.db.records import Passage, Question
from tests.browser.servers import free_port, start
from tests.studies import make_study

CLIENT = "blindspot-tests"


class Provider(BaseHTTPRequestHandler):
    """An OpenID provider that always signs in one person; `email` names the person."""

    email, verified = "", True

    def do_GET(self):
        asked = urlparse(self.path)
        query = {name: values[0] for name, values in parse_qs(asked.query).items()}
        if asked.path == "/.well-known/openid-configuration":
            self._json(
                {
                    "issuer": self.server.issuer,
                    "authorization_endpoint": f"{self.server.issuer}/authorize",
                    "token_endpoint": f"{self.server.issuer}/token",
                    "jwks_uri": f"{self.server.issuer}/jwks",
                    "response_types_supported": ["code"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["RS256"],
                }
            )
        elif asked.path == "/jwks":
            self._json({"keys": [self.server.key.as_dict(private=False) | {"use": "sig", "alg": "RS256"}]})
        elif asked.path == "/authorize":
            self.server.nonce = query.get("nonce")
            self.send_response(302)
            self.send_header(
                "Location", f"{query['redirect_uri']}?{urlencode({'code': 'abc', 'state': query['state']})}"
            )
            self.end_headers()
        else:
            self.send_error(404)

    def do_POST(self):
        from joserfc import jwt

        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        now = int(time.time())
        claims = {
            "iss": self.server.issuer,
            "aud": CLIENT,
            "sub": "1",
            "iat": now,
            "exp": now + 600,
            "nonce": self.server.nonce,
            "email": Provider.email,
            "email_verified": Provider.verified,
        }
        token = jwt.encode({"alg": "RS256", "kid": self.server.key.kid}, claims, self.server.key)
        self._json({"access_token": "t", "token_type": "Bearer", "expires_in": 600, "id_token": token})

    def _json(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def provider() -> Iterator[str]:
    from joserfc.jwk import RSAKey

    http = ThreadingHTTPServer(("localhost", 0), Provider)
    http.issuer, http.nonce = f"http://localhost:{http.server_port}", None
    http.key = RSAKey.generate_key(2048, auto_kid=True)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield http.issuer
    http.shutdown()
    http.server_close()


@pytest.fixture
def study(tmp_path):
    made = make_study(
        tmp_path / "team", [Passage("p", "Oslo", "Oslo is a town.")], [Question("q", "What is Oslo?", split="train")]
    )
    Queue(made.labels_path).add_batch("first", [Item("q", (Candidate("p", 0),))], {})
    return made


def test_people_sign_in_with_their_address(tab, study, provider, tmp_path):
    People(study.labels_path).add("Lea", "lead", email="lea@example.org")
    port = free_port()
    secrets = tmp_path / ".streamlit" / "secrets.toml"
    secrets.parent.mkdir()
    secrets.write_text(f"""[auth]
redirect_uri = "http://localhost:{port}/oauth2callback"
cookie_secret = "a long secret that only this test knows"
client_id = "{CLIENT}"
client_secret = "s"
server_metadata_url = "{provider}/.well-known/openid-configuration"
""")
    process = start(study, port, folder=tmp_path)
    try:
        server.wait_until_up(port, process)
        Provider.email = "stranger@example.org"
        tab.goto(f"http://localhost:{port}/judge")
        assert tab.locator(".judge .candidate").count() == 0
        tab.get_by_role("button", name="Sign in").click()
        tab.wait_for_selector("text=stranger@example.org is signed in, but is not a member of this study or")
        tab.get_by_role("button", name="Sign out").click()
        Provider.email, Provider.verified = "lea@example.org", False
        tab.get_by_role("button", name="Sign in").click()
        tab.wait_for_selector("text=lea@example.org is signed in, but")
        tab.get_by_role("button", name="Sign out").click()
        Provider.verified = True
        tab.get_by_role("button", name="Sign in").click()
        tab.wait_for_selector("header.top:has-text('Lea')")
        tab.goto(f"http://localhost:{port}/judge")
        tab.wait_for_selector(".judge .candidate.here")
        tab.reload()
        tab.wait_for_selector(".judge .candidate.here")
    finally:
        process.kill()
        process.wait()
