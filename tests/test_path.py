"""The one next step that `blindspot status` ends with, from an empty study to a training; every command exists."""

from __future__ import annotations

import shlex

from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core.study import Study
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.training_sets.builder import build
from blindspot.db.people import People
from tests.indexes import bm25_of
from tests.studies import births, make_study, people
from tests.training_studies import say


def next_of(study: Study) -> str:
    """Return the command at the end of `blindspot status`, after a look at its help."""
    runner = CliRunner()
    said = runner.invoke(app, ["status", "--study", str(study.folder)], catch_exceptions=False).stdout
    command = " ".join(said.split("Next: ")[-1].split())
    words = shlex.split(command)
    assert words[0] == "blindspot" and said.count("Next: ") == 1
    subject = [word for word in words[1:3] if not word.startswith("-") and word.islower() and word.isascii()]
    deep = runner.invoke(app, [*subject, "--help"])
    shown = deep if deep.exit_code == 0 else runner.invoke(app, [subject[0], "--help"])
    options = [word for word in words if word.startswith("--")]
    assert shown.exit_code == 0 and all(option in shown.output for option in options), command
    return command


def test_status_leads_from_an_empty_study_to_a_training(tmp_path):
    assert next_of(Study.create(tmp_path / "empty")) == "blindspot import passages FILE"
    passages = people(30)
    asked = births(passages, "train")
    study = make_study(tmp_path / "study", passages, asked)
    assert next_of(study) == "blindspot index bm25"
    bm25_of(study)
    for name in ("bm25-train", "shallow"):
        retrieve(study, "bm25", split="train", k=5, name=name)
    assert next_of(study) == "blindspot compare bm25-train shallow"
    make_batch(study, "first", ["bm25-train"], size=3)
    assert next_of(study) == "blindspot open"
    People(study.labels_path).add("ann", "annotator")
    say(study, "ann", asked[0].id, {"p2": "negative"})
    assert next_of(study) == "blindspot training-set build clean --run bm25-train --policy answer_match+labels"
    build(study, "clean", ["bm25-train"], policy="answer_match+labels")
    assert next_of(study) == "blindspot train dual-encoder trained --on clean"
    judge = study.folder / "models" / "mine"
    judge.mkdir(parents=True)
    (judge / "training.json").write_text('{"kind": "feature-judge", "made": "2026-01-01T00:00:00Z"}')
    assert next_of(study) == "blindspot train dual-encoder trained --on clean", "a judge is no retriever"


def test_without_training_questions_it_asks_for_some(tmp_path):
    passages = people(30)
    asked = births(passages)
    study = make_study(tmp_path / "study", passages, asked)
    bm25_of(study)
    for name in ("bm25-dev", "shallow"):
        retrieve(study, "bm25", split="dev", k=5, name=name)
    assert next_of(study) == "blindspot compare bm25-dev shallow"
    People(study.labels_path).add("ann", "annotator")
    say(study, "ann", asked[0].id, {"p2": "negative"})
    assert next_of(study) == "blindspot import questions FILE --split train"
