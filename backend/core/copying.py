"""Copy a study while it may be in use. Only finished parts are copied, and labels.db is copied with SQLite's backup."""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from blindspot.backend.core.manifest import MANIFEST, write_text
from blindspot.backend.core.study import SETTINGS_FILE, Study
from blindspot.db.backup import backup
from blindspot.db.connection import connect
from blindspot.db.errors import BlindspotError, Refused

ATTEMPTS = 5
SECONDS_TO_REPLACE = 0.02  # between two looks at a part that is being replaced
REPLACED = re.compile(r"^\.(.+)\.(?:building|old)$")
_SKIPPED = {"jobs", "cache", "labels.db", "labels.db-wal", "labels.db-shm", "labels.db-journal"}
_PART_FOLDERS = {"indexes", "runs", "training_sets", "models", "maps"}


@dataclass(frozen=True, slots=True)
class CopiedStudy:
    """The folder of a copy, its size, and the unfinished parts that were left out."""

    folder: Path
    files: int
    bytes: int
    left_out: tuple[str, ...]


def copy_study(study: Study, target: str | Path) -> CopiedStudy:
    """Copy a study into a new folder, which appears only when it is complete.

    Copying files one by one during writes can produce an inconsistent labels.db or a mixture of two runs. Therefore
    labels.db is copied with SQLite's backup. It is copied after all other parts, so that it holds every question and
    passage that they refer to.

    Raises:
        Refused: The target exists or is inside the study.
        BlindspotError: The disk does not take the copy, or a part kept changing.
    """
    target = Path(target).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Refused(f"{target} exists already; choose a new folder")
    if target.resolve().is_relative_to(study.folder):
        raise Refused(f"{target} is inside the study; choose a folder outside")
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.copying")
    left_out: list[str] = []
    try:
        unfinished.mkdir(parents=True)
        for entry in sorted(os.scandir(study.folder), key=lambda entry: entry.name):
            if entry.name not in _SKIPPED and not _is_temporary(entry.name):
                _copy_entry(Path(entry.path), unfinished / entry.name, study.folder, left_out)
        with closing(connect(study.labels_path, read_only=True)) as connection:
            backup(connection, unfinished / study.labels_path.name)
        if not (unfinished / SETTINGS_FILE).is_file():
            raise BlindspotError(f"{study.folder}: {SETTINGS_FILE} was removed during the copy; nothing was copied")
        _point_to_copy(unfinished / SETTINGS_FILE, study.folder, target)
        if target.exists():
            target.rmdir()
        unfinished.rename(target)
    except OSError as error:
        place = error.filename or target
        raise BlindspotError(
            f"{place}: the study cannot be copied ({error.strerror or error}); make room, or choose another place"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    files = [path for path in target.rglob("*") if path.is_file()]
    return CopiedStudy(target, len(files), sum(path.stat().st_size for path in files), tuple(left_out))


def _point_to_copy(settings: Path, old_folder: Path, new_folder: Path) -> None:
    """Change the paths of models in study.toml, which are absolute, to those in the copy."""
    text = settings.read_text(encoding="utf-8")
    write_text(settings, text.replace(f"{old_folder}{os.sep}models{os.sep}", f"{new_folder}{os.sep}models{os.sep}"))


def _copy_entry(source: Path, target: Path, study: Path, left_out: list[str]) -> None:
    """Copy a file or a folder. Parts without a manifest are left out, because a job is still writing them."""
    if not source.is_dir():
        _copy_file(source, target)
        return
    if source.parent == study and source.name in _PART_FOLDERS:
        target.mkdir()
        for part in (source / name for name in _part_names(source)):
            if _is_ready(part):
                _copy_entry(part, target / part.name, study, left_out)
            elif part.is_dir():
                left_out.append(str(part.relative_to(study)))
        return
    for _ in range(ATTEMPTS):
        before = _folder_state(source)
        try:
            shutil.copytree(source, target, ignore=_ignore_temporary, copy_function=_copy_file)
        except (FileNotFoundError, shutil.Error):
            if before and before == _folder_state(source):
                raise
        else:
            if before == _folder_state(source):
                return
        shutil.rmtree(target, ignore_errors=True)  # made again meanwhile: old and new files may be mixed
        time.sleep(SECONDS_TO_REPLACE)
    raise BlindspotError(
        f"{source.relative_to(study)} changed {ATTEMPTS} times during the copy; wait until the job that makes it is "
        "done"
    )


def _copy_file(source: str | Path, target: str | Path) -> None:
    if Path(source).is_file():  # a FIFO or a socket would block
        shutil.copy2(source, target)


def _part_names(folder: Path) -> list[str]:
    """Return the names of the parts in a folder, including parts that are being replaced.

    While `atomic_folder` replaces a part, the part exists only as ".NAME.building" and ".NAME.old", and a listing at
    that moment can miss it. The folder is therefore listed repeatedly until no new name appears.
    """
    names: set[str] = set()
    while added := {REPLACED.sub(r"\1", name) for name in os.listdir(folder)} - names:
        names |= added
    return sorted(name for name in names if not _is_temporary(name))


def _is_ready(part: Path) -> bool:
    """Return whether a part can be copied: it is finished, or a file. Waits a moment for a part that is
    being replaced.
    """
    for _ in range(ATTEMPTS):
        if part.is_file() or (part.is_dir() and _is_finished(part)):
            return True
        time.sleep(SECONDS_TO_REPLACE)
    return False


def _is_finished(part: Path) -> bool:
    """Return whether a part has a manifest. For a trained model the manifest is `training.json`; for a model folder
    that a person copied in, `config.json` suffices.
    """
    return any(
        (part / name).is_file()
        for name in (MANIFEST, "training.json", "specialised.json", "modules.json", "config.json")
    )


def _folder_state(folder: Path) -> list[tuple[str, int, int, int]]:
    """Return the names, inodes, sizes and modification times of a folder's files, to detect writes during the copy."""
    entries = []
    for path in sorted(folder.rglob("*")):
        if any(_is_temporary(part) for part in path.relative_to(folder).parts):
            continue
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if not path.is_dir():
            entries.append((str(path.relative_to(folder)), status.st_ino, status.st_size, status.st_mtime_ns))
    return entries


def _ignore_temporary(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if _is_temporary(name)}


def _is_temporary(name: str) -> bool:
    """Return whether a file is not copied: unfinished and hidden ones, such as the folder's identity."""
    return name.startswith(".") or name.endswith(".partial")
