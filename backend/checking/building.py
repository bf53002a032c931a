"""Make a study from a training file: passages, questions with the positives as gold passages, and a run of the
negatives.

The app can open this study. Its folder `check/` holds the arrays of `blindspot.backend.checking.pairs` and a manifest
that names the file.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.checking.formats.base import Entry
from blindspot.backend.checking.pairs import PassageOccurrences
from blindspot.backend.checking.reading import TrainingFile
from blindspot.backend.checking.row_files import InMemory
from blindspot.backend.checking.text_features import GroupedTexts, WordCounts, text_features
from blindspot.backend.core.made_from import CHECK
from blindspot.backend.core.manifest import Manifest, atomic_folder, file_sha256, read_manifest, write_manifest
from blindspot.backend.core.runs import write_run
from blindspot.backend.core.study import Study
from blindspot.backend.data.formats.streams import has_invalid_utf8
from blindspot.backend.data.leaks import words_key
from blindspot.backend.progress import Progress
from blindspot.db.corpus import CorpusWriter
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.records import Hits, Question

LINES = "lines.npy"
RUN = "file"
BLOCK = 2000  # passages whose words are in memory together
QUESTIONS = 20_000  # in a transaction
OF_FILE, SAMPLE_OF_FILE = "training file", "sample of a training file"
"""Written in place of a retriever in the manifests of runs."""
EMPTY = "[empty]"  # stands for a question or a passage without text
MOST_LISTED = 100  # negatives of a question in the run
_FIELDS = ("row", "slot", "question", "passage", "positive", "score", "overlap", "shared", "similar", "empty")


@dataclass(frozen=True)
class CheckedStudy:
    """A study that was made from a training file. lines: (rows,) int64, the line number in the file for each row."""

    study: Study
    manifest: Manifest
    occurrences: PassageOccurrences
    lines: np.ndarray

    @property
    def folder(self) -> Path:
        return self.study.folder / CHECK


def open_checked(study: Study) -> CheckedStudy:
    """Open a study that `build_study` made. Raises Missing for any other study."""
    manifest = read_manifest(study.folder / CHECK)
    if manifest is None:
        raise Missing(
            f"{study.folder} was not made of a training file; run 'blindspot check FILE' with another --study"
        )
    folder = study.folder / CHECK
    return CheckedStudy(study, manifest, PassageOccurrences.load(folder), np.load(folder / LINES))


def source_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, or of all files in a folder."""
    if not path.is_dir():
        return file_sha256(path)
    whole = hashlib.sha256()
    for each in sorted(path.rglob("*")):
        if each.is_file():
            whole.update(f"{each.relative_to(path)}\0{file_sha256(each)}\n".encode())
    return whole.hexdigest()


def build_study(file: TrainingFile, folder: Path, progress: Progress | None = None) -> CheckedStudy:
    """Read a file into a new study. Raises BadInput at the first invalid row and deletes the study."""
    study = Study.create(folder, file.path.name)
    try:
        return fill_study(study, file, progress)
    except BaseException:
        shutil.rmtree(study.folder, ignore_errors=True)
        raise


def fill_study(study: Study, file: TrainingFile, progress: Progress | None = None) -> CheckedStudy:
    """Read a file into an empty study. Raises BadInput at the first invalid row and leaves the study empty.

    Raises Refused if the study already holds passages or questions.
    """
    if study.has_corpus or study.questions.last_position >= 0:
        raise Refused(f"{study.folder} holds passages or questions already; check the file in a study of its own")
    builder = _Builder(file, progress)
    with CorpusWriter(study.folder / "corpus.db") as writer:
        builder.read(writer)
        sha256 = "" if isinstance(file.file, InMemory) else source_sha256(file.path)  # once the rows are sound
        writer.finish(file.path.name, sha256)
    places = builder.joined_occurrences()
    builder.add_questions(study, places)
    _write_file_run(study, places, len(builder.questions))
    with atomic_folder(study.folder / CHECK) as building:
        places.save(building)
        np.save(building / LINES, np.array(builder.lines, np.int64))
        about = {
            "kind": "check",
            "source": str(file.path.resolve() if file.path.exists() else file.path),  # opened from any folder
            "sha256": sha256,
            "form": file.format.name,
            "layout": file.layout.name,
            "rows": len(builder.lines),
            "in_batch": file.layout.in_batch,
            "beside": {role: str(path.resolve()) for role, path in file.beside.items()},
        }
        write_manifest(building, about)
    return open_checked(study)


