"""Export and import labels. An export records the number of its last event; with this number the same export can be
repeated byte for byte.

- jsonl, csv: every event, including undone ones. Events that are imported into an empty store keep their numbers.
- qrels: the consensus as `question 0 passage grade`: 1 for positive, 0 for related and negative. Disputed and unsure
  pairs have no
  line. Imported qrels become the labels of one annotator. By default this annotator is a machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blindspot.backend.core.manifest import write_json
from blindspot.backend.core.study import Study
from blindspot.backend.data.formats.files import open_atomically
from blindspot.backend.data.formats.label_events import CSV, JSONL, EventLine, EventProblem
from blindspot.backend.data.formats.streams import file_sha256
from blindspot.backend.data.formats.trec import read_qrels, write_qrels
from blindspot.backend.data.importing.rejected_rows import RejectedRows
from blindspot.backend.data.importing.tools import readable_write_errors
from blindspot.backend.progress import Progress
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.events import COLUMNS, MACHINE, EventRow, Label
from blindspot.db.labels import Labels
from blindspot.db.people import People

FORMATS = ("jsonl", "csv", "qrels")
QRELS_OF_A_PERSON = "qrels of a person"
ABOUT = ".about.json"
_GRADES = {"positive": 1, "related": 0, "negative": 0}
_BLOCK = 5000


@dataclass(frozen=True, slots=True)
class LabelExport:
    """An exported file.

    Attributes:
        rows: Number of rows.
        last_event: Number of the last event included.
        notes: What the format cannot represent, one line each.
    """

    path: Path
    rows: int
    last_event: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelImport:
    """The result of an import.

    Attributes:
        stored: Number of new events.
        known: Number of events that were already in the study.
        left_out: Number of lines left out; `file` lists them.
    """

    stored: int
    known: int
    left_out: int
    file: Path | None


def export_labels(study: Study, format: str, path: Path | None = None, last_event: int | None = None) -> LabelExport:
    """Write the labels to a file. A second file `FILE.about.json` states the format, last event, rows and sha256.

    Args:
        path: Default `labels-<last event>.<format>` in the current folder.
        last_event: Number of the last event to include (default the newest).

    Raises:
        Missing: there are no labels yet.
        Refused: an unknown format or event.
    """
    if format not in FORMATS:
        raise Refused(f"--format must be one of {', '.join(FORMATS)}, not {format!r}")
    labels = Labels(study.labels_path)
    newest = labels.last_event
    if not newest:
        raise Missing("there are no labels in this study yet")
    last = newest if last_event is None else last_event
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
    return LabelExport(target, rows, last, notes)


def import_labels(
    study: Study,
    path: str | Path,
    format: str | None = None,
    annotator: str | None = None,
    skip_bad: bool = False,
    by_person: bool = False,
    progress: Progress | None = None,
) -> LabelImport:
    """Import labels. If a line is invalid, nothing is imported, unless `skip_bad` is set. Events that are already in
    the study are skipped.

    Args:
        format: Default the file's ending.
        annotator: The annotator who gave the labels; required for qrels, which do not name one. A new annotator of
        qrels is a
            machine, whose labels count for no consensus and no agreement.
        by_person: A person gave the labels of a qrels file.
        skip_bad: Leave out wrong lines and list them in a file, instead of raising.

    Raises:
        BadInput: the first error with file and line, including a question or passage that is not in the study, and an
        event that
            is in the study with different content.
        Refused: an unknown format, or qrels without an annotator, or of a machine by a person's name, or the reverse.
    """
    path = Path(path)
    format = format or path.suffix.removeprefix(".")
    if format not in FORMATS:
        raise Refused(f"--format must be one of {', '.join(FORMATS)}, not {format!r}")
    if format == "qrels":
        if not annotator:
            raise Refused("qrels do not say who judged; name an annotator with --annotator")
        _refuse_other_kind(study, annotator, by_person)
        lines = _qrels_lines(path, annotator, by_person)
    else:
        lines = (CSV if format == "csv" else JSONL).read(path)
    labels = Labels(study.labels_path)
    with readable_write_errors(study.folder), RejectedRows(study.folder, path, skip_bad) as rejected:
        importer = _LabelImporter(study, labels, rejected, path)
        for block in _blocks(lines):
            importer.import_block(block)
            if progress:
                progress(len(importer.events), None, "reading labels")
        if not importer.events and not importer.known:
            raise rejected.first or BadInput("holds no labels", path)
        labels.import_event_rows(importer.events, importer.known)
    return LabelImport(len(importer.events), len(importer.known), rejected.count, rejected.file)


def _write_events(study: Study, labels: Labels, target: Path, format: str, last_event: int) -> int:
    splits = dict(study.questions.connection.execute("SELECT id, split FROM question"))
    chosen, rows = CSV if format == "csv" else JSONL, 0
    with open_atomically(target) as file:
        write = chosen.writer(file)
        for event in labels.events(last_event=last_event):
            write(event, splits[event.question])
            rows += 1
    return rows


def _write_qrels(labels: Labels, target: Path, last_event: int) -> tuple[int, tuple[str, ...]]:
    pairs = labels.consensus_as_of(last_event)
    settled = [(pair.question, pair.passage, pair.label) for pair in pairs if pair.label in _GRADES]
    rows = write_qrels(target, ((question, passage, _GRADES[label or ""]) for question, passage, label in settled)).rows
    open_pairs, related = len(pairs) - len(settled), sum(label == "related" for _, _, label in settled)
    notes = []
    if open_pairs:
        notes.append(f"{quantity(open_pairs, 'pair')} in dispute or unsure {noun_form(open_pairs, 'has')} no line")
    if related:
        notes.append(
            f"{quantity(related, 'related passage')} {noun_form(related, 'has')} grade 0, as negatives have; jsonl and csv "
            "distinguish them"
        )
    return rows, tuple(notes)


def _refuse_other_kind(study: Study, annotator: str, by_person: bool) -> None:
    known = next((each for each in People(study.labels_path).all() if each.name == annotator), None)
    if known is None or known.kind == ("person" if by_person else "machine"):
        return
    if by_person:
        raise Refused(
            f"{annotator} is a machine; name another annotator, or run: blindspot people kind {annotator} person"
        )
    raise Refused(f"{annotator} is a person; name another annotator for a machine's labels, or give --by-person")


def _qrels_lines(path: Path, annotator: str, by_person: bool) -> Iterator[EventLine | EventProblem]:
    digest = file_sha256(path)[:16]
    for number, row in enumerate(read_qrels(path), 1):
        if isinstance(row, BadInput):
            yield EventProblem(row.line, row.message)
            continue
        label: Label = "positive" if row.grade > 0 else "negative"
        gesture = f"{'person-' if by_person else ''}qrels-{digest}-{row.line}"
        values: dict[str, Any] = {
            **dict.fromkeys(COLUMNS),
            "number": number,
            "gesture": gesture,
            "part": 0,
            "kind": "label",
            "question": row.question_id,
            "passage": row.passage_id,
            "annotator": annotator,
            "label": label,
            "practice": 0,
            "blind": 0,
            "guideline_version": QRELS_OF_A_PERSON if by_person else MACHINE,
            "server_time": 0.0,
        }
        yield EventLine(row.line, EventRow(**values))


def _blocks(lines: Iterator[EventLine | EventProblem]) -> Iterator[list[EventLine | EventProblem]]:
    block: list[EventLine | EventProblem] = []
    for line in lines:
        block.append(line)
        if len(block) == _BLOCK:
            yield block
            block = []
    yield block


class _LabelImporter:
    """Collects the events of a file for import.

    Attributes:
        events: The events that are not in the study.
        known: For the others, their number in the file to their number in the study.
    """

    def __init__(self, study: Study, labels: Labels, rejected: RejectedRows, path: Path):
        self._study, self._labels, self._rejected, self._path = study, labels, rejected, path
        self.events: list[EventRow] = []
        self.known: dict[int, int] = {}
        self._by_number: dict[int, EventRow] = {}
        self._gestures: dict[str, EventRow] = {}
        self._parts: set[tuple[str, int]] = set()
        self._undone: set[int] = set()
        self._last = 0

    def import_block(self, block: Sequence[EventLine | EventProblem]) -> None:
        events = [line.event for line in block if isinstance(line, EventLine)]
        self._questions = self._study.questions.known_ids({event.question for event in events})
        self._passages = self._study.corpus.ordinals({event.passage for event in events if event.passage is not None})
        self._stored = {
            (event.gesture, event.part): event
            for event in self._labels.event_rows_of({event.gesture for event in events})
        }
        for line in block:
            message = line.message if isinstance(line, EventProblem) else self._problem_of(line.event)
            if message is not None:
                self._rejected.add(BadInput(message, self._path, line.line))
            elif isinstance(line, EventLine):
                self._keep_event(line.event)

    def _keep_event(self, event: EventRow) -> None:
        number = _event_number(event)
        stored = self._stored.get((event.gesture, event.part))
        if stored is not None:
            self.known[number] = _event_number(stored)
        else:
            self.events.append(event)
        self._by_number[number], self._last = event, number
        self._gestures[event.gesture] = event
        self._parts.add((event.gesture, event.part))
        if event.undoes is not None:
            self._undone.add(event.undoes)

    def _problem_of(self, event: EventRow) -> str | None:
        if event.question not in self._questions:
            return f"question {event.question!r} is not in the study"
        if event.passage is not None and event.passage not in self._passages:
            return f"passage {event.passage!r} is not in the study"
        if _event_number(event) <= self._last:
            return f"event {event.number} comes after event {self._last}; sort the events by number"
        if (event.gesture, event.part) in self._parts:
            return f"part {event.part} of gesture {event.gesture!r} occurs twice"
        other = self._gestures.get(event.gesture)
        if other and _gesture_key(other) != _gesture_key(event):
            return f"the events of gesture {event.gesture!r} differ in kind, annotator or question"
        stored = self._stored.get((event.gesture, event.part))
        if stored is not None and not self._is_same_event(stored, event):
            return f"gesture {event.gesture!r} is already in the study with different content"
        return None if event.undoes is None else self._undo_problem(event, event.undoes)

    def _undo_problem(self, event: EventRow, number: int) -> str | None:
        undone = self._by_number.get(number)
        if undone is None:
            return f"it undoes event {number}, which is not in the file before it, or was left out"
        if number in self._undone:
            return f"event {number} is undone twice"
        if undone.kind == "undo" or (undone.annotator, undone.question, undone.passage, undone.practice) != (
            event.annotator,
            event.question,
            event.passage,
            event.practice,
        ):
            return "an undo must refer to an event of the same annotator and pair that is not itself an undo"
        return None

    def _is_same_event(self, stored_event: EventRow, event: EventRow) -> bool:
        undoes = None if event.undoes is None else self.known.get(event.undoes)
        return _event_content(stored_event) == _event_content(event) and stored_event.undoes == undoes


def _event_number(event: EventRow) -> int:
    """Return the number of an event that was read from a file or a store, which always has one."""
    if event.number is None:
        raise ValueError(f"{event} has no number")
    return event.number


def _gesture_key(event: EventRow) -> tuple[str, str, str]:
    return event.kind, event.annotator, event.question


def _event_content(event: EventRow) -> tuple[object, ...]:
    """Return an event's fields, except its own number and the number of the event that it undoes, because numbers
    differ between stores.
    """
    return tuple(getattr(event, name) for name in event.__slots__ if name not in ("number", "undoes"))
