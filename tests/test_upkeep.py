"""Deleting and downloading the parts of a study, and what depends on them."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core import jobs
from blindspot.backend.core.manifest import write_json
from blindspot.backend.core.runs import write_run
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.upkeep import parts
from blindspot.backend.upkeep.dependents import dependents
from blindspot.backend.upkeep.downloads import download, formats
from blindspot.db.errors import Missing, Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue
from blindspot.db.records import Hits
from tests.studies import copied
from tests.training_studies import build, training_study


def record(folder: Path, file: str, content: dict) -> None:
    folder.mkdir(parents=True)
    write_json(folder / file, content)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory) -> Study:
    """A run, a set mined from it, a batch pooled from it, a model trained on the set with its encoder, and a map."""
    study = training_study(tmp_path_factory.mktemp("upkeep") / "study")
    build(study, name="raw")
    People(study.labels_path).add("lea", "lead")
    item = Item("q0", (Candidate("p1"),))
    Queue(study.labels_path).add_batch("first", [item], {"runs": ["r"], "training_set": "raw"})
    record(study.path("models", "tuned"), "training.json", {"kind": "dual encoder", "training_set": "raw"})
    record(study.path("indexes", "tuned"), "manifest.json", {"kind": "dense index", "encoder": "tuned"})
    add_encoder(study.settings_path, "tuned", {"model": str(study.path("models", "tuned"))})
    record(
        study.path("maps", "m"),
        "manifest.json",
        {"kind": "map", "name": "m", "request": {"name": "m", "encoders": ["tuned"]}},
    )
    return study


@pytest.fixture
def study(untouched, tmp_path) -> Study:
    return Study.open(copied(untouched, tmp_path / "study").folder)


def words(study: Study, kind: str, name: str) -> list[str]:
    return [each.sentence_part for each in dependents(study, kind, name)]


def test_what_depends_on_a_part_is_named(study):
    assert words(study, "run", "r") == ["batch first was made from it", "training set raw was made from it"]
    assert words(study, "training-set", "raw") == ["batch first was made from it", "model tuned was made from it"]
    assert words(study, "model", "tuned") == [
        "encoder tuned belongs to it",
        "index tuned belongs to it",
        "map m was made from it",
    ]
    assert words(study, "map", "m") == words(study, "batch", "first") == []


def test_a_model_goes_with_its_encoder_and_its_index(study):
    with pytest.raises(Refused, match="confirm"):
        parts.delete(study, "model", "tuned")
    record(study.path("models", "mapped"), "training.json", {"kind": "adapter", "encoder": "tuned"})
    with pytest.raises(Refused, match="cannot be deleted: model mapped needs it; delete those first"):
        parts.delete(study, "model", "tuned", is_confirmed=True)
    parts.delete(study, "model", "mapped", is_confirmed=True)
    also = parts.delete(study, "model", "tuned", is_confirmed=True)
    assert [each.kind for each in also] == ["encoder", "index"]
    assert (
        parts.part_names(study, "model") == [] and not study.parts("indexes") and "tuned" not in study.settings.encoders
    )
    assert not list(study.folder.glob("models/.*"))


def test_a_job_that_uses_a_part_protects_it(study, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", lambda command, **_: None)
    monkeypatch.setattr(jobs, "recent", lambda *_: [Unfinished()])
    with pytest.raises(Refused, match="cannot be deleted: job .* needs it"):
        parts.delete(study, "training-set", "raw", is_confirmed=True)


class Unfinished:
    """A job that trains on the set."""

    unfinished, kind, arguments = True, "train dual-encoder", {"name": "new", "training_set": "raw"}


def test_a_batch_that_people_worked_on_is_kept(study):
    queue = Queue(study.labels_path)
    queue.claim("ann")
    Labels(study.labels_path).add("ann", LabelEvent("a", "label", "q0", (Choice("p1", "positive"),), batch="first"))
    with pytest.raises(Refused, match="people have worked on batch 'first'"):
        parts.delete(study, "batch", "first", is_confirmed=True)
    queue.add_batch("second", [Item("q1", (Candidate("p1"),))], {})
    queue.claim("ann", 3)
    with pytest.raises(Refused, match="nothing brings batch 'second' back"):
        parts.delete(study, "batch", "second")
    parts.delete(study, "batch", "second", is_confirmed=True)
    assert parts.part_names(study, "batch") == ["first"] and [lease.batch for lease in queue.leases_of("ann")] == [
        "first"
    ]


@pytest.mark.parametrize("kind, name", [("run", "nothing"), ("model", "nothing"), ("batch", "nothing"), ("thing", "r")])
def test_parts_that_are_not_there(study, kind, name):
    with pytest.raises((Missing, Refused), match="no .*nothing|unknown kind"):
        parts.delete(study, kind, name)


def test_every_kind_is_downloaded(study):
    made = {
        kind: download(study, kind, name, formats(kind)[0])
        for kind, name in (("run", "r"), ("training-set", "raw"), ("model", "tuned"))
    }
    assert made["run"].content.splitlines()[0].split()[1] == b"Q0"
    sets = zipfile.ZipFile(io.BytesIO(made["training-set"].content)).namelist()
    assert any(name.endswith("README.md") for name in sets) and made["training-set"].name.endswith(".zip")
    assert zipfile.ZipFile(io.BytesIO(made["model"].content)).namelist() == ["tuned/training.json"]
    with pytest.raises(Missing, match="no labels"):
        download(study, "labels", "labels", "jsonl")
    with pytest.raises(Refused, match="format"):
        download(study, "run", "r", "xml")
    Queue(study.labels_path).claim("ann")
    Labels(study.labels_path).add("ann", LabelEvent("a", "label", "q0", (Choice("p1", "positive"),), batch="first"))
    assert b"positive" in download(study, "labels", "labels", "csv", actor="lea").content


def test_the_command_line(study):
    def command(*arguments: str) -> str:
        return CliRunner().invoke(app, [*arguments, "--study", str(study.folder)], catch_exceptions=False).output

    assert "Deleted map m." in command("delete", "map", "m", "--yes")
    assert "Deleted model tuned, with encoder tuned and index tuned." in command("delete", "model", "tuned", "--yes")


def test_a_rerank_over_a_run_names_it(study):
    hits = Hits(np.zeros((1, 1), dtype=np.int32), np.ones((1, 1), dtype=np.float32))
    write_run(study, "again", ["q0"], hits, {"retriever": "rerank:tuned", "judge": "tuned", "over": {"run": "r"}})
    assert "run again was made from it" in words(study, "run", "r")
    assert "run again was made from it" in words(study, "model", "tuned")
