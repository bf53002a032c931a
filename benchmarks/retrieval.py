"""Retrieval on the real study: BM25 and Pyserini's searcher. For exact search see `benchmarks.search`.

    python -m benchmarks.retrieval [--study DIR]

Without --study, the study is made from $BLINDSPOT_REAL_DATA (100,000 Wikipedia passages, EntityQuestions). The peer and
ours run in turns in one process, on the questions of dev, k = 100. Anserini 1.7's batch_search uses all processors
regardless of `threads`, so each number of threads is measured in a process limited to that many processors (Linux).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.machine import machine, peak_memory, timed
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval import bm25, dense
from blindspot.backend.retrieval.bm25 import BM25
from blindspot.backend.retrieval.lucene import on_jvm
from blindspot.backend.text.answers import match_run
from tests.conftest import REAL_DATA

K = 100
WARM_UPS = 5  # Java compiles frequently run code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", help="a study with dev questions and both indexes")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = Study.open(arguments.study) if arguments.study else real_study(Path(folder) / "study")
        print(machine())
        for threads in (1, 2):
            in_process(compare_bm25, study.folder, arguments.rounds, threads)


def real_study(folder: Path) -> Study:
    """Return the real data, imported and indexed for BM25 and dense retrieval."""
    from blindspot.backend.data.importing.importer import import_passages, import_questions

    study = Study.create(folder)
    import_passages(study, REAL_DATA / "passages_100k.tsv.xz")
    import_questions(study, REAL_DATA / "questions.jsonl.xz")
    bm25.build_index(study)
    dense.build_index(study, "minilm", vectors=REAL_DATA / "minilm_passages.npy")
    return study


def in_process(function: Callable[..., None], *arguments: object) -> None:
    """Run a comparison in a separate process; its failure ends this process."""
    process = get_context("spawn").Process(target=function, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(process.exitcode)


def compare_bm25(folder: Path, rounds: int, threads: int) -> None:
    """Print the figures for this number of threads, and end this process."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    study = Study.open(folder)
    questions = study.questions.all(split="dev")
    texts = [question.text for question in questions]
    ours, searcher = BM25(study), on_jvm(_pyserini, str(study.folder / "indexes" / "bm25"))
    keys = [str(i) for i in range(len(texts))]

    def peer():
        return on_jvm(searcher.batch_search, texts, keys, K, threads)

    for _ in range(WARM_UPS):
        ours.search(texts, K), peer()
    pairs = np.array([clocks(lambda: ours.search(texts, K)) + clocks(peer) for _ in range(rounds)])
    (wall, processor, peer_wall, peer_processor), n = np.median(pairs, 0), len(texts)
    faster, less = np.median(pairs[:, 2:] / pairs[:, :2], 0)
    print(f"BM25, {n} questions, k={K}, threads: {threads}")
    print(
        f"  ours {n / wall:,.0f} questions/s, LuceneSearcher.batch_search {n / peer_wall:,.0f}: {faster:.1f} times "
        "as fast"
    )
    print(
        f"  processor time a question: {1000 * processor / n:.2f} ms and {1000 * peer_processor / n:.2f} ms, a ratio "
        f"of {less:.1f}"
    )
    _, seconds = timed(lambda: ours.search(texts, 1_000))
    print(f"  k=1,000: ours {n / seconds:,.0f} questions/s; peak memory with the peer's {peak_memory():,.0f} MiB")
    for name, ordinals in (
        ("ours", ours.search(texts, K).ordinals),
        ("Pyserini", on_jvm(_ordinals, study, peer(), keys)),
    ):
        matched = match_run(study.corpus, questions, ordinals)
        print(
            f"  Success@1/5/20/100, {name}: "
            + " / ".join(f"{100 * matched[:, :k].any(1).mean():.1f}" for k in (1, 5, 20, 100))
        )
    sys.stdout.flush()
    os._exit(0)  # a process can hang while Python frees Pyserini's hits


def clocks(function: Callable[[], object]) -> tuple[float, float]:
    """Return wall-clock seconds, and processor seconds over all threads, which other work on the machine hardly
    changes.
    """
    started = time.process_time()
    seconds = timed(function)[1]
    return seconds, time.process_time() - started


def _ordinals(study: Study, found: dict, keys: list[str]) -> np.ndarray:
    """Return Pyserini's hits, (q, K) int32."""
    ids = [[hit.docid for hit in found[key]] for key in keys]
    known = study.corpus.ordinals(id for row in ids for id in row)
    ordinals = np.full((len(keys), K), -1, np.int32)
    for row, passages in enumerate(ids):
        ordinals[row, : len(passages)] = [known[id] for id in passages]
    return ordinals


def _pyserini(index: str):
    os.environ.setdefault("OPENAI_API_KEY", "none")  # Pyserini builds a client during its import
    from pyserini.search.lucene import LuceneSearcher

    searcher = LuceneSearcher(index)
    searcher.set_bm25(0.9, 0.4)
    return searcher


if __name__ == "__main__":
    main()
