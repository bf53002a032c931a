"""Pyserini's own searcher, in a separate process: `python -m tests.pyserini_oracle`.

Each line of standard input is a JSON list [index, k, questions]; each line of standard output is the hits, a list of
[passage, score] for each question.

It runs in a separate process because importing Pyserini takes long, and because Pyserini must find a running Java
machine (its own start needs a Java module that the packaged Java lacks).
"""

import json
import os
import sys

import numpy as np

os.environ.setdefault("OPENAI_API_KEY", "none")  # Pyserini builds a client during its import


def as_anserini_prints(scores):
    """Return Lucene's scores of one question, best first, as Anserini's ScoreTiesAdjusterReranker leaves them: four
    decimals, ties a millionth apart."""
    adjusted, tied = [], 0
    for score in np.floor(scores.astype(np.float64) * 10_000 + 0.5) / 10_000:
        score = np.float32(score)
        tied = tied + 1 if adjusted and adjusted[-1] - score <= np.float32(1e-4) else 0
        adjusted.append(score - np.float32(1e-6) * np.float32(tied))
    return adjusted


def main() -> None:
    from blindspot.backend.retrieval.lucene import on_jvm

    def search(index, k, questions):
        from pyserini.search.lucene import LuceneSearcher

        searcher = LuceneSearcher(index)
        searcher.set_bm25(0.9, 0.4)
        return [[[hit.docid, hit.score] for hit in searcher.search(question, k)] for question in questions]

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Java prints to standard output
    for line in sys.stdin:
        print(json.dumps(on_jvm(search, *json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
