"""Read the ids of a Lucene index's documents, thousands of them in one call from Python into Java."""

from __future__ import annotations

from typing import Any

from blindspot.backend.retrieval.lucene import java_class
from blindspot.backend.retrieval.method_handles import class_of, function, handles, method

BETWEEN = "\0"  # no passage id holds NUL
_IDS = "org.apache.lucene.index.BinaryDocValues"
_BYTES = "org.apache.lucene.util.BytesRef"


class DocumentIds:
    """The document ids of an index made by Anserini. They must be read in ascending order, and only inside `on_jvm`.

    Args:
        reader: Lucene's IndexReader. Every document must have an id.
    """

    def __init__(self, reader: Any):
        import jnius

        values = java_class("org.apache.lucene.index.MultiDocValues").getBinaryValues(reader, "id")
        # document number -> String: move to the document, then read its id
        as_text = method(_BYTES, "utf8ToString", "java.lang.String")
        text = handles().filterReturnValue(method(_IDS, "binaryValue", _BYTES).bindTo(values), as_text)
        moved = method(_IDS, "advanceExact", "boolean", "int").bindTo(values)
        text = handles().filterReturnValue(moved, handles().dropArguments(text, 0, class_of("boolean")))
        self._id = function("java.util.function.IntFunction", text)
        between = jnius.cast("java.lang.CharSequence", java_class("java.lang.String")(BETWEEN))
        self._join = java_class("java.util.stream.Collectors").joining(between)

    def read(self, start: int, end: int) -> list[str]:
        """Return the ids of the documents `start` to `end` (exclusive)."""
        if start >= end:
            return []
        numbers = java_class("java.util.stream.IntStream").range(start, end)
        joined: str = numbers.mapToObj(self._id).collect(self._join)
        return joined.split(BETWEEN)
