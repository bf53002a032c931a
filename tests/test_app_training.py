"""The Training page: without a set, with a set, with newer labels, and the difference of two sets."""

from __future__ import annotations

import io
import json
import re
import zipfile
from dataclasses import replace

import pytest

from blindspot.app.components.training import changes
from blindspot.app.components.training.export import export_words
from blindspot.app.components.training.model_training import _curves
from blindspot.backend.core.manifest import write_json
from blindspot.backend.core.study import Study
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.training.training_log import LOG
from blindspot.backend.training.training_settings import DualEncoderSettings
from blindspot.backend.training_sets.export_options import ExportOptions
from blindspot.backend.training_sets.exports import EXPORTS
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.backend.upkeep.downloads import download
from blindspot.db.jobs import Job
from blindspot.db.people import People
from blindspot.db.records import Passage, Question
from tests.app_pages import HOSTILE, Page
from tests.studies import copied, make_study
from tests.training_studies import build, say, training_study


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    return training_study(tmp_path_factory.mktemp("sets") / "study")


@pytest.fixture
def study(untouched, tmp_path) -> Study:
    made = copied(untouched, tmp_path / "study")
    People(made.labels_path).add("lea", "lead")
    return made


@pytest.fixture
def press(study, monkeypatch):
    """Press a button of a page, which begins with some words, as a person at this machine."""

    def pressed(page: Page, words: str) -> Page:
        with monkeypatch.context() as patch:
            patch.setenv("BLINDSPOT_STUDY", str(study.folder))
            patch.setenv("BLINDSPOT_SIGN_IN", "none")
            next(each for each in page.app.button if each.label.startswith(words)).click().run()
        return page

    return pressed


@pytest.fixture
def sent(monkeypatch) -> list:
    """(kind, arguments) of the jobs that the page starts; none of them runs."""
    started: list = []
    submit = "blindspot.backend.core.jobs.submit_request"
    monkeypatch.setattr(submit, lambda study, asked, actor: started.append((asked.kind.kind, asked.arguments)))
    return started


def test_without_training_questions_it_says_so(tmp_path, study):
    assert "No passages and questions" in Page(Study.create(tmp_path / "empty").folder, "training").text
    assert "No training set yet" in Page(study.folder, "training").text
    none = make_study(tmp_path / "none", [Passage("p", "", "Text.")], [Question("q", "Who?", ("x",), split="dev")])
    assert "No training questions" in Page(none.folder, "training").text


def test_a_set_is_told_by_its_sources(study):
    build(study, name="raw")
    page = Page(study.folder, "training", tab="sets")
    assert "raw 3 3 15 0 0 0 no cleaning r" in page.text, "in the list of sets"
    assert "positives 3 gold 3" in page.text and "negatives 15 mined 15" in page.text
    assert "the role of 0 of its 18 pairs" in page.text and "raw takes all 15 passages" in page.text
    assert "Questions left out : 1 " in page.text
    study.questions.connection.execute("UPDATE question SET text = ? WHERE id = 'q0'", (HOSTILE,))
    say(study, "ann", "q0", {"p1": "positive"})
    page = Page(study.folder, "training", "lea", set="raw")
    assert "<script>" not in page.html and "<img" not in page.html and "window.pwned=1" in page.text


def test_labels_given_since_are_listed_and_change_the_next_set(study):
    first = build(study, name="raw")
    assert "New labels" not in Page(study.folder, "training", "lea").text
    say(study, "ann", "q0", {"p1": "positive", "p3": "negative"})
    page = Page(study.folder, "training", "lea", set="raw")
    assert "New labels would change 1 pair" in page.text and "positive negative → positive" in page.text
    again = build(study, "labels", name="clean")
    page = Page(study.folder, "training", "lea", set="clean", before="raw")
    assert "relabelled: negative → positive: 1 pair" in page.text and "negative by run → positive by label" in page.text
    assert first.name in page.text and again.name in page.text


