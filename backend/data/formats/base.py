"""Shared parts of all format modules: the description of a format, the records that readers yield, and the checks of
rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, get_args

from blindspot.backend.data.formats.fields import MAX_INTEGER, FieldError, parse_object
from blindspot.backend.data.formats.streams import has_invalid_utf8
from blindspot.backend.text.answers import has_tokens, pattern_fault
from blindspot.db.corpus import Row, pack_text
from blindspot.db.errors import BadInput, Refused
from blindspot.db.records import SPLITS, Question, Split

MAX_ID = 256
MAX_TEXT = 1_000_000  # characters; a DPR passage has about 650
_SPLITS: dict[str, Split] = {split: split for split in get_args(Split)}
MAX_INSIDE = 10_000  # files of a folder by which formats recognise it
SPLIT_NAMES = {
    "train": "train",
    "test": "test",
    "eval": "test",
    **dict.fromkeys(("dev", "validation", "valid", "val"), "dev"),
}
_BAD_IN_ID = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Head:
    """The beginning of a file, from which formats recognise the file.

    Attributes:
        folder: Whether the path is a folder.
        tar: Whether the file is a tar archive, plain or compressed.
        text: The first 64 KB, decompressed and decoded; empty for a folder, a Parquet file and an Arrow file.
        table: The names of the columns of a Parquet or Arrow file, of a saved dataset, and of text whose first line
            reads as a header of CSV or TSV; None for anything else.
    """

    path: Path
    folder: bool
    tar: bool
    text: str
    table: tuple[str, ...] | None = None

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0].removesuffix("\r")

    @cached_property
    def record(self) -> dict[str, Any]:
        """The first line as a JSON object; {} if it is not one."""
        try:
            return parse_object(self.first_line)
        except FieldError:
            return {}

    @property
    def is_cut_short(self) -> bool:
        """Whether the first line is longer than the head."""
        return len(self.first_line) == len(self.text)

    @property
    def columns(self) -> list[str]:
        """The first line, split at tabs."""
        return self.first_line.split("\t")

    @property
    def start(self) -> str:
        """The first character that is not white space."""
        return self.text.lstrip()[:1]

    @cached_property
    def inside(self) -> frozenset[str]:
        """The relative paths of the files in the folder and its subfolders, at most MAX_INSIDE of them."""
        walked = (
            Path(place, name).relative_to(self.path).as_posix()
            for place, _, names in os.walk(self.path)
            for name in names
        )
        return frozenset(islice(walked, MAX_INSIDE)) if self.folder else frozenset()

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the files in the folder."""
        try:
            return frozenset(path.name for path in self.path.iterdir()) if self.folder else frozenset()
        except OSError:
            return frozenset()  # reading the folder raises the error with its reason


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an import.

    Attributes:
        split, dataset: Read only questions with these; they also apply to questions whose file does not name any.
        gold: "all", or "one" to keep a single gold passage per question.
        settings: The values of all settings of the format (see `Format.settings`).
    """

    split: str | None = None
    dataset: str | None = None
    gold: str = "all"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def includes(self, question: Question) -> bool:
        """Return whether a question belongs to the split and the data set of the options."""
        return self.split in (None, question.split) and self.dataset in (None, question.dataset)


NO_OPTIONS = Options()


@dataclass(frozen=True)
class Format:
    """An external file format for one kind of data. Each module of this package lists its formats in FORMATS.

    A reader raises BadInput if the file cannot be read any further. For an invalid row it yields BadInput, which the
    importer raises or skips. For each kind, readers yield:

    - passages: `PassageBatch`
    - questions: `ImportedQuestion`
    - frequencies: `(entity, count, line)`
    - runs: `RunEntry`
    - qrels: `Qrel`

    Writers take passages or questions as iterables of these records, qrels as `(question id, passage id, grade)`, and
    runs as a name and an iterable of `(Question, [(Passage, score, contains an answer)])`. A writer of questions whose
    format is `graded` also takes the grades of each question's passages, by question id.

    Attributes:
        kind: "passages", "questions", "frequencies", "runs" or "qrels".
        what: A short description for messages and help.
        recognise: Returns whether a file looks like this format.
        read: The reader, called with a path and Options; None for a format that is only written.
        write: The writer, called with a path and the records; None for a format that is only read.
        suffix: File name ending of written files.
        files: For a format that is a folder: returns the files to read, in order.
        settings: Settings for `--set NAME=VALUE` with their defaults. A value has the type of its default.
        graded: Whether written questions have a place for the grades of their passages.
    """

    name: str
    kind: str
    what: str
    recognise: Callable[[Head], bool]
    read: Callable[..., Iterator[Any]] | None
    write: Callable[..., WriteResult] | None = None
    suffix: str = ""
    files: Callable[[Path], list[Path]] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    graded: bool = False

    @contextmanager
    def opened(self, path: Path, options: Options = NO_OPTIONS) -> Iterator[Iterator[Any]]:
        """Yield the reader of a file, and close it at the end of the `with` block.

        Questions that name no source file get this file's path.

        Raises:
            BadInput: this format is only written.
        """
        if self.read is None:
            raise BadInput(f"the format {self.name} can only be written, not read", path)
        rows = self.read(path, options)
        try:
            yield (_with_path(row, path) for row in rows) if self.kind == "questions" else rows
        finally:
            if close := getattr(rows, "close", None):
                close()

    def write_to(self, path: Path, *content: Any) -> WriteResult:
        """Write a file. Raises Refused for a format that is only read."""
        if self.write is None:
            raise Refused(f"the format {self.name} can only be read, not written")
        return self.write(path, *content)


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of writing a file.

    Attributes:
        rows: Number of rows.
        notes: What the format cannot represent, one line each.
        unit: What a row is.
    """

    rows: int
    notes: tuple[str, ...] = ()
    unit: str = "row"


