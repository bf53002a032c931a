"""Distillation: a dual encoder learns from a cross-encoder's scores. Which pairs are scored, which labels count, and
resuming.
"""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import logit

from blindspot.backend.core.manifest import read_json, write_json
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.training.checkpoints import TrainingFolders
from blindspot.backend.training.distillation import CERTAIN, Teacher, log_odds
from blindspot.backend.training.dual_encoder import train, train_dual_encoder
from blindspot.backend.training.examples import (
    BatchSampler,
    Example,
    SampledExample,
    Subset,
    TrainingSetExamples,
    hold_out,
    sample_passages,
)
from blindspot.backend.training.losses import distillation_loss
from blindspot.backend.training.training_settings import DualEncoderSettings
from blindspot.backend.training_sets.builder import build
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.people import People
from blindspot.db.records import Passage
from tests.indexes import bm25_of
from tests.studies import births, make_study, people, tiny_bert
from tests.training import QUICK, Stopped, examples, start, weights
from tests.training_studies import say

SETTINGS = {**QUICK, "batch": 8, "steps": 6, "hard_negatives": 2, "distil": "judge"}


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """40 training questions, a set mined from BM25, a tiny start model, and a random cross-encoder."""
    from sentence_transformers import CrossEncoder

    passages = people()
    study = make_study(tmp_path_factory.mktemp("distil") / "s", passages, births(passages, "train"))
    bm25_of(study)
    retrieve(study, "bm25", k=10, split="train", name="mined")
    build(study, "raw", ["mined"])
    tiny_bert(study.folder / "start")
    add_encoder(study.settings_path, "tiny", {"model": str(study.folder / "start"), "pooling": "cls", "max_tokens": 64})
    torch.manual_seed(7)
    CrossEncoder(str(study.folder / "start"), num_labels=1, device="cpu").save_pretrained(
        str(study.folder / "models" / "judge")
    )
    write_json(
        study.folder / "models" / "judge" / "training.json",
        {"kind": "cross-encoder", "model_hash": "f00d", "made": "2026-01-01T00:00:00"},
    )
    return study


@pytest.fixture
def study(made, tmp_path) -> Study:
    made.questions.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copytree(made.folder, tmp_path / "s")
    return Study.open(tmp_path / "s")


def learn(study, name="student", settings=SETTINGS, **more):
    return train_dual_encoder(study, name, "raw", settings, start="tiny", device="cpu", **more)


def kept(study) -> set[tuple[str, str]]:
    return set(ScoreStore.open(study, "judge").connection.execute("SELECT question, passage FROM score"))


def test_exactly_what_is_drawn_is_scored_first(study):
    said = []
    made = learn(study, progress=lambda done, total, doing: said.append((done, doing)))
    about = read_json(study.folder / "models" / "student" / "training.json")
    assert (about["settings"]["distil"], about["settings"]["distil_weight"]) == ("judge", 1.0)
    assert about["teacher_hash"] == "f00d"
    data = TrainingSetExamples(study, TrainingSet.open(study, "raw"))
    chosen = Subset(data, hold_out(data, SETTINGS["held_out"])[0])
    drawn = [
        sample_passages(chosen[index], 2, epoch, 0) for keys in BatchSampler(len(chosen), 8, 6) for epoch, index in keys
    ]
    assert kept(study) == {(one.example.id, passage.id) for one in drawn for passage in (one.positive, *one.negatives)}
    doing = [words for _, words in said]
    assert made.steps == 6 and doing[0] == "scoring passages with judge" and doing.index("training") == len(doing) - 6
    learn(study, "plain", {key: value for key, value in SETTINGS.items() if key != "distil"})
    assert weights(study.folder / "models" / "plain") != weights(study.folder / "models" / "student")
    check_broken_off(study)


def check_broken_off(study):
    """Killed once while pairs are scored, and once between two checkpoints, it ends with the same bytes."""

    def stop(at, words):
        def progress(done, total, doing):
            if (done, doing) == (at, words):
                raise Stopped

        return progress

    shutil.rmtree(study.folder / "scores")
    for progress in (stop(0, "scoring passages with judge"), stop(5, "training")):
        with pytest.raises(Stopped):
            learn(study, "again", progress=progress)
    with pytest.raises(Refused, match="differs in distil_weight"):
        learn(study, "again", SETTINGS | {"distil_weight": 2.0})
    learn(study, "again")
    assert weights(study.folder / "models" / "again") == weights(study.folder / "models" / "student")


class Townsman:
    """A teacher that scores every passage about a town as the answer. No positive is about a town."""

    model_hash = "townsman"

    def prepare(self, dataset, order, progress):
        pass

    def __call__(self, batch, hard_negatives):
        columns = [(one.positive, *one.negatives) for one in batch]
        return torch.tensor([[4.0 if "is a town" in each.text else -4.0 for each in row] for row in columns])


