"""What was imported into a study: one record a file."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime

from db.connection import PerThread, writing


@dataclass(frozen=True, slots=True)
class ImportRecord:
    """One import. `file` is the name of the file, or what was done instead of reading one; `options` what was asked for."""

    kind: str
    file: str
    sha256: str
    size: int
    rows: int
    left_out: int = 0
    options: str = ""
    imported_at: str = ""


def insert_record(connection: sqlite3.Connection, record: ImportRecord) -> None:
    """Write a record; the transaction is the caller's, so that rows and record come together or not at all."""
    when = record.imported_at or datetime.now(UTC).isoformat(timespec="seconds")
    connection.execute(
        "INSERT INTO import_record (kind, file, sha256, size, rows, left_out, options, imported_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (record.kind, record.file, record.sha256, record.size, record.rows, record.left_out, record.options, when),
    )


class Imports(PerThread):
    """The import records of a labels.db, oldest first."""

    def all(self, kind: str | None = None) -> list[ImportRecord]:
        rows = self.connection.execute(
            "SELECT kind, file, sha256, size, rows, left_out, options, imported_at FROM import_record "
            "WHERE ?1 IS NULL OR kind = ?1 ORDER BY number",
            (kind,),
        )
        return [ImportRecord(*row) for row in rows]

    @property
    def last(self) -> int:
        """The number of the newest record, 0 without records."""
        return self.connection.execute("SELECT coalesce(max(number), 0) FROM import_record").fetchone()[0]

    def find(self, kind: str, sha256: str, options: str = "") -> ImportRecord | None:
        """The newest import of these very bytes, as this kind, with these options."""
        same = (record for record in reversed(self.all(kind)) if (record.sha256, record.options) == (sha256, options))
        return next(same, None)

    def add(self, record: ImportRecord) -> None:
        with writing(self.connection) as connection:
            insert_record(connection, record)
