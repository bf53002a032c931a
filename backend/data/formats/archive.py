"""Read the files of a folder or a tar archive as streams. Nothing is unpacked to disk."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from blindspot.backend.data.formats.streams import ByteSource, check_plain_file, file_sha256
from blindspot.db.errors import BadInput

MAX_TOTAL = 1 << 30  # bytes of all members that are read
MAX_UNPACKED = 4 << 30  # bytes of the whole archive, including skipped members
MAX_MEMBERS = 100_000


def is_tar(start: bytes) -> bool:
    """Return whether the first 512 bytes are a tar header."""
    return start[257:262] == b"ustar"


def read_members(path: Path, is_wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Read the wanted files of a folder or tar (plain or compressed), by their path inside it, sorted.

    Raises:
        BadInput: a broken or truncated archive, or a member that points outside it or is not a regular file.
    """
    return dict(sorted(_folder_members(path, is_wanted) if path.is_dir() else _tar_members(path, is_wanted)))


def members_sha256(path: Path, is_wanted: Callable[[str], bool]) -> str:
    """Return the sha256 of an archive's bytes, or of the names and contents of a folder's wanted files."""
    if not path.is_dir():
        return file_sha256(path)
    digest = hashlib.sha256()
    for name, data in sorted(_folder_members(path, is_wanted)):
        digest.update(f"{name}\0{len(data)}\0".encode(errors="surrogateescape") + data)
    return digest.hexdigest()


def member_place(path: Path, name: str) -> str:
    """Return the name of a member for messages: `folder/member` or `archive.tar.xz:member`."""
    return str(path / name) if path.is_dir() else f"{path}:{name}"


def _folder_members(path: Path, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            inside = file.relative_to(path).as_posix()
            if not is_wanted(inside):
                continue
            check_plain_file(file)
            if not file.resolve().is_relative_to(path.resolve()):
                raise BadInput("this link points outside the folder; put the file itself there", file)
            try:
                total += file.stat().st_size
                _check_total(total, path)
                yield inside, file.read_bytes()
            except OSError as error:
                raise BadInput(f"cannot be read ({error.strerror or error})", file) from error


def _tar_members(path: Path, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    stream = _Stream(ByteSource(path))
    seen: set[str] = set()
    total = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|", errorlevel=1) as archive:
            for member in archive:
                _check_member(member, path)
                if not member.isreg() or not is_wanted(_safe_path(member)):
                    continue
                if _safe_path(member) in seen or len(seen) > MAX_MEMBERS:
                    raise BadInput("this file occurs twice in the archive", f"{path}:{member.name}")
                seen.add(_safe_path(member))
                total += member.size
                _check_total(total, path)
                content = archive.extractfile(member)
                if content is None:
                    raise BadInput("this member cannot be read; the archive is refused", f"{path}:{member.name}")
                yield _safe_path(member), content.read()
        stream.read_to_end()
    except BadInput:
        raise
    except (tarfile.TarError, EOFError, ValueError, OverflowError, KeyError, AttributeError, MemoryError) as error:
        # tarfile raises some of these for invalid headers.
        raise BadInput(f"the archive is truncated or broken ({error}); fetch it again", path) from error
    finally:
        stream.close()
    if not stream.ended_with_zeros:
        raise BadInput("the archive is truncated (its end marker is missing); fetch it again", path)


def _safe_path(member: tarfile.TarInfo) -> str:
    return PurePosixPath(member.name).as_posix()


def _check_member(member: tarfile.TarInfo, path: Path) -> None:
    """Refuse the whole archive if a member is not a regular file or folder, or has a path that leads out of the
    archive.
    """
    place = f"{path}:{member.name}"
    name = PurePosixPath(member.name.replace("\\", "/"))
    if name.is_absolute() or ".." in name.parts or (name.parts and name.parts[0].endswith(":")):
        raise BadInput("this member points outside the archive; the archive is refused", place)
    if member.issym() or member.islnk():
        raise BadInput("this member is a link; the archive is refused", place)
    if not (member.isreg() or member.isdir()):
        raise BadInput("this member is not a regular file; the archive is refused", place)
    if member.size < 0:
        raise BadInput("this member has an invalid size; the archive is refused", place)


def _check_total(total: int, path: Path) -> None:
    if total > MAX_TOTAL:
        raise BadInput(f"holds more than {MAX_TOTAL >> 20} MB of questions; is this the right archive?", path)


class _Stream(io.RawIOBase):
    """A ByteSource as a file object for tarfile."""

    def __init__(self, source: ByteSource):
        self._blocks, self._rest, self._end = source.__iter__(), b"", b""
        self._path, self._unpacked = source.path, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts = [self._rest]
        have = len(self._rest)
        while size < 0 or have < size:
            block = next(self._blocks, None)
            if block is None:
                break
            parts.append(block)
            have += len(block)
            self._unpacked += len(block)
            if self._unpacked > MAX_UNPACKED:
                raise BadInput(f"unpacks to more than {MAX_UNPACKED >> 30} GB; is this the right archive?", self._path)
            self._end = (self._end + block[-512:])[-512:]
        data = b"".join(parts)
        size = len(data) if size < 0 else size
        self._rest = data[size:]
        return data[:size]

    def read_to_end(self) -> None:
        """Read to the end of the file, which verifies the checksum of a compressed file."""
        while self.read(1 << 20):
            pass

    def close(self) -> None:
        if not self.closed:
            self._blocks.close()
        super().close()

    @property
    def ended_with_zeros(self) -> bool:
        return self._end == b"\0" * 512
