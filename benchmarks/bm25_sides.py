"""The three searchers that `benchmarks.bm25` compares, each in a process of its own.

    python -m benchmarks.bm25_sides ours|lucene|bm25s FOLDER THREADS

Each line of standard input is a JSON list [k, file to write the scores to, or null]; each line of standard output is
{"wall", "processor", "peak", "own"} of one search of all questions: seconds and MiB.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.machine import own_memory, peak_memory

K1, B = 0.9, 0.4
SIDES = ("ours", "lucene", "bm25s")
Search = Callable[[int], object]
Scores = Callable[[object, int], np.ndarray]


def main(name: str, folder: Path, threads: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["NUMBA_NUM_THREADS"] = str(threads)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Java prints to standard output
    texts = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    search, scores = {"ours": _ours, "lucene": _lucene, "bm25s": _bm25s}[name](folder, texts, threads)
    for line in sys.stdin:
        k, file = json.loads(line)
        wall, processor = time.perf_counter(), time.process_time()
        found = search(k)
        cost = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
        if file:
            np.save(file, scores(found, k))
        del found
        print(json.dumps({**cost, "peak": peak_memory(), "own": own_memory("RssAnon")}), file=answers, flush=True)
    os._exit(0)  # a process can hang while Python frees Pyserini's hits


def _ours(folder: Path, texts: list[str], threads: int) -> tuple[Search, Scores]:
    from blindspot.backend.core.study import Study
    from blindspot.backend.retrieval.bm25 import BM25

    retriever = BM25(Study.open(folder / "study"), K1, B)
    return lambda k: retriever.search(texts, k), lambda hits, k: hits.scores


def _lucene(folder: Path, texts: list[str], threads: int) -> tuple[Search, Scores]:
    from blindspot.backend.retrieval.lucene import on_jvm

    searcher = on_jvm(_pyserini, str(folder / "study" / "indexes" / "bm25"))
    keys = [str(i) for i in range(len(texts))]

    def scores(found: dict, k: int) -> np.ndarray:
        made = np.full((len(keys), k), -np.inf, np.float32)
        for row, key in enumerate(keys):
            each = [hit.score for hit in found[key]]
            made[row, : len(each)] = each
        return made

    return (
        lambda k: on_jvm(searcher.batch_search, texts, keys, k, threads),
        lambda found, k: on_jvm(scores, found, k),
    )


def _pyserini(index: str):
    os.environ.setdefault("OPENAI_API_KEY", "none")  # Pyserini builds a client during its import
    from pyserini.search.lucene import LuceneSearcher

    searcher = LuceneSearcher(index)
    searcher.set_bm25(0.9, 0.4)
    return searcher


def _bm25s(folder: Path, texts: list[str], threads: int) -> tuple[Search, Scores]:
    import bm25s

    retriever = bm25s.BM25.load(str(folder / "bm25s"))
    terms = json.loads((folder / "question_terms.json").read_text(encoding="utf-8"))

    def search(k: int) -> object:
        return retriever.retrieve(terms, k=k, n_threads=threads, show_progress=False)

    return search, lambda found, k: found.scores


class Documents:
    """The terms of each Lucene document, as often as they occur, read from the postings one document after the other."""

    def __init__(self, index: Path):
        folder = index / "postings"
        pairs, offsets = np.load(folder / "pairs.npy"), np.load(folder / "terms.offsets.npy")
        documents = np.load(folder / "postings.documents.npy")
        order = np.argsort(documents, kind="stable")
        self._terms = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))[order]
        self._times = pairs[np.load(folder / "postings.pairs.npy"), 0].astype(np.int32)[order]
        self._ends = np.concatenate([[0], np.cumsum(np.bincount(documents))])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[list[int]]:
        for start, end in zip(self._ends[:-1].tolist(), self._ends[1:].tolist(), strict=True):
            yield np.repeat(self._terms[start:end], self._times[start:end]).tolist()


def write_bm25s(folder: Path) -> None:
    """Write the index of bm25s over the terms in Lucene's index, unless it exists, and the terms of the questions."""
    import bm25s

    from blindspot.backend.core.study import Study
    from blindspot.backend.retrieval.bm25 import BM25
    from blindspot.backend.retrieval.lucene import on_jvm

    retriever = BM25(Study.open(folder / "study"), K1, B)
    texts = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    rows = [
        retriever._postings.find_terms(each).tolist()
        for each in on_jvm(lambda: retriever._question_terms.terms_of(texts))
    ]
    (folder / "question_terms.json").write_text(json.dumps([[row for row in each if row >= 0] for each in rows]))
    if (folder / "bm25s").exists():
        return
    index = folder / "study" / "indexes" / "bm25"
    vocabulary = {str(term): term for term in range(len(np.load(index / "postings" / "terms.offsets.npy")) - 1)}
    peer = bm25s.BM25(k1=K1, b=B, method="lucene", backend="numba")
    terms = Documents(index)
    peer.index(type("Tokens", (), {"ids": terms, "vocab": vocabulary})(), show_progress=False)
    peer.save(str(folder / "bm25s"))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
