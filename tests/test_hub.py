"""Push to a Hub and pull from it through huggingface_hub's own client, against the stand-in of `tests/hub_server.py`."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from blindspot.backend.core.copying import copy_study
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.hub.pulling import pull, pull_study
from blindspot.backend.hub.pushing import plan_push, push
from blindspot.backend.hub.repository import HubRepository, check_inside
from blindspot.backend.training_sets.builder import build
from blindspot.backend.training_sets.training_set import PAIRS, TrainingSet
from blindspot.db.errors import BadInput, BlindspotError, Missing, Refused
from blindspot.db.labels import Labels
from blindspot.db.people import People
from tests.hub_server import TOKEN, HubServer, Repo
from tests.studies import births, make_study, people

ROOT = Path(__file__).parents[1]


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A running Hub with the client pointed at it; the client reads these settings when it is imported."""
    from huggingface_hub import constants

    server = HubServer()
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    template = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A study with a training set, an encoder of its own, and labels of two people."""
    import numpy as np

    from blindspot.backend.core.runs import write_run
    from blindspot.db.records import Hits
    from tests.studies import tiny_bert

    passages = people(30)
    study = make_study(tmp_path_factory.mktemp("hub") / "births", passages, births(passages, "train"))
    questions = [question.id for question in study.questions.all()]
    rows = np.stack([(np.arange(6) + number) % 30 for number in range(len(questions))]).astype(np.int32)
    scores = np.tile(np.arange(6, 0, -1, dtype=np.float32), (len(questions), 1))
    write_run(study, "own-train", questions, Hits(rows, scores), {"retriever": "imported"})
    build(study, "clean", ["own-train"], policy="answer_match")
    tiny_bert(study.folder / "models" / "tiny")
    add_encoder(
        study.settings_path,
        "tiny",
        {"model": str(study.folder / "models" / "tiny"), "pooling": "cls", "max_tokens": 64},
    )
    for person in ("Ada Lund", "Bo Quist"):
        People(study.labels_path).add(person, email=f"{person.split()[0].lower()}@example.org")
    return study


def files_of(hub, kind, name="ada/thing"):
    return hub.repos[kind, name].files


def pushed(study, kind, name, repository="ada/thing", public=False, **options):
    with plan_push(study, kind, name, **options) as plan:
        return push(plan, HubRepository(repository, kind), public)


def test_a_training_set_goes_out_and_comes_back(hub, filled, tmp_path):
    address = pushed(filled, "training-set", "clean")
    repo = hub.repos["dataset", "ada/thing"]
    assert repo.private and address.startswith(hub.url) and repo.commits == 1
    assert set(repo.files) >= {"README.md", "train.parquet", "blindspot.json", f"blindspot/{PAIRS}"}
    header = repo.files["README.md"].decode().split("---")[1]
    assert "path: train.parquet" in header and "config_name: default" in header
    assert "# Training set clean" in repo.files["README.md"].decode()
    other = make_study(tmp_path / "other", people(30), births(people(30), "train"))
    pulled = pull(other, HubRepository("ada/thing", "training-set"), "theirs")
    assert pulled.name == "theirs" and pulled.skipped == ["README.md"]
    mine, theirs = TrainingSet.open(filled, "clean"), TrainingSet.open(other, "theirs")
    assert list(mine.groups()) == list(theirs.groups())
    with pytest.raises(Refused, match="already a training set named 'theirs'; give another --name"):
        pull(other, HubRepository("ada/thing", "training-set"), "theirs")
    smaller = make_study(tmp_path / "smaller", people(12), births(people(12), "train"))
    with pytest.raises(Refused, match="built over other passages"):
        pull(smaller, HubRepository("ada/thing", "training-set"))
    assert not list((smaller.folder / "training_sets").glob("*")) and not list(smaller.folder.glob(".hub-*"))
    # What the Hub's viewer reads is what `datasets` loads.
    import pyarrow.parquet as parquet

    (tmp_path / "train.parquet").write_bytes(repo.files["train.parquet"])
    assert parquet.read_table(tmp_path / "train.parquet").num_rows == sum(
        len(pairs) for _, pairs in mine.groups()
    ) - sum(pair.role == "dropped" for _, pairs in mine.groups() for pair in pairs)


def test_a_second_push_replaces_the_first(hub, filled):
    pushed(filled, "training-set", "clean")
    pushed(filled, "training-set", "clean", format="tevatron")
    files = files_of(hub, "dataset")
    assert "train.jsonl" in files and "train.parquet" not in files
    assert hub.repos["dataset", "ada/thing"].commits == 2


def test_an_encoder_goes_out_and_comes_back(hub, filled, tmp_path):
    from blindspot.backend.retrieval.encoder import load_encoder

    pushed(filled, "encoder", "tiny")
    files = files_of(hub, "model")
    assert "model.safetensors" in files and not [name for name in files if name.endswith((".bin", ".pt"))]
    assert str(filled.folder) not in " ".join(
        content.decode("utf-8", "replace") for name, content in files.items() if name.endswith((".json", ".md"))
    )
    other = make_study(tmp_path / "other", people(6))
    pull(other, HubRepository("ada/thing", "encoder"), "fetched")
    settings = other.settings.encoders["fetched"]
    assert (settings.pooling, settings.max_tokens) == ("cls", 64)
    mine, theirs = load_encoder(filled.settings.encoders["tiny"]), load_encoder(settings)
    assert mine.model_hash == theirs.model_hash
    with pytest.raises(Refused, match="already an encoder named 'fetched'"):
        pull(other, HubRepository("ada/thing", "encoder"), "fetched")
    with pytest.raises(Refused, match="encoder 'minilm' is 'minilm', which is installed or on the Hub already"):
        pushed(filled, "encoder", "minilm")


def test_a_judge_goes_out_and_comes_back(hub, filled, tmp_path):
    from blindspot.backend.judges.imported import import_judgements
    from blindspot.backend.judges.judge import judges_of

    copy_study(filled, tmp_path / "mine")
    study = Study.open(tmp_path / "mine")
    shutil.copytree(study.folder / "models" / "tiny", study.folder / "models" / "ranker")
    about = {"kind": "cross-encoder", "name": "ranker", "training_set": "clean"}
    (study.folder / "models" / "ranker" / "training.json").write_text(json.dumps(about))
    pushed(study, "judge", "ranker")
    other = make_study(tmp_path / "other", people(6))
    assert pull(other, HubRepository("ada/thing", "judge"), "theirs").name == "theirs"
    assert [(card.name, card.kind, card.learned_from) for card in judges_of(other)] == [
        ("theirs", "cross-encoder", "clean")
    ]
    for file in ("model.safetensors", "config.json"):
        assert (other.folder / "models" / "theirs" / file).read_bytes() == (
            study.folder / "models" / "ranker" / file
        ).read_bytes()
    with pytest.raises(Refused, match="already a judge or model named 'theirs'"):
        pull(other, HubRepository("ada/thing", "judge"), "theirs")
    question = study.questions.all()[0].id
    (tmp_path / "tool.qrels").write_text(f"{question} 0 p0 1\n")
    import_judgements(study, "tool", str(tmp_path / "tool.qrels"))
    with pytest.raises(Refused, match="judgements of another tool"):
        pushed(study, "judge", "tool")


def test_a_study_goes_out_without_names_and_comes_back(hub, filled, tmp_path):
    copy_study(filled, tmp_path / "labelled")
    study = Study.open(tmp_path / "labelled")
    question = study.questions.all()[0].id
    qrels = tmp_path / "ada.qrels"
    qrels.write_text(f"{question} 0 p0 1\n{question} 0 p1 0\n")
    from blindspot.backend.judging.labels_io import import_labels

    import_labels(study, qrels, "qrels", "Ada Lund", by_person=True)
    before = Labels(study.labels_path).consensus()
    with plan_push(study, "study", None) as plan:
        assert any("2 people have pseudonyms" in note for note in plan.notes)
        for path in plan.folder.rglob("*"):
            assert not path.is_file() or not re.search(rb"Ada Lund|Bo Quist|@example.org", path.read_bytes()), path
        assert not (plan.folder / "backups").exists() and not (plan.folder / "jobs").exists()
        push(plan, HubRepository("ada/study", "study"))
    pulled = pull_study(HubRepository("ada/study", "study"), tmp_path / "fetched")
    fetched = Study.open(tmp_path / "fetched")
    assert pulled.files > 5 and fetched.corpus.digest == study.corpus.digest
    assert list(TrainingSet.open(fetched, "clean").groups()) == list(TrainingSet.open(study, "clean").groups())
    assert Labels(fetched.labels_path).consensus() == before
    assert [person.name for person in People(fetched.labels_path).all()] == ["annotator-1", "annotator-2"]
    with sqlite3.connect(fetched.labels_path) as connection, pytest.raises(sqlite3.DatabaseError, match="append-only"):
        connection.execute("UPDATE label_event SET annotator = 'annotator-2'")
    assert not connection.execute("PRAGMA foreign_key_check").fetchall()
    assert Path(fetched.settings.encoders["tiny"].model) == tmp_path / "fetched" / "models" / "tiny"
    with pytest.raises(Refused, match="exists already; choose a new folder"):
        pull_study(HubRepository("ada/study", "study"), tmp_path / "fetched")
    with plan_push(study, "study", None, with_names=True) as plan:
        assert b"Ada Lund" in (plan.folder / "labels.db").read_bytes()


def test_a_public_repository_needs_public_and_another_content_is_kept(hub, filled):
    pushed(filled, "training-set", "clean", public=True)
    assert not hub.repos["dataset", "ada/thing"].private
    with pytest.raises(Refused, match="is public; give --public if everybody may see this"):
        pushed(filled, "training-set", "clean")
    hub.repos["dataset", "ada/thing"].files = {"mine.csv": b"a\n"}
    with pytest.raises(Refused, match="holds something else; name another repository"):
        pushed(filled, "training-set", "clean", public=True)
    assert files_of(hub, "dataset") == {"mine.csv": b"a\n"}


def test_formats_that_the_viewer_does_not_show_are_refused(hub, filled):
    with pytest.raises(Refused, match=r"the Hub's viewer does not show train.json; take parquet"):
        pushed(filled, "training-set", "clean", format="dpr")
    assert not hub.requests


def refused_pull(hub, study, kind, change, match, error=Refused):
    """A pull of a repository that somebody changed fails with one line and leaves the study as it was."""
    change(hub.repos["model" if kind == "encoder" else "dataset", "ada/thing"].files)
    before = sorted(path.name for path in study.folder.rglob("*"))
    with pytest.raises(error, match=match) as caught:
        pull(study, HubRepository("ada/thing", kind), "x")
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in study.folder.rglob("*") if ".lock" not in path.name) == [
        name for name in before if ".lock" not in name
    ]


def test_what_could_run_or_lead_out_is_not_pulled(hub, filled, tmp_path):
    study = make_study(tmp_path / "other", people(6))
    pushed(filled, "encoder", "tiny")
    original = dict(files_of(hub, "model"))

    def with_file(name, content=b"x"):
        def change(files):
            files.clear()
            files.update({**original, name: content})

        return change

    refused_pull(hub, study, "encoder", with_file("pytorch_model.bin"), "holds pytorch_model.bin, which can run code")
    refused_pull(hub, study, "encoder", with_file("modeling.py"), "holds modeling.py, which can run code")
    refused_pull(hub, study, "encoder", with_file("../../evil.json"), "leads out of it; nothing was taken", BadInput)
    config = json.loads(original["config.json"]) | {"auto_map": {"AutoModel": "evil--model.Evil"}}
    refused_pull(
        hub, study, "encoder", with_file("config.json", json.dumps(config).encode()), "would run code of whoever"
    )
    cut = with_file("model.safetensors", original["model.safetensors"][:-100])
    refused_pull(hub, study, "encoder", cut, "cut short or damaged", BadInput)
    without = with_file("blindspot.json", b"[]")
    refused_pull(hub, study, "encoder", without, "blindspot.json", BadInput)
    outside = json.loads(original["blindspot.json"]) | {"models": ["../x"]}
    refused_pull(
        hub, study, "encoder", with_file("blindspot.json", json.dumps(outside).encode()), "names no model", BadInput
    )
    odd = json.loads(original["blindspot.json"]) | {"settings": {"model": "/etc", "pooling": "cls"}}
    hub.repos["model", "ada/thing"].files["blindspot.json"] = json.dumps(odd).encode()
    with_file("blindspot.json", json.dumps(odd).encode())(files_of(hub, "model"))
    pull(study, HubRepository("ada/thing", "encoder"), "kept-inside")
    assert Path(study.settings.encoders["kept-inside"].model) == study.folder / "models" / "kept-inside"


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "a\\b", "C:/x"])
def test_paths_that_lead_out_are_refused(path):
    with pytest.raises(BadInput, match="leads out of it"):
        check_inside(path, "the repository")


def test_a_stranger_s_study_cannot_name_this_machine_s_folders(hub, filled, tmp_path):
    pushed(filled, "study", None)
    files = files_of(hub, "dataset")
    files["study.toml"] = files["study.toml"].replace(b'"models/tiny"', b'"/home"')
    with pytest.raises(Refused, match="encoder 'tiny' of .* names /home, outside the study; nothing was taken"):
        pull_study(HubRepository("ada/thing", "study"), tmp_path / "fetched")
    assert not (tmp_path / "fetched").exists()


def test_errors_are_one_line(hub, filled, tmp_path, monkeypatch):
    def line(kind, action):
        with pytest.raises(kind) as caught:
            action()
        assert "\n" not in str(caught.value)
        return str(caught.value)

    repository = HubRepository("ada/absent", "encoder")
    assert line(Missing, lambda: pull(filled, repository)) == (
        f"there is no model ada/absent on {hub.url}, or the token may not read it"
    )
    hub.repos["model", "ada/empty"] = Repo(private=False)
    assert "has no blindspot.json, so Blindspot did not push it" in line(
        Missing, lambda: pull(filled, HubRepository("ada/empty", "encoder"))
    )
    assert "must be USER/NAME" in line(BadInput, lambda: pull(filled, HubRepository("a b/c//d", "encoder")))
    monkeypatch.setenv("HF_TOKEN", "hf_reader")
    assert "the token may not do this in ada/new" in line(
        Refused, lambda: pushed(filled, "training-set", "clean", "ada/new")
    )
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    said = line(Refused, lambda: pushed(filled, "training-set", "clean", "ada/new"))
    assert said == f"{hub.url} refused the token; sign in with 'hf auth login', or set HF_TOKEN"
    from huggingface_hub import constants

    nobody = "http://127.0.0.1:9"
    monkeypatch.setattr(constants, "ENDPOINT", nobody)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    for action in (
        lambda: pushed(filled, "training-set", "clean", "ada/new"),
        lambda: pull(filled, HubRepository("ada/new", "encoder")),
    ):
        assert f"cannot reach {nobody}" in line(BlindspotError, action)


def test_the_commands_use_the_environment_of_the_client(hub, filled, tmp_path):
    """In a process of its own: HF_ENDPOINT, HF_TOKEN, what is said before anything is sent."""
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": TOKEN,
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HOME": str(tmp_path / "home"),
    }

    def blindspot(*words):
        command = [sys.executable, "-m", "blindspot.app.cli", "hub", *words, "--study", str(filled.folder)]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    words = ("push", "training-set", "ada/cli", "--name", "clean")
    done = blindspot(*words, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert f"To private dataset {hub.url}/datasets/ada/cli" in done.stdout and "train.parquet (" in done.stdout
    assert "Nothing was sent" in done.stdout and not hub.requests
    done = blindspot(*words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("It names no annotator.") < done.stdout.index("Sent: ")
    done = blindspot("pull", "training-set", "ada/cli", "--name", "copy")
    assert "Pulled training-set copy" in done.stdout, done.stderr
    shutil.rmtree(filled.folder / "training_sets" / "copy")
    environment["HF_TOKEN"] = "hf_wrong"
    done = blindspot(*words)
    said = [line for line in done.stderr.splitlines() if line != "writing the training set ..."]
    assert done.returncode == 1 and len(said) == 1 and "refused the token" in said[0], done.stderr


def test_a_study_goes_out_without_the_places_of_its_indexes_and_without_consent(hub, filled, tmp_path):
    from blindspot.backend.core import consent
    from blindspot.backend.core.manifest import read_manifest, write_manifest
    from blindspot.backend.judges.llm.judge import add_llm_judge

    copy_study(filled, tmp_path / "mine")
    study, secret = Study.open(tmp_path / "mine"), "secret-host.example"
    run = study.path("runs", "own-train")
    opened = {"kind": "opened", "engine": "faiss", "where": f"http://{secret}:9200", "file": f"/mnt/{secret}/x.index",
              "settings": {"collection": "wiki", "ids": f"/mnt/{secret}/ids.txt"}}  # fmt: skip
    write_manifest(run, {**read_manifest(run), **opened, "parts": [{"over": opened}]})
    with sqlite3.connect(study.folder / "corpus.db") as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'source_name'", (f"http://{secret}/wiki",))
    connection.close()
    add_llm_judge(study, "far", "https://judge.example/v1", ["m"])
    (study.path("judges", "far", "sending.json")).write_text('{"to": "judge.example"}')
    consent.give_consent(study, "https://judge.example", "MY_KEY_VARIABLE")
    with plan_push(study, "study", None) as plan:
        assert any("addresses of the language models of far" in note for note in plan.notes)
        for path in plan.folder.rglob("*"):
            assert path.name not in ("sending.json", consent.IDENTITY)
            assert not path.is_file() or not re.search(rb"secret-host|MY_KEY_VARIABLE", path.read_bytes()), path
        push(plan, HubRepository("ada/study", "study"))
    with plan_push(study, "judge", "far") as plan:
        assert not [file for file, _ in plan.files if "sending" in file]
    files_of(hub, "dataset", "ada/study")["judges/far/sending.json"] = b'{"to": "judge.example"}'
    files_of(hub, "dataset", "ada/study")[consent.IDENTITY] = (study.folder / consent.IDENTITY).read_bytes()
    shutil.rmtree(study.folder)
    pull_study(HubRepository("ada/study", "study"), study.folder)  # to the very place that had consent
    pulled = Study.open(study.folder)
    assert consent.consents(pulled) == [] and not list(pulled.folder.rglob("sending.json"))
    assert pulled.run("own-train").manifest["settings"] == {"collection": "wiki"}
    with pytest.raises(consent.NeedsConsent, match="nothing was sent"):
        consent.require_consent(pulled, "https://judge.example", "x")


@pytest.mark.parametrize(
    ("file", "sql", "said"),
    [
        ("labels.db", "CREATE TRIGGER x AFTER INSERT ON annotator BEGIN UPDATE annotator SET role = 'lead'; END", "x"),
        ("labels.db", "CREATE VIEW x AS SELECT 1", "x"),
        ("labels.db", "CREATE TABLE x (a)", "x"),
        ("labels.db", "DROP TRIGGER label_event_no_update", "label_event_no_update is missing"),
        ("corpus.db", "CREATE TRIGGER x AFTER INSERT ON meta BEGIN DELETE FROM meta; END", "x"),
    ],
)
def test_a_pulled_study_brings_no_objects_of_theirs(hub, filled, tmp_path, file, sql, said):
    pushed(filled, "study", None)
    (tmp_path / "theirs.db").write_bytes(files_of(hub, "dataset")[file])
    with sqlite3.connect(tmp_path / "theirs.db") as connection:
        connection.execute(sql)
    connection.close()
    files_of(hub, "dataset")[file] = (tmp_path / "theirs.db").read_bytes()
    with pytest.raises(Refused, match=rf"{file} of .*{said}.*; nothing was taken"):
        pull_study(HubRepository("ada/thing", "study"), tmp_path / "fetched")
    assert not (tmp_path / "fetched").exists()


def test_a_pulled_study_brings_no_rights_and_no_jobs(hub, filled, tmp_path):
    from blindspot.db.jobs import Jobs

    copy_study(filled, tmp_path / "theirs")
    theirs = Study.open(tmp_path / "theirs")
    people = People(theirs.labels_path)
    secret = people.invite("mallory", "lead")
    session = people.sign_in(secret)
    Jobs(theirs.labels_path).create("j1", "train dual-encoder", {"settings": {"report_to": "wandb"}})
    people.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pushed(theirs, "study", None, with_names=True)
    # A stranger pushes what they like, not what our push leaves of it.
    files_of(hub, "dataset")["labels.db"] = theirs.labels_path.read_bytes()
    pull_study(HubRepository("ada/thing", "study"), tmp_path / "fetched")
    fetched = People(tmp_path / "fetched" / "labels.db")
    assert fetched.person_of_link(secret) is None and fetched.person_of_session(session) is None
    assert {(person.role, person.email, person.invited) for person in fetched.all()} == {("annotator", None, False)}
    assert Jobs(tmp_path / "fetched" / "labels.db").recent(5) == []
