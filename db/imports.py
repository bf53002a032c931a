"""Import records: one for each file that was imported into a study."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from blindspot.db.connection import PerThread, insert, read_records


@dataclass(frozen=True, slots=True)
class ImportRecord:
    """One import.

    Attributes:
        file: Name of the file, or what was done instead of reading one.
        options: Options of the import.
    """

    kind: str
    file: str
    sha256: str
    size: int
    rows: int
    left_out: int = 0
    options: str = ""
    imported_at: str = ""


def insert_record(connection: sqlite3.Connection, record: ImportRecord) -> None:
    """Insert a record inside the caller's transaction, so that rows and record are stored together or not at all."""
    when = record.imported_at or datetime.now(UTC).isoformat(timespec="seconds")
    insert(connection, "import_record", **{**asdict(record), "imported_at": when})


class Imports(PerThread):
    """The import records of a labels.db, oldest first."""

    def all_records(self, kind: str | None = None) -> list[ImportRecord]:
        """Return all records, or those of one kind."""
        source = "import_record WHERE ?1 IS NULL OR kind = ?1 ORDER BY number"
        return list(read_records(self.connection, ImportRecord, source, (kind,)))

    @property
    def last_number(self) -> int:
        """The number of the newest record; 0 if there is none."""
        return int(self.connection.execute("SELECT coalesce(max(number), 0) FROM import_record").fetchone()[0])

    def find(self, kind: str, sha256: str, options: str = "") -> ImportRecord | None:
        """Return the newest import of a file with the same bytes, kind and options."""
        same = (
            record
            for record in reversed(self.all_records(kind))
            if (record.sha256, record.options) == (sha256, options)
        )
        return next(same, None)

    def add(self, record: ImportRecord) -> None:
        """Insert a record."""
        insert_record(self.connection, record)
