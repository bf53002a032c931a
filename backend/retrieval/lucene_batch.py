"""Search a block of questions with Lucene in a single call from Python into Java.

Each call from Python into Java takes microseconds, so reading 100 hits field by field takes longer than Lucene's
search. Here the loop runs in Java. Method handles combine the analysis, the search and the reading of hits. Java
streams apply them to the questions on all processors (the common pool). The results are plain arrays. This needs
neither a compiler nor additional Java classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from blindspot.backend.retrieval.lucene import java_class
from blindspot.backend.retrieval.method_handles import class_of, field, function, handles, method, static_method

FIELD = "contents"


class BatchSearch:
    """Finds Lucene's best hits for many questions at once. Create and use it only inside `on_jvm`.

    Args:
        searcher: Lucene's IndexSearcher.
        generator: Anserini's QueryGenerator, which makes a query from a question's text.
        analyzer: Lucene's Analyzer for the text.
    """

    def __init__(self, searcher: Any, generator: Any, analyzer: Any):
        self._query = _query_of_text(generator, analyzer)
        self._search = method(
            "org.apache.lucene.search.IndexSearcher",
            "search",
            "org.apache.lucene.search.TopDocs",
            "org.apache.lucene.search.Query",
            "int",
        ).bindTo(searcher)
        hits = "[Lorg.apache.lucene.search.ScoreDoc;"
        self._hits = field("org.apache.lucene.search.TopDocs", "scoreDocs", hits)
        self._count = function("java.util.function.ToIntFunction", handles().arrayLength(class_of(hits)))
        stream = static_method("java.util.Arrays", "stream", "java.util.stream.Stream", "[Ljava.lang.Object;")
        self._each = function("java.util.function.Function", stream)
        hit = "org.apache.lucene.search.ScoreDoc"
        self._document = function("java.util.function.ToIntFunction", field(hit, "doc", "int"))
        self._score = function("java.util.function.ToDoubleFunction", field(hit, "score", "float"))
        self._best = cache(self._best_of)

    def search(self, questions: Sequence[str], n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the n best hits of each question, ordered by score and then by Lucene's document number.

        Returns:
            Lucene's document numbers (q, n) int32, padded with -1, and the scores (q, n) float32, padded with -inf.
        """
        documents = np.full((len(questions), n), -1, np.int32)
        scores = np.full(documents.shape, -np.inf, np.float32)
        results = java_class("java.util.Arrays").asList(*questions).parallelStream().map(self._best(n)).toList()
        counts = np.array(results.stream().mapToInt(self._count).toArray(), np.int32)
        filled = np.arange(n) < counts[:, None]
        documents[filled] = results.stream().flatMap(self._each).mapToInt(self._document).toArray()
        scores[filled] = results.stream().flatMap(self._each).mapToDouble(self._score).toArray()
        return documents, scores

    def _best_of(self, n: int) -> Any:
        """Return a Java Function that maps a question's text to its n best hits."""
        number = java_class("java.lang.Integer")(n)  # pyjnius 1.9 crashes if a bare int is passed as a Java Object
        search = handles().insertArguments(self._search, 1, number)
        join = handles().filterReturnValue
        return function("java.util.function.Function", join(join(self._query, search), self._hits))


def _query_of_text(generator: Any, analyzer: Any) -> Any:
    build = method(
        "io.anserini.search.query.QueryGenerator",
        "buildQuery",
        "org.apache.lucene.search.Query",
        "java.lang.String",
        "org.apache.lucene.analysis.Analyzer",
        "java.lang.String",
    ).bindTo(generator)
    with_field = handles().insertArguments(build, 0, FIELD)
    return handles().insertArguments(with_field, 0, analyzer)
