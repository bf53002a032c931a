"""The rows that an import leaves out: raised at once, or, when the person said so, listed in a file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TextIO

from db.errors import BadInput

FOLDER = "left-out"


class RejectedRows:
    """What was wrong with a file. A context manager: the list is kept if the block ends well, else thrown away.

    Each line is the place and the reason, with a tab between. `file` is its path after the block, None if nothing was left out.
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
        if error is None:
            self._partial.rename(self.file)
        else:
            self._partial.unlink(missing_ok=True)
            self.file = None
            with suppress(OSError):  # it holds the lists of earlier imports
                self._folder.rmdir()

    def add(self, problem: BadInput) -> None:
        """Note a problem; raises it unless bad rows are to be skipped."""
        if not self._skip:
            raise problem
        if self._out is None:
            self._open()
        self.count += 1
        self.first = self.first or problem
        place = f"{problem.path}:{problem.line}" if problem.line is not None else f"{problem.path}"
        self._out.write(f"{place}\t{problem.message}\n")

    def restart(self) -> None:
        """Forget what was noted: the file is read from the beginning again."""
        self.count, self.first = 0, None
        if self._out is not None:
            self._out.seek(0)
            self._out.truncate()

    def _open(self) -> None:
        self._folder.mkdir(exist_ok=True)
        number = 1
        while (file := self._folder / f"{self._source.name}.{number}.tsv").exists():
            number += 1
        self.file, self._partial = file, file.with_name(file.name + ".partial")
        # A message may quote what stood in the file, half a surrogate pair included.
        self._out = open(self._partial, "w", encoding="utf-8", errors="backslashreplace", newline="\n")  # noqa: SIM115
