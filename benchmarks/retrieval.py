"""Retrieval on the real study: BM25 against Pyserini's own searcher. Exact search has `benchmarks.search`.

    python -m benchmarks.retrieval [--study DIR]

Makes the study from $BLINDSPOT_REAL_DATA (100,000 Wikipedia passages, EntityQuestions) where no --study is given. The peers
run in this process, in turn with ours; the questions are those of dev, k = 100.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np

from backend.answers import match_run
from backend.retrieval import bm25, dense
from backend.retrieval.bm25 import BM25
from backend.retrieval.lucene import on_jvm
from backend.study import Study
from benchmarks.machine import in_turn, machine, peak_memory
from tests.conftest import REAL_DATA

K = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", help="a study with dev questions and both indexes")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = Study.open(arguments.study) if arguments.study else real_study(Path(folder) / "study")
        print(machine())
        compare_bm25(study, arguments.rounds)
        print(f"peak memory {peak_memory():,.0f} MiB")


def real_study(folder: Path) -> Study:
    """The real data, imported and indexed both ways."""
    from backend.importing.importer import import_passages, import_questions

    study = Study.create(folder)
    import_passages(study, REAL_DATA / "passages_100k.tsv.xz")
    import_questions(study, REAL_DATA / "questions.jsonl.xz")
    bm25.build_index(study)
    dense.build_index(study, "minilm", vectors=REAL_DATA / "minilm_passages.npy")
    return study


def compare_bm25(study: Study, rounds: int) -> None:
    questions = study.questions.all(split="dev")
    texts = [question.text for question in questions]
    ours, searcher = BM25(study), on_jvm(_pyserini, str(study.folder / "indexes" / "bm25"))
    keys = [str(i) for i in range(len(texts))]

    def peer():
        return on_jvm(searcher.batch_search, texts, keys, K, 1)

    a, b, ratio = in_turn(lambda: ours.search(texts, K), peer, rounds)
    print(f"BM25, {len(texts)} questions, k={K}: ours {len(texts) / a:,.0f} questions/s, LuceneSearcher.batch_search (1 thread) "
          f"{len(texts) / b:,.0f} questions/s, {ratio:.1f} times as fast")
    found = peer()
    ids = [[hit.docid for hit in found[key]] for key in keys]
    known = study.corpus.ordinals(id for row in ids for id in row)
    theirs = np.full((len(texts), K), -1, np.int32)
    for row, passages in enumerate(ids):
        theirs[row, :len(passages)] = [known[id] for id in passages]
    for name, ordinals in (("ours", ours.search(texts, K).ordinals), ("Pyserini", theirs)):
        matched = match_run(study.corpus, questions, ordinals)
        print(f"  Success@1/5/20/100, {name}: " + " / ".join(f"{100 * matched[:, :k].any(1).mean():.1f}" for k in (1, 5, 20, 100)))


def _pyserini(index: str):
    os.environ.setdefault("OPENAI_API_KEY", "none")  # Pyserini builds a client while it is imported
    from pyserini.search.lucene import LuceneSearcher

    searcher = LuceneSearcher(index)
    searcher.set_bm25(0.9, 0.4)
    return searcher


if __name__ == "__main__":
    main()
