"""BM25 with Lucene over title and text, with Anserini's text analysis (Porter stemmer, Lucene's English stop words).

Pyserini can open the index too. k1 and b are applied at search time, so changing them does not require a new index.
Their defaults are `BM25Settings` in backend/core/settings.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.core.arrays import open_array
from blindspot.backend.core.children import child
from blindspot.backend.core.jobs import job, request
from blindspot.backend.core.manifest import atomic_folder, read_manifest, write_manifest
from blindspot.backend.core.settings import Settings
from blindspot.backend.core.study import Study
from blindspot.backend.core.summary import Step
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.lucene import java_command, on_jvm
from blindspot.backend.retrieval.lucene_ids import DocumentIds
from blindspot.backend.retrieval.lucene_search import LuceneSearch, open_reader
from blindspot.backend.retrieval.postings.arrays import Postings, can_search, write_postings
from blindspot.backend.retrieval.postings.from_lucene import QuestionTerms
from blindspot.backend.retrieval.retriever import (
    RETRIEVERS,
    NoOptions,
    OpenPart,
    RetrieverKind,
    refuse_other_index,
    search_in_blocks,
)
from blindspot.db.corpus import Corpus
from blindspot.db.errors import BlindspotError, Missing, Refused
from blindspot.db.records import Hits

NAME = "bm25"
KIND = "bm25 index"
PASSAGES_PER_FILE = 20_000
WORTH_POSTINGS = 1e8
"""If questions times (passages + 100 k) is at least this number, searching the postings is faster, although its
compiled code must be loaded first. Below it, Lucene searches; the hits are the same.
"""
HITS_PER_BLOCK = 1 << 21
QUESTIONS_PER_BLOCK = 1024
MOST_TERMS = 256  # Lucene searches for longer questions: the postings' memory grows with the terms of a question


@job("index bm25", extras=("bm25",))
def build_index(study: Study, threads: int | None = None, progress: Progress | None = None) -> dict:
    """Index the study's passages with Lucene in a separate Java process (default: on all cores). Return the manifest.

    Raises Refused if another process is building the index, and BlindspotError with Java's last line of output if Java
    fails.
    """
    corpus, folder = study.corpus, study.path("indexes", NAME)
    refuse_other_index(study, NAME, KIND)
    started = time.monotonic()
    with study.lock_part("indexes/bm25"), atomic_folder(folder) as building:
        texts = building / "json"
        write_collection(corpus, texts, progress)
        _run_java(texts, building, threads or os.cpu_count() or 1, len(corpus), progress)
        shutil.rmtree(texts)
        ordinals = on_jvm(_read_ordinals, building, corpus, progress)
        np.save(building / "ordinals.npy", ordinals)
        has_postings = write_postings(building, progress)
        return write_manifest(
            building,
            {
                "kind": KIND,
                "passages": len(corpus),
                "corpus": corpus.digest,
                "contents": "title text",
                "postings": has_postings,
                "analysis": "Anserini's English default: Porter stemmer, Lucene's English stop words",
                "seconds": round(time.monotonic() - started, 1),
            },
        )


def write_collection(corpus: Corpus, folder: Path, progress: Progress | None) -> None:
    """Write the passages as Anserini's JSON collection, in files that are small enough to occupy every
    indexing thread.
    """
    folder.mkdir()
    quoted = json.encoder.encode_basestring_ascii  # json.dumps of a dict takes twice as long
    for start in range(0, len(corpus), PASSAGES_PER_FILE):
        if progress is not None:
            progress(start, len(corpus), "writing passages for Lucene")
        with open(folder / f"{start:09d}.jsonl", "w", encoding="ascii") as file:
            for rows in corpus.blocks(start, start + PASSAGES_PER_FILE):
                file.writelines(
                    f'{{"id": {quoted(id)}, "contents": {quoted(f"{title} {text}")}}}\n' for id, title, text in rows
                )


def _run_java(texts: Path, index: Path, threads: int, passage_count: int, progress: Progress | None) -> None:
    command = [
        *java_command(),
        "io.anserini.index.IndexCollection",
        "-collection",
        "JsonCollection",
        "-input",
        str(texts),
        "-index",
        str(index),
        "-generator",
        "DefaultLuceneDocumentGenerator",
        "-threads",
        str(threads),
    ]
    log = index / "java.log"
    with open(log, "w") as output, child(command, stdout=output, stderr=subprocess.STDOUT) as process:
        while process.poll() is None:
            if progress is not None:
                progress(0, passage_count, "indexing with Lucene")
            time.sleep(0.2)
    text = log.read_text(encoding="utf-8", errors="replace")
    indexed = re.search(r"indexed:\s+([\d,]+)", text)
    if process.returncode != 0 or indexed is None:
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "no output")
        raise BlindspotError(f"Lucene's indexer failed (exit {process.returncode}): {last.strip()}")
    if (count := int(indexed[1].replace(",", ""))) != passage_count:
        raise BlindspotError(f"Lucene indexed {count:,} of {passage_count:,} passages; are some of them empty?")
    log.unlink()


def _read_ordinals(index: Path, corpus: Corpus, progress: Progress | None) -> np.ndarray:
    """Return the passage row of each Lucene document number, (documents,) int32, so that a search does not have to
    fetch passage ids.
    """
    reader = open_reader(index)
    ids_of, ordinals = DocumentIds(reader), np.empty(reader.maxDoc(), np.int32)
    for start in range(0, len(ordinals), PASSAGES_PER_FILE):
        block = range(start, min(start + PASSAGES_PER_FILE, len(ordinals)))
        ids = ids_of.read(block.start, block.stop)
        known = corpus.ordinals(ids)
        ordinals[block.start : block.stop] = [known[passage_id] for passage_id in ids]
        if progress is not None:
            progress(block.stop, len(ordinals), "mapping Lucene's rows to passages")
    reader.close()
    return ordinals


class BM25(LuceneSearch):
    """BM25 over a study's Lucene index.

    Raises Missing if there is no index, and Refused if the index was made over other passages.
    """

    name = NAME

    def __init__(self, study: Study, k1: float | None = None, b: float | None = None):
        folder = study.path("indexes", NAME)
        manifest = read_manifest(folder)
        if manifest is None or manifest["kind"] != KIND:
            raise Missing("no BM25 index yet; run 'blindspot index bm25'")
        if manifest["corpus"] != study.corpus.digest:
            raise Refused("the BM25 index was made over other passages; run 'blindspot index bm25' again")
        settings = study.settings.bm25
        rows = open_array(folder / "ordinals.npy", "run 'blindspot index bm25' again")
        super().__init__(folder, rows, settings.k1 if k1 is None else k1, settings.b if b is None else b)
        self.settings = {"retriever": NAME, "k1": self.k1, "b": self.b, "contents": manifest["contents"]}
        self._has_postings = bool(manifest["postings"])

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        """Return the k best passages of each question. Large sets of questions are searched in Blindspot's own posting
        lists, small sets with Lucene. The hits are the same.
        """
        work = len(questions) * (len(self._ordinals) + 100 * k)
        worthwhile = self._has_postings and work >= WORTH_POSTINGS
        if not (worthwhile and can_search() and self._postings.is_exact):
            return super().search(questions, k, progress)

        def search_block(block: slice) -> Hits:
            return self._search_postings(questions[block], k)

        size = max(1, min(QUESTIONS_PER_BLOCK, HITS_PER_BLOCK // k))
        return search_in_blocks(questions, k, size, search_block, (progress, "searching with BM25"))

    def _search_postings(self, questions: Sequence[str], k: int) -> Hits:
        terms = on_jvm(lambda: self._question_terms.terms_of(questions))
        long = [row for row, each in enumerate(terms) if len(each) > MOST_TERMS]
        found = self._postings.search([[] if len(each) > MOST_TERMS else each for each in terms], k)
        if long:
            by_lucene = super().search([questions[row] for row in long], k)
            found.ordinals[long], found.scores[long] = by_lucene.ordinals, by_lucene.scores
        return found

    @cached_property
    def _postings(self) -> Postings:
        return Postings(self.folder, self._ordinals, self.k1, self.b)

    @cached_property
    def _question_terms(self) -> QuestionTerms:
        return QuestionTerms(self._analyzer)


def is_indexed(study: Study) -> bool:
    """Return whether the study has a finished BM25 index."""
    manifest = study.parts("indexes").get(NAME)
    return manifest is not None and manifest["kind"] == KIND


class BM25Kind(RetrieverKind):
    name, title = NAME, "BM25"
    help = "Lucene's BM25"
    lexical = suggested = True
    extras = ("bm25",)

    def available(self, study: Study) -> list[str]:
        return [NAME] if is_indexed(study) else []

    def open(self, study: Study, options: NoOptions, device: str | None = None, part: OpenPart = None) -> BM25:
        return BM25(study)

    def parts(self, name: str) -> tuple[str, ...]:
        return (NAME,)

    def settings_of(self, settings: Settings, name: str) -> tuple:
        return (settings.bm25,)

    def describe(self, manifest: Mapping[str, Any]) -> str:
        return f"BM25, k1 {manifest.get('k1', '?')}, b {manifest.get('b', '?')}"

    def steps(self, study: Study) -> list[Step]:
        if is_indexed(study):
            return []
        return [Step("BM25 needs an index.", "blindspot index bm25", request(build_index))]


RETRIEVERS.register(BM25Kind())
