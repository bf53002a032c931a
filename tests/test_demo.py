"""The demo: whole, and computed there."""

import csv
import io
import json
import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest

from blindspot.app import cli, who
from blindspot.app.main import PAGES
from blindspot.backend.core import jobs
from blindspot.backend.core.study import Study
from blindspot.backend.data.encyclopedia import answering_passages
from blindspot.backend.demo import ANNOTATORS, is_demo, making
from blindspot.backend.maps.stored import maps_of
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training_sets.training_set import training_sets
from blindspot.db.labels import Labels
from blindspot.db.queue import Queue
from tests.app_pages import Page


def test_the_screenshots_of_the_docs_know_the_demo(small_demo):
    shots = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "screenshots.py"))["shots"](small_demo)
    assert {page for page, _, _, _ in shots.values()} <= {"", *PAGES.values()}, shots


@pytest.fixture
def own(small_demo, tmp_path):
    """A copy of the demo that a test may write to."""
    shutil.copytree(small_demo.folder, tmp_path / "demo")
    return Study.open(tmp_path / "demo")


def test_the_app_can_open_before_the_rest_is_made(tmp_path):
    study = making.make_first_parts(tmp_path / "demo", 600)
    assert is_demo(study) and set(study.runs()) == {"bm25-dev"}
    assert "bm25-dev" in Page(study.folder).text
    assert len(making.make_first_parts(tmp_path / "demo").corpus) == 600, "the demo that is there goes on"


def test_the_demo_is_whole_and_each_part_was_a_job(small_demo):
    size = making.DemoSize(encoder="tiny")
    assert making.missing_parts(small_demo, size) == []
    assert {"bm25-dev", "bm25-train", "minilm-dev", "hybrid-dev", "trained-noisy-dev", "trained-clean-dev"} == set(
        small_demo.runs()
    )
    assert set(training_sets(small_demo)) == {"noisy", "clean"}
    assert set(models_of(small_demo)) == {"trained-noisy", "trained-clean"}
    assert set(maps_of(small_demo)) == {"before-and-after"}
    done = [job.kind for job in jobs.recent(small_demo, 50) if job.state == "done"]
    assert len(done) == len(jobs.recent(small_demo, 50)) and {
        "demo",
        "simulate annotators",
        "train dual-encoder",
        "map",
    } <= set(done)


def test_making_the_demo_again_makes_nothing(own):
    assert jobs.run(making.finish, own, {"encoder": "tiny"}) == {"made": 0}


def test_simulated_annotators_say_so_and_disagree(small_demo):
    judged = list(Labels(small_demo.labels_path).judgements())
    assert {label.annotator for label in judged} == set(ANNOTATORS) and all(
        "(simulated)" in name for name in ANNOTATORS
    )
    truth = answering_passages(small_demo.path("encyclopedia"))
    right = [(label.label == "positive") == (label.passage in truth[label.question]) for label in judged]
    assert 0.8 < sum(right) / len(right) < 1.0
    states = {pair.state for pair in Labels(small_demo.labels_path).consensus()}
    assert "open" in states and len(states) > 1


def test_five_passages_wait_for_the_visitor(small_demo):
    (batch,) = [batch for batch in Queue(small_demo.labels_path).batches() if batch.name == "five-for-you"]
    items = Queue(small_demo.labels_path).items("five-for-you")
    assert (batch.questions, batch.done) == (5, 0) and sum(len(item.candidates) for item in items) == 5
    judged = {(label.question, label.passage) for label in Labels(small_demo.labels_path).judgements()}
    assert not judged & {(item.question, each.passage) for item in items for each in item.candidates}


@pytest.mark.parametrize("model", ["trained-noisy", "trained-clean"])
def test_models_says_what_training_changed(small_demo, model):
    page = Page(small_demo.folder, "training", tab="models", model=model)
    (sentence,) = page.part("<h1>.*?</h1>")
    interval = r"\(95%: ([+−][\d.]+|0\.0) to ([+−][\d.]+|0\.0)\)\."
    sure, unsure = (
        r"Cleaning (adds|takes) [\d.]+ points of Success@5 ",
        r"Not established: cleaning changes Success@5 by \S+ points ",
    )
    said = re.fullmatch(rf"({sure}|{unsure}){interval}", sentence)
    assert said, sentence
    low, high = said.groups()[-2:]
    assert sentence.startswith("Cleaning") == (low[0] == high[0] != "0"), "the verdict is the interval's"
    gains = r"trained-clean against trained-noisy: \d+ questions? better, \d+ worse , of \d+ questions\. One training each: "
    assert re.search(gains, page.text), page.text
    (start,) = page.part('<tr><th scope="row">tiny</th>.*?</tr>')
    assert start.endswith("start"), "the others are measured from it"
    gain = rf'<a href="compare\?a=minilm-dev&amp;b={model}-dev&amp;k=5"[^>]* title="\d+ questions? better, \d+ worse than tiny">[+−]?[\d.]+</a>'
    assert re.search(gain, page.html), "each model's gain from its start, with its questions"
    assert page.part('<tr class="of-two">.*?</th>') == ["clean − noisy"], "the title's figure is drawn"


def test_the_first_visitor_is_the_lead_and_simulated_people_cannot_be_chosen(own):
    page = Page(own.folder, "judge")
    assert "(simulated)" not in " ".join(button.label for button in page.app.button)
    assert "becomes the study" in page.text
    assert who.first_role(own.labels_path) == "lead"


def test_the_experiment_command_prints_what_is_stored(own, blindspot):
    """The same cells as JSON, CSV and a table; when the parts exist, the command only reads them."""

    def run(*words):
        about = ["--encoder", "tiny", "--on", f"{own.questions.all(split='dev')[0].dataset}/dev"]
        code, out, err = blindspot("experiment", "buckets", *about, *words, "--study", own.folder)
        assert not code, err
        return out

    stored = json.loads(run("--json"))
    assert stored["experiment"] == "buckets" and json.loads(run("--json"))["cells"] == stored["cells"]
    rows = list(csv.DictReader(io.StringIO(run("--csv"))))
    assert {(row["row"], row["column"]) for row in rows} == {(cell["row"], cell["column"]) for cell in stored["cells"]}
    printed = " ".join(run().split())
    assert stored["sentence"] in printed and all(claim["word"] in printed for claim in stored["claims"])
    assert "To do: nothing" in run("--plan")


def test_the_demo_command_finds_a_whole_demo_and_makes_nothing(own, capsys, monkeypatch):
    monkeypatch.setattr(making, "missing_parts", lambda study: [])
    monkeypatch.setattr(sys, "argv", ["blindspot", "demo", str(own.folder), "--no-app"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    assert capsys.readouterr().out == (
        "An invented encyclopedia: 600 passages about 429 entities, 361 questions, 298 of them with planted false negatives.\n"
    )
