"""The demo: whole, computed there, and led through by five steps."""

import csv
import io
import json
import re
import runpy
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from blindspot.analysis.accuracy import success_from_ranks
from blindspot.analysis.intervals import tango
from blindspot.app import cli, who
from blindspot.app.main import PAGES
from blindspot.backend.core import jobs
from blindspot.backend.core.runs import write_run
from blindspot.backend.core.study import Study
from blindspot.backend.data.encyclopedia import BLIND_SPOT, Encyclopedia
from blindspot.backend.demo import ANNOTATORS, is_demo, making
from blindspot.backend.demo.annotators import answering_passages_of
from blindspot.backend.demo.making import YOURS
from blindspot.backend.demo.steps import cleaning_verdict, demo_steps, example_question
from blindspot.backend.evaluation.comparison import Comparison, measure
from blindspot.backend.maps.stored import maps_of
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training_sets.training_set import TrainingSet, training_sets
from blindspot.db.errors import Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue
from blindspot.db.records import Hits
from tests.app_pages import Page, hand_made_study
from tests.studies import births, make_study, people


def test_the_screenshots_of_the_docs_know_the_demo(small_demo):
    shots = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "screenshots.py"))["shots"](small_demo)
    assert {page for page, _, _, _ in shots.values()} <= {"", *PAGES.values()}, shots


@pytest.fixture
def own(small_demo, tmp_path):
    """A copy of the demo that a test may write to."""
    shutil.copytree(small_demo.folder, tmp_path / "demo")
    return Study.open(tmp_path / "demo")


def test_the_app_can_open_before_the_rest_is_made(tmp_path):
    study = making.make_first_parts(tmp_path / "demo", 500)
    assert is_demo(study) and set(study.runs()) == {"bm25-dev"}
    steps = demo_steps(study)
    assert [step.state for step in steps] == ["waiting"] * 5
    page = Page(study.folder)
    assert "Where does dense retrieval fail" in page.text and page.text.count("not made") == 5
    with pytest.raises(Refused, match="holds a demo of 500 passages from seed 0"):
        making.make_first_parts(tmp_path / "demo", 600)
    assert making.make_first_parts(tmp_path / "demo").folder == study.folder, (
        "without a size, the demo that is there goes on"
    )


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
    truth = answering_passages_of(small_demo)
    right = [(label.label == "positive") == (label.passage in truth[label.question]) for label in judged]
    assert 0.8 < sum(right) / len(right) < 1.0
    states = {pair.state for pair in Labels(small_demo.labels_path).consensus()}
    assert "open" in states and len(states) > 1


def test_the_truth_is_the_generators(small_demo):
    made = Encyclopedia(600, 0, BLIND_SPOT)
    assert answering_passages_of(small_demo) == {
        question.id: {str(ordinal + 1) for ordinal in ordinals} for question, ordinals in made.questions_with_passages()
    }
    assert json.loads((small_demo.path("encyclopedia", "about.json")).read_text())["edition"] == "blind spot"


def test_five_passages_wait_for_the_visitor(small_demo):
    (batch,) = [batch for batch in Queue(small_demo.labels_path).batches() if batch.name == "five-for-you"]
    items = Queue(small_demo.labels_path).items("five-for-you")
    assert (batch.questions, batch.done) == (5, 0) and sum(len(item.candidates) for item in items) == 5
    judged = {(label.question, label.passage) for label in Labels(small_demo.labels_path).judgements()}
    assert not judged & {(item.question, each.passage) for item in items for each in item.candidates}


def test_each_step_is_a_sentence_with_the_studys_figures(small_demo):
    steps = demo_steps(small_demo)
    assert [step.state for step in steps] == ["ready"] * 5
    clean = measure(small_demo, "trained-clean-dev")
    assert f"{100 * success_from_ranks(clean.first_ranks, 5).mean():.1f}% on clean" in steps[4].sentence
    roles = [
        {
            (pair.question, pair.passage): pair.role
            for _, pairs in TrainingSet.open(small_demo, name).groups()
            for pair in pairs
        }
        for name in ("noisy", "clean")
    ]
    became = Counter(roles[1].get(key) for key, role in roles[0].items() if role == "negative")
    assert became["negative"] and became["positive"] and became["dropped"]
    expected = f"turns {became['positive']:,} of them into positives and drops {became['dropped']:,}."
    home = Page(small_demo.folder).text
    assert home.index("bm25-dev answers") < home.index("Where does dense retrieval fail"), (
        "the finding first, then the steps"
    )
    assert steps[3].sentence.endswith(expected), "negatives that stay negatives for another reason do not count"


def test_the_last_step_says_at_which_ranks_cleaning_makes_a_difference(tmp_path):
    """The clean model ranks every gold passage third and the noisy one none: nothing at 1, everything at 5 and 20."""
    study = make_study(tmp_path / "s", passages := people(40), asked := births(passages))
    gold = [int(question.gold[0][1:]) for question in asked]
    others = [[row for row in range(40) if row != own][:20] for own in gold]
    for name in ("noisy", "clean"):
        rows = np.array(others, np.int32)
        if name == "clean":
            rows[:, 2] = gold
        scores = np.tile(np.linspace(9, 1, 20, dtype=np.float32), (len(asked), 1))
        write_run(study, name, [question.id for question in asked], Hits(rows, scores), {"retriever": name})
    compared = {name: measure(study, name, "gold") for name in ("noisy", "clean")}
    verdict = cleaning_verdict(Comparison.of_runs(compared["noisy"], compared["clean"]))
    low = 100 * tango(len(asked), 0, len(asked))[0]
    assert (
        f"changes Success by +100.0 points in the top 5 ({low:+.1f} to +100.0) and +100.0 points in the top 20"
        in verdict
    )
    assert "No difference between the two is established in the top 1 (+0.0)." in verdict
    assert (
        verdict.startswith("In this one training, ")
        and f"Measured over {len(asked)} questions. Training with another seed" in verdict
    )
    same = cleaning_verdict(Comparison.of_runs(compared["clean"], compared["clean"]))
    assert "No difference between the two is established in the top 1 (+0.0), 5 (+0.0) and 20 (+0.0)." in same


