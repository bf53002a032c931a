"""A cascade of judges: each stage decides where its own error is small, the next is asked about the rest, the cost stands on the pair."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from blindspot.backend.core import consent
from blindspot.backend.core.copying import copy_study
from blindspot.backend.core.study import Study
from blindspot.backend.judges.cascade import DecisionStore, _measured, cascade_stages, judge_with_cascade, make_cascade
from blindspot.backend.judges.judge import judge_kind_of
from blindspot.backend.judges.llm.judge import add_llm_judge
from blindspot.backend.judges.llm.judging import judge_with_llm
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.batches import ArmShares, make_batch
from blindspot.backend.retrieval import bm25
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.errors import Missing, Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue
from tests.llm_server import ChatServer
from tests.studies import births, make_study, people
from tests.training_studies import score

K = 5


def holds(question, passage):
    """Whether a passage says where the person of the question was born."""
    return question.subject == passage.title and question.answers[0] in passage.text


def grade(question, passage):
    return 3 if question.removeprefix("Where was ").removesuffix(" born?") in passage and "born in" in passage else 0


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Ann judged an audit of all 120 questions; the judge `half` is sure, and right, about half of all pairs."""
    passages = people(180)
    questions = [replace(question, gold=()) for question in births(passages, "train")]  # an audit draws no gold
    study = make_study(tmp_path_factory.mktemp("cascade") / "s", passages, questions)
    bm25.build_index(study, threads=1)
    run = retrieve(study, "bm25", split="train", k=K, name="run")
    People(study.labels_path).add("ann", "lead")
    make_batch(study, "audit", ["run"], size=120, mix=ArmShares(1.0, 0.0, 0.0), candidates=K, by="ann")
    labels = Labels(study.labels_path, passages=study.corpus.ordinals)
    for item in Queue(study.labels_path).items("audit"):
        (question,) = study.questions.some([item.question])
        rows = study.corpus.ordinals([candidate.passage for candidate in item.candidates])
        found = study.corpus.passages(list(rows.values()))
        choices = tuple(Choice(p.id, "positive" if holds(question, p) else "negative") for p in found)
        labels.add("ann", LabelEvent(f"a-{question.id}", "label", question.id, choices, batch="audit"))
    scores = {}
    for row, question in enumerate(study.questions.some(run.question_ids)):
        for passage in study.corpus.passages(run.hits.ordinals[row].tolist()):
            sure = hashlib.sha1(f"{question.id}{passage.id}".encode()).digest()[0] % 2
            scores[question.id, passage.id] = (0.95 if holds(question, passage) else 0.01) if sure else 0.45
    score(study, scores, model="half")
    return study


@pytest.fixture
def study(original, tmp_path):
    copy_study(original, tmp_path / "copy")
    return Study.open(tmp_path / "copy")


def test_each_stage_decides_where_it_is_sure_and_the_rest_goes_on(study):
    with ChatServer(grade) as server:
        consent.give(study, server.url)
        add_llm_judge(study, "llm", server.url, ["m"], settings={"price_in": 1.0, "price_out": 1.0})
        judge_with_llm(study, "llm")  # the settled pairs, to measure it
        stages = make_cascade(study, "all", ["answers", "half", "llm"])
        assert [stage.judge for stage in stages] == ["answers", "half", "llm"]
        answers, half, llm = stages
        assert answers.below == 0.5 and answers.missed == 0 and answers.missed_high <= 0.05
        assert half.pairs < answers.pairs and llm.pairs < half.pairs
        before = server.requests
        result = judge_with_cascade(study, "all", "run", depth=K)
        counts = {(stage, decided): n for stage, decided, n, _ in result["stages"]}
        assert sum(counts.values()) == result["pairs"] == 120 * K
        reached = sum(n for (stage, _), n in counts.items() if stage in ("llm", "people"))
        assert server.requests - before <= reached < 120 * K / 2  # the settled ones are stored already
    decisions, scores = DecisionStore(study, "all"), ScoreStore.open(study, "all")
    for question in study.questions.all():
        known = decisions.of(question.id)
        assert len(known) == K
        for decision in known.values():
            (row,) = study.corpus.ordinals([decision.passage]).values()
            truth = holds(question, study.corpus.passage(row))
            assert decision.decided in ("positive" if truth else "negative", None)
            asked = decision.stage in ("llm", "people")
            assert (decision.cost > 0) == asked
            stored = scores.of([question.id]).get(question.id, {}).get(decision.passage)
            assert stored == (None if decision.decided is None else float(decision.decided == "positive"))
    assert judge_kind_of(study, "all").title == "cascade"


