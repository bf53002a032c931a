"""Exact search and its peers: FAISS Flat, torch's matmul and topk, and the memory bandwidth.

    python -m benchmarks.search [--study DIR] [--rounds N]                      # CPU: 100,000 real vectors
    python -m benchmarks.search --rows 1000000 --width 768                      # CPU: generated vectors
    python -m benchmarks.search --device cuda --rows 21015324 --width 768      # GPU: DPR's setting, 32 GB
    python -m benchmarks.search --as-gpu --rows 20000 --width 64 --questions 64 --batch 64    # the same code, tried on
    a CPU

On a CPU each side runs in a separate process, in turns, because two thread pools in one process disturb each other.
"reading" is a pass over the same bytes by the same number of threads, a lower bound for one question.

On a GPU the vectors are made there, once as random unit vectors and once in DPR's range (scores near 75), written to a
file and loaded from it. The peers are torch's matmul and topk in blocks, and faiss-gpu's Flat in float16 where it is
installed. Each comparison checks a sample of questions against float64 products of all rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.machine import machine, peak_memory, timed
from blindspot.backend.retrieval.exact.gpu import GPUSearch
from blindspot.backend.retrieval.search import ExactSearch

SAMPLE, SEED = 8, 0
CLOCKS = {"passed": time.perf_counter, "processor": time.process_time}
ROWS_PER_BLOCK = 1 << 18
KINDS = {"unit": (0.0, 1.0), "dpr": (0.85, 10.0)}  # share of a common direction, and length


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", help="a study with a dense index and dev questions")
    parser.add_argument("--rows", type=int, help="number of vectors to generate")
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--questions", type=int, default=2048)
    parser.add_argument("--batch", type=int, nargs="+", default=[1024, 2048], help="questions per batch, on a GPU")
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, help="threads of each side, on a CPU (default: one per core)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--as-gpu", action="store_true", help="run the GPU code on CPU tensors, at a small size")
    parser.add_argument("--folder", help="folder of the file of vectors (default: a temporary folder)")
    parser.add_argument("--child", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(arguments.child, Path(arguments.folder), arguments.k)))
        return
    print(machine())
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        if arguments.device == "cpu" and not arguments.as_gpu:
            on_cpu(Path(folder), arguments)
        else:
            for kind in KINDS:
                on_gpu(Path(folder), kind, arguments)


# CPU: a process for each side


def on_cpu(folder: Path, arguments: argparse.Namespace) -> None:
    if arguments.rows:
        generate(folder, "unit", arguments.rows, arguments.width, arguments.questions, "cpu")
    else:
        real_vectors(folder, arguments.study)
    vectors, questions = load(folder)
    k = arguments.k
    print(
        f"{len(vectors):,} x {vectors.shape[1]} ({vectors.nbytes / 1e6:,.0f} MB in float16), {len(questions):,} "
        f"questions, k = {k}; each side in a process of its own, in turn, {arguments.rounds} rounds"
    )
    rounds = [{side: run_child(side, folder, k, arguments.threads) for side in SIDES} for _ in range(arguments.rounds)]
    for clock in ("passed", "processor"):
        for what in ("all", "8", "1"):
            times = {
                side: median(measured[side][what][clock] for measured in rounds)
                for side in SIDES
                if what in rounds[0][side]
            }
            ratio = median(measured["faiss"][what][clock] / measured["ours"][what][clock] for measured in rounds)
            listed = ", ".join(f"{side} {1000 * seconds:,.1f} ms" for side, seconds in times.items())
            print(f"  {what:>3} questions, {clock} time: {listed}; FAISS Flat / ours {ratio:.2f}")
    print(
        "  peak memory, MiB: "
        + ", ".join(f"{side} {median(measured[side]['memory'] for measured in rounds):,.0f}" for side in SIDES)
    )
    search = ExactSearch(vectors, "dot", "cpu")
    check(search, vectors, questions[:SAMPLE], k, "cpu")


def child(side: str, folder: Path, k: int) -> dict:
    """Median seconds of one side for all questions, eight and one, and its peak memory in MiB.

    Processor time over all threads is measured too, for comparison while other work uses the cores.
    """
    vectors, questions = load(folder)
    function, sizes = SIDES[side](vectors, k)
    result = {}
    for what, count, repeats in (("all", len(questions), 3), ("8", 8, 11), ("1", 1, 31)):
        if what in sizes:
            result[what] = dict(zip(CLOCKS, repeated(lambda asked=questions[:count]: function(asked), repeats)))
    return {**result, "memory": peak_memory()}


def _ours(vectors: np.ndarray, k: int):
    search = ExactSearch(vectors, "dot", "cpu")
    return lambda questions: search.search(questions, k), ("all", "8", "1")


def _faiss(vectors: np.ndarray, k: int):
    import faiss

    flat = faiss.IndexFlatIP(vectors.shape[1])
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        flat.add(vectors[start : start + ROWS_PER_BLOCK].astype(np.float32))
    return lambda questions: flat.search(questions, k), ("all", "8", "1")


def _reading(vectors: np.ndarray, k: int):
    from blindspot.backend.retrieval.exact.workers import run_in_threads, threads

    words = vectors.view(np.int64)

    def read(starts) -> None:
        for start in starts:
            words[start : start + 8192].max()

    return lambda _: run_in_threads(range(0, len(words), 8192), read, threads()), ("1",)


SIDES: dict[str, Callable] = {"ours": _ours, "faiss": _faiss, "reading": _reading}


def run_child(side: str, folder: Path, k: int, threads: int | None) -> dict:
    command = [sys.executable, "-m", "benchmarks.search", "--child", side, "--folder", str(folder), "--k", str(k)]
    limits = {} if threads is None else {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    return json.loads(
        subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | limits).stdout
    )


def repeated(function: Callable[[], object], times: int) -> tuple[float, ...]:
    """Return median seconds after one warm-up, by each of CLOCKS."""
    function()
    seconds = []
    for _ in range(times):
        started = [now() for now in CLOCKS.values()]
        function()
        seconds.append([now() - then for now, then in zip(CLOCKS.values(), started, strict=True)])
    return tuple(median(each) for each in zip(*seconds))


# GPU


def on_gpu(folder: Path, kind: str, arguments: argparse.Namespace) -> None:
    import torch

    rows, device, k = arguments.rows or 1_000_000, arguments.device, arguments.k
    generate(folder, kind, rows, arguments.width, max(arguments.questions, *arguments.batch), device)
    vectors, questions = load(folder)
    print(f"\n{kind}: {rows:,} x {arguments.width} ({vectors.nbytes / 1e9:.1f} GB in float16), k = {k}")
    search = ExactSearch(vectors, "dot", device)
    if device == "cpu":
        search.proposer = GPUSearch(vectors, "dot", ["cpu"])
    first, seconds = timed(lambda: search.search(questions[:1], k))
    print(
        f"  first question, loading included: {seconds:.1f} s, {vectors.nbytes / 1e9 / seconds:.1f} GB/s (a file "
        "just written: cached)"
    )
    measure("ours", lambda asked: search.search(asked, k), questions, arguments)
    print(f"  best score {first.scores[0, 0]:.3f}, {k}th {first.scores[0, -1]:.3f}")
    check(search, vectors, questions[:SAMPLE], k, device)
    search = None
    held = torch.empty(vectors.shape, dtype=torch.float16, device=device)
    for start in range(0, rows, ROWS_PER_BLOCK):
        held[start : start + ROWS_PER_BLOCK] = torch.from_numpy(vectors[start : start + ROWS_PER_BLOCK].copy()).to(
            device
        )
    measure("torch matmul and topk", lambda asked: plain(held, asked, k), questions, arguments)
    held = None
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    compare_faiss_gpu(vectors, questions, arguments)


def measure(
    name: str, function: Callable[[np.ndarray], object], questions: np.ndarray, arguments: argparse.Namespace
) -> None:
    import torch

    on_cuda = arguments.device.startswith("cuda")
    if on_cuda:
        torch.cuda.reset_peak_memory_stats()
    for batch in arguments.batch:
        seconds, _ = repeated(lambda asked=questions[:batch]: function(asked), arguments.rounds)
        print(f"  {name}: {batch} questions {1000 * seconds:,.1f} ms, {batch / seconds:,.0f} questions/s")
    one, _ = repeated(lambda: function(questions[:1]), 4 * arguments.rounds)
    memory = (
        f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB of the device" if on_cuda else f"{peak_memory():,.0f} MiB"
    )
    print(f"  {name}: one question {1000 * one:,.2f} ms; peak memory {memory}")


def plain(rows, questions: np.ndarray, k: int):
    """Search in the plain way: matmul and topk by blocks in float16, with a running top-k of (score, row)."""
    import torch

    asked = torch.from_numpy(questions).to(rows.device).half()
    per_block = min(len(rows), max(k, (1 << 28) // len(asked)))
    scores = ordinals = None
    for start in range(0, len(rows), per_block):
        block = asked @ rows[start : start + per_block].T
        found, where = block.topk(min(k, block.shape[1]), dim=1)
        where = where + start
        if scores is not None:
            found, where = torch.cat((scores, found), 1), torch.cat((ordinals, where), 1)
            found, kept = found.topk(k, dim=1)
            where = where.gather(1, kept)
        scores, ordinals = found, where
    return scores.cpu(), ordinals.cpu()


def compare_faiss_gpu(vectors: np.ndarray, questions: np.ndarray, arguments: argparse.Namespace) -> None:
    try:
        import faiss

        resources = faiss.StandardGpuResources()
    except (ImportError, AttributeError):
        print("  faiss-gpu is not installed: not measured")
        return
    settings = faiss.GpuIndexFlatConfig()
    settings.useFloat16 = True
    index = faiss.GpuIndexFlatIP(resources, vectors.shape[1], settings)
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        index.add(vectors[start : start + ROWS_PER_BLOCK].astype(np.float32))
    measure("faiss-gpu Flat, float16", lambda asked: index.search(asked, arguments.k), questions, arguments)


# Vectors, and the check


def generate(folder: Path, kind: str, rows: int, width: int, questions: int, device: str) -> None:
    """Generate vectors.npy (n, d) float16 and questions.npy (q, d) float32 on the device."""
    import torch

    common, length = KINDS[kind]
    random = torch.Generator(device).manual_seed(SEED)
    middle = torch.nn.functional.normalize(torch.randn(width, generator=random, device=device), dim=0)

    def some(count: int):
        apart = torch.nn.functional.normalize(torch.randn(count, width, generator=random, device=device), dim=1)
        return length * torch.nn.functional.normalize(common * middle + (1 - common**2) ** 0.5 * apart, dim=1)

    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float16, (rows, width))
    for start in range(0, rows, ROWS_PER_BLOCK):
        vectors[start : start + ROWS_PER_BLOCK] = some(min(ROWS_PER_BLOCK, rows - start)).half().cpu().numpy()
    vectors.flush()
    np.save(folder / "questions.npy", some(questions).cpu().numpy())


def real_vectors(folder: Path, study: str | None) -> None:
    """Return the vectors of a study's first dense index and its encoded dev questions."""
    from blindspot.backend.core.study import Study
    from blindspot.backend.data.importing.importer import import_passages, import_questions
    from blindspot.backend.retrieval import dense
    from blindspot.backend.retrieval.dense import Dense
    from tests.conftest import REAL_DATA

    if study is not None:
        opened = Study.open(study)
    else:
        opened = Study.create(folder / "study")
        import_passages(opened, REAL_DATA / "passages_100k.tsv.xz")
        import_questions(opened, REAL_DATA / "questions.jsonl.xz")
        dense.build_index(opened, "minilm", vectors=REAL_DATA / "minilm_passages.npy")
    retriever = Dense(
        opened, next(name for name, made in opened.parts("indexes").items() if made["kind"] == "dense index")
    )
    np.save(folder / "vectors.npy", retriever.vectors)
    np.save(
        folder / "questions.npy", retriever.encode([question.text for question in opened.questions.all(split="dev")])
    )


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    return np.load(folder / "vectors.npy", mmap_mode="r"), np.load(folder / "questions.npy")