@dataclass
class _Builder:
    """Reads a training file in blocks of rows, numbers its questions and passages, and computes the text features."""

    file: TrainingFile
    progress: Progress | None
    lines: list[int] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    answers: dict[int, tuple[str, ...]] = field(default_factory=dict)
    chunks: dict[str, list[np.ndarray]] = field(default_factory=lambda: {name: [] for name in _FIELDS})

    def read(self, writer: CorpusWriter) -> None:
        self._writer = writer
        self._question_numbers: dict[bytes, int] = {}
        self._spelled: dict[str, int] = {}
        self._passage_numbers: dict[int, int] = {}
        self._pending: list[tuple[str, str, str]] = []
        self._counts = WordCounts()
        compared: Future[None] | None = None
        with ThreadPoolExecutor(1) as beside:  # compares the texts of a block while the next one is read
            for block in self._blocks():
                texts, at = self._number_block(block)
                if compared is not None:
                    compared.result()
                compared = beside.submit(self._compare, texts, at)
                if self.progress is not None:
                    self.progress(len(self.lines), None, "reading rows")
            if compared is not None:
                compared.result()
        if not self.questions:
            raise BadInput("there is no row in it", self.file.path)

    def _blocks(self) -> Iterator[list[tuple[int, Entry]]]:
        """Yield blocks of numbered rows. Consecutive rows of one question stay in one block, unless they exceed eight
        blocks.
        """
        block: list[tuple[int, Entry]] = []
        size, last = 0, None
        for number, (line, entry) in enumerate(self.file.entries()):
            full = size >= BLOCK and entry.question != last
            if full or size >= 8 * BLOCK:
                yield block
                block, size = [], 0
            self.lines.append(line)
            block.append((number, entry))
            size, last = size + len(entry.slots), entry.question
        if block:
            yield block

    def _number_block(self, block: list[tuple[int, Entry]]) -> tuple[GroupedTexts, list[int]]:
        """Number the questions and passages of a block. Returns the distinct texts of the block, and for
        each passage of each row the index of its text.
        """
        groups: list[str] = []
        places: dict[tuple[int, int], int] = {}  # (group, passage) to the place among the block's texts
        positive: list[bool] = []
        found: list[str] = []
        of_group: list[int] = []
        columns: dict[str, list] = {name: [] for name in ("row", "slot", "question", "passage", "positive", "score")}
        at: list[int] = []
        for number, entry in block:
            if not groups or entry.question != groups[-1]:
                groups.append(entry.question)
            group, question = len(groups) - 1, self._question_number(entry)
            for place, slot in enumerate(entry.slots):
                passage = self._passage_number(slot.title, slot.text, number)
                row = places.setdefault((group, passage), len(found))
                if row == len(found):
                    found.append(slot.text)
                    of_group.append(group)
                    positive.append(slot.is_positive)
                else:
                    positive[row] = positive[row] or slot.is_positive
                at.append(row)
                values = (
                    number,
                    place,
                    question,
                    passage,
                    slot.is_positive,
                    np.nan if slot.score is None else slot.score,
                )
                for name, value in zip(columns, values, strict=True):
                    columns[name].append(value)
        self._flush()
        kinds = (np.int32, np.int16, np.int32, np.int32, bool, np.float32)
        for (name, column), kind in zip(columns.items(), kinds, strict=True):
            self.chunks[name].append(np.array(column, kind))
        texts = GroupedTexts(
            [_without_nul(each) for each in groups],
            [_without_nul(each) for each in found],
            np.array(of_group, np.int64),
            np.array(positive, bool),
        )
        return texts, at

    def _compare(self, texts: GroupedTexts, at: list[int]) -> None:
        features = text_features(texts, self._counts)
        for name in ("overlap", "shared", "similar", "empty"):
            self.chunks[name].append(getattr(features, name)[at])

    def _question_number(self, entry: Entry) -> int:
        number = self._spelled.get(entry.question)
        if number is None:
            text = self._storable_text(entry.question, len(self.lines) - 1)
            number = self._question_numbers.setdefault(words_key(text), len(self.questions))
            self._spelled[entry.question] = number
            if number == len(self.questions):
                self.questions.append(text)
        if entry.answers:
            self.answers.setdefault(number, entry.answers)
        return number

    def _passage_number(self, title: str, text: str, row: int) -> int:
        key = hash((title, text))
        number = self._passage_numbers.setdefault(key, len(self._passage_numbers))
        if number == self._writer.count + len(self._pending):
            self._pending.append(
                (passage_id(number), self._storable_text(title, row, ""), self._storable_text(text, row))
            )
        return number

    def _flush(self) -> None:
        self._writer.add_rows(self._pending)
        self._pending = []

    def _storable_text(self, text: str, row: int, empty: str = EMPTY) -> str:
        """Return a text as the study can store it: NUL becomes a space, and a blank text becomes `empty`. Raises
        BadInput for bytes that are not UTF-8.
        """
        if not text.isascii() and has_invalid_utf8(text):
            raise BadInput(
                "a text contains bytes that are not UTF-8 (or half a surrogate pair)", self.file.path, self.lines[row]
            )
        text = text.replace("\0", " ")
        return text if text and not text.isspace() else empty

    def joined_occurrences(self) -> PassageOccurrences:
        """Return the arrays of the whole file, joined from its blocks."""
        return PassageOccurrences(**{name: np.concatenate(self.chunks.pop(name)) for name in _FIELDS})

    def add_questions(self, study: Study, occurrences: PassageOccurrences) -> None:
        """Add the questions to the study, with their positives as gold passages."""
        keys = occurrences.positive_keys
        owners, passages = keys >> 32, keys & 0xFFFFFFFF
        bounds = np.searchsorted(owners, np.arange(len(self.questions) + 1))
        for start in range(0, len(self.questions), QUESTIONS):
            stop = min(start + QUESTIONS, len(self.questions))
            study.questions.add(
                Question(
                    question_id(number),
                    self.questions[number],
                    self.answers.get(number, ()),
                    dataset=RUN,
                    split="train",
                    gold=tuple(passage_id(each) for each in passages[bounds[number] : bounds[number + 1]].tolist()),
                )
                for number in range(start, stop)
            )
            if self.progress is not None:
                self.progress(stop, len(self.questions), "saving questions")


