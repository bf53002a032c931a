"""Consent: bound to a person, a study folder and a server; kept outside studies, and lost by every copy."""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading

import pytest

from blindspot.backend.core import consent
from blindspot.backend.core.consent import IDENTITY, NeedsConsent, server_of
from blindspot.backend.core.http_client import HttpClient
from blindspot.backend.core.study import Study
from blindspot.backend.core.user_folder import user_folder
from blindspot.db.errors import BadInput, Refused
from tests.listening import Listener

SERVER = "https://api.example.org:443"


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def study(tmp_path):
    return Study.create(tmp_path / "study")


def servers(study):
    return [each.server for each in consent.consents(study)]


@pytest.mark.parametrize(("address", "server"), [
    ("https://api.example.org/v1", SERVER), ("HTTPS://API.example.org:443", SERVER),
    ("http://api.example.org", "http://api.example.org:80"), ("http://127.0.0.1:9200/x?y", "http://127.0.0.1:9200"),
    ("http://[::1]:9200", "http://[::1]:9200"),
])  # fmt: skip
def test_a_server_is_scheme_host_and_port(address, server):
    assert server_of(address) == server
    assert server_of(server) == server


@pytest.mark.parametrize("address", [
    "", "api.example.org", "/tmp/x.db", "http://", "http://a b", "http://x:99999", "http://x;id:1", "tcp://x",
    "http://good.example\\@evil.example", "http://good.example\t.evil.example", "http://g\u00f6d.example",
])  # fmt: skip
def test_other_texts_are_no_servers(address):
    with pytest.raises(Refused, match="is no address such as"):
        server_of(address)


def test_a_message_about_an_address_shows_no_password():
    with pytest.raises(Refused) as caught:
        server_of("ftp://me:word@host")
    assert "word" not in str(caught.value)


def test_consent_is_for_one_server_with_one_key(study, monkeypatch):
    monkeypatch.setenv("MINE", "sk-1")
    consent.give_consent(study, "https://api.example.org/v1", "MINE")
    assert consent.require_consent(study, "https://api.example.org/other", "x").key == "sk-1"
    for other in ("http://api.example.org", "https://api.example.org:8443", "https://api.example.org.evil.example"):
        with pytest.raises(
            NeedsConsent, match=r"x to .*; nothing was sent. If you trust .* run: blindspot consent give"
        ):
            consent.require_consent(study, other, "x")
    consent.give_consent(study, SERVER)  # again, now without a key
    assert [(each.server, each.key) for each in consent.consents(study)] == [(SERVER, "")]
    assert consent.withdraw_consent(study, SERVER) and not consent.withdraw_consent(study, SERVER)
    assert servers(study) == []
    with pytest.raises(Refused, match="give the name, never the key"):
        consent.give_consent(study, SERVER, "sk-proj-123")


def test_the_file_is_outside_the_study_and_this_person_s_alone(study):
    consent.give_consent(study, SERVER, "MINE")
    path = user_folder() / consent.FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for inside in study.folder.rglob("*"):
        assert not inside.is_file() or b"api.example.org" not in inside.read_bytes(), inside
    path.chmod(0o666)
    with pytest.raises(Refused, match="others can write it, so it is not believed"):
        consent.consents(study)
    path.chmod(0o600)
    path.write_text('{"consents": [{"study": 1}]}')
    with pytest.raises(BadInput, match="is damaged"):
        consent.consents(study)