def test_a_student_moves_toward_its_teacher(tmp_path):
    """An encoder, trained: the divergence falls, though the in-batch loss pulls the other way."""
    from sentence_transformers import SentenceTransformer

    data, begin = examples(), start(tmp_path / "bert", dropout=0.0)
    drawn = [sample_passages(example, 1, 0, 0) for example in data]

    def divergence(name, **settings):
        folders = TrainingFolders(tmp_path / name, tmp_path / f"{name}~working", "cpu")
        chosen = DualEncoderSettings(**QUICK | {"held_out": 0, "hard_negatives": 1, **settings})
        train(begin, data, folders, chosen, teacher=Townsman())
        model = SentenceTransformer(str(tmp_path / name), device="cpu")
        questions = model.encode_query([one.example.question for one in drawn], convert_to_tensor=True)
        columns = [
            model.encode_document([f"{p.title} [SEP] {p.text}" for p in column], convert_to_tensor=True)
            for column in ([one.positive for one in drawn], [one.negatives[0] for one in drawn])
        ]
        scores = torch.stack([(questions * column).sum(1) for column in columns], 1)
        return distillation_loss(scores.cpu(), Townsman()(drawn, 1)).mean().item()

    few, many = (divergence(f"after-{steps}", steps=steps, distil="townsman", distil_weight=5.0) for steps in (1, 60))
    assert many < few / 2


def test_peoples_word_stands_above_the_teachers():
    passages = [Passage(f"p{i}", "", "") for i in range(4)]
    example = Example("q", "?", (passages[0], passages[1]), (passages[2], passages[3]), judged=frozenset({"p1", "p2"}))
    teacher = Teacher.__new__(Teacher)
    teacher._store = lambda pairs: dict.fromkeys(pairs, 0.3)
    assert (log_odds(0.0), log_odds(1.0)) == (-CERTAIN, CERTAIN)
    drawn = [
        SampledExample(example, passages[1], (passages[2], passages[3])),
        SampledExample(example, passages[0], (passages[3],)),
    ]
    found = teacher(drawn, 2).tolist()
    doubt = pytest.approx(logit(0.3), rel=1e-6)
    assert found == [[pytest.approx(CERTAIN), pytest.approx(-CERTAIN), doubt], [doubt, doubt, -np.inf]]


def test_labels_of_the_set_reach_the_teacher(study):
    People(study.labels_path).add("ann", "annotator")
    mined = {
        id: [pair.passage for pair in pairs if pair.role == "negative" and pair.rank < 4]
        for id, pairs in TrainingSet.open(study, "raw").groups()
    }
    question, (first, second) = next((id, passages) for id, passages in mined.items() if len(passages) == 2)
    say(study, "ann", question, {first: "positive", second: "negative"})
    build(study, "labelled", ["mined"], policy="labels")
    data = TrainingSetExamples(study, TrainingSet.open(study, "labelled"))
    example = data[data.ids.index(question)]
    assert example.judged == {first, second} and first in {passage.id for passage in example.positives}
    assert all(not data[number].judged for number in range(len(data)) if data.ids[number] != question)


def test_what_cannot_be_scored_is_one_line(study):
    with pytest.raises(Missing, match="no cross-encoder 'nobody' to learn from"):
        learn(study, settings=SETTINGS | {"distil": "nobody"})
    with pytest.raises(Refused, match="own hard negatives.*one hard negative or more"):
        learn(study, settings=SETTINGS | {"hard_negatives": 0})
    with pytest.raises(Refused, match="the softmax loss"):
        learn(study, settings=SETTINGS | {"loss": "triplet"})
    with pytest.raises(BadInput, match="distil_weight must be a number above 0, not 0"):
        learn(study, settings=SETTINGS | {"distil_weight": 0})
    ScoreStore.create(study, "gone", True, {"model_hash": "f00d"}).add([("P19.train.0", "p0", 0.5)])
    with pytest.raises(Refused, match="have no score of 'gone', and that cross-encoder is not in this study"):
        learn(study, settings=SETTINGS | {"distil": "gone"})
    ScoreStore.create(study, "judge", False, {"model_hash": "beef"}).add([("P19.train.0", "p0", 0.5)])
    with pytest.raises(Refused, match="scores stored as 'judge' are of another model.*delete scores/judge"):
        learn(study)
    folders = TrainingFolders(study.folder / "x", study.folder / "y")
    with pytest.raises(Refused, match="this training has no cross-encoder to learn from"):
        train(SimpleNamespace(), examples(), folders, DualEncoderSettings(distil="judge"))
