"""Training with several processes: two over gloo give the gradient, and the weights, of one process with the whole
batch.

`python -m tests.test_distributed FOLDER PORT` is the two processes: they are forked once the libraries are imported.
"""

import importlib
import multiprocessing
import os
import socket
import sys
from pathlib import Path

import pytest
import torch

from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.training.losses import InBatchLoss
from tests import forked
from tests.training import examples, quick, start

QUESTIONS, WIDTH, COLUMNS = 8, 6, 2
SETTINGS = {"steps": 3, "evaluate_every": 3}


def whole_batch():
    """Vectors of 8 questions and their passages, ids among which some repeat, and known positives."""
    torch.manual_seed(5)
    vectors = [torch.randn(QUESTIONS, WIDTH) for _ in range(1 + COLUMNS)]
    ids = torch.arange(QUESTIONS * COLUMNS).reshape(COLUMNS, QUESTIONS)
    ids[1, 0] = 6  # the hard negative of question 0 is the positive of question 6, which another process holds
    vectors[2][0] = vectors[1][6]
    return vectors, ids, torch.stack([ids[0], torch.tensor([-1, 7, -1, -1, -1, -1, -1, 1])], 1)


def gradient(rows, kind, mini_batch):
    """Return the loss of some questions and its gradients with respect to their vectors and to `weight`, which all
    vectors share.
    """
    vectors, ids, positives = whole_batch()
    weight = torch.eye(WIDTH).requires_grad_()
    leaves = [v[rows].clone().requires_grad_() for v in vectors]
    loss = InBatchLoss(torch.nn.Identity(), kind, mini_batch=mini_batch)
    labels = {"passages": ids[:, rows].flatten(), "positives": positives[rows]}
    value = loss.calculate_loss([[leaf @ weight] for leaf in leaves], labels, with_backward=mini_batch is not None)
    if mini_batch is None:
        value.backward()
    return value.item(), weight.grad, [leaf.grad for leaf in leaves]


def by_passage(columns):
    """Sum gradients by id, because the order decides which copy of a repeated passage counts."""
    return torch.zeros(QUESTIONS * COLUMNS, WIDTH).index_add(0, whole_batch()[1].flatten(), torch.cat(columns))


CASES = [("softmax", None), ("softmax", 2), ("triplet", None)]


def one_of_two(folder: Path):
    """Run one of the two processes."""
    from blindspot.backend.training.distributed import rank

    torch.set_num_threads(1)
    quick(bert(folder), folder / "two", batch=4, **SETTINGS)
    quick(bert(folder), folder / "only", batch=4, only="question", mini_batch=2, **SETTINGS)
    mine = slice(4 * rank(), 4 * rank() + 4)
    torch.save([gradient(mine, *case) for case in CASES], folder / f"gradients{rank()}.pt")


def begin(rank: int, folder: Path, port: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    one_of_two(folder)


def both(folder: Path, port: str) -> int:
    """Run the two processes, and return 0 if both succeed."""
    for name in ("blindspot.backend.training.trainer", "transformers.models.bert.modeling_bert", "datasets"):
        importlib.import_module(name)
    forks = multiprocessing.get_context("fork")
    running = [forks.Process(target=begin, args=(rank, folder, port)) for rank in range(2)]
    for process in running:
        process.start()
    for process in running:
        process.join(80)
        process.kill()
        process.join()
    return int(any(process.exitcode for process in running))


def bert(folder: Path) -> EncoderSettings:
    return EncoderSettings(model=str(folder / "bert"), pooling="cls", max_tokens=64)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The folder that two processes filled."""
    folder = tmp_path_factory.mktemp("two")
    start(folder / "bert", dropout=0.0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = forked.python("-m", "tests.test_distributed", str(folder), str(port))
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{kind} {cached or ''}".strip() for kind, cached in CASES])
def test_two_processes_give_the_gradient_of_one(two, number):
    value, weight, leaves = gradient(slice(None), *CASES[number])
    parts = [torch.load(two / f"gradients{rank}.pt", weights_only=True)[number] for rank in range(2)]
    assert sum(part[0] for part in parts) / 2 == pytest.approx(value, rel=1e-6)
    torch.testing.assert_close(sum(part[1] for part in parts) / 2, weight)
    together = [
        torch.cat([part[2][column] for part in parts]) / 2 for column in range(1 + COLUMNS)
    ]  # own rows, from the losses of both
    torch.testing.assert_close(together[0], leaves[0])
    torch.testing.assert_close(by_passage(together[1:]), by_passage(leaves[1:]))


@pytest.mark.parametrize("name, settings", [("two", {}), ("only", {"only": "question"})])
def test_two_processes_train_the_model_of_one(two, tmp_path, name, settings):
    quick(bert(two), tmp_path / "one", batch=8, **SETTINGS, **settings)
    loaded = [load_encoder(EncoderSettings(model=str(folder)), "cpu") for folder in (tmp_path / "one", two / name)]
    before = load_encoder(bert(two), "cpu")
    for encode in (
        lambda encoder: encoder.encode_questions(["Where was Arve born?"]),
        lambda encoder: encoder.encode_passages(examples()[0].negatives),
    ):
        one, both, began = encode(loaded[0]), encode(loaded[1]), encode(before)
        moved = abs(one - began).max()
        assert abs(one - both).max() <= 0.02 * moved  # Adam amplifies rounding errors of gradients near zero


if __name__ == "__main__":
    sys.exit(both(Path(sys.argv[1]), sys.argv[2]))
