"""A block of questions searched in one call of Java.

Each call from Python into Java costs microseconds, so reading 100 hits field by field costs more than Lucene's search.
Here the loop runs in Java: method handles combine analysis, search and the reading of hits; Java streams apply them to
the questions on all processors (the common pool); the results are plain arrays. This needs no compiler and no Java
class of our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from backend.retrieval.lucene import java_class

FIELD = "contents"


class BatchSearch:
    """Lucene's best hits for many questions at once. Create and use it only inside `on_jvm`.

    Args:
        searcher: Lucene's IndexSearcher.
        generator: Anserini's QueryGenerator, which makes a query from a question's text.
        analyzer: Lucene's Analyzer for the text.
    """

    def __init__(self, searcher: Any, generator: Any, analyzer: Any):
        self._handles = java_class("java.lang.invoke.MethodHandles")
        self._lookup = self._handles.publicLookup()
        self._query = self._query_of_text(generator, analyzer)
        self._search = self._method(
            "org.apache.lucene.search.IndexSearcher",
            "search",
            "org.apache.lucene.search.TopDocs",
            "org.apache.lucene.search.Query",
            "int",
        ).bindTo(searcher)
        hits = _class("[Lorg.apache.lucene.search.ScoreDoc;")
        self._hits = self._lookup.findGetter(_class("org.apache.lucene.search.TopDocs"), "scoreDocs", hits)
        self._count = _function("ToIntFunction", self._handles.arrayLength(hits))
        stream = _type("java.util.stream.Stream", "[Ljava.lang.Object;")
        self._each = _function("Function", self._lookup.findStatic(_class("java.util.Arrays"), "stream", stream))
        hit = _class("org.apache.lucene.search.ScoreDoc")
        self._document = _function("ToIntFunction", self._lookup.findGetter(hit, "doc", _class("int")))
        self._score = _function("ToDoubleFunction", self._lookup.findGetter(hit, "score", _class("float")))
        self._best = cache(self._best_of)

    def search(self, questions: Sequence[str], n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the n best hits of each question, by score and then by Lucene's document number.

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
        """Return the Java Function from a question's text to its n best hits."""
        number = java_class("java.lang.Integer")(n)  # pyjnius 1.9 crashes if a bare int is passed as a Java Object
        search = self._handles.insertArguments(self._search, 1, number)
        join = self._handles.filterReturnValue
        return _function("Function", join(join(self._query, search), self._hits))

    def _query_of_text(self, generator: Any, analyzer: Any) -> Any:
        build = self._method(
            "io.anserini.search.query.QueryGenerator",
            "buildQuery",
            "org.apache.lucene.search.Query",
            "java.lang.String",
            "org.apache.lucene.analysis.Analyzer",
            "java.lang.String",
        ).bindTo(generator)
        with_field = self._handles.insertArguments(build, 0, FIELD)
        return self._handles.insertArguments(with_field, 0, analyzer)

    def _method(self, owner: str, name: str, *types: str) -> Any:
        return self._lookup.findVirtual(_class(owner), name, _type(*types))


def _class(name: str) -> Any:
    """Return the java.lang.Class for a class's full name or for `int` or `float`."""
    boxed = {"int": "java.lang.Integer", "float": "java.lang.Float"}.get(name)
    return java_class(boxed).TYPE if boxed else java_class("java.lang.Class").forName(name)


def _type(result: str, *arguments: str) -> Any:
    """Return the java.lang.invoke.MethodType of a method."""
    return java_class("java.lang.invoke.MethodType").methodType(_class(result), *map(_class, arguments))


def _function(interface: str, handle: Any) -> Any:
    """Wrap a method handle as an interface of java.util.function."""
    import jnius

    name = f"java.util.function.{interface}"
    proxy = java_class("java.lang.invoke.MethodHandleProxies").asInterfaceInstance(_class(name), handle)
    return jnius.cast(name, proxy)
