"""Items about exact search: correct hits, and speed at 21 million vectors beside the chip's limits and its peers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from backend.retrieval.exact import gpu
from backend.retrieval.exact.gpu import GPUShard, Shards
from backend.retrieval.search import ExactSearch
from benchmarks.gpu.results import NOT_MEASURED, Row
from benchmarks.search import ROWS_PER_BLOCK, generate, load, plain

K = 100
BATCHES = (1, 32, 1024, 4096)
AIMS = {1: "8 ms", 4096: "18,000 questions/s"}
SPARE = 32  # candidates of the reference beyond k, scored again by differences


# Correctness


def correctness(folder: Path, device: str, small: bool, say: Callable[[str], None]) -> list[Row]:
    """Compare the hits with float64 products of all rows: each similarity, one and two shards, vectors that do not fit
    on the device, and a device that runs out of memory during a search.
    """
    rows, width, asked = (4000, 64, 50) if small else (1_000_000, 768, 2000)
    result = []
    for kind, similarity in (("unit", "dot"), ("dpr", "dot"), ("dpr", "l2")):
        generate(folder, kind, rows, width, asked, device)
        vectors, questions = load(folder)
        expected = reference(vectors, questions, K, similarity, device)
        for way, shards, prepare in (
            ("one shard", 1, _nothing), ("two shards", 2, _nothing), ("streamed from the host", 1, streamed),
            ("short memory", 1, short_memory),
        ):  # fmt: skip
            say(f"{kind}, {similarity}, {way}")
            search = ExactSearch(vectors, similarity, "cpu")
            search.proposer = Shards(vectors, similarity, [device] * shards)
            with prepare(search, device):
                same = (search.search(questions, K).ordinals == expected).mean()
            what = f"hits at their rank, {kind} vectors, {similarity}, {way} ({rows:,} x {width}, {asked:,} questions)"
            result.append(Row(what, f"{same:.4%}", "100%", "float64 products of all rows"))
            del search
    return result


def reference(vectors: np.ndarray, questions: np.ndarray, k: int, similarity: str, device: str) -> np.ndarray:
    """Return the rows (q, k) of the best float64 scores, rounded once to float32, ties by row."""
    import torch

    asked = torch.from_numpy(questions).to(device).double()
    scores, found = [], []
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        rows = torch.from_numpy(vectors[start : start + ROWS_PER_BLOCK].copy()).to(device).double()
        product = asked @ rows.T
        if similarity == "l2":
            product = 2 * product - rows.square().sum(1)
        best = product.topk(min(k + SPARE, len(rows)), dim=1)
        scores.append(best.values), found.append(best.indices + start)
    candidates = torch.cat(found, 1).gather(1, torch.cat(scores, 1).topk(k + SPARE, dim=1).indices).cpu().numpy()
    candidates.sort(axis=1)
    exact = np.empty(candidates.shape, np.float32)
    for place, own in enumerate(candidates):
        rows, question = vectors[own].astype(np.float64), questions[place].astype(np.float64)
        exact[place] = rows @ question if similarity == "dot" else -np.square(rows - question).sum(1)
    order = np.argsort(-exact, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(candidates, order, 1)


@contextmanager
def _nothing(search: ExactSearch, device: str) -> Iterator[None]:
    yield


@contextmanager
def streamed(search: ExactSearch, device: str) -> Iterator[None]:
    """Hold no rows on the device, as if they did not fit."""
    kept, GPUShard._allocate = GPUShard._allocate, lambda self: None
    try:
        yield
    finally:
        GPUShard._allocate = kept


@contextmanager
def short_memory(search: ExactSearch, device: str) -> Iterator[None]:
    """Let the device run out of memory: on a GPU by a limit a little above the rows, on a CPU by an error."""
    import torch

    if device.startswith("cuda"):
        search.search(np.zeros((1, search.vectors.shape[1]), np.float32), 1)  # loads the rows
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved(device) + (256 << 20)) / total, device)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0, device)
        return
    real, left = gpu._product, [2]

    def product(*arguments: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise torch.OutOfMemoryError("out of memory")
        return real(*arguments)

    gpu._product = product
    try:
        yield
    finally:
        gpu._product = real


# Speed


def speed(folder: Path, device: str, small: bool, say: Callable[[str], None]) -> list[Row]:
    import torch

    rows, width = (20_000, 64) if small else (21_015_324, 768)
    batches = tuple(min(batch, 64) for batch in BATCHES[:3]) if small else BATCHES
    rounds = 3 if small else 5
    say(f"making {rows:,} vectors")
    generate(folder, "unit", rows, width, max(batches), device)
    vectors, questions = load(folder)
    say("ours")
    loading, ours, kernel = _ours(vectors, questions, batches, rounds, device)
    limits = chip_limits(device, small)
    result = [Row(f"loading {vectors.nbytes / 1e9:,.2f} GB, first question included", loading)]
    for name, make in (
        ("torch matmul and topk", torch_plain), ("faiss-gpu Flat, float16", faiss_gpu), ("cuVS brute force", cuvs),
    ):  # fmt: skip
        say(name)
        peer = make(vectors, device)
        if peer is None:
            result.append(Row(f"beside {name}", NOT_MEASURED, peer="not installed"))
        else:
            result += _beside(name, peer, ours, questions, vectors, device, limits)
        peer = None
        if device != "cpu":
            torch.cuda.empty_cache()
    bandwidth, flops = limits
    seen = f"copies {bandwidth / 1e12:.2f} TB/s, products {flops / 1e12:,.1f} TFLOP/s"
    return [*result, Row(f"slowest kernel at {batches[-1]:,} questions", kernel), Row("limits seen on this chip", seen)]


def _ours(
    vectors: np.ndarray, questions: np.ndarray, batches: tuple[int, ...], rounds: int, device: str
) -> tuple[str, dict[int, list[float]], str]:
    """Return the speed of loading, the seconds of each round by batch, and the slowest kernel of the largest batch."""
    search = ExactSearch(vectors, "dot", "cpu")
    search.proposer = Shards(vectors, "dot", [device] if device == "cpu" else gpu.devices(device))
    began = time.perf_counter()
    search.search(questions[:1], K)
    loaded = time.perf_counter() - began
    taken = {batch: timed(lambda b=batch: search.search(questions[:b], K), rounds, device) for batch in batches}
    kernel = profiled(lambda: search.search(questions[: batches[-1]], K), device)
    return f"{loaded:.1f} s, {vectors.nbytes / 1e9 / loaded:.1f} GB/s", taken, kernel


def _beside(
    name: str,
    peer: Callable[[np.ndarray], object],
    ours: dict[int, list[float]],
    questions: np.ndarray,
    vectors: np.ndarray,
    device: str,
    limits: tuple[float, float],
) -> list[Row]:
    result = []
    for batch, own in ours.items():
        other = timed(lambda b=batch: peer(questions[:b]), len(own), device)
        ratios = sorted(theirs / mine for theirs, mine in zip(other, own))
        bytes_read, operations = vectors.nbytes / median(own), 2.0 * vectors.size * batch / median(own)
        what = (
            f"{len(vectors):,} x {vectors.shape[1]}, k = {K}, {batch:,} questions at once: reads at "
            f"{bytes_read / limits[0]:.0%} of the copying speed, multiplies at {operations / limits[1]:.0%}"
        )
        ratio = f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        result.append(Row(what, _rate(batch, own), AIMS.get(batch, ""), f"{name} {_rate(batch, other)}", ratio))
    return result


def _rate(batch: int, seconds: list[float]) -> str:
    return f"{1000 * median(seconds):,.1f} ms" if batch == 1 else f"{batch / median(seconds):,.0f} questions/s"


def timed(function: Callable[[], object], rounds: int, device: str) -> list[float]:
    """Return the seconds of each round, after one warm-up."""
    import torch

    taken = []
    for place in range(rounds + 1):
        began = time.perf_counter()
        function()
        if device != "cpu":
            torch.cuda.synchronize()
        if place:
            taken.append(time.perf_counter() - began)
    return taken


def chip_limits(device: str, small: bool) -> tuple[float, float]:
    """Return bytes a second (read and written) of a copy, and operations a second of a 16-bit matrix product."""
    import torch

    count, side = (1 << 22, 512) if small else (1 << 30, 8192)
    source, target = (torch.empty(count, dtype=torch.float32, device=device) for _ in range(2))
    copy = min(timed(lambda: target.copy_(source), 5, device))
    a = torch.randn(side, side, device=device, dtype=torch.bfloat16)
    product = min(timed(lambda: a @ a, 10, device))
    return 2 * source.nbytes / copy, 2.0 * side**3 / product


def profiled(function: Callable[[], object], device: str) -> str:
    """Return the name of the slowest kernel and its share of the time of all kernels."""
    from torch.profiler import ProfilerActivity, profile

    on_gpu = device != "cpu"
    with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as seen:
        function()
    times = {
        event.key: float(event.self_device_time_total if on_gpu else event.self_cpu_time_total)
        for event in seen.key_averages()
    }
    slowest, total = max(times, key=lambda name: times[name]), sum(times.values())
    return f"{slowest[:80]}: {times[slowest] / max(total, 1e-9):.0%} of {total / 1000:,.1f} ms"


def torch_plain(vectors: np.ndarray, device: str) -> Callable[[np.ndarray], object]:
    import torch

    held = torch.empty(vectors.shape, dtype=torch.float16, device=device)
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        held[start : start + ROWS_PER_BLOCK] = torch.from_numpy(vectors[start : start + ROWS_PER_BLOCK].copy())
    return lambda asked: plain(held, asked, K)


def faiss_gpu(vectors: np.ndarray, device: str) -> Callable[[np.ndarray], object] | None:
    try:
        import faiss

        resources = faiss.StandardGpuResources()
    except (ImportError, AttributeError):
        return None
    settings = faiss.GpuIndexFlatConfig()
    settings.useFloat16 = True
    index = faiss.GpuIndexFlatIP(resources, vectors.shape[1], settings)
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        index.add(vectors[start : start + ROWS_PER_BLOCK].astype(np.float32))
    return lambda asked: index.search(asked, K)


def cuvs(vectors: np.ndarray, device: str) -> Callable[[np.ndarray], object] | None:
    try:
        import cupy
        from cuvs.neighbors import brute_force
    except ImportError:
        return None
    index = brute_force.build(cupy.asarray(vectors), metric="inner_product")
    return lambda asked: brute_force.search(index, cupy.asarray(asked.astype(np.float16)), K)
