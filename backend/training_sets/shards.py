"""The shards of a training set under construction: each is whole or absent, and stays until the set is whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from blindspot.backend.core.manifest import read_json, read_object, write_json
from blindspot.backend.training_sets.stats import SetStats
from blindspot.backend.training_sets.training_set import Pair, as_table, schema
from blindspot.db.backup import sync


class TrainingSetShards:
    """The shards in a folder. Shards with another fingerprint are discarded."""

    def __init__(self, folder: Path, fingerprint: str):
        self.folder = folder
        about = folder / "about.json"
        if not about.is_file() or read_json(about) != {"fingerprint": fingerprint}:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            write_json(about, {"fingerprint": fingerprint})

    def has(self, number: int) -> bool:
        return self._path(number, "json").is_file()

    def write(self, number: int, pairs: Sequence[Pair], about: dict) -> None:
        """Write the pairs first: a shard is whole once its `json` exists."""
        import pyarrow.parquet as parquet

        partial = self._path(number, "partial")
        parquet.write_table(as_table(pairs), partial)
        os.replace(partial, self._path(number, "parquet"))
        write_json(self._path(number, "json"), about)

    def summary(self) -> tuple[SetStats, dict[str, str]]:
        counts = SetStats()
        left_out: dict[str, str] = {}
        for number in self._numbers():
            about = read_object(self._path(number, "json"))
            counts.merge(about["counts"])
            left_out |= about["left_out"]
        return counts, left_out

    def join(self, path: Path) -> None:
        """Join the shards into one file, with one row group for each shard."""
        import pyarrow.parquet as parquet

        with parquet.ParquetWriter(path, schema(), compression="zstd") as writer:
            for number in self._numbers():
                table = parquet.read_table(self._path(number, "parquet"))
                if len(table):
                    writer.write_table(table)
        sync(path)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob("[0-9]*.json"))

    def _path(self, number: int, suffix: str) -> Path:
        return self.folder / f"{number:06d}.{suffix}"
