"""Read files as streams of bytes or of text lines. A thread reads ahead and decompresses."""

from __future__ import annotations

import bz2
import hashlib
import lzma
import os
import queue
import threading
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from blindspot.db.errors import BadInput

BLOCK = 1 << 20
UNPACKED_BLOCK = 4 << 20  # larger, because the thread waits for the interpreter lock after each block
MAX_LINE = 32 << 20  # bytes; real data has shorter lines, and without a limit a wrong file could fill the memory
_AHEAD = 4


class _Decompressor(Protocol):
    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gunzip:
    """A gzip decompressor with the interface of the lzma and bz2 decompressors."""

    def __init__(self) -> None:
        self._zlib, self._tail = zlib.decompressobj(31), b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._zlib.decompress(self._tail + data, max_length)
        self._tail = self._zlib.unconsumed_tail
        # A full block may be followed by more output even if all input has been consumed.
        self._full = len(out) == max_length
        return out

    @property
    def needs_input(self) -> bool:
        return not self._tail and not self._full

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data


_COMPRESSIONS: dict[bytes, tuple[str, Any]] = {
    b"\x1f\x8b": ("gzip", _Gunzip),
    b"\xfd7zXZ\x00": ("xz", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ)),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
}
_UNREADABLE = {
    b"PK\x03\x04": "a zip archive, which is not supported; unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed with zstd, which is not supported; unpack it first",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive, which is not supported; unpack it first",
    b"SQLite format 3\x00": "a SQLite database, which is not supported; write its rows as JSON lines or CSV",
    b"PAR1": "a Parquet file, not text; read it with --format table",
}


class ByteSource:
    """The contents of a file. Compression is recognised by the first bytes, not by the file name.

    A separate thread reads, hashes and decompresses ahead of the consumer.

    Attributes:
        size, read: Bytes of the file on disk, and how many of them have been read, for progress.
        sha256: Hash of the file on disk; None until the last block has been read.

    Raises:
        BadInput: no such file, or it is broken, truncated or of an unsupported kind.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        check_plain_file(self.path)
        self.size, self.read = self.path.stat().st_size, 0
        self.sha256: str | None = None

    def __iter__(self) -> Generator[bytes, None, None]:
        blocks_ahead: queue.Queue[bytes | BaseException | None] = queue.Queue(_AHEAD)
        stop = threading.Event()

        def put_block(item: bytes | BaseException | None) -> None:
            while not stop.is_set():
                try:
                    blocks_ahead.put(item, timeout=0.1)
                    return
                except queue.Full:
                    continue

        def read_ahead() -> None:
            try:
                for block in self._blocks():
                    put_block(block)
                    if stop.is_set():
                        return
                put_block(None)
            except BaseException as error:
                put_block(error)

        thread = threading.Thread(target=read_ahead, name="read-ahead", daemon=True)
        thread.start()
        try:
            while (item := blocks_ahead.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stop.set()
            thread.join()

    def _blocks(self) -> Iterator[bytes]:
        digest = hashlib.sha256()
        try:
            with open(self.path, "rb") as file:
                raw = self._raw_blocks(file, digest)
                first = next(raw, b"")
                for magic, what in _UNREADABLE.items():
                    if first.startswith(magic):
                        raise BadInput(f"this is {what}", self.path)
                kinds = [kind for magic, kind in _COMPRESSIONS.items() if first.startswith(magic)]
                if kinds:
                    yield from self._decompress(first, raw, *kinds[0])
                else:
                    yield first
                    yield from raw
        except OSError as error:
            raise BadInput(f"cannot be read ({error.strerror or error})", self.path) from error
        self.sha256 = digest.hexdigest()

    def _raw_blocks(self, file: Any, digest: Any) -> Iterator[bytes]:
        while block := file.read(BLOCK):
            digest.update(block)
            self.read += len(block)
            yield block

    def _decompress(
        self, start: bytes, compressed_blocks: Iterator[bytes], name: str, new_decompressor: Any
    ) -> Iterator[bytes]:
        """Decompress a file. Files of gzip, xz and bzip2 may contain several consecutive streams."""
        data: bytes | None = start
        stream: _Decompressor = new_decompressor()
        try:
            while data is not None:
                block = stream.decompress(data, UNPACKED_BLOCK)
                if block:
                    yield block
                if stream.eof:
                    data = stream.unused_data.lstrip(b"\0")
                    while not data:
                        following = next(compressed_blocks, None)
                        if following is None:
                            return
                        data = following.lstrip(b"\0")
                    stream = new_decompressor()
                elif stream.needs_input:
                    data = next(compressed_blocks, None)
                    if data is None:
                        raise BadInput(f"the {name} file is truncated; fetch it again", self.path)
                else:
                    data = b""
        except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
            raise BadInput(f"the {name} file is broken ({error}); fetch it again", self.path) from error


def first_bytes(path: str | Path, size: int = 1 << 16) -> bytes:
    """Return the first decompressed bytes of a file. Raises BadInput as ByteSource does."""
    parts, have = [], 0
    blocks = ByteSource(path).__iter__()
    try:
        for block in blocks:
            parts.append(block)
            have += len(block)
            if have >= size:
                break
    finally:
        blocks.close()
    return b"".join(parts)[:size]


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Whole lines without their LF. Bytes that are not UTF-8 become surrogates (U+DC80 to U+DCFF, Python's
    surrogateescape).

    Attributes:
        line: Number of the first line, from 1.
    """

    line: int
    lines: list[str]


