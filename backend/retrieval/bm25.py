"""BM25 in Lucene over `title text`, with Anserini's analysis (Porter stemmer, Lucene's English stop words).

Pyserini can open the index too. k1 and b act at search time, so changing them needs no new index.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from backend.core.arrays import open_array
from backend.core.children import child
from backend.core.jobs import job, request
from backend.core.manifest import read_manifest, whole_folder, write_manifest
from backend.core.summary import Step
from backend.progress import Progress
from backend.retrieval.lucene import java_class, java_command, on_jvm
from backend.retrieval.lucene_batch import FIELD, BatchSearch
from backend.retrieval.retriever import RETRIEVERS, NoOptions, RetrieverKind, top_k
from db.errors import BlindspotError, Missing, Refused
from db.records import Hits

if TYPE_CHECKING:
    from backend.core.settings import Settings
    from backend.core.study import Study
    from db.corpus import Corpus

NAME = "bm25"
PASSAGES_PER_FILE = 20_000
QUESTIONS_PER_CALL = 128
HITS_PER_CALL = 1 << 17  # limits the memory of a call at a large k
MAX_WORDS = 1 << 16  # limit of distinct words in a question (Lucene's own limit is 1,024)
TIE_MARGIN = (
    20  # extra hits to fetch beyond k, so that few questions need a second search for passages that tie with the k-th
)


@job("index bm25")
def build_index(study: Study, threads: int | None = None, progress: Progress | None = None) -> dict:
    """Index the study's passages with Lucene in a separate Java process (default: all cores); return the manifest.

    Raises Refused while another process builds the index, and BlindspotError with Java's last line if Java fails.
    """
    corpus, folder = study.corpus, study.path("indexes", NAME)
    started = time.monotonic()
    with study.building("indexes/bm25"), whole_folder(folder) as building:
        texts = building / "json"
        _write_json(corpus, texts, progress)
        _run_java(texts, building, threads or os.cpu_count() or 1, len(corpus), progress)
        shutil.rmtree(texts)
        ordinals = on_jvm(_read_ordinals, building, corpus, progress)
        np.save(building / "ordinals.npy", ordinals)
        return write_manifest(
            building,
            {
                "kind": "bm25 index",
                "passages": len(corpus),
                "corpus": corpus.digest,
                "contents": "title text",
                "analysis": "Anserini's English default: Porter stemmer, Lucene's English stop words",
                "seconds": round(time.monotonic() - started, 1),
            },
        )


def _write_json(corpus: Corpus, folder: Path, progress: Progress | None) -> None:
    """Write Anserini's JSON collection in files so small that every indexing thread gets some."""
    folder.mkdir()
    passages = iter(corpus.scan())
    for start in range(0, len(corpus), PASSAGES_PER_FILE):
        if progress is not None:
            progress(start, len(corpus), "writing passages for Lucene")
        with open(folder / f"{start:09d}.jsonl", "w", encoding="utf-8") as file:
            for passage in islice(passages, PASSAGES_PER_FILE):
                file.write(json.dumps({"id": passage.id, "contents": f"{passage.title} {passage.text}"}) + "\n")


def _run_java(texts: Path, index: Path, threads: int, passages: int, progress: Progress | None) -> None:
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
                progress(0, passages, "indexing with Lucene")
            time.sleep(0.2)
    text = log.read_text(encoding="utf-8", errors="replace")
    indexed = re.search(r"indexed:\s+([\d,]+)", text)
    if process.returncode != 0 or indexed is None:
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "no output")
        raise BlindspotError(f"Lucene's indexer failed (exit {process.returncode}): {last.strip()}")
    if (count := int(indexed[1].replace(",", ""))) != passages:
        raise BlindspotError(f"Lucene indexed {count:,} of {passages:,} passages; are some of them empty?")
    log.unlink()


def _read_ordinals(index: Path, corpus: Corpus, progress: Progress | None) -> np.ndarray:
    """Return the passage row of each Lucene document number, (documents,) int32. Reading them once spares the search
    from fetching ids.
    """
    reader = _open_reader(index)
    values = java_class("org.apache.lucene.index.MultiDocValues").getBinaryValues(reader, "id")
    ordinals = np.empty(reader.maxDoc(), np.int32)
    for start in range(0, len(ordinals), PASSAGES_PER_FILE):
        block = range(start, min(start + PASSAGES_PER_FILE, len(ordinals)))
        ids = [values.binaryValue().utf8ToString() for document in block if values.advanceExact(document)]
        known = corpus.ordinals(ids)
        ordinals[block.start : block.stop] = [known[passage_id] for passage_id in ids]
        if progress is not None:
            progress(block.stop, len(ordinals), "mapping Lucene's rows to passages")
    reader.close()
    return ordinals


def _open_reader(index: Path) -> Any:
    import jnius

    path = java_class("java.nio.file.Paths").get(str(index.parent), index.name)
    directory = java_class("org.apache.lucene.store.FSDirectory").open(path)
    reader = java_class("org.apache.lucene.index.DirectoryReader").open(directory)
    return jnius.cast("org.apache.lucene.index.IndexReader", reader)


