"""Adapters: a map of question vectors learned over an existing index."""

import numpy as np
import pytest

from blindspot.backend.core.settings import add_encoder
from blindspot.backend.judges.lists import lists_of
from blindspot.backend.retrieval import dense
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.retrieval.question_vectors import question_vectors
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.training.adapter import AdapterSettings, train_adapter
from blindspot.backend.training.adapter_map import MapLearner, TrainingQuestions, as_dense_module, learn_map, make_map
from blindspot.backend.training_sets.builder import build
from blindspot.db.errors import BadInput, Missing, Refused
from tests.indexes import bm25_of
from tests.studies import births, make_study, people, tiny_bert
from tests.training import rotated


def test_a_map_that_can_be_learned_is_learned(one_thread):
    questions, vectors = rotated()
    settings = AdapterSettings(steps=150, batch=64, learning_rate=0.02, scale=20.0, weight_decay=0.0)
    learned = learn_map(questions, vectors, True, settings)
    # The held-out questions are random before, and mostly near their passage after.
    assert learned.about["held_out"] == 80 and learned.about["before"] < 0.1
    assert learned.about["after"] > 0.9


def test_too_few_held_out_questions_choose_nothing(one_thread):
    questions, vectors = rotated(50)
    learned, again = (learn_map(questions, vectors, True, AdapterSettings(steps=5, batch=16)) for _ in range(2))
    assert [learned.about[name] for name in ("steps", "held_out", "before", "after")] == [5, 0, None, None]
    first, second = (each.map.outer.weight.detach().numpy() for each in (learned, again))
    assert np.array_equal(first, second), "the same seed learns the same map"


def test_settings_are_chosen_on_held_out_questions_in_turn(one_thread, monkeypatch):
    """Each setting by the mean of Success@1, 5 and 20, the ones before it as they were chosen; then all questions teach."""
    questions, vectors = rotated(400)
    worth = {(20.0, 0.0, 200): 0.3, (10.0, 0.0, 200): 0.2, (40.0, 0.0, 200): 0.5}
    worth |= {(40.0, 3.0, 200): 0.4, (40.0, 0.0, 400): 0.6}
    fitted = []

    def fit(self, training, *choice):
        fitted.append((len(training), choice[:3]))
        return choice[:3]

    monkeypatch.setattr(MapLearner, "fit", fit)
    monkeypatch.setattr(MapLearner, "success", lambda self, mapped, held_out: np.full(3, worth.get(mapped, 0.1)))
    learned = learn_map(questions, vectors, True, AdapterSettings())
    assert (learned.map, learned.about["before"], learned.about["after"]) == ((40.0, 0.0, 400), 0.1, 0.6)
    assert {choice for n, choice in fitted if n == 320} == set(worth) and fitted[-1] == (400, (40.0, 0.0, 400))
    given = AdapterSettings(scale=5.0, weight_decay=1.0, steps=7)
    assert learn_map(questions, vectors, True, given).map == (5.0, 1.0, 7)


def test_a_known_positive_is_no_negative():
    """Question 0 has two positives; whether the other one is in the batch must not change its loss."""
    import torch

    vectors = np.eye(6, dtype=np.float32)
    asked = np.array([[0.5, 0.5, 0, 0, 0, 0]], np.float32)
    learner = MapLearner(vectors, False, AdapterSettings(hard_negatives=1, random_passages=0))
    both = TrainingQuestions(asked, np.array([[0, 1]]), np.array([[1]]))  # the mined negative is also a positive
    alone = TrainingQuestions(asked, np.array([[0, -1]]), np.array([[-1]]))
    values = [learner.loss(make_map(6), each, 5.0, np.random.default_rng(0)).item() for each in (both, alone)]
    assert values == [pytest.approx(0.0), pytest.approx(0.0)]
    wrong = TrainingQuestions(asked, np.array([[0, -1]]), np.array([[1]]))
    pushed = learner.loss(make_map(6), wrong, 5.0, np.random.default_rng(0))
    assert pushed.item() == pytest.approx(np.log(2), abs=1e-6)  # two passages, equal scores
    assert torch.is_tensor(pushed)