def test_the_question_shown_is_answered_first_by_bm25_alone(small_demo):
    compared = Comparison.of_runs(measure(small_demo, "bm25-dev"), measure(small_demo, "minilm-dev"))
    question = example_question(compared)
    row = compared.rows[question.id]
    assert compared.first_ranks_a[row] == 1 and not 1 <= compared.first_ranks_b[row] <= 5
    (first,) = small_demo.corpus.passages([int(compared.run_a.run.hits.ordinals[compared.rows_a[row]][0])])
    assert first.id in question.gold, "no chance match"
    assert first.title.startswith("Short notices"), "a passage about several subjects"
    only_a = (compared.first_ranks_a == 1) & ~success_from_ranks(compared.first_ranks_b, 5)
    assert compared.frequency[row] <= sorted(compared.frequency[only_a])[len(compared.frequency[only_a]) // 2]


def test_home_leads_through_the_steps(small_demo):
    page = Page(small_demo.folder)
    links = page.links()
    assert "relations?runs=bm25-dev%2Cminilm-dev&k=5&view=frequency" in links
    assert any(link.startswith("question?a=bm25-dev&b=minilm-dev&k=5&cell=only_a&question=") for link in links)
    assert "judge" in links and "training?set=clean&before=noisy" in links
    assert any(link.startswith("relations?runs=trained-clean-dev") for link in links)
    assert page.html.index('class="findings"') < page.html.index("See the blind spot") < page.html.index("Runs</h2>")
    places = [re.sub("<[^>]+>", "", each) for each in page.part('<span class="on-path">.*?</span>')]
    assert places == ["1 See the failure", "2 Look at questions", "3 Judge", "4 Clean", "5 Train, 6 See the change"]
    assert page.text.index("Runs") < page.text.index("Study contents")


@pytest.mark.parametrize("model", ["trained-noisy", "trained-clean"])
def test_models_says_what_training_changed_and_the_path_leads_to_it(small_demo, model):
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
    better, worse = map(int, re.search(r"(\d+) questions? better, (\d+) worse , of", page.text).groups())
    count, how, cell = (worse, "worse", "only_a") if worse > better else (better, "better", "only_b")
    words, leads = page.next_step()
    assert words == f"Next: see the {quantity(count, 'question')} that got {how}"
    assert leads == f"compare?a=trained-noisy-dev&b=trained-clean-dev&k=5&cell={cell}"


def test_after_a_training_next_leads_to_what_got_worse_and_the_tick_says_that_both_runs_exist(small_demo):
    change = Page(small_demo.folder, "compare", a="minilm-dev", b="trained-clean-dev", k=5)
    lost = int(change.part('<td class="cell only_a.*?class="number">.*?</span>')[0])
    words, address = change.next_step()
    if lost:
        assert words == f"Next: read the {lost} question{'s' * (lost > 1)} that got worse"
        assert address == "question?a=minilm-dev&b=trained-clean-dev&cell=only_a"
        assert Page(small_demo.folder, "question", a="minilm-dev", b="trained-clean-dev").next_step()[1] == "judge"
    else:
        assert (words, address) == ("Next: judge passages", "judge")
    items = re.findall("<li[^>]*>.*?</li>", Page(small_demo.folder, "team").html, re.DOTALL)
    done = [re.sub("<[^>]+>", "", each) for each in items if "✓" in each]
    assert done == ["✓ See the failure", "✓ Look at questions", "✓ Clean", "✓ Train", "✓ See the change"], (
        "the visitor's own questions wait to be judged"
    )
    by_others = [re.sub("<[^>]+>", "", each) for each in items if "Done by others" in each]
    assert by_others == ["✓ Look at questions"], "the simulated annotators judged"


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
    assert not end.value.code and list(making.result_lines(own)) == capsys.readouterr().out.splitlines()


def test_the_step_of_judging_says_who_judged(tmp_path):
    """All five judged by somebody else: nobody who reads the step is told that they did."""
    study = hand_made_study(tmp_path / "study")
    queue, labels = Queue(study.labels_path), Labels(study.labels_path)
    for name in ("Ann", "Zoe"):
        People(study.labels_path).add(name)
    queue.add_batch(YOURS, [Item(f"q{i}", (Candidate("answer0"),)) for i in range(5)], {})
    for lease in queue.claim("Ann", 5):
        labels.add(
            "Ann", LabelEvent(lease.question, "label", lease.question, (Choice("answer0", "negative"),), batch=YOURS)
        )
        queue.finish("Ann", YOURS, lease.question)

    def said(person: str | None) -> str:
        return next(step.sentence for step in demo_steps(study, person=person) if step.key == "judge")

    assert said("Ann") == "You judged all five. Training offers a new set with your labels."
    assert said("Zoe") == said(None) == "All five are judged. Training offers a new set with the labels."
