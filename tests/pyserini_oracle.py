"""Pyserini's own searcher, in a separate process: `python -m tests.pyserini_oracle INDEX K < questions.json >
hits.json`.

It runs in a separate process because importing Pyserini takes long, and because Pyserini must find a running Java
machine (its own start needs a Java module that the packaged Java lacks).
"""

import json
import os
import sys

os.environ.setdefault("OPENAI_API_KEY", "none")  # Pyserini builds a client during its import


def main(index: str, k: int) -> None:
    from backend.retrieval.lucene import on_jvm

    def search(questions):
        from pyserini.search.lucene import LuceneSearcher

        searcher = LuceneSearcher(index)
        searcher.set_bm25(0.9, 0.4)
        found = []
        for question in questions:
            found.append([[hit.docid, hit.score] for hit in searcher.search(question, k)])
        return found

    json.dump(on_jvm(search, json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
