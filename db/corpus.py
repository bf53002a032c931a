"""The passage collection of a study, in corpus.db. It is written once and then only read."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from blindspot.db.backup import sync_to_disk
from blindspot.db.connection import AMONG, DatabaseUnavailable, PerThread
from blindspot.db.errors import BlindspotError, Missing, Refused
from blindspot.db.records import Passage

_BLOCK = 1000
_SCHEMA = """
    CREATE TABLE passage (ordinal INTEGER PRIMARY KEY, id TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL) STRICT;
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
"""

Row = tuple[str, str, str]
"""A passage as a tuple: (id, title, text)."""


@dataclass(frozen=True, slots=True)
class CorpusSource:
    """The file that a collection was imported from."""

    name: str
    sha256: str


class DuplicateId(BlindspotError):
    """An id that occurs twice in a collection, in the passage rows `first` and `second`."""

    def __init__(self, id: str, first_row: int, second_row: int):
        self.id, self.first, self.second = id, first_row, second_row
        super().__init__(f"passage id {id!r} occurs twice, in rows {first_row + 1} and {second_row + 1}")


class Corpus(PerThread):
    """The passages of one corpus.db, by row (numbered from 0) or by id. Threads may share one object.

    Attributes:
        digest: sha256 of the ids, titles and texts, in order.
        source: The file that the collection was imported from.

    Raises:
        Missing: The file does not exist, or is not a passage collection.
    """

    def __init__(self, path: str | Path):
        super().__init__(path, read_only=True, immutable=True)
        if not self.path.is_file():
            raise Missing(f"{self.path.parent}: no passages yet; import a collection first")
        try:
            meta = dict(self.connection.execute("SELECT key, value FROM meta"))
            self._length = int(meta["count"])
            self.digest = meta["digest"]
            self.source = CorpusSource(meta["source_name"], meta["source_sha256"])
        except (sqlite3.DatabaseError, KeyError, ValueError) as error:
            if isinstance(error, DatabaseUnavailable) and not error.damaged_file_error:
                raise
            raise Missing(f"{self.path} is not a passage collection; import one into a new study") from error

    def __len__(self) -> int:
        return self._length

    def passage(self, ordinal: int) -> Passage:
        """Return the passage in one row."""
        return self.passages([ordinal])[0]

    def passages(self, ordinals: Iterable[int]) -> list[Passage]:
        """Return the passages in these rows, in this order. A row may occur more than once.

        Raises:
            Missing: A row outside the collection.
        """
        rows = [int(ordinal) for ordinal in ordinals]
        if not rows:
            return []
        sql = f"SELECT ordinal, id, title, text FROM passage WHERE ordinal {AMONG}"
        by_ordinal = {row[0]: Passage(*row[1:]) for row in self.connection.execute(sql, (json.dumps(rows),))}
        try:
            return [by_ordinal[ordinal] for ordinal in rows]
        except KeyError as error:
            raise Missing(f"there is no passage number {error.args[0]}; the collection holds {len(self)}") from None

    def scan(self, start: int = 0, end: int | None = None) -> Iterator[Passage]:
        """Yield the passages of rows `start` to `end` (exclusive), in order."""
        for rows in self.blocks(start, end):
            yield from (Passage(*row) for row in rows)

    def blocks(self, start: int = 0, end: int | None = None, size: int = _BLOCK) -> Iterator[list[Row]]:
        """Yield the passages as `scan` does, but in lists of up to `size` tuples (id, title, text), which is faster for
        all passages.
        """
        end = len(self) if end is None else min(end, len(self))
        sql = "SELECT id, title, text FROM passage WHERE ordinal >= ? AND ordinal < ? ORDER BY ordinal"
        for low in range(max(start, 0), end, size):
            yield self.connection.execute(sql, (low, min(low + size, end))).fetchall()

    def by_id(self, ids: Iterable[str]) -> dict[str, Passage]:
        """Return the passages of some ids. Ids that the collection does not hold are left out."""
        sql = f"SELECT id, title, text FROM passage WHERE id {AMONG}"
        return {row[0]: Passage(*row) for row in self.connection.execute(sql, (json.dumps(list(ids)),))}

    def ids(self, ordinals: Iterable[int]) -> dict[int, str]:
        """Return the id of the passage in each row, without reading its text. Raises Missing as `passages` does."""
        rows = [int(ordinal) for ordinal in ordinals]
        sql = f"SELECT ordinal, id FROM passage WHERE ordinal {AMONG}"
        by_ordinal = dict(self.connection.execute(sql, (json.dumps(rows),)).fetchall())
        if unknown := [row for row in rows if row not in by_ordinal]:
            raise Missing(f"there is no passage number {unknown[0]}; the collection holds {len(self)}")
        return by_ordinal

    def ordinals(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the row of each id. Ids that the collection does not hold are left out."""
        wanted = list(ids)
        if not wanted:
            return {}
        sql = f"SELECT id, ordinal FROM passage WHERE id {AMONG}"
        return dict(self.connection.execute(sql, (json.dumps(wanted),)).fetchall())


