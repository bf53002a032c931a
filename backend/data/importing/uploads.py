"""Files uploaded with the browser. They are stored in the study's folder `uploads/`, recognised, previewed, and
imported by the same jobs as other files.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from blindspot.backend.core.study import Study
from blindspot.backend.data.formats import recognise_formats
from blindspot.backend.data.formats.base import (
    Context,
    Format,
    ImportedQuestion,
    Options,
    PassageBatch,
    Qrel,
    RunEntry,
)
from blindspot.backend.data.importing.importer import import_frequencies, import_passages, import_questions
from blindspot.backend.data.importing.qrels import import_qrels
from blindspot.backend.data.importing.runs import import_run
from blindspot.db.errors import BadInput, BlindspotError, Missing, Refused

UPLOADS = "uploads"
TYPES = (
    "csv", "tsv", "json", "jsonl", "parquet", "arrow", "txt", "trec", "run", "qrels", "qrel", "gz", "xz", "bz2",
)  # fmt: skip
LONGEST_NAME = 80
SHOWN_ROWS, SHOWN_CHARACTERS = 3, 160
COPIED = 1 << 20  # bytes at a time
IMPORTS: dict[str, Callable[..., object]] = {
    "passages": import_passages,
    "questions": import_questions,
    "runs": import_run,
    "qrels": import_qrels,
    "frequencies": import_frequencies,
}
"""The job that imports each kind of data."""
COLUMNS = {
    "passages": ("id", "title", "text"),
    "questions": ("id", "question", "answers", "set"),
    "runs": ("question", "hits", "first passage"),
    "qrels": ("question", "passage", "grade"),
    "frequencies": ("entity", "mentions"),
}


@dataclass(frozen=True)
class FileReading:
    """One way to read a file.

    Attributes:
        kind: A key of IMPORTS. format, what: The format's name, and what it is.
        rows: The first rows, with the columns COLUMNS[kind]. fault: Why the file cannot be read like this; "" if it can.
    """

    kind: str
    format: str
    what: str
    rows: tuple[tuple[str, ...], ...]
    fault: str = ""


def upload_name(name: str) -> str:
    """Return a safe name for an uploaded file: the last part of its path, with only letters, digits, '.', '_' and '-'.

    Raises Refused if the name does not end in one of `TYPES`.
    """
    last = re.split(r"[/\\]", name)[-1]
    stem, _, ending = last.rpartition(".")
    if not stem or ending.lower() not in TYPES:
        raise Refused(f"{last[:LONGEST_NAME]!r} cannot be read; give a file that ends in {', '.join(TYPES)}")
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-")[:LONGEST_NAME] or "file"
    return f"{safe}.{ending.lower()}"


def store_upload(study: Study, name: str, content: IO[bytes]) -> Path:
    """Write an uploaded file into the study's folder `uploads/`, replacing a file of the same name.

    Raises Refused if the name does not end in one of `TYPES`, or if the file cannot be written.
    """
    safe = upload_name(name)
    folder = study.folder / UPLOADS
    partial = folder / f".{safe}.partial"
    try:
        folder.mkdir(exist_ok=True)
        with open(partial, "wb") as out:
            shutil.copyfileobj(content, out, COPIED)
        partial.replace(folder / safe)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise Refused(f"{folder / safe}: cannot be written ({error.strerror or error})") from error
    return folder / safe


def uploaded_path(study: Study, name: str) -> Path:
    """Return the path of an uploaded file, which is always inside `uploads/`. Raises Missing if there is no
    such file.
    """
    found = study.folder / UPLOADS / Path(name).name
    if not found.is_file():
        raise Missing(f"{found.name!r} is not among the uploaded files of this study; upload it again")
    return found


def possible_readings(path: Path, split: str | None = None) -> list[FileReading]:
    """Return the ways to read a file, those without a fault first; [] if no format recognises the file.

    Args:
        split: Of the questions whose file names none.

    Raises BadInput if the file is empty or unreadable.
    """
    found = [_file_reading(path, each, split) for each in recognise_formats(path) if each.kind in IMPORTS]
    return sorted(found, key=lambda reading: bool(reading.fault))


def _file_reading(path: Path, format: Format, split: str | None) -> FileReading:
    options = Options(split if format.kind == "questions" else None, settings=format.settings)
    try:
        with format.opened(path, options) as records:
            rows = list(islice(chain.from_iterable(map(_record_cells, records)), SHOWN_ROWS))
    except BlindspotError as error:
        return FileReading(format.kind, format.name, format.what, (), str(error))
    return FileReading(format.kind, format.name, format.what, tuple(rows))


def _record_cells(record: Any) -> Iterator[tuple[str, ...]]:
    """Yield the cells of a record's rows. Raises BadInput for an invalid row."""
    if isinstance(record, BadInput):
        raise record
    rows: list[tuple[Any, ...]]
    if isinstance(record, PassageBatch):
        if record.problems:
            raise record.problems[0]
        rows = [tuple(each) for each in record.rows[:SHOWN_ROWS]]
    elif isinstance(record, ImportedQuestion):
        asked = record.question
        rows = [(asked.id, asked.text, " | ".join(asked.answers), asked.split)]
    elif isinstance(record, RunEntry):
        first_context: Context | None = next(iter(record.contexts), None)
        rows = [
            (record.question_id or record.question, len(record.contexts), first_context.id if first_context else "")
        ]
    elif isinstance(record, Qrel):
        rows = [(record.question_id, record.passage_id, record.grade)]
    else:
        rows = [tuple(record[:2])]
    for row in rows:
        yield tuple(f"{cell}"[:SHOWN_CHARACTERS] for cell in row)


def delete_upload(path: Path) -> None:
    """Delete an uploaded file."""
    with suppress(OSError):
        path.unlink()
