"""Importing passages: rows per second and peak memory, ours and two common ways, measured in one run.

    python -m benchmarks.importing [--rows 1000000] [--data FOLDER] [--folder SCRATCH]

The file is the 100,000 real passages repeated with new ids. Each line is a separate process, with its own peak memory.
"csv + sqlite3" is csv.reader, executemany and a unique index made first; "pandas" is read_csv in chunks and to_sql.
Neither checks its input. "read only" decompresses and discards the rows, which is an upper bound for any importer.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import lzma
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.machine import peak_memory

REAL_DATA = Path(__file__).parents[2] / "shared" / "data" / "entityquestions-wiki"
OPENERS = {".tsv": open, ".gz": gzip.open, ".xz": lzma.open}


def ours(path: Path, folder: Path) -> int:
    from blindspot.backend.core.study import Study
    from blindspot.backend.data.importing.importer import import_passages

    return import_passages(Study.create(folder / "study"), path).rows


def csv_and_sqlite(path: Path, folder: Path) -> int:
    connection = sqlite3.connect(folder / "peer.db")
    connection.execute("PRAGMA journal_mode=OFF")
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("CREATE TABLE passage (ordinal INTEGER PRIMARY KEY, id TEXT UNIQUE, text TEXT, title TEXT)")
    with OPENERS[path.suffix](path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\t")
        next(rows)
        connection.executemany("INSERT INTO passage (id, text, title) VALUES (?, ?, ?)", rows)
    connection.commit()
    return connection.execute("SELECT count(*) FROM passage").fetchone()[0]


def pandas_to_sql(path: Path, folder: Path) -> int:
    import pandas

    connection = sqlite3.connect(folder / "peer.db")
    rows = 0
    for chunk in pandas.read_csv(path, sep="\t", dtype=str, keep_default_na=False, chunksize=50_000):
        chunk.to_sql("passage", connection, if_exists="append", index=False)
        rows += len(chunk)
    connection.execute("CREATE UNIQUE INDEX passage_by_id ON passage (id)")
    connection.commit()
    return rows


def read_only(path: Path, folder: Path) -> int:
    rows = -1
    with OPENERS[path.suffix](path, "rb") as file:
        while block := file.read(1 << 20):
            rows += block.count(b"\n")
    return rows


WAYS = {"ours": ours, "csv + sqlite3": csv_and_sqlite, "pandas": pandas_to_sql, "read only": read_only}
PLAN = [
    (".tsv", ("ours", "csv + sqlite3", "pandas")),
    (".gz", ("ours", "csv + sqlite3", "read only")),
    (".xz", ("ours", "csv + sqlite3", "read only")),
]


def make_files(data: Path, folder: Path, rows: int) -> dict[str, Path]:
    """Write the plain file of `rows` rows, and compressed files of a tenth of that (compression takes longer than
    everything else).
    """
    with lzma.open(data / "passages_100k.tsv.xz") as file:
        header, *lines = [line for line in file.read().split(b"\n") if line]
    tails = [line.partition(b"\t")[2] for line in lines]
    files = {}
    for ending, opener in OPENERS.items():
        path = folder / f"passages{ending}"
        with opener(path, "wb") as file:
            file.write(header + b"\n")
            for number in range(rows if ending == ".tsv" else rows // 10):
                file.write(b"%d\t%s\n" % (number, tails[number % len(tails)]))
        files[ending] = path
    return files


def measure(way: str, path: Path, folder: Path) -> dict:
    """Run one way in a separate process."""
    scratch = Path(tempfile.mkdtemp(dir=folder))
    try:
        command = [sys.executable, "-m", "benchmarks.importing", "--child", way, str(path), str(scratch)]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    finally:
        shutil.rmtree(scratch)


def child(way: str, path: str, folder: str) -> None:
    if way == "pandas":  # imports are not measured
        import pandas  # noqa: F401
    elif way == "ours":
        import blindspot.backend.core.study  # noqa: F401
    began = time.perf_counter()
    rows = WAYS[way](Path(path), Path(folder))
    seconds = time.perf_counter() - began
    print(json.dumps({"rows": rows, "seconds": seconds, "peak_mb": peak_memory()}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("BLINDSPOT_REAL_DATA") or REAL_DATA))
    parser.add_argument("--folder", type=Path, default=None, help="folder for temporary files")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return child(*arguments.child)
    folder = Path(tempfile.mkdtemp(dir=arguments.folder))
    try:
        files = make_files(arguments.data, folder, arguments.rows)
        print(f"{'file':6} {'way':14} {'rows':>10} {'seconds':>8} {'rows/s':>9} {'peak MB':>8}")
        for ending, ways in PLAN:
            for way in ways:
                found = measure(way, files[ending], folder)
                speed = found["rows"] / found["seconds"]
                print(
                    f"{ending:6} {way:14} {found['rows']:>10,} {found['seconds']:>8.1f} {speed:>9,.0f} "
                    f"{found['peak_mb']:>8.0f}"
                )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
