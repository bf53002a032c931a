"""What every format module is made of: the description of a format, and the checks that all rows pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from backend.data.formats.streams import not_utf8
from backend.text.answers import has_tokens, wrong_with_pattern
from db.corpus import Row, pack
from db.errors import BadInput
from db.records import SPLITS, Question

MAX_ID = 256
MAX_TEXT = 1_000_000  # characters; a DPR passage has about 650
MAX_INTEGER = 2**63 - 1
_BAD_IN_ID = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Head:
    """What a format is recognised by: the path, whether it is a folder or a tar, and the first 64 KB as text."""

    path: Path
    folder: bool
    tar: bool
    text: str

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0].removesuffix("\r")

    @property
    def columns(self) -> list[str]:
        """The first line, cut at tabs."""
        return self.first_line.split("\t")

    @property
    def start(self) -> str:
        """The first character that is no white space."""
        return self.text.lstrip()[:1]

    @cached_property
    def names(self) -> frozenset[str]:
        """What lies in the folder."""
        try:
            return frozenset(path.name for path in self.path.iterdir()) if self.folder else frozenset()
        except OSError:
            return frozenset()  # reading it will say why


@dataclass(frozen=True, slots=True)
class Options:
    """What the person asked for, of questions.

    split, dataset: only questions of these are taken; a question whose file names none is put there.
    gold: "all", or "one" to keep a single gold passage per question.
    settings: what only one format knows of (see `Format.settings`), every one of them with its value.
    """

    split: str | None = None
    dataset: str | None = None
    gold: str = "all"
    settings: Mapping[str, Any] = field(default_factory=dict)


NO_OPTIONS = Options()


@dataclass(frozen=True)
class Format:
    """One outside format of one kind of thing. A module of this package offers its own in a list named FORMATS.

    kind: "passages", "questions", "frequencies", "runs" or "qrels".
    recognise: whether a file looks like it.
    read: gives what the reader of that kind gives (below), from a path and Options. None for a form that is only written.
    write: takes a path and what the writer of that kind takes, streamed, and gives `WriteResult`. None where there is no writer.
    suffix: the ending of a file that is written.
    files: for a format that is a folder: the files of it that are read, in order.
    settings: what can be asked for with `--set NAME=VALUE`, with its default; the default's type is the value's.

    Readers *raise* BadInput where the file cannot be read on, and *give* BadInput in place of a row that is wrong, which
    the importer raises or, when told to, leaves out:
    passages give `PassageBatch`; questions `ImportedQuestion`; frequencies `(entity, count, line)`; runs `RunEntry`; qrels `Qrel`.
    Writers take: passages and questions, iterables of those records; qrels, `(question id, passage id, grade)`; runs, a
    name and an iterable of `(Question, [(Passage, score, holds an answer)])`.
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


@dataclass(frozen=True, slots=True)
class WriteResult:
    """How many rows a writer wrote, what a row is, and one line for everything that the format has no place for."""

    rows: int
    notes: tuple[str, ...] = ()
    unit: str = "row"


