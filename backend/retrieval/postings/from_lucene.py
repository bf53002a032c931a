"""Write all postings of a Lucene index to plain files, with a single loop that runs inside Java.

    documents   int32 a posting: Lucene's document number, ascending within a term
    frequencies int32 a posting: how often the term occurs in the document
    counts      int32 a term, in the order of the terms' UTF-8 bytes: its postings
    lengths     int32 a term: the bytes of its text
    texts       the UTF-8 texts of the terms, one after another
    norms       uint8 a document: Lucene's code of the document's length

The loop takes about 0.2 µs of processor time per posting, and needs memory only for Lucene's buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from blindspot.backend.retrieval.lucene import java_class
from blindspot.backend.retrieval.lucene_batch import FIELD
from blindspot.backend.retrieval.lucene_search import open_reader
from blindspot.backend.retrieval.method_handles import (
    class_of,
    constant,
    field,
    function,
    handles,
    method,
    run,
    static_method,
    type_of,
)

FILES = ("documents", "frequencies", "counts", "lengths", "texts", "norms")
_FREQUENCIES = 8  # PostingsEnum.FREQS
_OUTPUT = "org.apache.lucene.store.DataOutput"
_POSTINGS = "org.apache.lucene.index.PostingsEnum"
_TERMS = "org.apache.lucene.index.TermsEnum"
_BYTES = "org.apache.lucene.util.BytesRef"
_DOCUMENTS = "org.apache.lucene.search.DocIdSetIterator"
_VALUES = "org.apache.lucene.index.NumericDocValues"


class CollectionStatistics(NamedTuple):
    """The statistics of the whole collection that BM25 uses."""

    documents: int
    """Number of documents with a value in the field."""
    tokens: int
    """Number of tokens of the field in all documents."""


def extract(index: Path, folder: Path) -> CollectionStatistics:
    """Write the files of this module into an empty folder. Call it only inside `on_jvm`.

    The index must have no deleted documents.
    """
    reader = open_reader(index)
    paths = java_class("java.nio.file.Paths")
    directory = java_class("org.apache.lucene.store.FSDirectory").open(paths.get(str(folder.parent), folder.name))
    context = java_class("org.apache.lucene.store.IOContext").DEFAULT
    files = {name: directory.createOutput(name, context) for name in FILES}
    try:
        terms = java_class("org.apache.lucene.index.MultiTerms").getTerms(reader, FIELD)
        if terms is None:  # no document has a token
            return CollectionStatistics(0, 0)
        run(_write_terms(terms.iterator(), files))
        norms = java_class("org.apache.lucene.index.MultiDocValues").getNormValues(reader, FIELD)
        run(_write_norms(norms, reader.maxDoc(), files["norms"]))
        return CollectionStatistics(terms.getDocCount(), terms.getSumTotalTermFreq())
    finally:
        for file in files.values():
            file.close()
        directory.close()
        reader.close()


def _write_terms(terms: Any, files: dict[str, Any]) -> Any:
    """Return a handle that writes every term of a TermsEnum, with its postings."""
    then, fold, drop = handles().filterReturnValue, handles().foldArguments, handles().dropArguments

    def write_int(name: str) -> Any:
        return method(_OUTPUT, "writeInt", "void", "int").bindTo(files[name])

    # postings -> (): write one document number, then its frequency
    document = then(method(_DOCUMENTS, "nextDoc", "int").asType(type_of("int", _POSTINGS)), write_int("documents"))
    posting = fold(then(method(_POSTINGS, "freq", "int"), write_int("frequencies")), document)
    # () -> (): write all postings of the current term
    count = method(_TERMS, "docFreq", "int").bindTo(terms)
    each = drop(posting, 0, class_of("int"))
    all_postings = handles().countedLoop(drop(count, 0, class_of(_POSTINGS)), None, each)
    flags = java_class("java.lang.Integer")(_FREQUENCIES)
    opened = method(_TERMS, "postings", _POSTINGS, _POSTINGS, "int").bindTo(terms)
    opened = fold(handles().insertArguments(opened, 1, flags), constant(_POSTINGS, None))
    postings = fold(fold(all_postings, opened), then(count, write_int("counts")))
    # text -> (): write the length and the bytes of a term
    text = method(_OUTPUT, "writeBytes", "void", "[B", "int", "int").bindTo(files["texts"])
    parts = field(_BYTES, "bytes", "[B"), field(_BYTES, "offset", "int"), field(_BYTES, "length", "int")
    text = handles().permuteArguments(handles().filterArguments(text, 0, *parts), type_of("void", _BYTES), 0, 0, 0)
    text = fold(text, then(field(_BYTES, "length", "int"), write_int("lengths")))
    # while the next term is not null: write it and its postings
    following = method("org.apache.lucene.util.BytesRefIterator", "next", _BYTES).bindTo(terms)
    body = then(fold(drop(postings, 0, class_of(_BYTES)), text), following)
    is_term = static_method("java.util.Objects", "nonNull", "boolean", "java.lang.Object")
    return handles().whileLoop(following, is_term.asType(type_of("boolean", _BYTES)), body)


def _write_norms(norms: Any, document_count: int, file: Any) -> Any:
    """Return a handle that writes the norm of every document, with 0 for a document without the field."""
    drop = handles().dropArguments
    has_norm = method(_VALUES, "advanceExact", "boolean", "int").bindTo(norms)
    norm = drop(method(_VALUES, "longValue", "long").bindTo(norms), 0, class_of("int"))
    none = drop(constant("long", java_class("java.lang.Long")(0)), 0, class_of("int"))
    value = handles().explicitCastArguments(handles().guardWithTest(has_norm, norm, none), type_of("byte", "int"))
    write = handles().filterReturnValue(value, method(_OUTPUT, "writeByte", "void", "byte").bindTo(file))
    return handles().countedLoop(constant("int", java_class("java.lang.Integer")(document_count)), None, write)


def length_table() -> np.ndarray:
    """Return the document length that each norm encodes, (256,) float32. Call it only inside `on_jvm`."""
    decode = java_class("org.apache.lucene.util.SmallFloat").byte4ToInt
    return np.array([decode(code if code < 128 else code - 256) for code in range(256)], np.float32)


class QuestionTerms:
    """Extracts the terms of questions with Anserini's text analysis. Create and use it only inside `on_jvm`."""

    def __init__(self, analyzer: Any):
        analyze = static_method(
            "io.anserini.analysis.AnalyzerUtils",
            "analyze",
            "java.util.List",
            "org.apache.lucene.analysis.Analyzer",
            "java.lang.String",
        ).bindTo(analyzer)
        types = "java.lang.String", "java.lang.CharSequence", "java.lang.Iterable"
        join = static_method("java.lang.String", "join", *types)
        spaced = handles().insertArguments(join, 0, " ").asType(type_of("java.lang.String", "java.util.List"))
        self._terms = function("java.util.function.Function", handles().filterReturnValue(analyze, spaced))

    def terms_of(self, texts: Sequence[str]) -> list[list[bytes]]:
        """Return the terms of each text in UTF-8, in order and with repetitions."""
        lines = java_class("java.util.stream.Collectors").joining(java_class("java.lang.String")("\n"))
        terms = java_class("java.util.Arrays").asList(*texts).parallelStream().map(self._terms).collect(lines)
        return [line.split() for line in str(terms).encode().split(b"\n")] if len(texts) else []