def _without_nul(text: str) -> str:
    return text.replace("\0", " ")


def question_id(number: int) -> str:
    return f"q{number + 1}"


def passage_id(number: int) -> str:
    return f"p{number + 1}"


def number_of(id: str) -> int:
    """Return the number, from 0, of which `question_id` or `passage_id` made an id."""
    return int(id[1:]) - 1


def _write_file_run(study: Study, occurrences: PassageOccurrences, question_count: int) -> None:
    """Write the file's negatives as a run. Each question's list holds its distinct negatives in the order of the file."""
    rows = np.flatnonzero(~occurrences.positive)
    if not len(rows):
        return
    _, first = np.unique(occurrences.keys[rows], return_index=True)
    at = rows[np.sort(first)]
    at = at[np.argsort(occurrences.question[at], kind="stable")]
    owners, begins, counts = np.unique(occurrences.question[at], return_index=True, return_counts=True)
    k = min(MOST_LISTED, int(counts.max()))
    column = np.arange(len(at)) - np.repeat(begins, counts)
    row = np.repeat(np.arange(len(owners)), counts)
    kept = column < k
    ordinals = np.full((len(owners), k), -1, np.int32)
    scores = np.full((len(owners), k), -np.inf, np.float32)
    ordinals[row[kept], column[kept]] = occurrences.passage[at][kept]
    # A run's scores fall along a row. Where the file has none, or not in this order, the rank stands for the score.
    scores[row[kept], column[kept]] = 0.0 - column[kept]
    write_run(
        study, RUN, [question_id(number) for number in owners.tolist()], Hits(ordinals, scores), {"retriever": OF_FILE}
    )


def is_of_file(manifest: Mapping[str, Any]) -> bool:
    """Return whether a run holds a training file's negatives (or a sample of them) instead of a retriever's hits."""
    return manifest.get("retriever") in (OF_FILE, SAMPLE_OF_FILE)