@dataclass(slots=True)
class PassageBatch:
    """Some rows of a passage file, in file order; `lines[i]` is where row i begins.

    `share` is how much of the file has been read, 0 to 1; `spanning` how many rows go over several lines. `sha256` of the
    file comes with the last batch.
    """

    rows: list[Row] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    problems: list[BadInput] = field(default_factory=list)
    share: float = 0.0
    spanning: int = 0
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A gold passage as a file gives it: an id that may or may not be one of the collection, and its text."""

    title: str
    text: str
    id: str | None = None


class Context(NamedTuple):
    """One hit of a run, as a file gives it. Title and text are None where it gives none; so is `has_answer`."""

    id: str
    score: float
    line: int | None
    title: str | None = None
    text: str | None = None
    has_answer: bool | None = None


@dataclass(frozen=True, slots=True)
class RunEntry:
    """What a run's file says of one question. It names it by its id, by its text, or by both.

    contexts: in the file's order. problems: what was wrong with those that are not among them.
    Several entries may belong to one question (a TREC file need not keep its lines together).
    """

    question_id: str | None
    question: str | None
    answers: tuple[str, ...]
    contexts: list[Context]
    path: str
    line: int
    problems: tuple[BadInput, ...] = ()


class Qrel(NamedTuple):
    """One line of qrels. Above 0 the passage is relevant."""

    question_id: str
    passage_id: str
    grade: int
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class ImportedQuestion:
    """A question and the place it was read from.

    paragraphs: gold passages that have yet to be found in the collection, besides those that `question.gold` names.
    gold_places: where a gold passage was named, if not at the question itself.
    """

    question: Question
    path: str
    line: int | None
    paragraphs: tuple[Paragraph, ...] = ()
    gold_places: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def wrong(self, message: str) -> BadInput:
        return BadInput(message, self.path, self.line)


def checked(batch: PassageBatch, path: Path) -> tuple[PassageBatch, bytes]:
    """The rows that are sound, and what the digest is taken over. All rows at once; one by one only if one is wrong."""
    rows = batch.rows
    if not rows:
        return batch, b""
    try:
        contents = pack(rows)
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
    good = PassageBatch(problems=batch.problems, share=batch.share, spanning=batch.spanning, sha256=batch.sha256)
    for row, line in zip(rows, batch.lines, strict=True):
        message = wrong_with_passage(row)
        if message is None:
            good.rows.append(row)
            good.lines.append(line)
        else:
            good.problems.append(BadInput(message, path, line))
    good.problems.sort(key=lambda problem: problem.line or 0)
    return good, pack(good.rows) if good.rows else b""


def wrong_with_passage(row: Row) -> str | None:
    """What is wrong with a passage (id, title, text), or None."""
    id, title, text = row
    return wrong_with_id(id) or wrong_with_text("title", title, empty=True) or wrong_with_text("text", text)


def wrong_with_id(id: str) -> str | None:
    if not id:
        return "the id is empty"
    if not_utf8(id):
        return "the id holds bytes that are not UTF-8 (or half a surrogate pair)"
    if len(id) > MAX_ID:
        return f"the id has {len(id):,} characters; {MAX_ID} are allowed"
    if _BAD_IN_ID.search(id):
        return f"the id {id!r} holds a space or control character; ids stand in web addresses and TREC files"
    return None


def wrong_with_text(name: str, text: str, empty: bool = False) -> str | None:
    if not empty and (not text or text.isspace()):
        return f"the {name} is empty"
    if "\0" in text:
        return f"the {name} holds a NUL character"
    if not_utf8(text):
        return f"the {name} holds bytes that are not UTF-8 (or half a surrogate pair)"
    if len(text) > MAX_TEXT:
        return f"the {name} has {len(text):,} characters; {MAX_TEXT:,} are allowed"
    return None


def wrong_with_question(question: Question) -> str | None:
    """What is wrong with a question, or None. Types are right already."""
    return (
        wrong_with_id(question.id)
        or wrong_with_text("question", question.text)
        or _wrong_with_names(question)
        or next(filter(None, (_wrong_with_answer(answer, question.answer_rule) for answer in question.answers)), None)
        or next((f"gold: {m}" for m in map(wrong_with_id, question.gold) if m), None)
        or (f"the split is {question.split!r}; it must be one of {', '.join(SPLITS)}" if question.split not in SPLITS
            else None)
    )  # fmt: skip


def _wrong_with_names(question: Question) -> str | None:
    for name in ("relation", "subject", "template", "dataset"):
        value = getattr(question, name)
        if value is not None and (message := wrong_with_text(name, value, empty=name == "dataset")):
            return message
    if question.frequency is not None and not 0 <= question.frequency <= MAX_INTEGER:
        return f"the frequency is {question.frequency}; it must be 0 or more"
    if question.bucket is not None and not 0 <= question.bucket <= MAX_INTEGER:
        return f"the bucket is {question.bucket}; it must be 0 or more"
    return None


def _wrong_with_answer(answer: str, rule: str) -> str | None:
    if message := wrong_with_text("answer", answer):
        return message
    if rule == "regex":
        if reason := wrong_with_pattern(answer):
            return f"the answer {answer[:80]!r} is no pattern that can be searched ({reason})"
    elif not has_tokens(answer):
        return f"the answer {answer!r} holds nothing to match (no letter, digit or sign)"
    return None