class BM25:
    """BM25 over a study's Lucene index.

    Raises Missing if there is no index, Refused if the index was made over other passages.
    """

    name = NAME

    def __init__(self, study: Study, k1: float | None = None, b: float | None = None):
        self.folder = study.path("indexes", NAME)
        manifest = read_manifest(self.folder)
        if manifest is None:
            raise Missing("no BM25 index yet; run 'blindspot index bm25'")
        if manifest["corpus"] != study.corpus.digest:
            raise Refused("the BM25 index was made over other passages; run 'blindspot index bm25' again")
        settings = study.settings.bm25
        self.k1, self.b = settings.k1 if k1 is None else k1, settings.b if b is None else b
        self.settings = {"retriever": NAME, "k1": self.k1, "b": self.b, "contents": manifest["contents"]}
        self._ordinals = open_array(self.folder / "ordinals.npy", "run 'blindspot index bm25' again")

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        """Return the k best passages of each question. A question made only of stop words has no hits."""
        hits = Hits(np.full((len(questions), k), -1, np.int32), np.full((len(questions), k), -np.inf, np.float32))
        for block in _blocks(len(questions), k + TIE_MARGIN):
            found = self._search_block(questions[block], k, k + TIE_MARGIN)
            hits.ordinals[block], hits.scores[block] = found.ordinals, found.scores
            if progress is not None:
                progress(min(block.stop, len(questions)), len(questions), "searching with BM25")
        return hits

    def score(self, questions: Sequence[str], ordinals: np.ndarray, progress: Progress | None = None) -> np.ndarray:
        """Return the exact BM25 scores (q, m) float32 of the passages (q, m) int32: 0 without a shared word, -inf for
        -1.
        """
        scores = np.zeros(ordinals.shape, np.float32)
        for start in range(0, len(questions), QUESTIONS_PER_CALL):
            rows = slice(start, start + QUESTIONS_PER_CALL)
            scores[rows] = on_jvm(self._score_block, questions[rows], ordinals[rows])
            if progress is not None:
                progress(min(rows.stop, len(questions)), len(questions), "scoring the dense hits with BM25")
        return np.where(ordinals < 0, -np.inf, scores).astype(np.float32)

    def _search_block(self, questions: Sequence[str], k: int, fetch: int) -> Hits:
        """Return the k best of the `fetch` best hits in Lucene, which orders equal scores by its own document numbers.

        If every hit after the k-th has the same score as the k-th, the question is searched again for four times as
        many hits, until all ties are known.
        """
        fetch = min(fetch, len(self._ordinals))
        documents, scores = on_jvm(self._fetch, questions, fetch)
        hits = top_k(np.where(documents < 0, -1, self._ordinals[documents]), scores, k)
        if fetch == len(self._ordinals):
            return hits
        tied = np.flatnonzero((documents[:, -1] >= 0) & (scores[:, k - 1] == scores[:, -1]))
        for block in _blocks(len(tied), 4 * fetch):
            rows = tied[block]
            found = self._search_block([questions[row] for row in rows], k, 4 * fetch)
            hits.ordinals[rows], hits.scores[rows] = found.ordinals, found.scores
        return hits

    def _fetch(self, questions: Sequence[str], n: int) -> tuple[np.ndarray, np.ndarray]:
        return self._batch.search(questions, n)

    def _score_block(self, questions: Sequence[str], ordinals: np.ndarray) -> np.ndarray:
        import jnius

        scores = np.zeros(ordinals.shape, np.float32)
        mode = java_class("org.apache.lucene.search.ScoreMode").COMPLETE
        for row, question in enumerate(questions):
            columns = np.flatnonzero(ordinals[row] >= 0)
            documents = self._documents[ordinals[row, columns]]
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
        searcher = searchers(_open_reader(self.folder))
        searcher.setSimilarity(java_class("org.apache.lucene.search.similarities.BM25Similarity")(self.k1, self.b))
        return searcher

    @cached_property
    def _batch(self) -> BatchSearch:
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
        """Return Lucene's document number of each passage row."""
        documents = np.empty(len(self._ordinals), np.int32)
        documents[self._ordinals] = np.arange(len(self._ordinals), dtype=np.int32)
        return documents


def _scores_of(scorer: Any, documents: np.ndarray) -> np.ndarray:
    """Return the scores of ascending document numbers in one Lucene segment: 0 for documents outside the segment or
    without a shared word.
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


def _blocks(questions: int, hits: int) -> Iterator[slice]:
    """Split the questions into slices small enough for one call with this many hits each."""
    size = max(1, min(QUESTIONS_PER_CALL, HITS_PER_CALL // hits))
    for start in range(0, questions, size):
        yield slice(start, start + size)


def is_indexed(study: Study) -> bool:
    """Return whether the study has a finished BM25 index."""
    return NAME in study.parts("indexes")


class BM25Kind(RetrieverKind):
    name, title = NAME, "BM25"
    help = "Lucene's BM25"
    lexical = suggested = True

    def available(self, study: Study) -> list[str]:
        return [NAME] if is_indexed(study) else []

    def open(
        self,
        study: Study,
        options: NoOptions,
        device: str | None = None,
        part: Callable[[str], Any] | None = None,
    ) -> BM25:
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