def test_a_set_is_shown_beside_the_one_it_was_cleaned_from(study, monkeypatch):
    """Until somebody chooses another set; and some examples until somebody chooses a kind of change."""
    monkeypatch.setattr(changes, "EXAMPLES", 1)
    build(study, name="raw", seed=7)  # a seed of its own: differences are kept by the request and the last label
    say(study, "ann", "q0", {"p1": "positive", "p3": "positive"})
    build(study, "labels", name="clean", seed=7)
    assert "Compare with" in [each.label for each in Page(study.folder, "training", "lea", set="raw").app.selectbox]
    page = Page(study.folder, "training", "lea", set="clean")
    assert "group raw clean change" in page.text and "positives 2 by annotators, 3 gold 3 5 +2" in page.text
    assert "clean 3 5 13 2 0 2 labels r" in page.text, "in the list: 2 turned positive, 0 dropped, 2 by people"
    turned = "clean removes 2 of the 15 negatives of raw (13.3%): 2 become positives."
    assert turned in Page(study.folder, "training", "lea", tab="sets").text
    assert turned not in Page(study.folder, "training", tab="sets").text, "labels are hidden until a name is given"
    assert page.text.count("negative by run → positive by label") == 1 and "All 2 pairs" in page.text
    chosen = Page(study.folder, "training", "lea", set="clean", change="negative-positive")
    assert chosen.text.count("negative by run → positive by label") == 1, "once, for both pairs"
    (listed,) = re.findall(r'<ul class="changed-pairs">.*?</ul>', chosen.html, re.DOTALL)
    assert listed.count("<li>") == 2 and "All 2 pairs" not in chosen.text
    hidden = Page(study.folder, "training", set="clean", before="raw")
    assert "group raw clean change" in hidden.text and "relabelled" not in hidden.text, "to who gave no name"
    assert 'class="kind"' not in hidden.html


def test_the_differences_of_two_sets_begin_with_what_matters_and_are_paged(study, monkeypatch):
    """Negatives that became positives come first, with their texts; other kinds and reasons are a link away."""
    monkeypatch.setattr(changes, "PER_PAGE", 2)
    build(study, name="raw")
    say(study, "ann", "q0", {"p1": "positive", "p0": "negative", "p3": "negative"})
    build(study, "answer_match+labels", name="clean", last=3)
    page = Page(study.folder, "training", "lea", set="clean", before="raw")
    kinds = re.findall(
        r'<tr class="kind"><th scope="row" colspan="3"><a [^>]*>([^<]*)</a>.*?<td>([+−]\d+)</td></tr>', page.html
    )
    assert [title for title, _ in kinds] == [
        "relabelled: negative → positive", "relabelled: positive → negative", "negative, no longer in the set", "dropped negatives"
    ]  # fmt: skip
    assert kinds[0][1] == "+1" and "relabelled: negative → positive: 1 pair" in page.text
    assert study.corpus.passage(1).text in page.text and "p1" in page.text
    removed = next(count[1:] for title, count in kinds if title == "negative, no longer in the set")
    gone = {"set": "clean", "before": "raw", "change": "negative-absent"}
    first, second = (Page(study.folder, "training", "lea", **gone, page=number) for number in ("1", "2"))
    listed = [re.findall(r'<ul class="changed-pairs">.*?</ul>', each.html, re.DOTALL)[0] for each in (first, second)]
    assert [each.count("<li>") for each in listed] == [2, min(2, int(removed) - 2)]
    assert first.text.count("negative by run → absent") == 1 and 'class="roles"' not in listed[0], "alike, so said once"
    assert f"1–2 of {removed} pairs" in first.text and "not at ranks 1 to 3 of r" in first.text
    one = Page(study.folder, "training", "lea", **gone, reason="not at ranks 1 to 3 of r", page="99")
    assert f"negative, no longer in the set, not at ranks 1 to 3 of r: {removed} pairs" in one.text


