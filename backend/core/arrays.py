"""Read arrays from .npy files with memory mapping and without unpickling. A file without an array gives a one-line
error.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from tokenize import TokenError

import numpy as np

from blindspot.db.errors import BadInput

_OTHER_FILES = {b"PK\x03\x04": "a .npz archive or zip file", b"\x80": "a pickle", b"\x89HDF": "an HDF5 file"}


def open_array(path: str | Path, advice: str = "make it again") -> np.ndarray:
    """Map a .npy file into memory.

    Args:
        advice: what to do about a file that is missing or damaged, as the end of a sentence.

    Raises:
        BadInput: no such file, a pipe or folder, another format, a header that makes no sense, or fewer bytes than it
            says.
    """
    path = Path(path)
    if not path.is_file():
        reason = "no plain file" if path.exists() else "no such file"
        raise BadInput(f"is missing or damaged ({reason}); {advice}", path)
    try:
        with open(path, "rb") as file:
            start = file.read(8)
        if other := next((kind for magic, kind in _OTHER_FILES.items() if start.startswith(magic)), None):
            raise BadInput(f"is {other}, not one .npy array; {advice}", path)
        array = np.lib.format.open_memmap(path, mode="r")
        if min(array.shape, default=0) < 0:
            raise ValueError(f"shape {array.shape}")
        return array
    except BadInput:
        raise
    # numpy lets errors of its header's parser through.
    except (
        OSError,
        ValueError,
        EOFError,
        TypeError,
        KeyError,
        OverflowError,
        SyntaxError,
        MemoryError,
        TokenError,
    ) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise BadInput(f"is missing or damaged, or no .npy array of numbers ({reason}); {advice}", path) from error


def new_array(path: str | Path, dtype: np.typing.DTypeLike, array_shape: tuple[int, ...]) -> np.memmap:
    """Create a .npy file, reserve its space on the disk, and map it into memory for writing.

    Without the reserved space, a write to the mapped file on a full disk would end the process (SIGBUS) without a
    message.

    Raises:
        OSError: The disk is full. The file is deleted.
    """
    path = Path(path)
    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=array_shape)
    handle = os.open(path, os.O_RDWR)
    try:
        os.posix_fallocate(handle, 0, max(1, os.fstat(handle).st_size))
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # a file system that cannot reserve
            path.unlink(missing_ok=True)
            raise
    finally:
        os.close(handle)
    return array
