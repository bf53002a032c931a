"""What a person sees of judges and of the learning curve: the curve, the badge on Question, the forms on Training."""

import re
import shutil

import pytest

from blindspot.backend.core import jobs
from blindspot.backend.core.study import Study
from blindspot.backend.judges.feature_judge import judge_run, learn_judge
from blindspot.backend.judging.batches import batch_of_pairs
from blindspot.backend.retrieval import bm25
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.training.learning_curve import add_point
from blindspot.db.queue import Queue
from tests.app_pages import Page
from tests.studies import births, make_study, people
from tests.test_learning_curve import listed, say


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Training and dev questions, BM25 over both, a judge that has judged dev, and two points of the curve: 0 and 30 labels."""
    from blindspot.db.people import People

    passages = people(105)
    train, dev = births(passages, "train")[:30], births(passages, "dev")[30:]
    study = make_study(tmp_path_factory.mktemp("judges") / "s", passages, [*train, *dev])
    bm25.build_index(study, threads=1)
    for split in ("train", "dev"):
        retrieve(study, "bm25", split=split, k=10)
    everybody = People(study.labels_path)
    everybody.add("lea", "lead")
    everybody.add("ann")
    learn_judge(study, "mine", "bm25-train", settings={"depth": 10})
    judge_run(study, "mine", "bm25-dev")
    add_point(study)
    for number in range(10):
        question = f"P19.train.{number}"
        say(study, question, {p: "positive" if holds else "negative" for p, holds in listed(study, question)[:3]})
    add_point(study)
    return study


@pytest.fixture
def study(whole, tmp_path):
    """A copy that a test may change."""
    from blindspot.backend.core.copying import copy_study

    copy_study(whole, tmp_path / "copy")
    return Study.open(tmp_path / "copy")


# The learning curve


@pytest.mark.parametrize("page", ["", "judge", "training"])
def test_the_curve_is_on_home_judge_and_training(whole, page):
    shown = Page(whole.folder, page, "lea", tab="curve")
    assert "Learning curve" in shown.text and "Reranker, Success@1" in shown.text
    assert shown.html.count('class="dot"') == 2 and "30 judged pairs" in shown.text
    assert (
        "40 questions of dev, 95% intervals. Dev questions are used only for measuring, never for training."
        in shown.text
    )
    assert any(button.label.startswith("Measure now (about ") for button in shown.app.button)
    assert "Adapter" not in shown.text  # there is no dense index


def test_the_tab_says_first_what_the_next_labels_are_expected_to_add(study):
    from blindspot.backend.core.manifest import write_json

    expected = [{"value": 0.02, "low": 0.01, "high": 0.03}] * 3
    uses = [
        {"use": "reranker", "now": None, "expected": expected, "lacking": ""},
        {"use": "gold", "now": None, "expected": [], "lacking": "judge gold first", "command": "blindspot batch gold"},
    ]
    write_json(study.folder / "label_forecast.json", {"labels": 30, "questions": 30, "last_event": 30, "uses": uses})
    page = Page(study.folder, "training", "lea", tab="curve")
    assert page.part("<h1>.*?</h1>") == [
        "300 more labels are expected to bring +2.0 points of Success@1 in a reranker (90%: +1.0 to +3.0)."
    ]
    assert "With 30 judged pairs a reranker has a Success@1 of" in page.text
    assert "+2.0 +1.0 to +3.0" in page.text and 'class="forecast"' in page.html
    assert "Not forecast yet Gold: wrong passages found – judge gold first." in page.text
    assert "Forecast from trial fits with and without a part of the labels so far (30 judged pairs, 30" in page.text
    assert (
        "measured points: below" in page.text
        and "no measured point" not in page.text
        and "No point of" not in page.text
    )
    assert "blindspot batch gold" not in page.text


def test_without_points_the_tab_says_so_and_without_labels_that_there_is_nothing_to_forecast(whole, tmp_path):
    from blindspot.backend.core.copying import copy_study

    copy_study(whole, tmp_path / "bare")
    bare = Study.open(tmp_path / "bare")
    for folder in bare.path("learning_curve").glob("*"):
        shutil.rmtree(folder)
    page = Page(bare.folder, "training", "lea", tab="curve")
    assert page.part("<h1>.*?</h1>") == ["The labels are not measured on dev yet."] and "No point yet." not in page.text
    passages = people(6)
    unlabelled = make_study(tmp_path / "unlabelled", passages, [*births(passages, "train"), *births(passages, "dev")])
    bm25.build_index(unlabelled, threads=1)
    for split in ("train", "dev"):
        retrieve(unlabelled, "bm25", split=split, k=5)
    page = Page(unlabelled.folder, "training", tab="curve")
    assert page.part("<h1>.*?</h1>") == ["No labels yet, so nothing to forecast."] and "judge" in page.links()


def test_the_sentence_opens_its_lists(whole):
    shown = Page(whole.folder, "", "lea")
    (sentence,) = shown.part(r'<p class="curve-worked">.*?</p>')
    found = re.fullmatch(
        r"The last 30 labels changed (\d+) training pairs? ; (\d+) dev questions? (?:is|are) answered now that (?:was|were) "
        r"not, (\d+) no longer: (?:no )?more than chance \(p [=<] [01]\.\d+, sign test over questions\)\.",
        sentence,
    )
    assert found, sentence
    links = shown.links()
    pairs = next(link for link in links if link.startswith("training?tab=curve&point="))
    opened = Page(whole.folder, "training", "lea", view="curve", point=pairs.rpartition("=")[2])
    assert f"Point 2: {found[1]} changed training pair" in opened.text
    assert opened.text.count("left out → positive") == int(found[1])
    for cell, number in (("only_b", found[2]), ("only_a", found[3])):
        address = next(link for link in links if link.startswith("compare?") and f"cell={cell}" in link)
        assert "a=curve-judged-1&b=curve-judged-2&k=1" in address
        compared = Page(whole.folder, "compare", "lea", a="curve-judged-1", b="curve-judged-2", k=1, cell=cell)
        (words,) = compared.part(rf"<a[^>]*cell={cell}[^>]*>(?:(?!</a>).)*only {cell[-1].upper()} finds.*?</a>") or [""]
        assert not words or words.startswith(number)


def test_your_labels_are_yours(whole):
    assert "Your last 30 labels" in Page(whole.folder, "", "ann").text


def test_an_annotator_sees_the_numbers_and_not_the_labels_behind_them(whole):
    shown = Page(whole.folder, "", "ann")
    assert "training pairs" in shown.text and not any("point=" in link for link in shown.links())
    assert not any(button.label.startswith("Measure now") for button in shown.app.button)
    opened = Page(whole.folder, "training", "ann", view="curve", point=2)
    assert "Only people who settle disputes" in opened.text and "left out → positive" not in opened.text


def test_what_the_curve_lacks_is_said_on_training_alone(tmp_path):
    passages = people(30)
    study = make_study(tmp_path / "s", passages, births(passages, "dev"))
    assert "retrieve --with bm25 --split train" in Page(study.folder, "training", view="curve").text
    assert "earning curve" not in Page(study.folder).text


def test_the_button_starts_the_job(study, monkeypatch):
    started = []
    monkeypatch.setattr(jobs, "submit_request", lambda study, asked, actor: started.append((asked.kind.kind, actor)))
    page = Page(study.folder, "", "lea")
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    page.app.button(key="add-point-home").click().run()
    assert started == [("learning curve", "lea")]


def test_the_runs_of_the_curve_are_neither_on_home_nor_compared_by_default(whole):
    shown = Page(whole.folder, "", "lea")
    (table,) = re.findall(r"<table.*?</table>", shown.html, re.DOTALL)[:1]
    assert "bm25-dev" in table and "curve-judged" not in table


@pytest.mark.parametrize("page", ["compare", "relations", "slices", "question", "training"])
def test_no_page_offers_the_runs_of_the_curve(whole, page):
    shown = Page(whole.folder, page, "lea")
    boxes = [*shown.app.selectbox, *shown.app.multiselect]
    assert not [option for box in boxes for option in box.options if "curve-" in str(option)]


def test_the_map_form_offers_no_run_of_the_curve(whole):
    from blindspot.app.runs import offered_runs
    from blindspot.app.study import runs, shown_runs

    assert any(name.startswith("curve-") for name in runs(whole))
    assert not any(name.startswith("curve-") for name in [*shown_runs(whole), *offered_runs(whole)])


def test_kinds_of_judges_have_plain_titles(whole):
    shown = Page(whole.folder, "training", "lea", tab="judges")
    assert "feature judge" in shown.text and "feature-judge" not in shown.text


def test_labels_that_correct_the_evaluation_are_named(study):
    say(study, "P19.dev.30", {"p1": "negative"})
    add_point(study)
    assert (
        "1 label of dev and test questions: these labels correct the evaluation and never train."
        in Page(study.folder, "", "lea").text
    )


# The badge on Question


def question_page(study, person, question):
    return Page(study.folder, "question", person, a="bm25-dev", b="bm25-dev", question=question)


def test_question_shows_the_judge_s_probability_and_what_spoke(whole):
    from blindspot.backend.judges.scores import ScoreStore

    run = whole.run("bm25-dev")
    question = run.question_ids[0]
    shown = question_page(whole, "lea", question)
    first = whole.corpus.passage(int(run.hits.ordinals[0, 0])).id
    probability = ScoreStore.open(whole, "mine")([(question, first)])[question, first]
    (card,) = shown.part(r'<article[^>]*id="a-1".*?</article>')
    assert f"judge {probability:.0%}" in card and re.search(r"mine: [a-z' ]+ [+-]\d+\.\d;", card)
    assert "never saw the answers" in shown.html


def test_nobody_who_still_has_to_judge_sees_it(study):
    """An annotator with one open question sees no opinion on any. A lead does, except on the question that she holds."""
    asked, other = study.run("bm25-dev").question_ids[:2]
    assert "mine:" in question_page(study, "ann", other).text
    batch_of_pairs(study, "b", [(asked, "p0")])
    assert "mine:" not in question_page(study, "ann", other).text
    assert 'class="badge judge"' not in question_page(study, "ann", other).html
    assert "Judge first" in question_page(study, "ann", asked).text
    assert "mine:" in question_page(study, "lea", other).text
    Queue(study.labels_path).claim("lea", 1)
    held = question_page(study, "lea", asked).text
    assert "Judge first" in held and "mine:" not in held


# The forms on Training


def test_a_training_set_with_a_judge_is_built_from_the_form(study, monkeypatch):
    started = []
    monkeypatch.setattr(jobs, "submit_request", lambda study, asked, actor: started.append(asked))
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")

    def build(policy, model, proposes=False):
        page = Page(study.folder, "training", "lea", tab="sets").app
        monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
        monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
        next(box for box in page.selectbox if box.label == "Denoising policy").select(policy)
        next(box for box in page.selectbox if box.label == "Model").select(model)
        if proposes:
            next(box for box in page.checkbox if box.label.startswith("Add the model")).check()
        next(button for button in page.button if button.label == "Build").click().run()
        assert not page.exception, page.exception
        return "\n".join(element.proto.body for element in page.get("html"))

    build("judge+labels", "mine", proposes=True)
    assert started[0].arguments["model"] == "mine" and started[0].arguments["policy"] == "judge+labels"
    assert started[0].arguments["positives"] == ["gold", "judge"]
    build("answer_match", "mine")
    assert "model" not in started[1].arguments
    assert "The policy judge needs a model" in build("judge", "none") and len(started) == 2


def test_the_set_of_that_form_is_built(study):
    from blindspot.backend.training_sets.builder import build

    made = jobs.run(
        build, study, "judged", ["bm25-train"], policy="judge+labels", last=10, model="mine", positives=["gold", "judge"],
        thresholds={"propose_above": 0.99, "keep_below": 0.2},
    )  # fmt: skip
    assert made.manifest["request"]["model"] == "mine"


def test_a_judge_is_learned_from_the_form_and_listed(study, monkeypatch):
    started = []
    monkeypatch.setattr(
        jobs, "submit_request", lambda study, asked, actor: started.append((asked.kind.kind, asked.arguments))
    )
    shown = Page(study.folder, "training", "lea", tab="judges")
    (best,) = shown.part("<h1>.*?</h1>")
    assert best.startswith("mine tells answers from other passages in ") and "of 100 pairs (AUC " in best
    assert "feature judge bm25-train" in shown.text
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    next(button for button in shown.app.button if button.label == "Train judge").click().run()
    ((kind, arguments),) = started
    assert kind == "learn judge" and arguments == {
        "name": "judge-1", "run": "bm25-train", "encoder": None, "settings": {"depth": 20}
    }  # fmt: skip
    assert "Only leads can train judges" in Page(study.folder, "training", "ann", tab="judges").text
