"""Shards of a dense index on disk, while its passages are encoded. An interrupted shard is resumed, several machines can
encode different shards, and the complete set is merged into an index.

    indexes/<encoder>/shards/2-of-8/recipe.json      what is encoded, and how
                                    0000002048.npy   (2048, d) float16: the passages from row 2048 on
                                    manifest.json    written last

A shard consists of blocks of 2,048 passages. The boundaries of blocks do not depend on the number of shards.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from blindspot.backend.core.arrays import new_array, open_array
from blindspot.backend.core.manifest import read_json, read_manifest, write_json, write_manifest
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.passage_encoder import PassageEncoder
from blindspot.db.corpus import Corpus
from blindspot.db.errors import BadInput, Missing, Refused

BLOCK = 2048  # passages in a file; an interruption loses at most this many
ROWS_PER_COPY = 65_536
NAME = re.compile(r"(\d+)-of-(\d+)")


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `shard_count` roughly equal parts of the passages, counted from 1."""

    number: int
    shard_count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse a shard such as "2/8". Raises Refused for other text."""
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise Refused(
                f"--shard {text}: give the number of the shard and the number of shards, as in 2/8 for the "
                "second of eight"
            )
        return cls(int(number), int(of))

    @property
    def name(self) -> str:
        return f"{self.number}-of-{self.shard_count}"

    def starts(self, passage_count: int) -> range:
        """Return the first row of each block. Raises Refused if there are fewer blocks than shards."""
        blocks = -(-passage_count // BLOCK)
        if self.shard_count > max(blocks, 1):
            raise Refused(
                f"{passage_count:,} passages make {blocks} blocks of {BLOCK:,}, too few for {self.shard_count} shards"
            )
        return range(
            blocks * (self.number - 1) // self.shard_count * BLOCK,
            blocks * self.number // self.shard_count * BLOCK,
            BLOCK,
        )


def encode_shard(
    corpus: Corpus, encoder: PassageEncoder, recipe: dict, shard: Shard, folder: Path, progress: Progress | None = None
) -> dict:
    """Encode the missing blocks of a shard inside `folder`, and return the shard's manifest. Blocks made with another
    recipe are deleted.
    """
    target, total = folder / shard.name, len(corpus)
    recipe = {**recipe, "shard": shard.number, "of": shard.shard_count}
    sealed = read_manifest(target)
    if not (target / "recipe.json").is_file() or read_json(target / "recipe.json") != recipe:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        write_json(target / "recipe.json", recipe)
    elif sealed is not None:
        return sealed
    starts = shard.starts(total)
    first, end = starts.start, min(starts.stop, total)

    def tick(before: int, done: int) -> None:
        if progress is not None:
            progress(before + done, end - first, f"encoding passages with {recipe['encoder']}")

    for start in starts:
        path = _block_path(target, start)
        if path.exists():
            continue
        vectors = encoder.encode(list(corpus.scan(start, start + BLOCK)), partial(tick, start - first))
        with open(path.with_suffix(".partial"), "wb") as file:
            np.save(file, vectors)
        path.with_suffix(".partial").rename(path)
    return write_manifest(target, {**recipe, "rows": end - first})


def complete_blocks(folder: Path, digest: str, name: str) -> tuple[dict, list[Path]]:
    """Return the common recipe of all shards inside `folder`, and the files of their blocks in order.

    Args:
        digest: the hash of this study's passages. name: the encoder's name.

    Raises: Missing for missing shards, Refused if the shards were made with different settings or from other passages,
    BadInput for a damaged shard.
    """
    paths = {
        Shard(*map(int, match.groups())): path
        for path in sorted(folder.glob("*-of-*"))
        if (match := NAME.fullmatch(path.name))
    }
    if not paths:
        raise Missing(
            f"no shards of {name!r} in {folder}; run 'blindspot index dense --encoder {name} --shard 1/2' and so "
            "on, and copy the shards of other machines into that folder"
        )
    cuts = sorted({shard.shard_count for shard in paths})
    if len(cuts) > 1:
        raise Refused(
            f"{folder} has shards of {' and of '.join(map(str, cuts))}; keep one set and delete the other shards"
        )
    manifests = {shard: manifest for shard, path in paths.items() if (manifest := read_manifest(path)) is not None}
    missing = [str(number) for number in range(1, cuts[0] + 1) if Shard(number, cuts[0]) not in manifests]
    if missing:
        raise Missing(
            f"{len(missing)} of {cuts[0]} shards of {name!r} are missing or unfinished: {', '.join(missing[:20])}"
            f"{' ...' if len(missing) > 20 else ''}; run 'blindspot index dense --encoder {name} --shard "
            f"{missing[0]}/{cuts[0]}'"
        )
    shards = sorted(manifests, key=lambda shard: shard.number)
    recipes = [read_json(paths[shard] / "recipe.json") for shard in shards]
    recipe = {key: value for key, value in recipes[0].items() if key not in ("shard", "of")}
    for shard, other in zip(shards, recipes, strict=True):
        if other.get("corpus") != digest:
            raise Refused(
                f"{paths[shard]} was encoded from other passages than this study's; delete it and encode it again"
            )
        for key, value in recipe.items():
            if other.get(key) != value:
                raise Refused(
                    f"{paths[shard]} does not match {paths[shards[0]]} ({key}: {other.get(key)!r}, {value!r}); "
                    "delete one of them and encode it again"
                )
    blocks = [block for shard in shards for block in _checked_blocks(paths[shard], shard, recipe)]
    return recipe, blocks


def _checked_blocks(folder: Path, shard: Shard, recipe: dict) -> Iterator[Path]:
    for start in shard.starts(recipe["passages"]):
        path, rows = _block_path(folder, start), min(BLOCK, recipe["passages"] - start)
        shape = open_array(path, "delete the shard's manifest.json and the file, and encode it again").shape
        if shape != (rows, recipe["dimension"]):
            raise BadInput(
                f"has shape {shape} instead of {(rows, recipe['dimension'])}; delete the shard and encode it again",
                path,
            )
        yield path


def _block_path(folder: Path, start: int) -> Path:
    return folder / f"{start:010d}.npy"


def merge_blocks(
    sources: Sequence[Path],
    target: Path,
    recipe: dict,
    progress: Progress | None = None,
    order: np.ndarray | None = None,
) -> bool:
    """Write all rows to one float16 file, and return whether every vector has unit length. Raises Refused for vectors
    with NaN.

    The complete file replaces the old one by renaming, because a service may still have the old file mapped.

    Args:
        order: (passages,) int64, the rows of the only source to write; None for all rows in order.
    """
    shape, unit_length, row = (recipe["passages"], recipe["dimension"]), True, 0
    partial = target.with_name(f".{target.name}")
    merged = new_array(partial, np.float16, shape)
    for source in sources:
        rows = open_array(source, "encode the shard again")
        for start in range(0, len(rows) if order is None else len(order), ROWS_PER_COPY):
            part = slice(start, start + ROWS_PER_COPY)
            block = rows[part if order is None else order[part]].astype(np.float32)
            norms = np.linalg.norm(block, axis=1)
            if recipe["similarity"] == "cosine":
                block /= np.maximum(norms, 1e-12)[:, None]
                norms = np.ones(1)
            with np.errstate(over="ignore"):  # numbers that overflow become infinity and are refused
                merged[row : row + len(block)] = block
            if not np.isfinite(merged[row : row + len(block)]).all():
                bad = row + int(np.flatnonzero(~np.isfinite(merged[row : row + len(block)]).all(1))[0])
                raise Refused(
                    f"the vector of passage row {bad} contains NaN, infinity or a number too large for 16 bits"
                )
            unit_length &= bool(np.abs(norms - 1).max() < 1e-2)
            row += len(block)
            if progress is not None:
                progress(row, shape[0], "writing the vectors")
    if row != shape[0]:
        raise Refused(f"got {row} vectors for {shape[0]} passages; delete {target.parent} and encode again")
    merged.flush()
    os.replace(partial, target)
    return unit_length
