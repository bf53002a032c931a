"""Store encoded passages in blocks on disk, for encoders that do not produce one dense vector per text (sparse and
late-interaction encoders).

    indexes/<encoder>/blocks/recipe.json      what is encoded, and how
                             0000002048.npz   the arrays of the passages from row 2048 on

After an interruption, at most one block must be encoded again. Blocks with another recipe are deleted.
Dense indexes resume by `dense_shards.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from blindspot.backend.core.manifest import read_json, write_json
from blindspot.backend.progress import Progress
from blindspot.db.corpus import Corpus
from blindspot.db.errors import BadInput
from blindspot.db.records import Passage

BLOCK = 2048  # passages in a file
PER_STEP = 128  # passages encoded between two progress reports

Arrays = Mapping[str, np.ndarray]


def encode_blocks(
    corpus: Corpus,
    folder: Path,
    recipe: Mapping[str, Any],
    encode: Callable[[Sequence[Passage]], Arrays],
    join: Callable[[Sequence[Arrays]], Arrays],
    progress: Progress | None = None,
) -> list[Path]:
    """Encode the passages of the missing blocks, and return the files of all blocks in order.

    Args:
        recipe: what determines the arrays; blocks that were made with another recipe are deleted first.
        encode: returns the arrays of some passages. join: joins the arrays of following passages.
    """
    if not (folder / "recipe.json").is_file() or read_json(folder / "recipe.json") != dict(recipe):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_json(folder / "recipe.json", recipe)
    paths = []
    for start in range(0, len(corpus), BLOCK):
        path = folder / f"{start:010d}.npz"
        paths.append(path)
        if path.exists():
            continue
        parts = []
        for begin in range(start, min(start + BLOCK, len(corpus)), PER_STEP):
            if progress is not None:
                progress(begin, len(corpus), f"encoding passages with {recipe['encoder']}")
            end = min(begin + PER_STEP, start + BLOCK)
            parts.append(encode(list(corpus.scan(begin, end))))
        with open(path.with_suffix(".partial"), "wb") as file:
            np.savez(file, allow_pickle=False, **join(parts))
        path.with_suffix(".partial").rename(path)
    return paths


def read_blocks(paths: Sequence[Path], names: Sequence[str]) -> Iterator[dict[str, np.ndarray]]:
    """Read the blocks one at a time. For a damaged file, raises BadInput, which names the file."""
    for path in paths:
        try:
            with np.load(path, allow_pickle=False) as stored:
                yield {name: stored[name] for name in names}
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise BadInput(f"is damaged ({str(error)[:80]}); delete the file and index again", path) from error
