"""A judge of a run's lists as the teacher of adapters and dual encoders: nothing needs gold."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core.manifest import read_json
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.judges.feature_judge import FeatureJudge, learn_judge
from blindspot.backend.judges.lists import lists_of
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.retrieval import dense
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.training.adapter import train_adapter
from blindspot.backend.training.adapter_map import PADDED, MapLearner, TrainingQuestions, learn_map, make_map
from blindspot.backend.training.before_after import run_before
from blindspot.backend.training.distillation import CERTAIN
from blindspot.backend.training.dual_encoder import train_dual_encoder
from blindspot.backend.training.examples import SampledExample
from blindspot.backend.training.judged_lists import (
    SHARPNESS,
    JudgedLists,
    ListExamples,
    ListTeacher,
    judged_lists,
    sort_lists,
)
from blindspot.backend.training.training_settings import AdapterSettings
from blindspot.db.errors import Missing, Refused
from blindspot.db.people import People
from tests.indexes import bm25_of
from tests.studies import births, make_study, people, tiny_bert
from tests.training import QUICK, rotated
from tests.training_studies import say

pytestmark = pytest.mark.usefixtures("one_thread")

LABELLED = 12
SMALL = {"steps": 20, "batch": 16}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """40 training questions, of which the first 12 have gold, and a judge that learned from these."""
    passages = people(90)
    train, dev = births(passages, "train")[:40], births(passages, "dev")[40:]
    asked = [*train[:LABELLED], *(replace(question, gold=(), answers=()) for question in train[LABELLED:])]
    study = make_study(tmp_path_factory.mktemp("taught") / "s", passages, [*asked, *dev])
    tiny_bert(study.folder / "models" / "tiny")
    encoder = {"model": str(study.folder / "models" / "tiny"), "pooling": "cls", "max_tokens": 64}
    add_encoder(study.settings_path, "tiny", encoder)
    bm25_of(study)
    dense.build_index(study, "tiny", device="cpu")
    for split in ("train", "dev"):
        retrieve(study, "bm25", split=split, k=10)
    learn_judge(study, "mine", "bm25-train", settings={"depth": 10})
    return study


def test_every_training_question_is_in_the_judges_order(study):
    lists, run, judge = judged_lists(study, "mine"), study.run("bm25-train"), FeatureJudge(study, "mine")
    assert (lists.run, lists.judge, len(lists.questions)) == ("bm25-train", "mine", 40)
    plain = lists_of(run, lists.questions, 10)
    scores = judge.ranking_scores(judge.features(plain))
    for place, question in enumerate(lists.questions):
        held = lists.rows[place] != PADDED
        assert set(lists.rows[place, held]) == set(plain.rows[place][plain.rows[place] >= 0])
        assert (np.diff(lists.log_odds[place, held]) <= 0).all() and np.isneginf(lists.log_odds[place, ~held]).all()
        if question.gold:  # the gold passage is certain, whatever the judge says
            first = study.corpus.passages([int(lists.rows[place, 0])])[0]
            assert first.id in question.gold and lists.log_odds[place, 0] == pytest.approx(CERTAIN)
        else:
            known = ~np.isnan(scores[place])
            best = plain.rows[place][np.nanargmax(scores[place])]
            assert lists.rows[place, 0] == best
            assert np.allclose(np.sort(scores[place][known])[::-1], lists.log_odds[place, held], atol=1e-5)


def test_people_override_the_judge(study, tmp_path):
    before = judged_lists(study, "mine")
    place = next(i for i, question in enumerate(before.questions) if not question.gold)
    first, last = (study.corpus.passages([int(before.rows[place, i])])[0].id for i in (0, 1))
    People(study.labels_path).add("ann")
    try:
        say(study, "ann", before.questions[place].id, {first: "negative", last: "positive"})
        after = judged_lists(study, "mine")
        assert after.rows[place, 0] == before.rows[place, 1] and after.log_odds[place, 0] == pytest.approx(CERTAIN)
        held = after.rows[place] != PADDED
        assert after.rows[place, held][-1] == before.rows[place, 0]
        assert after.digest != before.digest
    finally:
        say(study, "ann", before.questions[place].id, {first: "unsure", last: "unsure"})


def test_hits_without_a_score_are_padding():
    rows, log_odds = sort_lists(np.array([[5, 3, 9, -1]]), np.array([[0.5, np.nan, 2.0, np.nan]]))
    assert rows.tolist() == [[9, 5, PADDED, PADDED]] and log_odds[0, :2].tolist() == [2.0, 0.5]
    assert np.isneginf(log_odds[0, 2:]).all()


def test_a_judge_with_stored_scores_alone_teaches_the_questions_that_it_scored(study):
    run = study.run("bm25-train")
    questions = [question for question in study.questions.with_ids(run.question_ids) if not question.gold][:3]
    with_scores = lists_of(run, questions, 2)
    passages = {row: study.corpus.passages([row])[0].id for row in np.unique(with_scores.rows).tolist()}
    store = ScoreStore.create(study, "stored", calibrated=True, description={"judge": "imported"})
    try:
        store.add(
            (question.id, passages[int(row)], 0.25 + 0.5 * rank)
            for question, rows in zip(questions, with_scores.rows, strict=True)
            for rank, row in enumerate(rows)
        )
        from blindspot.backend.core.manifest import write_json

        folder = study.path("models", "stored")
        folder.mkdir()
        write_json(
            folder / "training.json", {"kind": "cross-encoder", "model_hash": None, "made": "2026-01-01T00:00:00"}
        )
        with pytest.raises(Refused, match="name the run whose lists 'stored' judged"):
            judged_lists(study, "stored")
        lists = judged_lists(study, "stored", "bm25-train")
    finally:
        ScoreStore.remove(study, "stored")
    taught = [question.id for question in lists.questions if not question.gold]  # gold teaches as well
    assert taught == [question.id for question in questions]
    for question, rows in zip(questions, with_scores.rows, strict=True):
        place = [each.id for each in lists.questions].index(question.id)
        assert lists.rows[place, :2].tolist() == rows[::-1].tolist()
        assert lists.log_odds[place, :2].tolist() == pytest.approx([np.log(3), -np.log(3)])


def test_the_taught_loss_is_cross_entropy_written_out():
    questions, vectors = rotated(4, 30, 8)
    rows = np.array([[1, 2, 3], [4, 5, PADDED], [6, 7, 8], [1, 9, 10]])
    log_odds = np.where(rows == PADDED, -np.inf, [[2.0, 1.0, 0.0]]).astype(np.float32)
    taught = TrainingQuestions(questions.vectors, rows, np.empty((4, 0), np.int64), log_odds)
    mapped = make_map(8)
    torch.nn.init.normal_(mapped.outer.weight, generator=torch.Generator().manual_seed(0))
    learner = MapLearner(vectors, True, AdapterSettings(random_passages=0))
    found = learner.loss(mapped, taught, 10.0, np.random.default_rng(0)).item()
    q = questions.vectors + questions.vectors @ mapped.outer.weight.detach().numpy().T
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    scores = 10 * q @ vectors[1:11].T.astype(np.float32)  # the passages of all lists
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    shares = np.exp(log_odds) / np.exp(log_odds).sum(1, keepdims=True)
    expected = np.mean([-sum(s * logs[i, row - 1] for s, row in zip(shares[i], rows[i]) if s) for i in range(4)])
    assert found == pytest.approx(expected, rel=1e-5)


def test_a_map_is_learned_from_judged_lists():
    """The judge puts the right passage first among five; the held-out questions are near theirs afterwards."""
    questions, vectors = rotated()
    rows = np.concatenate([questions.positives, questions.negatives[:, :4]], axis=1)
    log_odds = np.tile(np.array([[4.0, -1.0, -1.0, -1.0, -1.0]], np.float32), (len(rows), 1))
    taught = TrainingQuestions(questions.vectors, rows, np.empty((len(rows), 0), np.int64), log_odds)
    settings = AdapterSettings(steps=150, batch=64, learning_rate=0.02, scale=20.0, weight_decay=0.0)
    learned = learn_map(taught, vectors, True, settings)
    assert learned.about["before"] < 0.1 and learned.about["after"] > 0.9
    found = MapLearner(vectors, True, settings).search(learned.map, taught, 1).ordinals[:, 0]
    assert (found == questions.positives[:, 0]).mean() > 0.9


def test_an_adapter_learns_from_a_judge_without_a_training_set(study):
    made = train_adapter(study, "taught", encoder="tiny", settings=SMALL | {"distil": "mine"})
    about = read_json(study.folder / "models" / "taught" / "training.json")
    assert made.questions == 40
    assert (about["run"], about["settings"]["distil"], "training_set" in about) == ("bm25-train", "mine", False)
    assert about["fingerprint"] == judged_lists(study, "mine").digest
    before = retrieve(study, "dense", encoder="tiny", split="dev", k=10)
    retrieve(study, "bm25", split="dev", k=10, name="later")
    after = retrieve(study, "dense", encoder="taught", split="dev", k=10)
    # It is compared with the encoder that it adapts, not with the last run.
    assert run_before(study, about, after.name, "dev", study.parts("runs")) == before.name
    words = "train adapter by-command --distil mine --encoder tiny --steps 5".split()
    ran = CliRunner().invoke(app, [*words, "--study", str(study.folder)])
    assert ran.exit_code == 0 and "Trained by-command from 40 questions" in ran.output, ran.output


def test_examples_and_teacher_hold_what_the_judge_said(study):
    lists = judged_lists(study, "mine")
    log_odds = lists.log_odds.copy()
    log_odds[0, :4] = [3.0, 1.0, -1.0, -2.0]
    chosen = JudgedLists(lists.questions, lists.rows, log_odds, "mine", "bm25-train")
    example = ListExamples(study, chosen, depth=4)[0]
    ids = [passage.id for passage in study.corpus.passages(lists.rows[0, :4].tolist())]
    assert [passage.id for passage in example.positives] == ids[:2]
    assert [passage.id for passage in example.negatives] == ids[2:]
    sampled = SampledExample(example, example.positives[1], (example.negatives[1],))
    taught = ListTeacher(study, chosen)([sampled], 2)
    assert taught.tolist() == [[SHARPNESS * 1.0, SHARPNESS * -2.0, -np.inf]]


def test_a_dual_encoder_learns_from_a_judge_without_a_training_set(study):
    settings = {**QUICK, "batch": 8, "steps": 4, "hard_negatives": 2, "distil": "mine"}
    made = train_dual_encoder(study, "student", settings=settings, start="tiny", device="cpu")
    about = read_json(study.folder / "models" / "student" / "training.json")
    assert made.steps == 4 and about["questions"] + about["held_out"] == 40
    assert (about["run"], about["teacher_hash"]) == ("bm25-train", about["fingerprint"])
    asked = {**settings, "only": "question"}
    alone = train_dual_encoder(study, "questions", settings=asked | {"passage_tokens": 64}, start="tiny", device="cpu")
    assert alone.passages_from_index


def test_what_cannot_teach_is_refused(study):
    with pytest.raises(Refused, match="name what teaches"):
        train_adapter(study, "none", encoder="tiny")
    with pytest.raises(Refused, match="name what teaches"):
        train_dual_encoder(study, "none", start="tiny", device="cpu")
    with pytest.raises(Refused, match="not both"):
        train_adapter(study, "none", "set", "tiny", {"distil": "mine"})
    with pytest.raises(Refused, match="leave out --run"):
        train_adapter(study, "none", "set", "tiny", run="bm25-train")
    with pytest.raises(Missing, match="no judge 'nobody'"):
        train_adapter(study, "none", encoder="tiny", settings={"distil": "nobody"})
    other = retrieve(study, "dense", encoder="tiny", split="train", k=10)
    with pytest.raises(Refused, match="learned from lists of 'bm25'"):
        judged_lists(study, "mine", other.name)
    assert not study.path("models", "none").exists()