def test_labels_that_never_train_are_counted_and_a_batch_that_would_is_a_button(study, press, sent):
    """Two labels of dev questions change no set: the page says so and offers training questions."""
    assert "on training questions" not in Page(study.folder, "training", "lea").text, "no label, nothing to say"
    say(study, "ann", "dev", {"p1": "positive", "p3": "negative"})
    page = Page(study.folder, "training", "lea")
    assert "2 labels: 0 on training questions." in page.text and "change no training set" in page.text
    press(page, "Make a batch of training questions")
    ((kind, arguments),) = sent
    assert (kind, arguments["splits"], arguments["runs"]) == ("make batch", ["train"], ["r"])
    make_batch(study, arguments["name"], arguments["runs"], splits=arguments["splits"], by="lea")
    page = Page(study.folder, "training", "lea")
    assert "Judge batch train-1" in page.text
    assert not any(each.label == "Make a batch of training questions" for each in page.app.button)
    say(study, "ann", "q0", {"p1": "positive"})
    page = Page(study.folder, "training", "lea")
    assert "3 labels: 1 on training questions, 2 on other questions" in page.text


def model(study, folder_name, **about):
    folder = study.folder / "models" / folder_name
    folder.mkdir(parents=True)
    (folder / LOG).write_text("")
    steps = {"made": "2026-01-01T00:00:00", "training_set": "raw", "last_step": 5, "best_step": 5, "seconds": 12}
    write_json(folder / "training.json", steps | about)
    return folder


def test_the_form_says_what_a_training_is_to_be(study, monkeypatch, press, sent):
    """Every setting arrives at the job; without a cross-encoder none can be chosen."""
    build(study, name="raw")
    page = Page(study.folder, "training", tab="models")

    def widget(page, kind, label):
        return next(each for each in getattr(page.app, kind) if each.label == label)

    assert "Distil from" not in [each.label for each in page.app.selectbox], "the study has no cross-encoder"
    with monkeypatch.context() as patch:  # no job runs here
        patch.setattr("blindspot.app.components.training.models.running_job", lambda _, name: name)
        patch.setattr("blindspot.app.components.training.models.watch", lambda *_: None)
        press(page, "Train on raw")
    kind, arguments = sent.pop()
    assert arguments["tried_on"] == "dev"
    assert (kind, arguments["training_set"], arguments["start"]) == ("train dual-encoder", "raw", "minilm")
    expected = DualEncoderSettings(steps=100, batch=8, passage_tokens=96, held_out=40, pool=200)
    assert DualEncoderSettings(**arguments["settings"]) == expected
    assert "model-1 is being trained." in page.text

    model(study, "judge", kind="cross-encoder", model_hash="f00d")
    page = Page(study.folder, "training", tab="models")
    widget(page, "selectbox", "Distil from").select("judge")
    values = {"Teacher weight": 0.5, "Hard negatives": 3, "Learning rate": 1e-4, "Steps": 40, "Layers": 2, "Seed": 7}
    for label, value in values.items():
        widget(page, "number_input", label).set_value(value)
    press(page, "Train on raw")
    made = DualEncoderSettings(**sent.pop()[1]["settings"])
    assert (made.distil, made.distil_weight, made.hard_negatives, made.steps) == ("judge", 0.5, 3, 40)
    assert (made.learning_rate, made.layers, made.seed) == (1e-4, 2, 7)


@pytest.mark.parametrize("with_set", [True, False])
def test_a_judge_teaches_what_one_chooses(study, press, sent, with_set):
    """The map, the questions' encoder or the whole encoder, with a training set and without one."""
    if with_set:
        build(study, name="raw")
    buttons = [each.label for each in Page(study.folder, "training", tab="models").app.button]
    assert "Train on the judge's order" not in buttons  # there is no judge yet
    model(study, "mine", name="mine", kind="feature-judge", run="bm25-train")
    for choice, kind in ((0, "train adapter"), (1, "train dual-encoder"), (2, "train dual-encoder")):
        page = Page(study.folder, "training", tab="models")
        chosen = next(each for each in page.app.selectbox if each.label == "What learns")
        chosen.select(chosen.options[choice])
        press(page, "Train on the judge's order")
        made, arguments = sent.pop()
        assert made == kind and arguments["settings"]["distil"] == "mine"
        assert arguments.get("training_set") is None and arguments["name"] == "taught-1"
    assert arguments["settings"]["steps"] == 100
    if with_set:
        assert "Train on raw" in [each.label for each in page.app.button]