def test_a_relative_folder_of_settings_is_ignored(study, monkeypatch):
    """It would lead into a stranger's study, the current folder of many commands."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")
    assert user_folder().is_absolute() and study.folder not in user_folder().parents


def test_another_folder_and_a_study_in_its_place_have_none(study, tmp_path):
    consent.give_consent(study, SERVER)
    shutil.copytree(study.folder, tmp_path / "by-hand")
    assert servers(Study.open(tmp_path / "by-hand")) == []
    shutil.rmtree(study.folder)
    theirs = Study.create(study.folder)
    assert servers(theirs) == []
    (theirs.folder / IDENTITY).write_text("")
    assert servers(theirs) == []


@pytest.mark.parametrize("word", ["", "\u00e9", "mine", "f" * 33, "../x"])
def test_a_word_that_is_not_ours_is_replaced(study, word):
    (study.folder / IDENTITY).write_text(word, encoding="utf-8")
    assert servers(study) == []
    consent.give_consent(study, SERVER)
    assert servers(study) == [SERVER] and (study.folder / IDENTITY).read_text().strip() != word


def test_the_word_is_not_written_through_a_link(study, tmp_path):
    (tmp_path / "precious").write_text("kept")
    (study.folder / IDENTITY).symlink_to(tmp_path / "precious")
    consent.give_consent(study, SERVER)
    assert (tmp_path / "precious").read_text() == "kept" and not (study.folder / IDENTITY).is_symlink()
    assert servers(study) == [SERVER]


def test_consents_given_at_once_are_all_kept(tmp_path):
    studies = [Study.create(tmp_path / f"s{number}") for number in range(4)]

    def give(study):
        for port in range(8000, 8005):
            consent.give_consent(study, f"http://localhost:{port}")

    threads = [threading.Thread(target=give, args=(study,)) for study in studies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(consent.consents(study)) == 5 for study in studies)
    left = {path.name for path in user_folder().iterdir()}
    assert left == {"consent.json", "consent.lock"}


def test_a_client_sends_to_the_allowed_server_alone(study):
    with Listener() as allowed, Listener() as other:
        given = consent.give_consent(study, allowed.url)
        with pytest.raises(Refused, match="which was allowed; nothing was sent"):
            HttpClient(other.url, given, "", 1.0, 0, 1)
        assert HttpClient(allowed.url, given, "", 1.0, 0, 1).post(b"{}").status == 200
        assert len(allowed.heard) == 1 and other.heard == []


def test_a_study_that_cannot_be_written_gets_none(study):
    if os.geteuid() == 0:
        (study.folder / IDENTITY).mkdir()  # root writes everywhere
        assert servers(study) == []
        with pytest.raises(Refused, match="no consent can be kept for this study"):
            consent.give_consent(study, SERVER)
        return
    study.folder.chmod(0o555)
    try:
        with pytest.raises(Refused, match="no consent can be kept for this study"):
            consent.give_consent(study, SERVER)
    finally:
        study.folder.chmod(0o755)


def test_the_commands(study, blindspot):
    def run(*words):
        code, out, err = blindspot("consent", *words, "--study", study.folder)
        return code, out + err

    from blindspot.backend.judges.llm.judge import add_llm_judge

    assert run("list") == (0, "This study names no server, so nothing of it can leave this machine.\n")
    add_llm_judge(study, "far", "https://far.example/v1", "m")
    assert "https://far.example:443: not allowed; judge far" in run("list")[1]
    code, said = run("give", "https://far.example", "--key-variable", "FAR_KEY")
    assert code == 0 and "may go to https://far.example:443, with the key in $FAR_KEY" in said
    assert "https://far.example:443: allowed, $FAR_KEY, since 20" in run("list")[1]
    assert "Nothing goes to https://far.example:443 any more." in run("withdraw", "https://far.example")[1]
    code, said = run("give", "far.example")
    assert code == 1 and "is no address such as" in said and "Traceback" not in said


def test_a_tracker_needs_consent(study, monkeypatch):
    from blindspot.backend.training import tracking

    monkeypatch.setattr(tracking, "find_spec", lambda name: object())
    for name in ("WANDB_BASE_URL", "MLFLOW_TRACKING_URI", "HF_ENDPOINT", "WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.setenv(name, "")
    working = study.folder / "models" / ".mine~training"
    for tracker, server in (("wandb", "https://api.wandb.ai:443"), ("trackio", "https://huggingface.co:443")):
        with pytest.raises(NeedsConsent, match=f"the tracker {tracker} would send .* to {server}; nothing was sent"):
            tracking.tracking_arguments(tracker, working)
        consent.give_consent(study, server)
        assert tracking.tracking_arguments(tracker, working)["report_to"] == tracker
    assert tracking.tracking_arguments("mlflow", working)["report_to"] == "mlflow"  # files of this machine
    for address in ("http://mlflow.example:5000", "databricks"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        with pytest.raises(Refused):
            tracking.tracking_arguments("mlflow", working)


def test_a_record_of_a_job_gives_no_consent(study):
    """The app can start a recorded job again, and a record may be a stranger's."""
    import inspect

    from blindspot.backend.judges.llm.judging import judge_with_llm

    assert not {"send", "consent", "allow"} & set(inspect.signature(judge_with_llm).parameters)
    assert json.dumps(consent.consents(study)) == "[]"
