"""Read files with one or more passages on each line, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from blindspot.backend.data.formats.base import PassageBatch, Row
from blindspot.backend.data.formats.fields import FieldError
from blindspot.backend.data.formats.streams import ByteSource, numbered_lines
from blindspot.db.errors import BadInput

ROWS_PER_BATCH = 4096


def read_passage_lines(path: Path, passages_of: Callable[[int, str], Iterable[Row]]) -> Iterator[PassageBatch]:
    """Yield the passages of a file.

    Args:
        passages_of: returns the passages of a line, given its number and text; raises FieldError for a wrong line.

    Raises BadInput for an empty file.
    """
    source, batch, empty = ByteSource(path), PassageBatch(), True
    for line, text in numbered_lines(source):
        empty = False
        try:
            rows = list(passages_of(line, text))
            batch.rows += rows
            batch.lines += [line] * len(rows)
        except FieldError as error:
            batch.problems.append(BadInput(str(error), path, line))
        if len(batch.rows) + len(batch.problems) >= ROWS_PER_BATCH:
            batch.share = source.read / max(source.size, 1)
            yield batch
            batch = PassageBatch()
    if empty:
        raise BadInput("the file is empty", path)
    batch.share, batch.sha256 = 1.0, source.sha256
    yield batch
