"""What a person sees of judges: the badge on Question, the forms on Training."""

import re

import pytest

from blindspot.backend.core import jobs
from blindspot.backend.core.study import Study
from blindspot.backend.judges.feature_judge import judge_run, learn_judge
from blindspot.backend.retrieval.retrieve import retrieve
from tests.app_pages import Page
from tests.indexes import bm25_of
from tests.studies import births, make_study, people


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Training and dev questions, BM25 over both, a judge that has judged dev."""
    from blindspot.db.people import People

    passages = people(105)
    train, dev = births(passages, "train")[:30], births(passages, "dev")[30:]
    study = make_study(tmp_path_factory.mktemp("judges") / "s", passages, [*train, *dev])
    bm25_of(study)
    for split in ("train", "dev"):
        retrieve(study, "bm25", split=split, k=10)
    everybody = People(study.labels_path)
    everybody.add("lea", "lead")
    everybody.add("ada", "adjudicator")
    learn_judge(study, "mine", "bm25-train", settings={"depth": 10})
    judge_run(study, "mine", "bm25-dev")
    return study


@pytest.fixture
def study(whole, tmp_path):
    """A copy that a test may change."""
    from tests.studies import copied

    copied(whole, tmp_path / "copy")
    return Study.open(tmp_path / "copy")


def test_kinds_of_judges_have_plain_titles(whole):
    shown = Page(whole.folder, "training", "lea", tab="judges")
    assert "feature judge" in shown.text and "feature-judge" not in shown.text


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
    assert "Only leads can train judges" in Page(study.folder, "training", "ada", tab="judges").text