class CorpusWriter:
    """Write a corpus.db: it is written as `corpus.db.partial` and renamed when it is complete. A context manager.

    If `finish` is not called, or an error is raised inside, no file is left.

    Raises:
        Refused: There is a collection at `path` already.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        if self.path.exists():
            raise Refused(f"{self.path}: there is a passage collection here already; a study holds one")
        self.partial = self.path.with_name(self.path.name + ".partial")
        self.count = 0
        self._finished = False
        self._digest = hashlib.sha256()

    def __enter__(self) -> CorpusWriter:
        self._lock = _locked_file(self.partial)
        if self.path.exists():
            os.close(self._lock)
            self.partial.unlink(missing_ok=True)
            raise Refused(f"{self.path}: another import was quicker; a study has only one collection")
        self._connection = sqlite3.connect(self.partial, isolation_level=None, check_same_thread=False)
        # A half-written file is deleted, so it needs no journal and no sync.
        for (
            pragma
        ) in "page_size=8192 journal_mode=OFF synchronous=OFF locking_mode=EXCLUSIVE cache_size=-65536".split():
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.executescript(_SCHEMA)
        self._connection.execute("BEGIN")
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()
        if not self._finished:
            self.partial.unlink(missing_ok=True)
        os.close(self._lock)

    def add(self, passages: Iterable[Passage]) -> None:
        """Append passages. `finish` checks that the ids are unique."""
        self.add_rows([(p.id, p.title, p.text) for p in passages])

    def add_rows(self, rows: Sequence[Row], packed_text: bytes | None = None) -> None:
        """Append a block of (id, title, text). `packed_text` is `pack_text(rows)` if the caller has already computed it."""
        if not rows:
            return
        self._digest.update(pack_text(rows) if packed_text is None else packed_text)
        first = self.count
        if first == 0:
            # SQLite numbers each row after the highest one, so only the first row needs its number, 0.
            self._connection.execute("INSERT INTO passage VALUES (0, ?, ?, ?)", rows[0])
            rows, self.count = rows[1:], 1
        self._connection.executemany("INSERT INTO passage (id, title, text) VALUES (?, ?, ?)", rows)
        self.count += len(rows)

    def finish(self, source_name: str = "", source_sha256: str = "", tick: Callable[[], None] | None = None) -> None:
        """Index the ids, sync the file to disk, and rename it. Meanwhile `tick` is called about twice a second; an
        error that it raises ends the work.

        Raises:
            DuplicateId: An id occurs twice.
        """
        if tick is None:
            self._index_ids()
        else:
            self._index_with_ticks(tick)
        values = {
            "count": self.count,
            "digest": self._digest.hexdigest(),
            "source_name": source_name,
            "source_sha256": source_sha256,
        }
        self._connection.executemany("INSERT INTO meta VALUES (?, ?)", [(k, str(v)) for k, v in values.items()])
        self._connection.execute("COMMIT")
        self._connection.close()
        sync_to_disk(self.partial)
        self.partial.rename(self.path)
        self._finished = True
        sync_to_disk(self.path.parent)

    def duplicates(self) -> Iterator[tuple[int, int]]:
        """After a DuplicateId, yield each row whose id occurs in an earlier row, as (row, first row)."""
        sql = """SELECT p.ordinal, q.first FROM passage p
                 JOIN (SELECT id, min(ordinal) AS first FROM passage GROUP BY id HAVING count(*) > 1) q USING (id)
                 WHERE p.ordinal > q.first ORDER BY p.ordinal"""
        return iter(self._connection.execute(sql).fetchall())

    def _index_ids(self) -> None:
        try:
            self._connection.execute("CREATE UNIQUE INDEX passage_by_id ON passage (id)")
        except sqlite3.IntegrityError:
            second, first = next(self.duplicates())
            row = self._connection.execute("SELECT id FROM passage WHERE ordinal = ?", (second,)).fetchone()
            raise DuplicateId(row[0], first, second) from None

    def _index_with_ticks(self, tick: Callable[[], None]) -> None:
        """Build the index, and call `tick` meanwhile. An error that `tick` raises interrupts SQLite and is raised again
        here.
        """
        errors: list[BaseException] = []
        last = [time.monotonic()]

        def handler() -> int:
            if time.monotonic() - last[0] >= 0.5:
                last[0] = time.monotonic()
                try:
                    tick()
                except BaseException as error:
                    errors.append(error)
                    return 1
            return 0

        self._connection.set_progress_handler(handler, 100_000)
        try:
            self._index_ids()
        except sqlite3.OperationalError:
            if errors:
                raise errors[0] from None
            raise
        finally:
            self._connection.set_progress_handler(None, 0)


def _locked_file(path: Path) -> int:
    """Create an empty file that belongs to this process until the returned handle is closed.

    A file that a killed import left behind is used again.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not path.exists() or path.stat().st_ino != os.fstat(handle).st_ino:
            raise BlockingIOError
    except BlockingIOError:
        os.close(handle)
        raise Refused(f"{path}: another import of passages is running; wait for it, or cancel it") from None
    os.truncate(handle, 0)
    return handle


def pack_text(rows: Sequence[Row]) -> bytes:
    """Return the bytes from which the digest is computed: each field, followed by NUL, which no field may contain.

    Raises:
        ValueError: A field contains NUL, or (as UnicodeEncodeError) half a surrogate pair.
    """
    # Encode field by field. Most are ASCII, which is a copy; one other character would make a joined text wide.
    packed = b"\0".join(map(str.encode, chain.from_iterable(rows))) + b"\0"
    if packed.count(b"\0") != 3 * len(rows):
        raise ValueError("a passage contains a NUL character")
    return packed
