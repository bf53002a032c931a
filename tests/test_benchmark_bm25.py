"""The benchmark of BM25: its passages, what its peer is fed with, and a whole run on little data."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from benchmarks import bm25, zipf
from benchmarks.bm25_sides import Documents
from blindspot.backend.retrieval.bm25 import BM25
from blindspot.backend.retrieval.lucene import on_jvm


@pytest.mark.slow
def test_generated_passages_follow_zipfs_law_and_questions_are_about_them(tmp_path):
    zipf.write_passages(tmp_path / "p.tsv", 3000, seed=0)
    with open(tmp_path / "p.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [row["id"] for row in rows] == [str(i) for i in range(1, 3001)]
    counts = Counter(word for row in rows for word in row["text"].split())
    assert sum(counts.values()) == 3000 * zipf.WORDS and counts["the"] == max(counts.values())
    often = np.array([counts[word] for word in zipf.vocabulary()[:1000]])
    slope = np.polyfit(np.log(np.arange(1000) + 1 + zipf.SHIFT), np.log(often + 1), 1)[0]
    assert -1.2 < slope < -0.9  # the exponent, but for the articles' own words
    questions = zipf.questions_of(tmp_path / "p.tsv", 20, seed=1)
    titles = {row["title"] for row in rows}
    assert len(questions) == 20 and all(" ".join(each.split()[2:4]) in titles for each in questions)


@pytest.mark.slow
def test_the_peer_gets_the_terms_of_every_passage(indexed_study):
    retriever = BM25(indexed_study)
    texts = [f"{passage.title} {passage.text}" for passage in indexed_study.corpus.scan()]
    given = {}
    for document, terms in enumerate(Documents(indexed_study.folder / "indexes" / "bm25")):
        given[int(retriever._ordinals[document])] = sorted(terms)
    for row, terms in enumerate(on_jvm(lambda: retriever._question_terms.terms_of(texts))):
        assert given[row] == sorted(retriever._postings.find_terms(terms).tolist())


@pytest.mark.slow
def test_agreement_of_scores_is_counted(capsys):
    ours = np.array([[3.00004, 2.0], [1.0, -np.inf]], np.float32)
    lucene = np.array([[3.0, 2.0], [1.5, -np.inf]], np.float32)
    bm25.compare(ours, lucene, np.array([[3.00004, 2.2], [1.0, 0.0]], np.float32))
    said = capsys.readouterr().out
    assert "3 of 4" in said and "0.00% (median)" in said and "10.0% (most)" in said


@pytest.mark.slow
def test_a_whole_run(tmp_path):
    command = "-m benchmarks.bm25 --passages 2000 --questions 30 --k 10 --rounds 1 --threads 1 --folder".split()
    done = subprocess.run([sys.executable, *command, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "300 of 300" in done.stdout and all(name in done.stdout for name in ("ours", "lucene", "bm25s"))
