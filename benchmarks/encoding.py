"""Encoding passages: ours and SentenceTransformer.encode at its best batch size, on the same device and threads.

    python -m benchmarks.encoding [--model minilm] [--passages 512] [--rounds 3] [--device cuda] [--random-bert]

Wikipedia passages, `title [SEP] text`. The peer's batch size is the fastest of several on this machine; it is measured
in float32, its default, and in the 16-bit precision that ours uses (`model.bfloat16()`). Our time covers everything
from the texts to float16 vectors in this process's memory, in the blocks of an index. All sides run in turns; figures
are medians. The cosines compare each vector with the peer's float32 vector. On a GPU use `--passages 50000`.
`--random-bert` measures BERT-base's shape with random weights, for speed only, with `--precision bfloat16`, because
rounding changes the output of random weights more than that of trained weights.
"""

from __future__ import annotations

import argparse
import copy
import csv
import lzma
import os
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.machine import fastest_size, machine, peak_memory
from blindspot.backend.core.model_files import locate_model
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.retrieval.dense_shards import BLOCK
from blindspot.backend.retrieval.encoder import Encoder, load_encoder
from blindspot.backend.retrieval.passage_encoder import PRECISIONS, PassageEncoder, least_cosine
from blindspot.db.records import Passage
from tests.conftest import REAL_DATA

BATCHES = {"cpu": (4, 8, 16, 32), "cuda": (32, 128, 512, 2048)}
TUNED_ON = {"cpu": 96, "cuda": 8192}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="minilm", help="minilm, or a folder")
    parser.add_argument("--random-bert", action="store_true", help="BERT-base with random weights, instead of --model")
    parser.add_argument("--passages", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--precision", default="auto", choices=PRECISIONS)
    parser.add_argument("--device")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = EncoderSettings(
            model=random_bert(Path(folder)) if options.random_bert else options.model,
            pooling="cls" if options.random_bert else "auto",
            max_tokens=options.max_tokens,
        )
        encoder, passages = load_encoder(settings, options.device), some_passages(options.passages)
        report(len(passages), *measure(encoder, passages, options.rounds, options.precision))


def some_passages(count: int) -> list[Passage]:
    """Return passages spread over the real collection."""
    with lzma.open(REAL_DATA / "passages_100k.tsv.xz", "rt", encoding="utf-8", newline="") as lines:
        rows = islice(csv.DictReader(lines, delimiter="\t"), 0, None, max(1, 100_000 // count))
        return [Passage(row["id"], row["title"], row["text"]) for row in islice(rows, count)]


def random_bert(folder: Path) -> str:
    """Return a model with BERT-base's shape and MiniLM's vocabulary."""
    import torch
    import transformers

    torch.manual_seed(0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(locate_model("minilm"))
    transformers.BertModel(transformers.BertConfig(vocab_size=len(tokenizer))).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def measure(
    encoder: Encoder, passages: list[Passage], rounds: int, precision: str = "auto"
) -> tuple[dict[str, list[float]], dict[str, np.ndarray]]:
    """Return the seconds of each round and the vectors, by way of encoding. The first way is the peer."""
    import torch

    texts, device = [encoder.passage_text(passage) for passage in passages], encoder.model.device.type
    ours = PassageEncoder(encoder, precision, passages[:: max(1, len(passages) // 32)])
    lengths = [len(ids) for ids in encoder.model.tokenizer(texts, truncation=True)["input_ids"]]
    print(f"{machine()}; {torch.get_num_threads()} threads; load before {os.getloadavg()[0]:.1f}")
    print(
        f"{len(texts):,} passages of {np.mean(lengths):.0f} tokens, {encoder.dimension} dimensions, device {device}; "
        f"ours takes {ours.precision}, batches of {ours.batch}"
    )
    halved = copy.deepcopy(encoder.model).to(getattr(torch, ours.precision))
    batch = best_batch(encoder.model, texts[: TUNED_ON.get(device, 96)], BATCHES.get(device, BATCHES["cpu"]))
    batch16 = best_batch(halved, texts[: TUNED_ON.get(device, 96)], BATCHES.get(device, BATCHES["cpu"]))

    def blocks(by: PassageEncoder) -> np.ndarray:
        starts = range(0, len(passages), BLOCK)
        return np.concatenate([by.encode(passages[start : start + BLOCK]) for start in starts])

    plain = PassageEncoder(encoder, "float32")
    ways = {
        f"SentenceTransformer.encode, float32, batches of {batch}": lambda: encoded(encoder.model, texts, batch),
        f"SentenceTransformer.encode, {ours.precision}, batches of {batch16}": lambda: encoded(halved, texts, batch16),
        "ours, float32": lambda: blocks(plain),
        f"ours, {ours.precision}": lambda: blocks(ours),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    made: dict[str, np.ndarray] = {}
    for _ in range(rounds):
        for name, way in ways.items():
            seconds[name].append(timed_in_full(way, made, name))
    return seconds, made


def report(count: int, seconds: dict[str, list[float]], made: dict[str, np.ndarray]) -> None:
    first = next(iter(seconds))
    print(f"\n{'':<52}{'passages/s':>12}{'times the peer (range)':>28}{'least cosine':>14}")
    for name, taken in seconds.items():
        ratios = np.array(seconds[first]) / np.array(taken)
        spread = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"{name:<52}{count / median(taken):>12,.1f}{spread:>28}{least_cosine(made[name], made[first]):>14.6f}")
    print(f"peak memory {peak_memory():,.0f} MiB")


def encoded(model, texts: list[str], batch: int) -> np.ndarray:
    return (
        model.encode_document(texts, batch_size=batch, show_progress_bar=False, convert_to_tensor=True)
        .float()
        .cpu()
        .numpy()
    )


def best_batch(model, texts: list[str], sizes: tuple[int, ...]) -> int:
    """Return the batch size at which the peer is fastest."""
    encoded(model, texts[:8], 8)
    return fastest_size(sizes, lambda size: encoded(model, texts, size))


def timed_in_full(way: Callable[[], np.ndarray], made: dict[str, np.ndarray], name: str) -> float:
    started = time.perf_counter()
    made[name] = way()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
