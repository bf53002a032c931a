"""People of a study: names, roles, links, and the commands for them."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from blindspot.app.commands.people import people_app
from blindspot.db.errors import BadInput, BlindspotError, Missing, Refused
from blindspot.db.people import People
from tests.judging import Desk
from tests.studies import make_study, people


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


@pytest.fixture
def study(tmp_path):
    return make_study(tmp_path / "study", people(3))


@pytest.fixture
def command(study):
    def run(*arguments, code=0):
        result = CliRunner().invoke(people_app, [*arguments, "--study", str(study.folder)])
        assert result.exit_code == code, result.output
        if code == 1:
            assert isinstance(result.exception, BlindspotError) and "\n" not in str(result.exception)
            return str(result.exception)
        return result.output

    return run


def test_names_that_will_do(desk):
    """Those that will not: test_names."""
    for name in ("Zoë Müller", "李雷", "=cmd()", "O'Hara", "<b>bob</b>"):
        assert desk.people.add(name).name == name and desk.people.get(name).role == "annotator"
    with pytest.raises(BadInput, match="person's name .*use 1 to 64 printable characters"):
        desk.people.add("a\nb")


def test_a_name_and_an_address_are_ones_own(desk):
    desk.people.add("eve", email="eve@example.org")
    with pytest.raises(Refused, match="already"):
        desk.people.add("eve")
    with pytest.raises(Refused, match="already"):
        desk.people.add("eva", email="eve@example.org")
    assert desk.people.person_with_email("eve@example.org").name == "eve"
    assert desk.people.person_with_email("x@example.org") is None
    with pytest.raises(BadInput, match="one of annotator, adjudicator, lead"):
        desk.people.add("eva", "boss")


def test_roles_and_rights(desk):
    actions = ("judge", "adjudicate", "see others' labels", "manage people")
    for role, allowed in (("annotator", 1), ("adjudicator", 3), ("lead", 4)):
        person = desk.people.add(f"some {role}", role)
        assert [action for action in actions if person.is_allowed(action)] == [*actions[:allowed]]


def test_a_link_of_nobody_is_nobodys(desk):
    secret = desk.people.invite("eve")
    assert len(secret) >= 32 and desk.people.person_of_link(secret).name == "eve"
    for wrong in ("", secret[:-1], secret.upper(), secret + "x", "\ud800"):
        assert desk.people.person_of_link(wrong) is None
    assert len({desk.people.invite(f"p{i}") for i in range(50)}) == 50


def test_add_list_pause_role_from_the_command_line(command, study):
    assert "No people yet" in command("list")
    assert command("add", "[bold]ann", "--email", "ann@example.org") == "Added [bold]ann, an annotator.\n"
    assert "a lead" in command("add", "lea", "--role", "lead")
    assert "is paused" in command("pause", "lea") and "paused" in command("list")
    assert "questions again" in command("resume", "lea") and "paused" not in command("list")
    assert "is now an adjudicator" in command("role", "lea", "adjudicator")
    listed = command("list")
    assert "[bold]ann" in listed and "ann@example.org" in listed and "adjudicator" in listed
    for arguments, says in (
        (("add", "lea"), "already"),
        (("pause", "zoe"), "nobody is named 'zoe'"),
        (("add", " x"), "begins or ends with a space"),
        (("revoke", "zoe"), "nobody is named"),
    ):
        assert says in command(*arguments, code=1)
    output = command("role", "lea", "boss", code=2)
    assert "'boss' is not one of 'annotator', 'adjudicator', 'lead'" in output


def test_invite_prints_a_link_that_works_until_it_is_replaced_or_revoked(command, study):
    store = People(study.labels_path)

    def link(*arguments):
        told = command("invite", "dot", *arguments)
        assert "shown only once" in told
        return re.search(r"^(\S+)/\?key=(\S+)$", told, re.M).groups()

    address, first = link("--role", "adjudicator")
    assert address == "http://localhost:8501" and store.person_of_link(first).role == "adjudicator"
    address, second = link("--address", "https://judge.example.org/app/")
    assert address == "https://judge.example.org/app" and store.person_of_link(first) is None
    assert store.person_of_link(second).role == "adjudicator", "a person who is already listed keeps their role"
    assert "valid" in command("list") and second not in command("list")
    command("revoke", "dot")
    assert store.person_of_link(second) is None and "valid" not in command("list")


def test_an_address_that_is_none_makes_no_link(command, study):
    for address in ("host:8501", "ftp://host", "http://", "http://host/?a=b"):
        assert "--address" in command("invite", "dot", "--address", address, code=2)
    with pytest.raises(Missing):
        People(study.labels_path).get("dot")
