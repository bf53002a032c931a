"""Checks of exact search: correct hits, and speed at 21 million vectors beside the chip's limits and its peers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.gpu.results import Row, guarded, release
from benchmarks.search import ROWS_PER_BLOCK, generate, load, plain
from blindspot.backend.core.manifest import read_object, write_json
from blindspot.backend.retrieval.exact import gpu
from blindspot.backend.retrieval.exact.gpu import GPUSearch, GPUShard
from blindspot.backend.retrieval.search import ExactSearch

K = 100
SIZE, SMALL_SIZE = (21_015_324, 768), (20_000, 64)
FIRST = (1, 4096)  # questions at once, of the first check
ORACLE = 4  # questions whose lists are compared with float64 products on the CPU
BATCHES = (1, 32, 1024, 4096)
AIMS = {1: "8 ms", 4096: "18,000 questions/s"}
SPARE = 32  # candidates of the reference beyond k, scored again by differences
ROOM = 512 << 20  # bytes beside the rows, where memory is short: less than one block of scores


# Correctness


def correctness(folder: Path, device: str, small: bool, say: Callable[[str], None]) -> list[Row]:
    """Compare the hits with float64 products of all rows: each similarity, one and two shards, vectors that do not fit
    on the device, and a device that runs out of memory during a search.
    """
    rows, width, asked = (4000, 64, 50) if small else (1_000_000, 768, 2000)
    result: list[Row] = []
    for kind, similarity in (("unit", "dot"), ("dpr", "dot"), ("dpr", "l2")):
        generate(folder, kind, rows, width, asked, device)
        vectors, questions = load(folder)
        expected = reference(vectors, questions, K, similarity, device)
        for way in WAYS:
            say(f"{kind}, {similarity}, {way}")
            what = f"hits at their rank, {kind} vectors, {similarity}, {way} ({rows:,} x {width}, {asked:,} questions)"
            result += guarded(what, partial(_compare, what, way, vectors, questions, similarity, expected, device))
    return result


def _compare(
    what: str,
    way: str,
    vectors: np.ndarray,
    questions: np.ndarray,
    similarity: str,
    expected: np.ndarray,
    device: str,
) -> list[Row]:
    (shards, prepare), devices = WAYS[way], numbered(device)
    search = ExactSearch(vectors, similarity, "cpu")
    search.proposer = GPUSearch(vectors, similarity, [own for own, _ in zip(cycle(devices), range(shards))])
    with prepare(search, devices[0]):
        same = (search.search(questions, K).ordinals == expected).mean()
    return [Row(what, f"{same:.4%}", "100%", "float64 products of all rows")]


def numbered(device: str) -> list[str]:
    """Return the devices by number: torch limits the memory of "cuda:0", not of "cuda"."""
    return [device] if device == "cpu" else gpu.devices(device)


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
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved(device) + ROOM) / total, device)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0, device)
        return
    real, left = gpu._padded_products, [2]

    def product(*arguments: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise torch.OutOfMemoryError("out of memory")
        return real(*arguments)

    gpu._padded_products = product
    try:
        yield
    finally:
        gpu._padded_products = real


WAYS = {
    "one shard": (1, _nothing), "two shards": (2, _nothing), "streamed from the host": (1, streamed),
    "short memory": (1, short_memory),
}  # fmt: skip


# Speed


def first(folder: Path, device: str, small: bool, say: Callable[[str], None]) -> list[Row]:
    """Measure one question and the largest batch over DPR's number of vectors, and compare some lists with the CPU's."""
    search, questions, loading = _loaded(folder, device, small, say)
    vectors, limits = search.vectors, chip_limits(device, small)
    rows = [loading]
    for batch in _batches(FIRST, small):
        taken = timed(lambda b=batch: search.search(questions[:b], K), 3, device)
        rows.append(roofline_row(vectors, batch, taken, limits))
    say("the same lists on the CPU")
    expected = reference(vectors, questions[:ORACLE], K, "dot", "cpu")
    same = (search.search(questions[:ORACLE], K).ordinals == expected).mean()
    what = f"{len(vectors):,} x {vectors.shape[1]}, k = {K}: hits at their rank, {ORACLE} questions"
    return [*rows, Row(what, f"{same:.4%}", "100%", "float64 products of all rows, on the CPU")]


def speed(folder: Path, device: str, small: bool, say: Callable[[str], None]) -> list[Row]:
    batches, rounds = _batches(BATCHES, small), 3 if small else 5
    search, questions, loading = _loaded(folder, device, small, say)
    vectors, limits, result = search.vectors, chip_limits(device, small), [loading]
    for batch in batches:
        taken = timed(lambda b=batch: search.search(questions[:b], K), rounds, device)
        result.append(roofline_row(vectors, batch, taken, limits))
    slowest = f"slowest kernel at {batches[-1]:,} questions"
    largest = partial(search.search, questions[: batches[-1]], K)
    result += guarded(slowest, lambda: [Row(slowest, profiled(largest, device))])
    seen = f"copies {limits[0] / 1e12:.2f} TB/s, products {limits[1] / 1e12:,.1f} TFLOP/s"
    result.append(Row("limits seen on this chip", seen))
    for name, make in PEERS:
        say(name)
        beside = partial(_beside, name, make, search, questions, batches, rounds, device, limits[0])
        result += guarded(f"beside {name}", beside)
        release()
    return result


def _batches(batches: Sequence[int], small: bool) -> tuple[int, ...]:
    return tuple(sorted({min(batch, 64) for batch in batches})) if small else tuple(batches)


def _loaded(folder: Path, device: str, small: bool, say: Callable[[str], None]) -> tuple[ExactSearch, np.ndarray, Row]:
    """Return the search over the generated vectors, its questions, and the row of the loading. Vectors that an earlier
    check left in the folder are taken.
    """
    rows, width = SMALL_SIZE if small else SIZE
    made, asked = folder / "made.json", max(_batches(BATCHES, small))
    if not made.is_file() or read_object(made) != {"rows": rows, "width": width}:
        say(f"making {rows:,} vectors")
        generate(folder, "unit", rows, width, asked, device)
        write_json(made, {"rows": rows, "width": width})
    vectors, questions = load(folder)
    say("ours")
    search = ExactSearch(vectors, "dot", "cpu")
    search.proposer = GPUSearch(vectors, "dot", numbered(device))
    seconds = seconds_of(lambda: search.search(questions[:1], K), device)
    said = f"{seconds:.1f} s, {vectors.nbytes / 1e9 / seconds:.1f} GB/s"
    return search, questions, Row(f"loading {vectors.nbytes / 1e9:,.2f} GB, first question included", said)


def roofline_row(vectors: np.ndarray, batch: int, taken: list[float], limits: tuple[float, float]) -> Row:
    """Compare with the roofline: the time of reading each row once, or of the products alone, whichever is longer."""
    reading, products = vectors.nbytes / limits[0], 2.0 * vectors.size * batch / limits[1]
    bound = "reading the rows" if reading >= products else "the products"
    return Row(
        f"{len(vectors):,} x {vectors.shape[1]}, k = {K}, {_questions(batch)}: share of the roofline, which is "
        f"{1000 * max(reading, products):,.2f} ms ({bound})",
        f"{rate(batch, taken)}, {max(reading, products) / median(taken):.0%}; {bandwidth(vectors.nbytes, taken, limits[0])}",
        AIMS.get(batch, ""),
    )


def _beside(
    name: str,
    make: Callable[[np.ndarray, str], Callable[[np.ndarray], object]],
    search: ExactSearch,
    questions: np.ndarray,
    batches: Sequence[int],
    rounds: int,
    device: str,
    copies: float,
) -> list[Row]:
    """Measure ours and a peer in turns, both loaded. copies: bytes a second of a copy on this chip."""
    result, vectors = [], search.vectors
    peer = make(vectors, device)
    for batch in batches:
        asked, pairs = questions[:batch], []
        for place in range(rounds + 1):
            pair = seconds_of(partial(search.search, asked, K), device), seconds_of(partial(peer, asked), device)
            pairs += [pair] if place else []  # the first round warms up
        ratios = sorted(theirs / own for own, theirs in pairs)
        ours, other = zip(*pairs, strict=True)
        what = f"{len(vectors):,} x {vectors.shape[1]}, k = {K}, {_questions(batch)}, beside {name}"
        ratio = f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        said = [f"{rate(batch, taken)}; {bandwidth(vectors.nbytes, taken, copies)}" for taken in (ours, other)]
        result.append(Row(what, said[0], "", said[1], ratio))
    return result


def bandwidth(size: int, seconds: Sequence[float], copies: float) -> str:
    """Return the share of the chip's bandwidth that reading `size` bytes once in this time is."""
    return f"{size / median(seconds) / copies:.0%} of the bandwidth"


