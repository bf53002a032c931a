"""BM25 over the field `contents` of an existing Lucene index, such as one of Pyserini's prebuilt indexes.

The field must have been indexed with Anserini's default analyser (English, Porter stemmer). Passages are read from the
stored field `raw` or `contents`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.core.arrays import open_array
from blindspot.backend.core.study import Study
from blindspot.backend.data.formats.contexts import split_contents
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.engines.engine import Engine, changed_index_error, rows_of_ids, run_settings
from blindspot.backend.retrieval.engines.engine_settings import EngineSettings
from blindspot.backend.retrieval.lucene import java_class, on_jvm
from blindspot.backend.retrieval.lucene_batch import FIELD
from blindspot.backend.retrieval.lucene_search import LuceneSearch, open_reader
from blindspot.db.corpus import Row
from blindspot.db.errors import BadInput, Missing, Refused

ROWS = "rows.npy"
DOCUMENTS_PER_BLOCK = 20_000
PASSAGES_PER_BLOCK = 1000
OTHER_VERSION = ("IndexFormatTooOldException", "IndexFormatTooNewException")


def fingerprint(folder: Path) -> str:
    """Return a hash of the index's newest commit file, which lists the segments and their checksums.

    Raises Missing if the folder is no Lucene index.
    """
    commits = [path for path in folder.glob("segments_*") if path.is_file()] if folder.is_dir() else []
    if not commits:
        raise Missing(f"{folder} is not a Lucene index (a folder with a file segments_N)")
    newest = max(commits, key=lambda path: int(path.name.removeprefix("segments_"), 36))
    return hashlib.sha256(newest.read_bytes()).hexdigest()


def _open_reader(path: Path) -> Any:
    """Open an index reader. Lucene's errors become one-line messages."""
    import jnius

    try:
        return open_reader(path)
    except jnius.JavaException as error:
        kind = str(error.classname).rpartition(".")[2]
        ours = str(java_class("org.apache.lucene.util.Version").LATEST.toString())
        if kind in OTHER_VERSION:
            raise Refused(
                f"{path} is a Lucene index of another version; this Lucene {ours} opens indexes of version "
                f"{int(ours.split('.')[0]) - 1} and {ours.split('.')[0]}. Get an index of that version, or build one "
                "with 'blindspot index bm25'"
            ) from None
        said = " ".join(str(error.innermessage or kind).split())[:160]
        raise BadInput(f"is a broken Lucene index ({said}); copy or download it again", path) from None


def _read_ids(path: Path, progress: Progress | None) -> list[str]:
    """Return the passage id of each Lucene document number; "" for a deleted document. Call it only inside `on_jvm`.

    Raises Refused for an index of another Lucene version, without the field `contents`, or without ids.
    """
    reader = _open_reader(path)
    try:
        if java_class("org.apache.lucene.index.FieldInfos").getMergedFieldInfos(reader).fieldInfo(FIELD) is None:
            raise Refused(f"{path} has no field {FIELD!r}; only indexes of Anserini or Pyserini can be opened")
        values = java_class("org.apache.lucene.index.MultiDocValues").getBinaryValues(reader, "id")
        stored = reader.storedFields() if values is None else None
        live = java_class("org.apache.lucene.index.MultiBits").getLiveDocs(reader)  # None: nothing is deleted
        ids: list[str] = []
        for document in range(reader.maxDoc()):
            if live is not None and not live.get(document):
                ids.append("")
                continue
            if stored is not None:
                id = stored.document(document).get("id")
            else:
                id = values.binaryValue().utf8ToString() if values.advanceExact(document) else None
            if id is None:
                raise Refused(f"{path} stores no id for its document {document}; its hits cannot be named")
            ids.append(id)
            if progress is not None and document % DOCUMENTS_PER_BLOCK == 0:
                progress(document, reader.maxDoc(), "reading the ids of the Lucene index")
        return ids
    finally:
        reader.close()


class StoredPassages:
    """The passages that a Lucene index stores, in the order of its documents."""

    def __init__(self, path: Path, ids: list[str], progress: Progress | None):
        self.where, self._ids, self._progress = path, ids, progress

    def blocks(self) -> Iterator[list[Row]]:
        count = len(self._ids)
        for start in range(0, count, PASSAGES_PER_BLOCK):
            if self._progress is not None:
                self._progress(start, count, "reading the passages of the Lucene index")
            yield on_jvm(self._block, start, min(start + PASSAGES_PER_BLOCK, count))

    def _block(self, start: int, end: int) -> list[Row]:
        reader = _open_reader(self.where)
        try:
            stored = reader.storedFields()
            rows = []
            for document in range(start, end):
                if not self._ids[document]:
                    continue
                fields = stored.document(document)
                text = fields.get("raw") or fields.get(FIELD)
                if text is None:
                    raise Missing(
                        f"{self.where} stores no passages; import them with 'blindspot import passages FILE', then "
                        "open the index"
                    )
                rows.append((self._ids[document], *title_and_text(text)))
            return rows
        finally:
            reader.close()


def title_and_text(content: str) -> tuple[str, str]:
    """Return the title and text of a stored document: either one of Anserini's JSON documents or plain contents."""
    if content.lstrip().startswith("{"):
        try:
            record = json.loads(content)
        except ValueError:
            return split_contents(content)
        if isinstance(record.get("text"), str):
            return str(record.get("title") or ""), record["text"]
        if isinstance(record.get(FIELD), str):
            title = record.get("title")
            return (title, record[FIELD]) if isinstance(title, str) else split_contents(record[FIELD])
    return split_contents(content)


class OpenedLucene(LuceneSearch):
    """BM25 over an opened Lucene index, with the k1 and b of study.toml."""

    def __init__(self, study: Study, name: str, manifest: Mapping[str, Any]):
        where = Path(manifest["where"])
        if fingerprint(where) != manifest["fingerprint"]:
            raise changed_index_error(name, manifest, "has changed")
        rows = open_array(study.path("indexes", name) / ROWS, f"open the index {name!r} again with --replace")
        bm25 = study.settings.bm25
        super().__init__(where, rows, bm25.k1, bm25.b)
        self.name = f"opened:{name}"
        self.settings = run_settings(name, manifest, k1=self.k1, b=self.b)


class LuceneEngine(Engine):
    name, title = "lucene", "Lucene"
    help = "a folder with a Lucene index of Anserini or Pyserini, such as a prebuilt one"

    def examine(
        self, study: Study, where: str, settings: EngineSettings, folder: Path, progress: Progress | None
    ) -> dict[str, Any]:
        path = Path(where).absolute()
        mark, ids = fingerprint(path), on_jvm(_read_ids, path, progress)
        rows = rows_of_ids(study, ids, str(path))
        np.save(folder / ROWS, rows)
        return {
            "where": str(path),
            "fingerprint": mark,
            "documents": len(ids),
            "matched": int((rows >= 0).sum()),
            "lexical": True,
        }

    def read_passages(
        self, study: Study, where: str, settings: EngineSettings, progress: Progress | None
    ) -> StoredPassages:
        path = Path(where).absolute()
        fingerprint(path)
        return StoredPassages(path, on_jvm(_read_ids, path, progress), progress)

    def open(self, study: Study, name: str, manifest: Mapping[str, Any], device: str | None) -> OpenedLucene:
        return OpenedLucene(study, name, manifest)
