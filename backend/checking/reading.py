"""Open a training file: recognise the kind of file and the format of its rows, and read its entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blindspot.backend.checking.formats.base import TRAINING_FORMATS, Entry, RowLayout, TrainingFormat
from blindspot.backend.checking.row_files import InMemory, RowFile, first_rows, open_rows, texts_of_ids
from blindspot.backend.data.formats.fields import FieldError
from blindspot.db.errors import BadInput

_NAMES = {"collection": ("collection*.tsv", "corpus.jsonl", "psgs*.tsv"), "queries": ("queries*.tsv", "queries.jsonl")}


@dataclass
class TrainingFile:
    """An open training file: its rows, and the format that reads them.

    Attributes:
        beside: The files that ids were looked up in, by role.
    """

    file: RowFile
    format: TrainingFormat
    layout: RowLayout
    beside: dict[str, Path]

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def name(self) -> str:
        """The format in words, such as "triplets, JSON lines"."""
        return f"{self.layout.name}, {self.file.kind}"

    def entries(self) -> Iterator[tuple[int, Entry]]:
        """Yield the line number and the entry of each row. Raises BadInput at the first invalid row."""
        previous = None
        for line, values in self.file.rows():
            try:
                yield line, self.layout.entry(values, previous)
            except (FieldError, KeyError) as error:
                raise BadInput(_error_text(error), self.path, line) from None
            previous = values

    def held_out_questions(self) -> Iterator[str]:
        """Yield the questions of the dev and test splits of the same file or folder."""
        for line, values in self.file.held_out():
            try:
                yield self.layout.entry(values).question
            except (FieldError, KeyError) as error:
                raise BadInput(_error_text(error), self.path, line) from None


def open_training_file(source: Any, collection: Path | None = None, queries: Path | None = None) -> TrainingFile:
    """Open a training file, or a Dataset or DataFrame in memory.

    Args:
        collection, queries: Where the texts of ids are; default files beside it.

    Raises:
        BadInput: no file of a known form; ids without their texts.
    """
    file = open_rows(source) if isinstance(source, str | Path) else InMemory(source)
    rows = first_rows(file)
    if not rows:
        raise BadInput("is empty: there is no row in it", file.path)
    for form in TRAINING_FORMATS:
        try:
            layout = form.recognise(file.columns, rows)
        except FieldError as error:
            raise BadInput(str(error), file.path) from None
        if layout is not None:
            beside = _read_referenced_texts(file, layout, form, {"collection": collection, "queries": queries})
            return TrainingFile(file, form, layout, beside)
    columns = ", ".join(name[:40] for name in file.columns[:8])
    known = "; ".join(form.what for form in TRAINING_FORMATS)
    raise BadInput(f"no training data of a known form; columns: {columns}. Known: {known}", file.path)


def _read_referenced_texts(
    file: RowFile, layout: Any, form: TrainingFormat, named_files: dict[str, Path | None]
) -> dict[str, Path]:
    """Read the texts of the ids that a file contains, and return the files that hold these texts, by role."""
    if not form.needs:
        return {}
    places = {}
    for role in form.needs:
        folder = file.path if file.path.is_dir() else file.path.parent
        found = named_files[role] or next((each for name in _NAMES[role] for each in sorted(folder.glob(name))), None)
        if found is None:
            raise BadInput(
                f"holds ids without texts; give --{role} FILE with an id, a tab and a text on each line", file.path
            )
        places[role] = Path(found)
    wanted: dict[str, set[str]] = {role: set() for role in form.needs}
    for _, values in file.rows():
        for role, ids in layout.ids(values).items():
            wanted[role].update(ids)
    for role, path in places.items():
        layout.texts[role] = texts_of_ids(path, wanted[role])
    return places


def _error_text(error: Exception) -> str:
    return f"there is no {error}" if isinstance(error, KeyError) else str(error)