def _questions(batch: int) -> str:
    return "one question" if batch == 1 else f"{batch:,} questions at once"


def rate(batch: int, seconds: Sequence[float]) -> str:
    return f"{1000 * median(seconds):,.1f} ms" if batch == 1 else f"{batch / median(seconds):,.0f} questions/s"


def timed(function: Callable[[], object], rounds: int, device: str) -> list[float]:
    """Return the seconds of each round, after one warm-up."""
    return [seconds_of(function, device) for _ in range(rounds + 1)][1:]


def seconds_of(function: Callable[[], object], device: str) -> float:
    """Return the seconds of a call, until the device has finished."""
    import torch

    began = time.perf_counter()
    function()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - began


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


def faiss_gpu(vectors: np.ndarray, device: str) -> Callable[[np.ndarray], object]:
    import faiss

    if not hasattr(faiss, "StandardGpuResources"):
        raise ImportError("this FAISS has no GPU part")
    settings = faiss.GpuIndexFlatConfig()
    settings.useFloat16 = True
    resources = faiss.StandardGpuResources()
    index = faiss.GpuIndexFlatIP(resources, vectors.shape[1], settings)
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        index.add(vectors[start : start + ROWS_PER_BLOCK].astype(np.float32))
    return lambda asked: (index.search(asked, K), resources)  # the index lives as long as its resources


def cuvs(vectors: np.ndarray, device: str) -> Callable[[np.ndarray], object]:
    import cupy
    from cuvs.neighbors import brute_force

    index = brute_force.build(cupy.asarray(vectors), metric="inner_product")
    return lambda asked: brute_force.search(index, cupy.asarray(asked.astype(np.float16)), K)


def flashlib(vectors: np.ndarray, device: str) -> Callable[[np.ndarray], object]:
    """FlashLib searches by squared l2, which ranks unit vectors as inner products do."""
    import torch
    from flashlib import flash_knn

    held = torch.empty(vectors.shape, dtype=torch.float16, device=device)
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        held[start : start + ROWS_PER_BLOCK] = torch.from_numpy(vectors[start : start + ROWS_PER_BLOCK].copy())
    return lambda asked: flash_knn(torch.from_numpy(asked).to(device, torch.float16), held, K)


PEERS = (
    ("torch matmul and topk", torch_plain), ("faiss-gpu Flat, float16", faiss_gpu), ("cuVS brute force", cuvs),
    ("FlashLib", flashlib),
)  # fmt: skip
