"""BM25 over the field `contents` of a Lucene index, with Anserini's text analysis: search, and exact scores of given
passages.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.lucene import java_class, on_jvm
from blindspot.backend.retrieval.lucene_batch import FIELD, BatchSearch
from blindspot.backend.retrieval.retriever import search_in_blocks, top_k
from blindspot.db.records import Hits

QUESTIONS_PER_CALL = 128
HITS_PER_CALL = 1 << 17  # limits the memory of a call at a large k
MAX_WORDS = 1 << 16  # limit of distinct words in a question (Lucene's own limit is 1,024)
TIE_MARGIN = 20  # hits beyond k, so that few questions need a second search for passages that tie with the k-th


def open_reader(index: Path) -> Any:
    """Open an index for reading. Call it only inside `on_jvm`. Lucene's errors are not converted."""
    import jnius

    path = java_class("java.nio.file.Paths").get(str(index.parent), index.name)
    directory = java_class("org.apache.lucene.store.FSDirectory").open(path)
    reader = java_class("org.apache.lucene.index.DirectoryReader").open(directory)
    return jnius.cast("org.apache.lucene.index.IndexReader", reader)


class LuceneSearch:
    """BM25 over a Lucene index.

    Args:
        folder: the index.
        rows: (documents,) int32, the passage row of each Lucene document number; -1 for a document that is none of the
            study's passages, which no search returns.
    """

    def __init__(self, folder: Path, rows: np.ndarray, k1: float, b: float):
        self.folder, self.k1, self.b = folder, k1, b
        self._ordinals = rows

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        """Return the k best passages of each question. A question made only of stop words has no hits."""

        def search_block(block: slice) -> Hits:
            return self._search_block(questions[block], k, k + TIE_MARGIN)

        size = _questions_per_call(k + TIE_MARGIN)
        return search_in_blocks(questions, k, size, search_block, (progress, "searching with BM25"))

    def score(self, questions: Sequence[str], ordinals: np.ndarray) -> np.ndarray:
        """Return the exact BM25 scores (q, m) float32 of the passages (q, m) int32: 0 for a passage without a shared
        word, -inf for -1.
        """
        scores = np.zeros(ordinals.shape, np.float32)
        for start in range(0, len(questions), QUESTIONS_PER_CALL):
            rows = slice(start, start + QUESTIONS_PER_CALL)
            scores[rows] = on_jvm(self._score_block, questions[rows], ordinals[rows])
        return np.where(ordinals < 0, -np.inf, scores).astype(np.float32)

    def _search_block(self, questions: Sequence[str], k: int, hit_count: int) -> Hits:
        """Return the k best passages among Lucene's `hit_count` best hits. Lucene orders equal scores by its own document
        numbers, not by row.

        If every fetched hit after the k-th has the same score as the k-th, the question is searched again for four
        times as many hits, until all ties are known. The same is done if too many hits are not passages of the study.
        """
        hit_count = min(hit_count, len(self._ordinals))
        documents, scores = on_jvm(lambda: self._batch_search.search(questions, hit_count))
        hits = top_k(np.where(documents < 0, -1, self._ordinals[documents]), scores, k)
        if hit_count == len(self._ordinals):
            return hits
        undecided = (hits.ordinals[:, -1] < 0) | (hits.scores[:, -1] == scores[:, -1])
        tied = np.flatnonzero((documents[:, -1] >= 0) & undecided)
        size = _questions_per_call(4 * hit_count)
        for rows in (tied[start : start + size] for start in range(0, len(tied), size)):
            found = self._search_block([questions[row] for row in rows], k, 4 * hit_count)
            hits.ordinals[rows], hits.scores[rows] = found.ordinals, found.scores
        return hits

    def _score_block(self, questions: Sequence[str], ordinals: np.ndarray) -> np.ndarray:
        import jnius

        scores = np.zeros(ordinals.shape, np.float32)
        mode = java_class("org.apache.lucene.search.ScoreMode").COMPLETE
        for row, question in enumerate(questions):
            columns = np.flatnonzero(ordinals[row] >= 0)
            wanted = ordinals[row, columns]
            within = np.minimum(wanted, len(self._documents) - 1)
            documents = np.where(wanted == within, self._documents[within], -1)
            order = np.argsort(documents)
            weight = self._searcher.createWeight(self._searcher.rewrite(self._query(question)), mode, 1.0)
            for leaf in self._leaves:
                scorer = weight.scorer(leaf)
                if scorer is None:
                    continue
                scorer = jnius.cast("org.apache.lucene.search.Scorer", scorer)
                scores[row, columns[order]] += _scores_of(scorer, documents[order] - leaf.docBase)
        return scores

    def _query(self, question: str) -> Any:
        return self._generator.buildQuery(FIELD, self._analyzer, question)

    @cached_property
    def _searcher(self) -> Any:
        searchers = java_class("org.apache.lucene.search.IndexSearcher")
        searchers.setMaxClauseCount(MAX_WORDS)
        searcher = searchers(open_reader(self.folder))
        searcher.setSimilarity(java_class("org.apache.lucene.search.similarities.BM25Similarity")(self.k1, self.b))
        return searcher

    @cached_property
    def _batch_search(self) -> BatchSearch:
        return BatchSearch(self._searcher, self._generator, self._analyzer)

    @cached_property
    def _generator(self) -> Any:
        return java_class("io.anserini.search.query.BagOfWordsQueryGenerator")()

    @cached_property
    def _analyzer(self) -> Any:
        return java_class("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()

    @cached_property
    def _leaves(self) -> list[Any]:
        leaves = self._searcher.getIndexReader().leaves()
        return [leaves.get(i) for i in range(leaves.size())]

    @cached_property
    def _documents(self) -> np.ndarray:
        """Return Lucene's document number for each passage row; -1 for a passage that is not in the index."""
        known = np.flatnonzero(self._ordinals >= 0)
        documents = np.full(int(self._ordinals.max(initial=0)) + 1, -1, np.int32)
        documents[self._ordinals[known]] = known
        return documents


def _scores_of(scorer: Any, documents: np.ndarray) -> np.ndarray:
    """Return the scores that one Lucene segment gives to ascending document numbers: 0 for documents in other segments
    or without a shared word.
    """
    scores, iterator = np.zeros(len(documents), np.float32), scorer.iterator()
    current = iterator.docID()
    for i, document in enumerate(documents.tolist()):
        if document < 0:
            continue
        if current < document:
            current = iterator.advance(document)
        if current == document:
            scores[i] = scorer.score()
    return scores


def _questions_per_call(hit_count: int) -> int:
    """Return the number of questions for one call with this many hits each."""
    return max(1, min(QUESTIONS_PER_CALL, HITS_PER_CALL // hit_count))
