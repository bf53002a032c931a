"""Studies that older versions made open, are judged and train with today's code. tests/data/README.md says how they were made."""

import tarfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core import jobs
from blindspot.backend.core.manifest import MANIFEST, write_manifest
from blindspot.backend.core.study import Study
from blindspot.backend.core.summary import summary
from blindspot.backend.evaluation.comparison_report import ComparisonOptions, compare_with
from blindspot.backend.evaluation.report import report
from blindspot.backend.judges.feature_judge import judge_run
from blindspot.backend.judges.judge import judges_of
from blindspot.backend.maps.stored import maps_of
from blindspot.backend.retrieval import bm25, dense
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.indexes import available_retrievers
from blindspot.backend.retrieval.live import search
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.retrieval.retriever import RETRIEVERS, kind_of, kind_of_run
from blindspot.backend.training.dual_encoder import train_dual_encoder
from blindspot.backend.training_sets.builder import build
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.errors import BlindspotError, Refused
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue
from tests.annotators import annotate
from tests.app_pages import Page

DATA = Path(__file__).parent / "data"
QUICK = {"batch": 2, "steps": 2, "held_out": 2, "evaluate_every": 2, "question_tokens": 16, "passage_tokens": 32}


def unpacked(version: str, folder: Path, monkeypatch) -> Study:
    with tarfile.open(DATA / f"study-{version}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    monkeypatch.chdir(folder / f"study-{version}")  # its study.toml names models/tiny
    return Study.open(".")


@pytest.fixture
def study(tmp_path, monkeypatch) -> Study:
    return unpacked("0.1.0", tmp_path, monkeypatch)


@pytest.fixture
def study_of_0_2(tmp_path, monkeypatch) -> Study:
    return unpacked("0.2.0", tmp_path, monkeypatch)


@pytest.fixture(params=["0.1.0", "0.2.0"])
def any_study(request, tmp_path, monkeypatch) -> Study:
    return unpacked(request.param, tmp_path, monkeypatch)


def test_what_it_holds_is_all_there(study):
    held = summary(study)
    assert (held["passages"]["count"], list(held["runs"])) == (36, ["bm25-train", "tiny-dev"])
    roles = {person.name: person.role for person in People(study.labels_path).all()}
    assert roles == {"lea": "lead", "ben": "annotator", "cara": "annotator"}
    (batch,) = Queue(study.labels_path).batches()
    assert (batch.name, batch.questions, batch.done) == ("first", 8, 6)
    assert Labels(study.labels_path).last_event == 18  # 6 questions with 3 candidates each
    assert len(list(TrainingSet.open(study, "clean").groups())) == 16
    assert [len(run.questions) for run in report(study, ["tiny-dev"]).runs] == [8]


def test_it_is_searched_judged_and_trained(study):
    truth = {question.id: set(question.gold) for question in study.questions.all()}
    assert search(study, "bm25", ["Where was Arve Aurset0 born?"], 3).ordinals.shape == (1, 3)
    assert annotate(study, truth, {"lea": 1.0}, questions=1, seed=1) == 1
    assert Labels(study.labels_path).last_event == 21
    made = build(study, "today", ["bm25-train"], policy="labels", last=10)
    assert len(list(made.groups())) == 16 and made.manifest["inputs"]["labels"]["last_event"] == 21
    trained = train_dual_encoder(study, "second-model", "today", QUICK, start="first-model", device="cpu")
    assert trained.steps == 2
    for encoder in ("first-model", "second-model"):
        dense.build_index(study, encoder, device="cpu")
        retrieve(study, "dense", encoder=encoder, split="dev", k=10, device="cpu")
    assert compare_with(study, "first-model-dev", "second-model-dev", ComparisonOptions(k=5)).figures_at[5].n == 8


def _renamed(study, name):
    """The study, with its encoder "tiny" called `name`, as a version without the kind of that name allowed."""
    toml = study.settings_path.read_text()
    study.settings_path.write_text(toml.replace("[encoders.tiny]", f"[encoders.{name}]"))
    study.path("indexes", "tiny").rename(study.path("indexes", name))
    for manifest in (study.path("indexes", name, MANIFEST), study.path("runs", "tiny-dev", MANIFEST)):
        manifest.write_text(manifest.read_text().replace('"tiny"', f'"{name}"'))
    return Study.open(study.folder)


@pytest.mark.parametrize("name", [name for name in RETRIEVERS.names() if name != "bm25"])
def test_an_encoder_called_like_a_kind_of_retriever_is_found(study, name):
    """An encoder "bm25" had no version: its index would have been in the folder of BM25's."""
    question = ["Where was Arve Aurset0 born?"]
    expected = Dense(study, "tiny", "cpu").search(question, 5).ordinals
    study = _renamed(study, name)
    (retriever,) = [each for each in available_retrievers(study) if each in (name, f"dense:{name}")]
    assert kind_of(retriever) is RETRIEVERS.get("dense") and kind_of(retriever).named(retriever) == name
    assert np.array_equal(search(study, retriever, question, 5).ordinals, expected)
    assert search(study, f"hybrid:{name}", question, 5).ordinals.shape == (1, 5)
    manifest = study.run("tiny-dev").manifest
    assert kind_of_run(study.run("bm25-train").manifest) is RETRIEVERS.get("bm25")
    kind = kind_of_run(manifest)
    assert kind is RETRIEVERS.get("dense") and kind.retriever_of(manifest) == retriever
    made = retrieve(study, "dense", encoder=name, split="dev", k=10, device="cpu", name="again")
    assert np.array_equal(made.hits.ordinals, study.run("tiny-dev").hits.ordinals)


@pytest.mark.parametrize(
    ("retriever", "kind", "said"),
    [
        ("titles", "title index", "entity lookup was removed .*: use bm25, and delete indexes/titles"),
        ("fusion:bm25,tiny", "", "fusion was removed: use hybrid"),
        ("int8:tiny", "", "int8 and binary copies were removed: use 'blindspot index faiss'"),
    ],
)
def test_an_index_of_a_removed_kind_is_one_line(study, retriever, kind, said):
    if kind:
        study.path("indexes", retriever).mkdir()
        write_manifest(study.path("indexes", retriever), {"kind": kind, "corpus": study.corpus.digest})
    assert retriever not in available_retrievers(study)
    with pytest.raises(BlindspotError, match=said):
        search(study, retriever, ["Who?"], 5)
    with pytest.raises(Refused, match=said):
        retrieve(study, retriever.partition(":")[0], split="dev", k=5)
    assert Page(study.folder).text


def test_what_version_0_2_made_is_all_there(study_of_0_2):
    study = study_of_0_2
    held = summary(study)
    assert held["passages"]["count"] == 60
    assert set(held["runs"]) == {"bm25-train", "bm25-dev", "tiny-dev", "mapped-dev"}
    assert {batch.name: batch.questions for batch in Queue(study.labels_path).batches()} == {"first": 8, "by-gain": 2}
    assert [card.name for card in judges_of(study)] == ["learned"]
    assert list(maps_of(study)) == ["map"]
    assert len(report(study, ["mapped-dev", "tiny-dev"]).runs) == 2


def test_a_study_of_version_0_2_is_judged_cleaned_and_trained(study_of_0_2):
    study = study_of_0_2
    truth = {question.id: set(question.gold) for question in study.questions.all()}
    before = Labels(study.labels_path).last_event
    assert annotate(study, truth, {"lea": 1.0}, questions=1, seed=1) == 1
    assert Labels(study.labels_path).last_event > before
    assert judge_run(study, "learned", "bm25-dev")["pairs"] == 100  # 10 dev questions, 10 ranks
    build(study, "today", ["bm25-train"], policy="labels", last=10)
    assert train_dual_encoder(study, "second-model", "today", QUICK, start="first-model", device="cpu").steps == 2


def test_the_function_of_a_job_that_version_0_2_queued_is_found(study_of_0_2):
    id = jobs.submit(bm25.build_index, study_of_0_2, threads=1)
    while (job := jobs.status(study_of_0_2, id)).unfinished:
        time.sleep(0.05)
    assert job.state == "done" and job.function == "blindspot.backend.retrieval.bm25:build_index"
    older = replace(job, function="backend.retrieval.bm25:build_index")
    assert jobs._registered_kind(older) is jobs._registered_kind(job)


@pytest.mark.parametrize(
    "arguments", [["status"], ["labels", "check"], ["train", "log", "first-model"], ["jobs", "list"]]
)
def test_commands(any_study, arguments):
    done = CliRunner().invoke(app, [*arguments, "--study", str(any_study.folder)])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    "name", ["home", "compare", "question", "judge", "quality", "slices", "map", "training", "experiments"]
)
def test_pages(any_study, name):
    assert Page(any_study.folder, "" if name == "home" else name, "lea").text