def text_blocks(source: ByteSource) -> Iterator[TextBlock]:
    """Decode a source and split it into lines, a block at a time.

    Raises:
        BadInput: UTF-16 or UTF-32, or a line beyond MAX_LINE.
    """
    line, rest = 1, b""
    for number, block in enumerate(source):
        if number == 0:
            block = without_byte_order_mark(block, source.path)
        cut = block.rfind(b"\n") + 1
        if not cut:
            rest += block
            if len(rest) > MAX_LINE:
                raise BadInput(f"a line of more than {MAX_LINE >> 20} MB; is this a text file?", source.path, line)
            continue
        lines = _decode_lines(rest + block[: cut - 1])
        rest = block[cut:]
        yield TextBlock(line, lines)
        line += len(lines)
    if rest:
        yield TextBlock(line, _decode_lines(rest))


def _decode_lines(data: bytes) -> list[str]:
    # Decode line by line: nearly all lines are ASCII, which is only copied, while a single other character would make a
    # whole block use wide characters.
    lines = data.split(b"\n")
    try:
        return list(map(bytes.decode, lines))
    except UnicodeDecodeError:
        return [line.decode("utf-8", "surrogateescape") for line in lines]


def without_byte_order_mark(block: bytes, path: Path) -> bytes:
    """Remove the byte order mark from the first bytes of a text. Raises BadInput for UTF-16 and UTF-32."""
    if block.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadInput("this is UTF-16; save it as UTF-8", path, 1)
    return block.removeprefix(b"\xef\xbb\xbf")


def numbered_lines(source: ByteSource) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, without line ends, with their numbers from 1."""
    for block in text_blocks(source):
        for offset, text in enumerate(block.lines):
            if text and not text.isspace():
                yield block.line + offset, text.removesuffix("\r")


def has_invalid_utf8(text: str) -> bool:
    """Return whether a decoded text contains surrogates: bytes that were not UTF-8, or half a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def check_plain_file(path: Path) -> None:
    """Raise BadInput unless the path is a regular file. Reading a pipe could wait forever."""
    if path.is_file():
        return
    if path.is_dir():
        raise BadInput("this is a folder", path)
    if os.path.lexists(path):
        raise BadInput("this is not a regular file (but a pipe, a device, or a broken link); give a file", path)
    raise BadInput("there is no such file", path)


def file_sha256(path: str | Path) -> str:
    """Return the sha256 of a file on disk, without decompressing it."""
    check_plain_file(Path(path))
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"cannot be read ({error.strerror or error})", path) from error
