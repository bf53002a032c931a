"""Encoding with the network compiled by torch, beside ours as it is: passages in batches, one question in a CUDA graph.

Batches of similar length leave little padding; `padding` says how much, which is the most that attention over texts
without padding could gain.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import partial
from statistics import median
from typing import Any

from benchmarks.gpu.results import Row
from blindspot.backend.retrieval.dense_shards import BLOCK
from blindspot.backend.retrieval.encoder import Encoder
from blindspot.backend.retrieval.passage_encoder import PassageEncoder
from blindspot.backend.retrieval.token_batches import batch_rows
from blindspot.db.records import Passage

QUESTION = "Where was the author of the first English grammar of the Norwegian language born?"
QUESTION_TOKENS = 32


def passages(name: str, encoder: Encoder, given: list[Passage], small: bool) -> list[Row]:
    """Encode passages with the network as it is and compiled, in turns."""
    from benchmarks.gpu.search import seconds_of

    plain, quick = PassageEncoder(encoder, "bfloat16"), PassageEncoder(encoder, "bfloat16")
    if plain.tokenizer is None:
        return []
    quick.model = copy.deepcopy(quick.model)
    compile_network(quick.model, dynamic=True)
    device, pairs = encoder.model.device.type, []
    first = seconds_of(partial(_encode, quick, given), device)
    for _ in range(1 if small else 3):
        pairs.append(tuple(seconds_of(partial(_encode, way, given), device) for way in (quick, plain)))
    ratios = sorted(other / own for own, other in pairs)
    ours, peer = (len(given) / median(taken) for taken in zip(*pairs, strict=True))
    return [
        Row(f"{name}: padding in our batches", f"{padding(plain, given):.2%} of the tokens"),
        Row(
            f"{name}, {len(given):,} passages cut at 128 tokens, bfloat16, compiled (first pass {first:.0f} s)",
            f"{ours:,.0f} passages/s",
            peer=f"ours, not compiled: {peer:,.0f}",
            ratio=f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
        ),
    ]


def question(name: str, encoder: Encoder, small: bool) -> list[Row]:
    """Encode one question, padded to 32 tokens, with the network as it is and compiled into a CUDA graph."""
    import torch

    from benchmarks.gpu.search import timed

    device = encoder.model.device
    plain = copy.deepcopy(encoder.model)
    if device.type == "cuda":
        plain = plain.to(torch.bfloat16)
    quick = copy.deepcopy(plain)
    compile_network(quick, dynamic=False, graph=True)
    tensors = plain.tokenizer(
        [QUESTION], padding="max_length", max_length=QUESTION_TOKENS, truncation=True, return_tensors="pt"
    )
    tensors = {key: tensor.to(device) for key, tensor in tensors.items()}

    def embed(model: Any) -> Any:
        with torch.inference_mode():
            return model(dict(tensors))["sentence_embedding"].float().cpu()

    cosine = torch.nn.functional.cosine_similarity(embed(plain), embed(quick)).item()
    for _ in range(3):  # the graph is recorded after some calls
        embed(quick)
    rounds = 3 if small else 50
    ours, peer = (1000 * median(timed(lambda m=m: embed(m), rounds, device.type)) for m in (quick, plain))
    what = (
        f"{name}, one question of {QUESTION_TOKENS} tokens in a CUDA graph (cosine with the plain vector {cosine:.5f})"
    )
    return [Row(what, f"{ours:.2f} ms", peer=f"ours, not compiled: {peer:.2f} ms", ratio=f"{peer / ours:.2f}")]


def compile_network(model: Any, dynamic: bool, graph: bool = False) -> None:
    """Compile the transformers network inside a SentenceTransformer, in place. On a CPU only its trace is made."""
    from transformers import PreTrainedModel

    network = next(module for module in model.modules() if isinstance(module, PreTrainedModel))
    if model.device.type == "cpu":
        network.compile(dynamic=dynamic, backend="eager")
    elif graph:
        network.compile(dynamic=dynamic, mode="reduce-overhead")
    else:
        network.compile(dynamic=dynamic)


def padding(encoder: PassageEncoder, given: list[Passage]) -> float:
    """Return the share of padding among the tokens of our batches."""
    read = padded = 0
    for block in _blocks(given):
        lengths = [len(ids) for ids in encoder.tokenise(block)]
        for rows in batch_rows([[0] * length for length in lengths], encoder.tokens):
            inside = [lengths[row] for row in rows]
            read, padded = read + sum(inside), padded + max(inside) * len(inside)
    return 1 - read / padded


def _encode(encoder: PassageEncoder, given: list[Passage]) -> None:
    encoder.encode_blocks(_blocks(given), lambda block: block, lambda block, vectors: None)


def _blocks(given: list[Passage]) -> Iterable[list[Passage]]:
    return [given[start : start + BLOCK] for start in range(0, len(given), BLOCK)]