def test_the_loss_is_cross_entropy_written_out():
    import torch

    questions, vectors = rotated(4, 30, 8)
    learner = MapLearner(vectors, True, AdapterSettings(hard_negatives=0, random_passages=0))
    mapped = make_map(8)
    torch.nn.init.normal_(mapped.outer.weight, generator=torch.Generator().manual_seed(0))
    found = learner.loss(mapped, questions, 10.0, np.random.default_rng(0)).item()
    q = questions.vectors + questions.vectors @ mapped.outer.weight.detach().numpy().T
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    scores = 10 * q @ vectors[questions.positives[:, 0]].T
    expected = np.mean([np.log(np.exp(row).sum()) - row[i] for i, row in enumerate(scores)])
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_librarys_module_gives_the_map():
    import torch

    mapped = make_map(8).eval()
    torch.nn.init.normal_(mapped.outer.weight, generator=torch.Generator().manual_seed(0))
    asked = torch.randn(20, 8, generator=torch.Generator().manual_seed(1))
    features = as_dense_module(mapped)({"sentence_embedding": asked})
    assert torch.allclose(features["sentence_embedding"], mapped(asked), atol=1e-5)


# In a study


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    passages = people(90)
    train, dev = births(passages, "train")[:40], births(passages, "dev")[40:]
    study = make_study(tmp_path_factory.mktemp("adapter") / "s", passages, [*train, *dev])
    tiny_bert(study.folder / "models" / "tiny")
    add_encoder(
        study.settings_path,
        "tiny",
        {"model": str(study.folder / "models" / "tiny"), "pooling": "cls", "max_tokens": 64},
    )
    bm25_of(study)
    dense.build_index(study, "tiny", device="cpu")
    retrieve(study, "bm25", split="train", k=10)
    build(study, "plain", ["bm25-train"])
    return study


@pytest.fixture(scope="module")
def adapted(study):
    return train_adapter(study, "adapted", "plain", "tiny", {"steps": 30, "batch": 16})


def test_an_adapter_is_an_encoder_with_an_index_of_its_own_and_no_copy(study, adapted):
    assert adapted.questions == 40 and adapted.held_out == 0
    vectors = [study.path("indexes", name) / "embeddings.npy" for name in ("tiny", "adapted")]
    assert vectors[0].samefile(vectors[1])
    run = retrieve(study, "dense", encoder="adapted", split="dev", k=10)
    assert run.manifest["model_hash"] != Dense(study, "tiny").manifest["model_hash"]
    assert len(lists_of(run, study.questions.with_ids(run.question_ids), 10).questions) == len(run.question_ids)


def test_passages_keep_their_vectors_and_questions_are_mapped(study, adapted):
    before, after = (load_encoder(study.settings.encoders[name], "cpu") for name in ("tiny", "adapted"))
    passages = study.corpus.passages(range(4))
    assert np.allclose(before.encode_passages(passages), after.encode_passages(passages), atol=1e-6)
    assert not np.allclose(
        before.encode_questions(["Where was Arve born?"]), after.encode_questions(["Where was Arve born?"])
    )


def test_a_question_is_encoded_once(study, monkeypatch):
    opened = Dense(study, "tiny")
    first = question_vectors(study, opened, ["Who?", "Where?", "Who?"])
    monkeypatch.setattr(Dense, "encode", lambda *a: pytest.fail("encoded again"))
    again = question_vectors(study, Dense(study, "tiny"), ["Where?", "Who?"])
    assert np.array_equal(again, first[[1, 0]]) and np.array_equal(first[0], first[2])


def test_what_cannot_be_adapted_is_refused(study, adapted):
    with pytest.raises(Refused, match="already names an encoder 'adapted'"):
        train_adapter(study, "adapted", "plain", "tiny")
    with pytest.raises(Missing, match="no training set 'none'"):
        train_adapter(study, "other", "none", "tiny")
    with pytest.raises(Missing, match="no dense index for encoder 'minilm'"):
        train_adapter(study, "other", "plain", "minilm")
    with pytest.raises(BadInput, match="kind"):
        train_adapter(study, "other", "plain", "tiny", {"kind": "mlp"})
    assert not study.path("models", "other").exists() and "other" not in study.settings.encoders