@dataclass(slots=True)
class PassageBatch:
    """Consecutive rows of a passage file.

    Attributes:
        lines: The line on which each row begins.
        problems: The wrong rows among them.
        share: Share of the file that has been read, 0 to 1.
        spanning: Number of rows that span several lines.
        sha256: Hash of the file; only the last batch has it.
        path: The file of the rows, where the source is a folder of several.
    """

    rows: list[Row] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    problems: list[BadInput] = field(default_factory=list)
    share: float = 0.0
    spanning: int = 0
    sha256: str | None = None
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A gold passage given by its text, perhaps with an id that may belong to another collection."""

    title: str
    text: str
    id: str | None = None


class Context(NamedTuple):
    """A hit of a run. Title, text and `has_answer` are None if the file lacks them; `line` is None if it is unknown."""

    id: str
    score: float
    line: int | None
    title: str | None = None
    text: str | None = None
    has_answer: bool | None = None


@dataclass(frozen=True, slots=True)
class RunEntry:
    """Hits of one question in a run file. The question is identified by its id, its text, or both.

    A question may have several entries, because the lines of a TREC file may be in any order.

    Attributes:
        contexts: The hits, in the file's order.
        line: Line of the entry; None if it is unknown.
        problems: Errors of the hits that are not in `contexts`.
    """

    question_id: str | None
    question: str | None
    answers: tuple[str, ...]
    contexts: list[Context]
    path: str
    line: int | None
    problems: tuple[BadInput, ...] = ()


class Qrel(NamedTuple):
    """A line of qrels. A grade above 0 means that the passage is relevant."""

    question_id: str
    passage_id: str
    grade: int
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class ImportedQuestion:
    """A question and its line in the imported file.

    Attributes:
        paragraphs: Gold passages to be matched to the collection, in addition to the ids in `question.gold`.
        judgements: Its graded judgements, those of 0 and less included. Those above 0 are in `question.gold`.
    """

    question: Question
    path: str | Path = ""
    line: int | None = None
    paragraphs: tuple[Paragraph, ...] = ()
    judgements: tuple[Qrel, ...] = ()

    def wrong(self, message: str) -> BadInput:
        return BadInput(message, self.path, self.line)


def gold_and_judgements(
    judgements: Iterable[Qrel], grades_to_keep: str, named_passages: Iterable[str] = (), preferred: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[Qrel, ...]]:
    """Return the gold passages of a question, and the judgements to record: those of the gold passages and all grades
    of 0 or less.

    Args:
        grades_to_keep: "all", or "one" for a single passage: the first preferred one, else the first with the best grade.
        named_passages: Gold passages beside those with a grade above 0.
    """
    judgements = tuple(judgements)
    grades = {row.passage_id: row.grade for row in judgements}
    gold = list(dict.fromkeys([*named_passages, *(id for id, grade in grades.items() if grade > 0)]))
    if grades_to_keep == "one":
        gold = [*preferred, *sorted(gold, key=lambda id: -grades.get(id, 1))][:1]
    return tuple(gold), tuple(row for row in judgements if row.grade <= 0 or row.passage_id in gold)


def _with_path(row: ImportedQuestion | BadInput, path: Path) -> ImportedQuestion | BadInput:
    """Return a reader's row unchanged, except that a question without a source path gets the path of this file."""
    return replace(row, path=str(path)) if isinstance(row, ImportedQuestion) and not row.path else row