def check(search: ExactSearch, vectors: np.ndarray, questions: np.ndarray, k: int, device: str) -> None:
    """Compare the hits with float64 products of all rows, rounded once to float32, ties by row."""
    import torch

    asked = torch.from_numpy(questions).to(device).double()
    scores, ordinals = np.empty((len(asked), 0), np.float32), np.empty((len(asked), 0), np.int64)
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        rows = torch.from_numpy(vectors[start : start + ROWS_PER_BLOCK].copy()).to(device).double()
        found = (asked @ rows.T).float().cpu().numpy()
        columns = np.argsort(-found, axis=1, kind="stable")[:, :k]
        scores = np.concatenate((scores, np.take_along_axis(found, columns, 1)), 1)
        ordinals = np.concatenate((ordinals, columns + start), 1)
        kept = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        scores, ordinals = np.take_along_axis(scores, kept, 1), np.take_along_axis(ordinals, kept, 1)
    hits = search.search(questions, k)
    alone = [search.search(questions[i : i + 1], k).ordinals[0] for i in range(len(questions))]
    same = np.array_equal(hits.ordinals, ordinals) and np.array_equal(np.stack(alone), ordinals)
    print(
        f"  against float64 products, {len(questions)} questions together and one by one: "
        + (
            "every hit at every rank the same"
            if same
            else f"{(hits.ordinals == ordinals).mean():.2%} of the hits at their rank"
        )
    )


if __name__ == "__main__":
    main()