def test_a_cross_encoder_is_trained_on_the_open_set(study, monkeypatch, press, sent):
    for name in ("raw", "clean"):
        build(study, name=name)
    monkeypatch.setattr("blindspot.app.components.training.form.has_gpu", lambda: False)
    page = Page(study.folder, "training", tab="models", set="raw")
    press(page, "Train a cross-encoder on raw")
    ((kind, arguments),) = sent
    assert (kind, arguments["training_set"], arguments["name"]) == ("train cross-encoder", "raw", "cross-encoder-1")
    assert arguments["settings"]["steps"] == 100


ADDRESSES = (
    ({}, "Sets", "clean "), ({"set": "base"}, "Sets", "base "), ({"tab": "judges"}, "Automatic judges", ""),
    ({"model": "mine"}, "Models", ""), ({"tab": "models", "set": "base"}, "Models", "No model yet."),
    ({"tab": "nothing"}, "Sets", "clean "),
)  # fmt: skip


def test_each_address_opens_its_tab_on_its_set(study):
    """Every tab has one h1, its finding; its links keep the open set, and its forms begin with it."""
    build(study, name="base", last=3)
    build(study, name="clean")
    for parameters, title, about in ADDRESSES:
        page = Page(study.folder, "training", "lea", **parameters)
        (finding,) = page.part("<h1>.*?</h1>")
        assert finding.startswith(about) and title in page.part('<a [^>]*class="here"[^>]*aria-current.*?</a>')
        chosen = parameters.get("set", "clean")
        for tab in ("sets", "judges", "models"):
            assert f"training?tab={tab}&set={chosen}" in page.links()
        if title == "Sets":
            rank = next(each for each in page.app.number_input if each.label == "Maximum rank").value
            assert (rank == 3) == (chosen == "base")
        names = [each for each in page.app.text_input if each.label == "Name"]
        assert {each.proto.max_chars for each in names} <= {64}, "the store refuses longer names"


def raw(study):
    return TrainingSet.open(study, "raw")


def test_an_export_takes_its_options(study):
    """The button's file is made of the open set, in the chosen form."""
    build(study, name="raw")
    page = Page(study.folder, "training", "lea", set="raw")
    assert "Export 3 questions with 3 positives" in [each.label for each in page.app.get("download_button")]
    assert "Of 18 pairs, at most 4 hard negatives for each question." in page.text
    for form in EXPORTS.all():
        said = export_words(raw(study), form, ExportOptions())[0]
        assert said == ("Export 3 questions with 3 positives" if form.negatives else "Export 18 pairs"), form.name
    limited = ("Export 3 questions with 3 positives", "Of 18 pairs, at most 1 hard negative for each question.")
    assert export_words(raw(study), EXPORTS.get("tevatron"), ExportOptions(negatives=1)) == limited
    build(study, "answer_match", name="clean")
    dropped = sum(TrainingSet.open(study, "clean").manifest["counts"]["sources"]["dropped"].values())
    left = f"Export {18 - dropped} pairs", f"Without the {dropped} dropped pairs."
    assert dropped > 1
    assert export_words(TrainingSet.open(study, "clean"), EXPORTS.get("parquet"), ExportOptions()) == left
    content = download(study, "training-set", "clean", "tevatron", "lea", ExportOptions()).content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        written = [json.loads(line) for line in archive.read("clean-tevatron/train.jsonl").splitlines()]
    assert sum(len(row["positive_passages"]) + len(row["negative_passages"]) for row in written) == 18 - dropped
    lines = {}
    for negatives in (1, 3):
        options = ExportOptions(negatives=negatives)
        content = download(study, "training-set", "raw", "tevatron", "lea", options).content
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            lines[negatives] = json.loads(archive.read("raw-tevatron/train.jsonl").splitlines()[0])["negative_passages"]
    assert {number: len(found) for number, found in lines.items()} == {1: 1, 3: 3}


