"""Labels out and in. An export names the last event it holds, and can be made again, to the byte, from that number.

- jsonl, csv: every event, undone ones too. Into an empty store they come back with the numbers they had.
- qrels: the consensus, `question 0 passage grade`: 1 for positive, 0 for related and negative. Pairs in dispute or unsure have
  no line. They come back as labels of one annotator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from backend.core.manifest import write_json
from backend.data.formats.files import written_whole
from backend.data.formats.label_events import CSV, JSONL, Line, Problem
from backend.data.formats.streams import file_sha256
from backend.data.formats.trec import read_qrels, write_qrels
from backend.data.importing.left_out import LeftOut
from backend.data.importing.tools import writable
from backend.progress import Progress
from backend.text.counting import counted, noun
from db.errors import BadInput, Missing, Refused
from db.events import EventRow
from db.labels import Labels

if TYPE_CHECKING:
    from backend.core.study import Study

FORMATS = ("jsonl", "csv", "qrels")
ABOUT = ".about.json"
_GRADES = {"positive": 1, "related": 0, "negative": 0}
_BLOCK = 5000


@dataclass(frozen=True, slots=True)
class LabelsExported:
    """The file, its rows, the last event that went into it, and what the format has no place for."""

    path: Path
    rows: int
    last_event: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelsImported:
    """Events stored, events that were there already, lines left out, and the file that lists those."""

    stored: int
    known: int
    left_out: int
    file: Path | None


def export_labels(study: Study, format: str, path: Path | None = None, until: int | None = None) -> LabelsExported:
    """Write the labels. Beside the file goes `FILE.about.json`: the format, the last event, the rows, the file's sha256.

    Args:
        path: default `labels-<last event>.<format>`, in the current folder.
        until: the last event that is to go in; default the newest.

    Raises:
        Missing: no labels yet.
        Refused: an unknown format, or an event that is not there.
    """
    if format not in FORMATS:
        raise Refused(f"--format must be one of {', '.join(FORMATS)}, not {format!r}")
    labels = Labels(study.labels_path)
    newest = labels.last_event
    if not newest:
        raise Missing("there are no labels in this study yet")
    last = newest if until is None else until
    if not 1 <= last <= newest:
        raise Refused(f"there is no event {last}; the newest is {newest}")
    target = Path(path or f"labels-{last}.{format}")
    rows, notes = (
        _write_qrels(labels, target, last)
        if format == "qrels"
        else (_write_events(study, labels, target, format, last), ())
    )
    write_json(
        target.with_name(target.name + ABOUT),
        {"format": format, "last_event": last, "rows": rows, "sha256": file_sha256(target)},
    )
    return LabelsExported(target, rows, last, notes)


def import_labels(
    study: Study,
    path: str | Path,
    format: str | None = None,
    annotator: str | None = None,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> LabelsImported:
    """Bring labels in, all or none. Events that are in the study already are passed over.

    Args:
        format: default the file's ending.
        annotator: of qrels, whose labels they are to be.
        skip_bad: leave out what is wrong, and list it.

    Raises:
        BadInput: the first thing that is wrong, with file and line; also a question or passage that the study does not hold,
            and an event that is there with another content.
        Refused: an unknown format, or qrels without an annotator.
    """
    path = Path(path)
    format = format or path.suffix.removeprefix(".")
    if format not in FORMATS:
        raise Refused(f"--format must be one of {', '.join(FORMATS)}, not {format!r}")
    if format == "qrels" and not annotator:
        raise Refused("qrels do not say who judged; name an annotator with --annotator")
    labels = Labels(study.labels_path)
    with writable(study.folder), LeftOut(study.folder, path, skip_bad) as left:
        lines = _qrels_lines(path, annotator) if format == "qrels" else (CSV if format == "csv" else JSONL).read(path)
        reader = _Reader(study, labels, left, path)
        for block in _blocks(lines):
            reader.take(block)
            if progress:
                progress(len(reader.events), None, "reading labels")
        if not reader.events and not reader.known:
            raise left.first or BadInput("holds no labels", path)
        labels.import_rows(reader.events, reader.known)
    return LabelsImported(len(reader.events), len(reader.known), left.count, left.file)


def _write_events(study: Study, labels: Labels, target: Path, format: str, last: int) -> int:
    splits = dict(study.questions.connection.execute("SELECT id, split FROM question"))
    chosen, rows = CSV if format == "csv" else JSONL, 0
    with written_whole(target) as file:
        write = chosen.writer(file)
        for event in labels.events(until=last):
            write(event, splits[event.question])
            rows += 1
    return rows


def _write_qrels(labels: Labels, target: Path, last: int) -> tuple[int, tuple[str, ...]]:
    pairs = labels.consensus_as_of(last)
    settled = [pair for pair in pairs if pair.label in _GRADES]
    rows = write_qrels(target, ((pair.question, pair.passage, _GRADES[pair.label]) for pair in settled)).rows
    open_pairs, related = len(pairs) - len(settled), sum(pair.label == "related" for pair in settled)
    notes = (
        (f"{counted(open_pairs, 'pair')} in dispute or unsure {noun(open_pairs, 'has')} no line",) if open_pairs else ()
    )
    notes += (
        (
            f"{counted(related, 'related passage')} {noun(related, 'has')} the grade 0, as negatives have; jsonl and csv keep them apart",
        )
        if related
        else ()
    )
    return rows, notes


def _qrels_lines(path: Path, annotator: str) -> Iterator[Line | Problem]:
    digest = file_sha256(path)[:16]
    for number, row in enumerate(read_qrels(path), 1):
        if isinstance(row, BadInput):
            yield Problem(row.line, row.message)
            continue
        label = "positive" if row.grade > 0 else "negative"
        gesture = f"qrels-{digest}-{row.line}"
        yield Line(
            row.line,
            EventRow(
                number,
                gesture,
                0,
                "label",
                row.question_id,
                row.passage_id,
                annotator,
                label,
                None,
                None,
                None,
                0,
                0,
                None,
                None,
                None,
                None,
                None,
                None,
                "qrels",
                None,
                0.0,
            ),
        )


def _blocks(lines: Iterator[Line | Problem]) -> Iterator[list[Line | Problem]]:
    block: list[Line | Problem] = []
    for line in lines:
        block.append(line)
        if len(block) == _BLOCK:
            yield block
            block = []
    yield block


class _Reader:
    """What is taken of a file: `events` that are new, and `known`, the numbers in the file and here of those that are not."""

    def __init__(self, study: Study, labels: Labels, left: LeftOut, path: Path):
        self._study, self._labels, self._left, self._path = study, labels, left, path
        self.events: list[EventRow] = []
        self.known: dict[int, int] = {}
        self._by_number: dict[int, EventRow] = {}
        self._gestures: dict[str, EventRow] = {}
        self._parts: set[tuple[str, int]] = set()
        self._undone: set[int] = set()
        self._last = 0

    def take(self, block: Sequence[Line | Problem]) -> None:
        events = [line.event for line in block if isinstance(line, Line)]
        self._questions = self._study.questions.known({event.question for event in events})
        self._passages = self._study.corpus.ordinals({event.passage for event in events if event.passage is not None})
        self._stored = {
            (event.gesture, event.part): event for event in self._labels.rows_of({event.gesture for event in events})
        }
        for line in block:
            message = line.message if isinstance(line, Problem) else self._wrong(line.event)
            if message is not None:
                self._left.add(BadInput(message, self._path, line.line))
            else:
                self._keep(line.event)

    def _keep(self, event: EventRow) -> None:
        stored = self._stored.get((event.gesture, event.part))
        if stored is not None:
            self.known[event.number] = stored.number
        else:
            self.events.append(event)
        self._by_number[event.number], self._last = event, event.number
        self._gestures[event.gesture] = event
        self._parts.add((event.gesture, event.part))
        if event.undoes is not None:
            self._undone.add(event.undoes)

    def _wrong(self, event: EventRow) -> str | None:
        if event.question not in self._questions:
            return f"question {event.question!r} is not in the study"
        if event.passage is not None and event.passage not in self._passages:
            return f"passage {event.passage!r} is not in the study"
        if event.number <= self._last:
            return f"event {event.number} comes after event {self._last}; events stand in their order"
        if (event.gesture, event.part) in self._parts:
            return f"part {event.part} of gesture {event.gesture!r} comes twice"
        other = self._gestures.get(event.gesture)
        if other and _whose(other) != _whose(event):
            return f"the events of gesture {event.gesture!r} are not of one kind, annotator and question"
        stored = self._stored.get((event.gesture, event.part))
        if stored is not None and not self._same(stored, event):
            return f"gesture {event.gesture!r} is in the study already, and says something else there"
        return self._wrong_undo(event) if event.undoes is not None else None

    def _wrong_undo(self, event: EventRow) -> str | None:
        undone = self._by_number.get(event.undoes)
        if undone is None:
            return f"it takes back event {event.undoes}, which is not in the file before it, or was left out"
        if event.undoes in self._undone:
            return f"event {event.undoes} is taken back twice"
        if undone.kind == "undo" or (undone.annotator, undone.question, undone.passage, undone.practice) != (
            event.annotator,
            event.question,
            event.passage,
            event.practice,
        ):
            return "an undo takes back an event of the same annotator and pair, which is no undo"
        return None

    def _same(self, stored: EventRow, event: EventRow) -> bool:
        undoes = None if event.undoes is None else self.known.get(event.undoes)
        return _content(stored) == _content(event) and stored.undoes == undoes


def _whose(event: EventRow) -> tuple[str, str, str]:
    return event.kind, event.annotator, event.question


def _content(event: EventRow) -> tuple:
    """What an event says, without its number and what it undoes: those differ from store to store."""
    return tuple(getattr(event, name) for name in event.__slots__ if name not in ("number", "undoes"))
