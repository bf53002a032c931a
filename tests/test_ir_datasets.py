"""Datasets by their ir_datasets id, without a network: registered with ir_datasets' own classes over small files."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core.study import Study
from blindspot.backend.data.importing.ir_datasets import ir_dataset_folder, is_ir_id, split_of
from blindspot.db.errors import BadInput, BlindspotError, Missing
from tests.absent import hide

ir_datasets = pytest.importorskip("ir_datasets")


class TitledDoc(NamedTuple):
    doc_id: str
    title: str
    text: str

    def default_text(self):
        return f"{self.title} {self.text}"


@pytest.fixture
def registered(tmp_path, monkeypatch):
    """Datasets `towns` (documents), `towns/train`, `towns/test` (queries and qrels as well)."""
    from ir_datasets.datasets.base import Dataset
    from ir_datasets.formats import TrecQrels, TsvDocs, TsvQueries
    from ir_datasets.util import LocalDownload

    files = {
        "docs.tsv": "d1\tOslo\tOslo is the capital.\nd2\tMolde\t\nd3\tBodo\tBodo lies north.\n",
        "train.tsv": "q1\twhich town is the capital\n",
        "test.tsv": "q2\twhich town lies north\nq3\tnobody judged this\n",
        "train.qrels": "q1 0 d1 1\n",
        "test.qrels": "q2 0 d3 2\nq2 0 d1 0\nq2 0 d3 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    def local(name):
        return LocalDownload(tmp_path / name, mkdir=False)

    docs = TsvDocs(local("docs.tsv"), doc_cls=TitledDoc)
    monkeypatch.setattr(ir_datasets.registry, "_registered", dict(ir_datasets.registry._registered))
    ir_datasets.registry.register("towns", Dataset(docs))
    for split in ("train", "test"):
        parts = TsvQueries(local(f"{split}.tsv")), TrecQrels(local(f"{split}.qrels"), {0: "no", 1: "yes", 2: "very"})
        ir_datasets.registry.register(f"towns/{split}", Dataset(docs, *parts))
    broken = TsvDocs(local("absent.tsv"), doc_cls=TitledDoc)
    ir_datasets.registry.register("towns/broken", Dataset(broken))


def command(*words):
    done = CliRunner().invoke(app, list(map(str, words)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_questions_bring_passages_and_gold(registered, tmp_path):
    folder = tmp_path / "study"
    folder.mkdir()
    said = command("import", "questions", "ir:towns/test", "--study", folder)
    assert "Imported 3 passages" in said and "Imported 2 questions" in said
    study = Study.open(folder)
    assert [(p.id, p.title, p.text) for p in study.corpus.passages(range(3))] == [
        ("d1", "Oslo", "Oslo is the capital."),
        ("d2", "Molde", "Molde"),
        ("d3", "Bodo", "Bodo lies north."),
    ]
    first, second = study.questions.all()
    assert (first.id, first.text, first.split, first.gold, first.dataset) == (
        "q2", "which town lies north", "test", ("d3",), "ir-towns-test",
    )  # fmt: skip
    assert (second.split, second.gold) == ("unlabelled", ())
    assert "Imported 1 question" in command("import", "questions", "ir:towns/train", "--study", folder)
    assert study.questions.all(split="train")[0].gold == ("d1",)
    assert "imported before" in command("import", "questions", "ir:towns/train", "--study", folder)
    assert not list(folder.glob(".ir-*"))


def test_the_python_interface_takes_an_id(registered, tmp_path):
    import blindspot

    study = blindspot.Study.create(tmp_path / "study")
    assert study.import_ir_dataset("towns/test") == 2
    assert study.questions("test")["gold"].tolist() == [("d3",)] and len(study.passages(["d1", "d2"])) == 2


def test_passages_alone(registered, tmp_path):
    folder = tmp_path / "study"
    folder.mkdir()
    assert "Imported 3 passages" in command("import", "passages", "ir:towns", "--study", folder)


def test_errors_are_one_line(registered, tmp_path, monkeypatch):
    def line(kind, source, passages=True, questions=True):
        with pytest.raises(kind) as caught, ir_dataset_folder(source, tmp_path, passages, questions):
            pass
        assert "\n" not in str(caught.value) and not list(tmp_path.glob(".ir-*"))
        return str(caught.value)

    assert "ir_datasets knows no dataset 'towns/tset'; close ids: towns/test" in line(BadInput, "ir:towns/tset")
    assert "ir:towns has no queries; name one of its parts" in line(BadInput, "ir:towns")
    assert "ir_datasets cannot read ir:towns/broken" in line(BlindspotError, "ir:towns/broken", questions=False)
    hide(monkeypatch, "ir_datasets")
    assert line(Missing, "ir:towns") == "a dataset of ir_datasets needs the extra ir: pip install 'blindspot[ir]'"


def test_the_split_is_in_the_id():
    assert is_ir_id("ir:x") and not is_ir_id("ir.jsonl")
    assert [split_of(id) for id in ("beir/nq/dev", "x/train/medical", "msmarco-passage/trec-dl-2019", "x/validation")] == [
        "dev", "train", "test", "dev",
    ]  # fmt: skip