def test_where_a_model_began_and_who_taught_it(study):
    build(study, name="raw")
    start = {"model": "minilm", "passage_template": "{title} [SEP] {text}"}
    model(study, "old", start=start, settings={"distil": "judge"})
    model(study, "moved", start={"model": "/elsewhere/models/first"})
    model(study, "judge", kind="cross-encoder", start="minilm", held_out_loss=0.25)
    page = Page(study.folder, "training", model="judge")
    assert "old not yet searched – raw minilm dual encoder, distilled from judge" in page.text
    assert "moved not yet searched – raw first dual encoder" in page.text
    assert "judge – – raw minilm cross-encoder" in page.text
    assert not [each for each in page.app.button if each.label.startswith(("Index", "Judge"))]


def test_a_model_shows_its_curves(study):
    build(study, name="raw")
    folder = model(study, "mine", start="minilm", average_rank=4.0)
    lines = [
        {"step": 0, "average_rank": 9.0},
        {"step": 5, "loss": 2.0, "examples_per_second": 3.5},
        {"step": 5, "average_rank": 4.0},
    ]
    (folder / LOG).write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = Page(study.folder, "training", model="mine")
    assert "mine not yet searched – raw minilm dual encoder 5 12 s" in page.text
    assert "step 5, loss 2.000, 3.5 questions/s" in page.text
    loss, rank = _curves([lines[1]], [lines[0], lines[2]]).data
    assert (list(loss.x), list(loss.y), list(rank.x), list(rank.y)) == ([5], [2.0], [0, 5], [9.0, 4.0])


def test_an_export_takes_every_positive_unless_rows_are_limited(study):
    say(study, "ann", "q0", {"p3": "positive", "p4": "positive"})
    build(study, "labels", name="won")
    page = Page(study.folder, "training", "lea", set="won")
    positives = sum(TrainingSet.open(study, "won").manifest["counts"]["sources"]["positive"].values())
    written = []
    for options in (ExportOptions(), ExportOptions(rows=1)):
        content = download(study, "training-set", "won", "sentence-transformers", "lea", options).content
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            written.append(len(archive.read("won-sentence-transformers/pairs.jsonl").splitlines()))
    assert written == [positives, positives - 2], "q0 has the two besides its gold"
    assert f"Export 3 questions with {positives} positives" in [each.label for each in page.app.get("download_button")]
    said = export_words(TrainingSet.open(study, "won"), EXPORTS.get("sentence-transformers"), ExportOptions(rows=1))
    assert said[0] == "Export 3 questions" and "1 row of a file" in said[1]


def test_a_job_that_ends_while_the_page_is_drawn_is_not_missed(study, monkeypatch):
    """The sets were listed before; the page is drawn again and leads to the set that was built."""
    from blindspot.backend.core import jobs

    build(study, name="raw")
    job = Job("j", "build training set", {"name": "late"}, "running", None, None, None, None, 0, None, "", None, None)
    ended = []

    def meanwhile(*_):
        if not ended:
            ended.append(build(study, name="late"))
        return []

    monkeypatch.setattr("blindspot.app.components.training.this_set.new_labels", meanwhile)
    monkeypatch.setattr(jobs, "recent", lambda *_: [replace(job, state="done" if ended else "running")])
    page = Page(study.folder, "training", "lea", set="raw")
    assert "The set late is built. Open late" in page.text and "training?tab=sets&set=late" in page.links()


def test_a_model_is_tried_by_a_button(study, press, sent):
    build(study, name="raw")
    model(study, "mine", kind="dual encoder")
    press(Page(study.folder, "training", model="mine"), "Index")
    assert sent == [("try model", {"name": "mine", "split": "dev"})]


def test_a_finished_job_refreshes_the_page_while_another_runs(study, monkeypatch):
    from blindspot.app.components import jobs

    unfinished = iter([{"one", "two"}, {"two"}, {"two"}, {"two"}])
    reruns = []
    monkeypatch.setattr(jobs, "unfinished", lambda study: next(unfinished))
    monkeypatch.setattr(jobs.st, "rerun", lambda: reruns.append(1))
    for expected in (1, 1):
        with jobs.with_job_panel(study):
            pass
        assert len(reruns) == expected, "it reruns when job one ends, and not while job two goes on"
