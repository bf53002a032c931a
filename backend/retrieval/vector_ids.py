"""Read files with the passage id of each vector: text with one id per line, or a .npy array. Pickles are
never opened.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from blindspot.backend.data.formats.streams import check_plain_file
from blindspot.db.corpus import Corpus
from blindspot.db.errors import BadInput


def read_ids(path: Path, expected_count: int, noun: str) -> list[str]:
    """Return the passage ids of the `expected_count` vectors of `noun`.

    Raises:
        BadInput: no such file, a pickle, or another number of ids.
    """
    check_plain_file(path)
    with open(path, "rb") as file:
        head = file.read(6)
    if head == b"\x93NUMPY":
        try:
            ids = [str(each) for each in np.load(path, allow_pickle=False).tolist()]
        except ValueError:
            raise BadInput(
                "holds pickled objects, which can run a program; write the ids as text, one a line", path
            ) from None
    elif head[:1] == b"\x80":
        raise BadInput("is a pickle, which can run a program; write the ids as text, one a line", path)
    else:
        try:
            ids = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            raise BadInput("is not UTF-8 text; write the ids as text, one a line", path) from None
    if len(ids) != expected_count:
        raise BadInput(f"has {len(ids):,} ids, but {noun} has {expected_count:,} vectors", path)
    return ids


def vector_rows(corpus: Corpus, ids: list[str], path: Path) -> np.ndarray:
    """Return which vector belongs to each passage, (passages,) int64. Vectors of other passages are not used.

    Args:
        ids: The passage id of each vector.
        path: The file of the ids, for messages.

    Raises:
        BadInput: a passage without a vector, or with two.
    """
    known = corpus.ordinals(ids)
    rows = np.full(len(corpus), -1, dtype=np.int64)
    for number, id in enumerate(ids):
        passage = known.get(id, -1)
        if passage >= 0 and rows[passage] >= 0:
            raise BadInput(f"the id {id!r} occurs twice, first in line {rows[passage] + 1}", path, number + 1)
        if passage >= 0:
            rows[passage] = number
    missing = np.flatnonzero(rows < 0)
    if len(missing):
        (example,) = corpus.passages([int(missing[0])])
        raise BadInput(
            f"lacks {len(missing):,} of the study's {len(corpus):,} passages, such as {example.id!r}; every passage needs "
            "a vector",
            path,
        )
    return rows