def test_what_no_stage_decides_is_left_to_people(study):
    make_cascade(study, "two", ["half"])
    result = judge_with_cascade(study, "two", "run", depth=K)
    (left,) = [n for stage, decided, n, _ in result["stages"] if stage == "people"]
    assert left == sum(
        value == 0.45 for found in ScoreStore.open(study, "half").of(_ids(study)).values() for value in found.values()
    )
    assert len(ScoreStore.open(study, "two")) == 120 * K - left


def _ids(study):
    return [question.id for question in study.questions.all()]


def test_a_stage_that_is_never_sure_enough_decides_nothing(study):
    rng = np.random.default_rng(0)
    pairs = [(q, p) for q, found in ScoreStore.open(study, "half").of(_ids(study)).items() for p in found]
    score(study, {pair: float(rng.random()) for pair in pairs}, model="noise")
    with pytest.raises(Refused, match="no stage is sure at the [0-9,]+ settled pairs: people must judge more pairs"):
        make_cascade(study, "none", ["noise"])
    stages = make_cascade(study, "some", ["noise", "half"])
    assert (stages[0].below, stages[0].above) == (None, None) and stages[1].pairs == stages[0].pairs


def test_bounds_hold_their_error_in_simulation():
    """Over 60 samples of a noisy judge, the share of positives among the negatives of a stage is above the aim in few of them."""
    broken = used = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = 600
        truth = rng.random(n) < 0.3
        scores = np.clip(rng.normal(np.where(truth, 0.7, 0.25), 0.18), 0, 1)
        stage = _measured("j", scores, truth, np.ones(n), np.array([f"q{i // 4}" for i in range(n)]), 0.9, 0.05)
        if stage.below is None:
            continue
        used += 1
        many = rng.random(200_000) < 0.3
        drawn = np.clip(rng.normal(np.where(many, 0.7, 0.25), 0.18), 0, 1)
        broken += many[drawn < stage.below].mean() > 0.05
    assert used >= 30 and broken <= 3


@pytest.mark.parametrize(
    ("stages", "options", "message"),
    [
        (["half", "half"], {}, "name each stage once with --stage"),
        ([], {}, "name each stage once with --stage"),
        (["absent"], {}, "no judge 'absent' has scores here; stages: answers, half"),
        (["half"], {"missed": 0.9}, "--right must be above 0.5 and below 1, --missed above 0 and below 0.5"),
    ],
)
def test_a_wrong_cascade_is_refused_with_one_line(study, stages, options, message):
    with pytest.raises((Refused, Missing), match=message):
        make_cascade(study, "wrong", stages, **options)
    with pytest.raises(Missing, match="there is no cascade 'wrong'"):
        cascade_stages(study, "wrong")


def test_the_commands(study, blindspot):
    def run(*words):
        code, out, err = blindspot("judge", *words, "--study", study.folder)
        assert not code, err
        return out

    assert "answers: negative below 0.5" in run("cascade", "mine", "--stage", "answers", "--stage", "half")
    assert "people: " in run("run", "mine", "--run", "run")
    assert "1. " in run("explain", "mine", "--run", "run", "--question", "P19.train.0")
    assert "mine: cascade, from answers → half" in run("list")
