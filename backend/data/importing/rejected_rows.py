"""Handle the rows that an import rejects: raise an error at once or, with `skip_bad`, leave the rows out and list them
in a file.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TextIO

from blindspot.db.errors import BadInput

FOLDER = "left-out"


class RejectedRows:
    """The rejected rows of a file, as a context manager. The list of rows is deleted if the `with` block ends with an
    error.

    Each line of the list has the position in the file and the reason, separated by a tab.

    Attributes:
        count: Number of rejected rows.
        first: The first error.
        file: The list, after the block; None if no row was rejected.
    """

    def __init__(self, study_folder: Path, source: Path, skip_bad: bool):
        self._folder, self._source, self._skip = study_folder / FOLDER, source, skip_bad
        self._out: TextIO | None = None
        self.count = 0
        self.first: BadInput | None = None
        self.file: Path | None = None

    def __enter__(self) -> RejectedRows:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._out is None:
            return
        self._out.close()
        partial = Path(self._out.name)
        if error is None and self.file is not None:
            partial.rename(self.file)
        else:
            partial.unlink(missing_ok=True)
            self.file = None
            with suppress(OSError):  # the folder may contain the lists of earlier imports
                self._folder.rmdir()

    def add(self, problem: BadInput) -> None:
        """Reject a row. Raises the problem unless bad rows are to be skipped."""
        if not self._skip:
            raise problem
        if self._out is None:
            self._out = self._open()
        self.count += 1
        self.first = self.first or problem
        place = f"{problem.path}:{problem.line}" if problem.line is not None else f"{problem.path}"
        self._out.write(f"{place}\t{problem.message}\n")

    def restart(self) -> None:
        """Clear the list, because the file is read from the beginning again."""
        self.count, self.first = 0, None
        if self._out is not None:
            self._out.seek(0)
            self._out.truncate()

    def _open(self) -> TextIO:
        self._folder.mkdir(exist_ok=True)
        number = 1
        while (file := self._folder / f"{self._source.name}.{number}.tsv").exists():
            number += 1
        self.file = file
        # A message may quote the file's content, including half a surrogate pair.
        return open(
            file.with_name(file.name + ".partial"), "w", encoding="utf-8", errors="backslashreplace", newline="\n"
        )  # noqa: SIM115
