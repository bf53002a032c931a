"""Training a dual encoder: it learns, keeps the best checkpoint, resumes exactly, and refuses invalid input."""

import signal
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from blindspot.backend.core.manifest import read_json
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.training import dual_encoder, evaluators
from blindspot.backend.training import trainer as training_loop
from blindspot.backend.training.checkpoints import readable_training_errors, set_schedule
from blindspot.backend.training.evaluators import ranks_of_first_answer
from blindspot.backend.training.examples import BatchSampler, Example, hold_out, make_pool, sample_passages
from blindspot.backend.training.initial_model import ModelShape, load_initial_model
from blindspot.backend.training.losses import InBatchLoss
from blindspot.backend.training.training_log import read_lines
from blindspot.backend.training.training_settings import DualEncoderSettings
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.records import Passage
from tests import forked
from tests.training import Stopped, examples, quick, start, stop_at, weights


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return start(tmp_path_factory.mktemp("bert"))


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def whole(bert, tmp_path_factory, one_thread) -> Path:
    """The folder of a training that nothing broke off: one for all tests of this file."""
    folder = tmp_path_factory.getbasetemp() / "whole-dual-encoder"
    if not folder.exists():
        quick(bert, folder)
    return folder


def test_it_learns_and_is_an_ordinary_folder(tmp_path):
    """Such a small model memorises its few questions, which is enough for this test."""
    from sentence_transformers import SentenceTransformer

    settings = {"steps": 150, "evaluate_every": 50, "learning_rate": 3e-3, "hard_negatives": 0}
    made = quick(start(tmp_path / "bert", dropout=0.0), tmp_path / "model", dev=examples()[:8], **settings)
    about, lines = read_json(tmp_path / "model" / "training.json"), read_lines(tmp_path / "model")
    before = lines[0]
    assert before["step"] == 0 and made.average_rank < 2 < before["average_rank"]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    assert all(line["examples_per_second"] > 0 for line in lines if "loss" in line)
    assert about["curve"] == [line for line in lines if "average_rank" in line]
    assert (about["questions"], about["held_out"], about["scale"], about["kind"]) == (40, 8, 1.0, "dual encoder")
    files = {path.suffix for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert files == {".json", ".jsonl", ".safetensors"}
    anywhere = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    ours = load_encoder(EncoderSettings(model=str(tmp_path / "model"), max_tokens=48), "cpu")
    assert (ours.similarity, ours.model_hash) == ("dot", about["model_hash"])
    np.testing.assert_allclose(anywhere.encode_query(["Where?"]), ours.encode_questions(["Where?"]), atol=1e-6)
    assert not np.allclose(anywhere.encode_query(["Where?"]), anywhere.encode_document(["Where?"]))
    assert not (tmp_path / "model~working").exists()


def test_broken_off_it_ends_with_the_same_bytes(bert, whole, tmp_path):
    """Stopped between two checkpoints, in the second epoch, with a checkpoint half written."""
    with pytest.raises(Stopped):
        quick(bert, tmp_path / "again", progress=stop_at(5))
    working = tmp_path / "again~working"
    assert {line["step"] for line in read_lines(working)} >= {0, 4} and not (tmp_path / "again").exists()
    (working / "checkpoint-6").mkdir()
    (working / "checkpoint-6" / "modules.json").write_text("{")
    quick(bert, tmp_path / "again")
    assert weights(tmp_path / "again") == weights(whole)
    expected, found = (
        [{key: value for key, value in line.items() if "second" not in key} for line in read_lines(folder)]
        for folder in (whole, tmp_path / "again")
    )
    assert expected == found


def test_kill_9(bert, whole, tmp_path):
    code = (
        "import os, signal, sys, torch; from pathlib import Path\n"
        "from blindspot.backend.core.settings import EncoderSettings; from tests.training import quick\n"
        "torch.set_num_threads(1)\n"
        "def kill(done, total, doing):\n    if done == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
        "quick(EncoderSettings(model=sys.argv[1], pooling='cls', max_tokens=64), Path(sys.argv[2]), progress=kill)"
    )
    done = forked.python("-c", code, bert.model, str(tmp_path / "again"))
    assert done.returncode == -signal.SIGKILL, done.stderr
    quick(bert, tmp_path / "again")
    assert weights(tmp_path / "again") == weights(whole)


def test_broken_off_after_its_last_step_it_only_keeps_the_best(bert, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(dual_encoder, "_save_best", lambda *_: (_ for _ in ()).throw(Stopped))
    with pytest.raises(Stopped):
        quick(bert, tmp_path / "again")
    monkeypatch.undo()
    quick(bert, tmp_path / "again", progress=stop_at(6))  # no step is repeated
    assert weights(tmp_path / "again") == weights(whole)


def test_the_seed_decides(bert, tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        quick(bert, tmp_path / name, steps=2, seed=seed)
    assert weights(tmp_path / "a") != weights(tmp_path / "b")


def test_the_best_checkpoint_is_kept(bert, tmp_path, monkeypatch):
    """Scripted ranks: the second of three checkpoints is best, and its weights are kept."""
    script, seen = iter([9.0, 5.0, 2.0, 4.0]), []

    def measure(self, model, *_, **named):
        seen.append({name: weight.clone() for name, weight in model.state_dict().items()})
        return {"average_rank": next(script), "first": 0.0}

    monkeypatch.setattr(evaluators.RankEvaluator, "__call__", measure)
    made = quick(bert, tmp_path / "model")
    assert (made.best_step, made.average_rank, made.steps) == (4, 2.0, 6)
    kept = load_encoder(EncoderSettings(model=str(tmp_path / "model")), "cpu").model.state_dict()
    assert all(torch.equal(kept[name], weight) for name, weight in seen[2].items())
    assert any(not torch.equal(kept[name], weight) for name, weight in seen[3].items())


def test_it_stops_when_nothing_gets_better(bert, tmp_path, monkeypatch):
    script = iter([9.0, 5.0, 6.0, 6.0, 1.0])
    measured = evaluators.RankEvaluator, "__call__"
    monkeypatch.setattr(*measured, lambda *_, **named: {"average_rank": next(script), "first": 0.0})
    made = quick(bert, tmp_path / "model", steps=20, patience=2)
    assert (made.best_step, made.steps) == (2, 6)


@pytest.mark.parametrize("only, fixed, trained", [("question", "document", "query"), ("passage", "query", "document")])
def test_one_tower_alone(bert, tmp_path, only, fixed, trained):
    quick(bert, tmp_path / "model", only=only, steps=2)
    saved = load_encoder(EncoderSettings(model=str(tmp_path / "model")), "cpu").model[0].sub_modules
    began = load_encoder(bert, "cpu").model.state_dict()
    assert all(torch.equal(weight, began[name]) for name, weight in saved[fixed].state_dict().items())
    assert any(not torch.equal(weight, began[name]) for name, weight in saved[trained].state_dict().items())


def test_gradient_caching_gives_the_same_gradient(tmp_path):
    """With dropout, both encodings use the same random numbers. Mini-batches of 3 do not divide the batch of 8."""

    def gradient(dropout, mini_batch):
        shape = ModelShape(question_tokens=24, passage_tokens=48)
        model = load_initial_model(start(tmp_path / f"bert{dropout}", dropout), shape, "cpu").train()
        collator = training_loop.Collator(model, "{title} [SEP] {text}", 1, 24, 48, True)
        drawn = [sample_passages(example, 1, 0, 0) for example in examples()[:8]]
        features, labels = training_loop.features_of(collator(drawn), "cpu")
        torch.manual_seed(0)
        loss = InBatchLoss(model, mini_batch=mini_batch)(features, labels)
        loss.backward()
        gradients = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
        return loss.item(), torch.cat(gradients)

    plain, cached = gradient(0.0, None), gradient(0.0, 3)
    assert plain[0] == pytest.approx(cached[0], rel=1e-6)
    torch.testing.assert_close(plain[1], cached[1], atol=1e-6, rtol=1e-4)
    again = [gradient(0.1, 3) for _ in range(2)]
    assert torch.equal(again[0][1], again[1][1]) and not torch.allclose(again[0][1], cached[1], atol=1e-4)


def test_shared_towers_layers_pooling_and_cosine(bert, tmp_path):
    settings = {"towers": "shared", "layers": 1, "pooling": "mean", "normalise": True, "similarity": "cosine"}
    quick(bert, tmp_path / "model", steps=2, **settings)
    loaded = load_encoder(EncoderSettings(model=str(tmp_path / "model")), "cpu")
    assert len(loaded.model[0].model.encoder.layer) == 1
    np.testing.assert_allclose(np.linalg.norm(loaded.encode_questions(["Where?"]), axis=1), 1, atol=1e-5)
    assert read_json(tmp_path / "model" / "training.json")["scale"] == 20.0


@pytest.mark.parametrize(
    "settings", [{"similarity": "l2", "loss": "triplet"}, {"similarity": "l2", "hard_negatives": 5}]
)
def test_the_other_losses_run(bert, tmp_path, settings):
    made = quick(bert, tmp_path / "model", steps=2, **settings)
    assert made.steps == 2
    assert load_encoder(EncoderSettings(model=str(tmp_path / "model")), "cpu").similarity == "l2"


def test_in_bfloat16_the_weights_stay_in_32_bits(bert, tmp_path, monkeypatch):
    """As on a GPU: the encoders run in 16 bits in both passes of gradient caching; scores and stored values are in 32
    bits.
    """
    seen, linear = set(), torch.nn.Linear.forward

    def forward(self, values):
        made = linear(self, values)
        if self.training:
            seen.add(made.dtype)
        return made

    monkeypatch.setattr(torch.nn.Linear, "forward", forward)
    quick(bert, tmp_path / "model", steps=1, precision="bfloat16", mini_batch=3, held_out=0)
    assert seen == {torch.bfloat16}
    kept = load_encoder(EncoderSettings(model=str(tmp_path / "model")), "cpu").model.state_dict()
    assert {weight.dtype for weight in kept.values() if weight.is_floating_point()} == {torch.float32}
    assert all(np.isfinite(line["loss"]) for line in read_lines(tmp_path / "model") if "loss" in line)


NO_TRAININGS = (
    ({"normalise": True, "scale": 1.0}, "unit length.*almost no gradient"),
    ({"similarity": "cosine", "scale": 1.0}, "cosine.*almost no gradient"),
    ({"learning_rate": 0.0}, "learning_rate must be a number above 0, not 0"),
    ({"batch": 1, "hard_negatives": 0}, "nothing to compare"),
    ({"only": "question", "towers": "shared"}, "two towers"),
    ({"layers": 9}, "between 1 and 2"),
    ({"loss": "hinge"}, "softmax, triplet"),
    ({"warmup": 1.0}, "warmup"),
    ({"data": [Example("q", "Where?", ())]}, "none of the 1 questions .* has a positive"),
)  # fmt: skip


def test_what_cannot_learn_is_refused(bert, tmp_path):
    for settings, reason in NO_TRAININGS:
        with pytest.raises((Refused, BadInput), match=reason):
            quick(bert, tmp_path / "model", **settings)
    with pytest.raises(Missing, match="cannot load the model"):
        quick(EncoderSettings(model=str(tmp_path / "nothing"), pooling="cls"), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_training_apart_is_told(bert, tmp_path):
    with pytest.raises(Refused, match="the loss is nan at step .* lower the learning rate"):
        quick(bert, tmp_path / "model", learning_rate=1e30, clip=1e30, steps=20)


def test_another_unfinished_training_is_not_overwritten(bert, tmp_path):
    with pytest.raises(Stopped):
        quick(bert, tmp_path / "model", progress=stop_at(3))
    with pytest.raises(Refused, match="differs in learning_rate.*--restart"):
        quick(bert, tmp_path / "model", learning_rate=2e-3)
    assert quick(bert, tmp_path / "model", learning_rate=2e-3, restart=True).steps == 6


def test_few_questions_make_small_batches(bert, tmp_path):
    made = quick(bert, tmp_path / "model", data=examples()[:4], batch=32, epochs=2, steps=None, held_out=8)
    assert (made.steps, made.average_rank) == (2, None)  # four questions are too few to hold any out


def test_comparing_does_not_take_longer_than_training():
    """1,000 passages and 200 questions are 1,200 texts; a step of 16 questions trains on 48, which cost as much as
    144."""

    def every(steps, **settings):
        arguments = SimpleNamespace(eval_strategy="no")
        set_schedule(arguments, DualEncoderSettings(**settings), steps, 16, 10, 48, 1200)
        return arguments.eval_steps

    assert [every(steps) for steps in (10, 100, 1000)] == [10, 17, 100]
    assert every(1000, evaluate_every=3) == 3


def test_average_rank_by_brute_force():
    generator = np.random.default_rng(0)
    questions, passages = generator.normal(size=(300, 4)), np.round(generator.normal(size=(40, 4)), 1)
    known = [sorted({int(i) for i in generator.integers(0, 40, 2)}) for _ in range(300)]
    expected = []
    for question, answers in zip(questions, known, strict=True):
        scores = [float(np.dot(question, passage)) for passage in passages]
        best = max(scores[i] for i in answers)
        expected.append(1 + sum(score >= best for i, score in enumerate(scores) if i not in answers))
    found = ranks_of_first_answer(torch.tensor(questions), torch.tensor(passages), known, "dot")
    assert found.tolist() == expected
    alike = ranks_of_first_answer(torch.zeros(2, 3), torch.ones(5, 3), [[0], [1, 2]], "dot")
    assert alike.tolist() == [5, 4], "a model that scores all alike ranks last"


def test_every_positive_has_its_turn():
    """A positive that a person added trains as often as the first."""
    positives = tuple(Passage(f"p{i}", "", "") for i in range(3))
    negatives = tuple(Passage(f"n{i}", "", "") for i in range(4)) + positives[:1]
    example = Example("q", "?", positives, negatives)
    drawn = [sample_passages(example, 2, epoch, seed=1) for epoch in range(12)]
    assert Counter(d.positive.id for d in drawn) == dict.fromkeys(("p0", "p1", "p2"), 4)
    negatives = Counter(n.id for d in drawn for n in d.negatives)
    assert negatives == dict.fromkeys(("n0", "n1", "n2", "n3"), 6)  # a positive is not a negative
    assert drawn == [sample_passages(example, 2, epoch, seed=1) for epoch in range(12)]


@pytest.mark.parametrize("processes", [1, 2])
def test_the_order_of_training(processes):
    order = list(BatchSampler(examples=21, batch=10 // processes, steps=6, processes=processes, seed=3))
    assert len(order) == 6 * processes and {len(batch) for batch in order} == {10 // processes}
    for epoch in range(3):
        seen = [index for batch in order for at, index in batch if at == epoch]
        assert len(seen) == len(set(seen)) == 20
    together = [sum(order[step * processes : (step + 1) * processes], []) for step in range(6)]
    assert together == list(BatchSampler(examples=21, batch=10, steps=6, seed=3))  # for any number of processes


def test_the_pool_is_fixed_and_apart():
    data = examples()
    training, held_out = hold_out(data, 8, seed=1)
    assert len(held_out) == 8 and not set(training) & set(held_out) and len(training) + 8 == len(data)
    pool = make_pool([data[i] for i in held_out], 40, [data[i] for i in training], seed=1)
    assert len(pool.passages) == len({p.id for p in pool.passages}) == 40
    for row, number in zip(pool.known_positives, held_out, strict=True):
        assert [pool.passages[i].id for i in row] == [p.id for p in data[number].positives]
    small = make_pool([data[i] for i in held_out], 20)
    first = [data[i].hard_negatives()[0].id for i in held_out]
    assert len(small.passages) == 20 and {p.id for p in small.passages} <= {p.id for p in pool.passages}
    second = [data[i].hard_negatives()[1].id for i in held_out]
    assert {p.id for p in small.passages[8:]} <= {*first, *second}  # the highest ranks first
    with pytest.raises(Refused, match="no question to compare"):
        make_pool([], 10)


def test_a_full_gpu_is_one_line_and_advises_only_what_there_is():
    with (
        pytest.raises(Refused, match=r"a batch of 32; make it smaller, or give --mini-batch 8,"),
        readable_training_errors(32, caches=True),
    ):
        raise torch.OutOfMemoryError("CUDA out of memory")
    with pytest.raises(Refused, match=r"a batch of 32; make it smaller$"), readable_training_errors(32):
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_prompts_train_and_stay_with_the_model(bert, tmp_path, monkeypatch):
    """The texts of a training have the prompts before them, and so has what the folder encodes, wherever it is loaded."""
    from sentence_transformers import SentenceTransformer

    seen = {}
    preprocess = SentenceTransformer.preprocess

    def watched(self, texts, prompt=None, **named):
        if named.get("task") and texts and texts[0]:
            seen.setdefault(named["task"], set()).add(prompt)
        return preprocess(self, texts, prompt=prompt, **named)

    monkeypatch.setattr(SentenceTransformer, "preprocess", watched)
    quick(bert, tmp_path / "first", question_prompt="where: ", passage_prompt="town: ")
    assert seen == {"query": {"where: "}, "document": {"town: "}}
    monkeypatch.undo()
    anywhere = SentenceTransformer(str(tmp_path / "first"), device="cpu")
    assert (anywhere.prompts["query"], anywhere.prompts["document"]) == ("where: ", "town: ")
    ours = load_encoder(EncoderSettings(model=str(tmp_path / "first"), max_tokens=48), "cpu")
    np.testing.assert_allclose(
        ours.encode_questions(["Oslo"]), anywhere.encode(["Oslo"], prompt="where: ", task="query"), atol=1e-6
    )
    # A model that starts from this one keeps its prompts, unless it is given others.
    first = EncoderSettings(model=str(tmp_path / "first"))
    quick(first, tmp_path / "second", steps=1, evaluate_every=1, passage_prompt="")
    after = SentenceTransformer(str(tmp_path / "second"), device="cpu").prompts
    assert after["query"] == "where: " and not after.get("document")


def test_matryoshka_dimensions(bert, tmp_path):
    with pytest.raises(BadInput, match="matryoshka must be dimensions with commas .* not '8;4'"):
        quick(bert, tmp_path / "model", matryoshka="8;4")
    with pytest.raises(Refused, match="32 dimensions; Matryoshka dimensions must be smaller, not 32"):
        quick(bert, tmp_path / "model", matryoshka="8,32", restart=True)
    quick(bert, tmp_path / "model", matryoshka="16, 8", restart=True, steps=2, evaluate_every=2)
    assert read_json(tmp_path / "model" / "training.json")["settings"]["matryoshka"] == "16, 8"