def check_batch(batch: PassageBatch, path: Path) -> tuple[PassageBatch, bytes]:
    """Return the valid rows, and their bytes for the hash of the collection. Rows are checked one by one only if the
    batch contains an invalid row.
    """
    rows = batch.rows
    if not rows:
        return batch, b""
    try:
        contents = pack_text(rows)
        ids, titles, texts = zip(*rows, strict=True)
        if (
            all(ids)
            and all(texts)
            and not any(map(str.isspace, texts))
            and max(map(len, ids)) <= MAX_ID
            and max(map(len, titles)) <= MAX_TEXT
            and max(map(len, texts)) <= MAX_TEXT
            and not _BAD_IN_ID.search("".join(ids))
        ):
            return batch, contents
    except ValueError:
        pass
    path = batch.path or path
    good = replace(batch, rows=[], lines=[])
    for row, line in zip(rows, batch.lines, strict=True):
        message = passage_fault(row)
        if message is None:
            good.rows.append(row)
            good.lines.append(line)
        else:
            good.problems.append(BadInput(message, path, line))
    good.problems.sort(key=lambda problem: problem.line or 0)
    return good, pack_text(good.rows) if good.rows else b""


def passage_fault(row: Row) -> str | None:
    """Return what is wrong with a passage (id, title, text), or None."""
    id, title, text = row
    return id_fault(id) or text_fault("title", title, empty=True) or text_fault("text", text)


def id_fault(id: str) -> str | None:
    """Return what is wrong with an id, or None."""
    if not id:
        return "the id is empty"
    if has_invalid_utf8(id):
        return "the id contains bytes that are not UTF-8 (or half a surrogate pair)"
    if len(id) > MAX_ID:
        return f"the id has {len(id):,} characters; {MAX_ID} are allowed"
    if _BAD_IN_ID.search(id):
        return f"the id {id!r} contains a space or control character; ids must fit into web addresses and TREC files"
    return None


def text_fault(name: str, text: str, empty: bool = False) -> str | None:
    """Return what is wrong with the text of the field `name`, or None. `empty` allows empty text."""
    if not empty and (not text or text.isspace()):
        return f"the {name} is empty"
    if "\0" in text:
        return f"the {name} contains a NUL character"
    if has_invalid_utf8(text):
        return f"the {name} contains bytes that are not UTF-8 (or half a surrogate pair)"
    if len(text) > MAX_TEXT:
        return f"the {name} has {len(text):,} characters; {MAX_TEXT:,} are allowed"
    return None


def question_fault(question: Question) -> str | None:
    """Return what is wrong with a question whose fields have the right types, or None."""
    message = (
        id_fault(question.id)
        or text_fault("question", question.text)
        or _name_fault(question)
        or next(filter(None, (_answer_fault(answer, question.answer_rule) for answer in question.answers)), None)
        or next((f"gold: {m}" for m in map(id_fault, question.gold) if m), None)
    )
    if message is None and question.split not in SPLITS:
        return f"the split is {question.split!r}; it must be one of {', '.join(SPLITS)}"
    return message


def split_of(path: Path, options: Options) -> Split:
    """Return the split of the options, or else the last one that the file name contains, as "NQ-open.train-dev.jsonl"
    is the dev part of train.

    Raises BadInput if there is none.
    """
    named = [SPLIT_NAMES[word] for word in re.split(r"[._-]", path.name.lower()) if word in SPLIT_NAMES]
    split = options.split or (named[-1] if named else None)
    if split is None:
        raise BadInput("the file name does not give the split; use --split train, dev or test", path)
    return as_split(split)


def as_split(name: str) -> Split:
    """Return the split of this name. Raises BadInput for an unknown name."""
    if name not in _SPLITS:
        raise BadInput(f"the split is {name!r}; it must be one of {', '.join(SPLITS)}")
    return _SPLITS[name]


def _name_fault(question: Question) -> str | None:
    for name in ("relation", "subject", "template", "dataset"):
        value = getattr(question, name)
        if value is not None and (message := text_fault(name, value, empty=name == "dataset")):
            return message
    if question.frequency is not None and not 0 <= question.frequency <= MAX_INTEGER:
        return f"the frequency is {question.frequency}; it must be 0 or more"
    if question.bucket is not None and not 0 <= question.bucket <= MAX_INTEGER:
        return f"the bucket is {question.bucket}; it must be 0 or more"
    return None


def _answer_fault(answer: str, rule: str) -> str | None:
    if message := text_fault("answer", answer):
        return message
    if rule == "regex":
        if reason := pattern_fault(answer):
            return f"the answer {answer[:80]!r} is not a pattern that can be searched ({reason})"
    elif not has_tokens(answer):
        return f"the answer {answer!r} contains nothing to match (no letter, digit or sign)"
    return None
