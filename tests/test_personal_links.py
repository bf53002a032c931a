"""Personal links: the server exchanges a link's key for a session, and takes it out of the address."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from blindspot.app.link_keys import LinkKeys, session_cookie
from blindspot.app.markup import escape_markdown
from blindspot.db.errors import Refused
from blindspot.db.people import SESSION_SECONDS, People
from tests.app_pages import Page, hand_made_study
from tests.judging import Clock
from tests.studies import make_study
from tests.studies import people as passages


@pytest.fixture
def study(tmp_path, monkeypatch):
    study = make_study(tmp_path / "study", passages(3))
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    return study


@pytest.fixture
def client(study):
    page = Route("/{path:path}", lambda request: PlainTextResponse(f"page {request.url.path}?{request.url.query}"))
    app = Starlette(routes=[page], middleware=[Middleware(LinkKeys, labels_path=study.labels_path)])
    with TestClient(app, "http://localhost", follow_redirects=False) as client:
        yield client


def test_a_link_becomes_a_session_and_leaves_the_address(client, study):
    people = People(study.labels_path)
    secret = people.invite("ben", "adjudicator")
    answer = client.get(f"/judge?question=q%261&key={secret}&adjudicate=1")
    assert answer.status_code == 303 and answer.headers["location"] == "./judge?question=q%261&adjudicate=1"
    assert answer.headers["cache-control"] == "no-store" and answer.headers["referrer-policy"] == "no-referrer"
    name, rest = answer.headers["set-cookie"].split("=", 1)
    token, *flags = rest.split("; ")
    assert name == session_cookie(study.labels_path)
    assert {flag.lower() for flag in flags} == {
        "httponly",
        "samesite=strict",
        "path=/",
        f"max-age={int(SESSION_SECONDS)}",
    }
    assert secret not in str(answer.headers) and token != secret and len(token) >= 40
    assert people.person_of_session(token).name == "ben" and people.person_of_session(secret) is None
    kept = "".join(map(str, people.connection.execute("SELECT * FROM sign_in").fetchall()))
    assert token not in kept and secret not in kept, "only hashes are kept"
    assert client.get("/judge?question=1").text == "page /judge?question=1"


def test_the_cookie_is_secure_where_the_app_is_served_over_https(client, study):
    secret = People(study.labels_path).invite("ben")
    assert "Secure" not in client.get(f"/?key={secret}").headers["set-cookie"]
    proxied = client.get(f"/?key={secret}", headers={"X-Forwarded-Proto": "https"})
    assert "Secure" in proxied.headers["set-cookie"]


@pytest.mark.parametrize("secret", ["", "wrong", "%F0%9F%92%A9", "x" * 5000])
def test_a_wrong_link_opens_nothing_and_leaves_the_address_too(client, study, secret):
    answer = client.get(f"/judge?key={secret}")
    assert answer.status_code == 303 and answer.headers["location"] == "./judge?link=invalid"
    assert "set-cookie" not in answer.headers
    right = People(study.labels_path).invite("ben")
    assert client.get(f"/?link=invalid&key={right}").headers["location"] == "./", "a later key is not called invalid"
    People(study.labels_path).revoke("ben")
    assert "set-cookie" not in client.get(f"/judge?key={right}").headers


def test_where_there_is_no_study_a_key_is_left_alone(client, study):
    study.labels_path.unlink()
    assert client.get("/?key=x").text == "page /?key=x" and not study.labels_path.exists()


@pytest.mark.parametrize("path", ["//evil.example/", "/%5Cevil.example", "//evil.example/x:y", "/https:evil.example"])
def test_no_link_redirects_to_another_site(client, study, path):
    secret = People(study.labels_path).invite("ben")
    where = client.get(f"http://localhost{path}?key={secret}").headers["location"]
    assert where.startswith("./") and "\\" not in where and not where[2:].startswith("/")


def test_only_opening_a_link_signs_in(client, study):
    secret = People(study.labels_path).invite("ben")
    for method in ("HEAD", "OPTIONS"):
        assert "set-cookie" not in client.request(method, f"/?key={secret}").headers


def test_a_session_ends_and_the_link_works_again(study):
    people = People(study.labels_path, clock=Clock())
    secret = people.invite("ben")
    first, second = people.sign_in(secret), people.sign_in(secret)
    people.sign_out(first)
    assert people.person_of_session(first) is None and people.person_of_session(second).name == "ben"
    people._clock.now += SESSION_SECONDS
    assert people.person_of_session(second) is None, "expired"
    third = people.sign_in(secret)
    assert people.person_of_session(third).name == "ben"
    assert people.connection.execute("SELECT count(*) FROM sign_in").fetchone()[0] == 1, "ended sessions are forgotten"


@pytest.mark.parametrize("end", ["revoke", "invite"])
def test_revoking_or_replacing_a_link_ends_its_sessions(study, end):
    people = People(study.labels_path)
    secret = people.invite("ben")
    token = people.sign_in(secret)
    other = people.sign_in(people.invite("cid"))
    new = getattr(people, end)("ben")
    assert people.person_of_session(token) is None and people.sign_in(secret) is None
    assert people.person_of_session(other).name == "cid"
    assert end == "revoke" or people.person_of_session(people.sign_in(new)).name == "ben"


# ---- the pages


def test_names_of_people_are_no_markdown(tmp_path):
    study = hand_made_study(tmp_path / "study")
    name = "![x](http://evil.example/x.png) **b** :red[r] $x$"
    People(study.labels_path).add(name)
    (button,) = [button for button in Page(study.folder, "judge").app.button if button.key.startswith("i-am")]
    assert button.label == f"I am {escape_markdown(name)} (annotator)"
    assert (
        escape_markdown(name).startswith(r"\!\[x\]\(http\:\/\/evil\.example")
        and escape_markdown("Zoë Müller 李") == "Zoë Müller 李"
    )


def test_before_sign_in_nothing_of_the_study_is_told(tmp_path, monkeypatch):
    study = hand_made_study(tmp_path / "secret-study-name")
    for page in ("", "compare", "question", "training", "quality", "judge", "map", "slices", "relations"):
        shown = Page(study.folder, page)
        monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
        shown.app.run()  # now without BLINDSPOT_SIGN_IN: others can reach the app
        assert "Please sign in" in shown.text
        for told in ("secret-study-name", "All labels:", "alpha", "thing"):
            assert told not in shown.html, (page, told)
        assert not shown.app.button


def test_change_asks_before_it_signs_out(tmp_path, monkeypatch):
    study = hand_made_study(tmp_path / "study")
    People(study.labels_path).add("lea", "lead")
    page = Page(study.folder, "judge", "lea", **{"sign-out": 1})
    assert "Sign in as somebody else? You are lea." in page.text and "lea lead change" in page.text
    assert page.app.session_state["who-token"] == "name:lea"
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    next(button for button in page.app.button if button.label == "Sign out").click().run()
    assert "Who are you?" in page.text and page.app.session_state["who-token"] == ""


def test_a_tab_that_is_not_signed_in_any_more_stores_nothing(tmp_path, monkeypatch):
    """The browser sends its outbox before the page is drawn again; the component asks who is at work at every message."""
    import streamlit as st

    from blindspot.app import who
    from blindspot.app.components import judging

    study = hand_made_study(tmp_path / "study")
    people = People(study.labels_path)
    people.add("ann")
    taken = []
    monkeypatch.setattr(judging, "judging_stores", lambda _: taken.append(1))
    state = {"key": {"outbox": {"attempt": 3, "entries": [{"id": "x", "kind": "note", "question": "q0", "note": "n"}]}}}
    monkeypatch.setattr(st, "session_state", state)
    for now in (None, people.add("ben")):
        monkeypatch.setattr(who, "signed_in_person", lambda _, now=now: now)
        judging.store_events("key", study, "ann")
        heard = state[judging._HEARD]["key"]
        assert heard["attempt"] == 3 and heard["receipts"] == [] and "ann is no longer signed in" in heard["trouble"]
    assert not taken
    monkeypatch.setattr(who, "mode", lambda: "links")
    monkeypatch.setattr(who, "signed_in_person", lambda _: None)
    with pytest.raises(Refused, match="no longer signed in"):
        who.acting_name(study.labels_path)
