"""A study is one folder that holds a passage collection, questions, indexes, runs and labels. `docs/study-folder.md`
describes the folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from blindspot.backend.core.manifest import MANIFEST, Manifest, read_manifest, write_text
from blindspot.backend.core.settings import Settings, check_name, default_toml, read_settings
from blindspot.db.backup import refuse_lost_labels
from blindspot.db.corpus import Corpus
from blindspot.db.errors import BlindspotError, Missing, Refused
from blindspot.db.labels import Labels
from blindspot.db.questions import Questions
from blindspot.db.schema import prepare

if TYPE_CHECKING:
    from blindspot.backend.core.runs import Run

SETTINGS_FILE = "study.toml"
ENVIRONMENT_VARIABLE = "BLINDSPOT_STUDY"


class Study:
    """An open study. Opening is cheap, because databases and memory maps are opened when they are first used."""

    def __init__(self, folder: Path):
        self.folder = folder.resolve()

    @classmethod
    def create(cls, folder: str | Path, name: str | None = None) -> Study:
        """Create a study in a new or empty folder. Raises Refused if the folder is not empty."""
        folder = Path(folder)
        refuse_used_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        study = cls(folder)
        prepare(study.labels_path)
        title = name if name is not None else study.folder.name
        write_text(folder / SETTINGS_FILE, default_toml(title))
        return study

    @classmethod
    def open(cls, folder: str | Path | None = None) -> Study:
        """Open the study in `folder`; by default in $BLINDSPOT_STUDY, else in the current folder. Raises Missing if
        there is none."""
        folder = Path(folder or os.environ.get(ENVIRONMENT_VARIABLE) or ".")
        if not (folder / SETTINGS_FILE).is_file():
            raise Missing(
                f"{folder} is not a study (it has no {SETTINGS_FILE}); make one with 'blindspot new {folder}', or "
                f"name one with --study or ${ENVIRONMENT_VARIABLE}"
            )
        study = cls(folder)
        refuse_lost_labels(study.labels_path)
        prepare(study.labels_path)
        return study

    @property
    def labels_path(self) -> Path:
        return self.folder / "labels.db"

    @property
    def settings_path(self) -> Path:
        return self.folder / SETTINGS_FILE

    @property
    def settings(self) -> Settings:
        """The settings, read again whenever study.toml has changed: a person may edit the file while the app runs."""
        return read_settings(self.settings_path)

    @property
    def has_corpus(self) -> bool:
        return (self.folder / "corpus.db").is_file()

    @cached_property
    def corpus(self) -> Corpus:
        """The passage collection. Raises Missing if no passages are imported."""
        if not self.has_corpus:
            raise Missing(f"{self.folder} has no passages yet; run 'blindspot import passages FILE'")
        return Corpus(self.folder / "corpus.db")

    @cached_property
    def questions(self) -> Questions:
        return Questions(self.labels_path)

    @cached_property
    def labels(self) -> Labels:
        return Labels(self.labels_path)

    def path(self, *parts: str) -> Path:
        """Return a path inside the study. Raises Refused if the path leads out of the study."""
        if any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts):
            raise Refused(f"{'/'.join(parts)} is not a place inside the study")
        return self.folder.joinpath(*parts)

    def parts(self, kind: str) -> dict[str, Manifest]:
        """Return the manifests of the finished parts of a kind ("indexes", "runs") by name, oldest first."""
        folder = self.folder / kind
        if not folder.is_dir():
            return {}
        manifests = {
            part.name: manifest
            for part in sorted(folder.iterdir())
            if not part.name.startswith(".") and (manifest := read_manifest(part)) is not None
        }
        # Two parts of one job may be made within a second, which is all that a manifest says.
        written = {name: (folder / name / MANIFEST).stat().st_mtime_ns for name in manifests}
        return dict(sorted(manifests.items(), key=lambda item: (item[1].get("made", ""), written[item[0]])))

    def finished_manifest(self, kind: str, name: str, noun: str, make_command: str, remake_command: str) -> Manifest:
        """Return the manifest of a finished part that was made over this study's passages.

        Args:
            kind: the folder of such parts. noun: such a part, in words. make_command, remake_command: what makes one, and makes it again.

        Raises:
            Missing: The part is absent or unfinished.
            Refused: It was made over other passages.
        """
        manifest = read_manifest(self.path(kind, check_name(name, noun)))
        if manifest is None:
            known = ", ".join(self.parts(kind)) or f"none yet; make one with 'blindspot {make_command}'"
            raise Missing(f"there is no {noun} {name!r}; {noun}s of this study: {known}")
        made_over = manifest["inputs"] if kind == "training_sets" else manifest
        if made_over["corpus"] != self.corpus.digest:
            raise Refused(f"{noun} {name!r} was made over other passages than this study holds; {remake_command}")
        return manifest

    def runs(self) -> list[str]:
        """Names of the finished runs, oldest first."""
        return list(self.parts("runs"))

    def run(self, name: str) -> Run:
        """Open a run. Raises Missing if there is no such run."""
        from blindspot.backend.core.runs import Run

        return Run.open(self, name)

    @contextmanager
    def reserve_part(self, part: str, refuse: Callable[[], object] | None = None) -> Iterator[None]:
        """Reserve the name of a part before the work that makes it. Inside the `with` block, this thread may call
        `lock_part` for the same part.

        Without the reservation, two processes could work on a part of the same name, and one would fail only at the
        end.

        Args:
            refuse: See `lock_part`.

        Raises:
            Refused: Another process makes the part.
        """
        claimed = _claimed_parts()
        with self.lock_part(part, refuse):
            claimed.add((self.folder, part))
            try:
                yield
            finally:
                claimed.discard((self.folder, part))

    @contextmanager
    def lock_part(self, part: str, refuse: Callable[[], object] | None = None) -> Iterator[None]:
        """Hold an exclusive lock on a part while it is being made.

        Args:
            refuse: called once the right is confirmed; raises Refused if the part exists and must not be replaced.
                Asked only before, the answer may be out of date: another process may have made the part in between.

        Raises:
            Refused: Another process makes the part.
        """
        if (self.folder, part) in _claimed_parts():
            yield
            return
        locks = self.folder / "jobs"
        try:
            locks.mkdir(exist_ok=True)
            lock = open(locks / f".{part.replace('/', '-')}.lock", "w")  # noqa: SIM115
        except OSError as error:
            raise Refused(
                f"{locks}: cannot be written ({error.strerror or error}), so {part} cannot be made; "
                "make room, or give the right to write"
            ) from error
        with lock as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused(f"another process is making {part} of this study; wait for it or cancel it") from None
            if refuse is not None:
                refuse()
            try:
                yield
            except OSError as error:
                if not _is_full_disk(error):
                    raise
                raise BlindspotError(
                    f"{self.folder}: the disk does not take {part} ({error.strerror or 'it is full'}); make room and "
                    "do the same again. Nothing half made is read"
                ) from error


def refuse_used_folder(folder: Path) -> None:
    """Raise Refused unless a study can be made in a folder: it is new or empty."""
    if (folder / SETTINGS_FILE).exists():
        raise Refused(f"{folder} is already a study; choose another folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise Refused(f"{folder} is not empty; choose an empty or a new folder")
    if folder.exists() and not folder.is_dir():
        raise Refused(f"{folder} is a file; choose an empty or a new folder")


def _is_full_disk(error: OSError) -> bool:
    """Return whether an error means that the disk is full. NumPy reports this only as a text, without an
    error number.
    """
    codes = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
    return error.errno in codes or (error.errno is None and "requested and" in str(error))


_threads = threading.local()


def _claimed_parts() -> set[tuple[Path, str]]:
    """The parts that this thread has reserved with `reserve_part`."""
    if not hasattr(_threads, "held"):
        _threads.held = set()
    claimed: set[tuple[Path, str]] = _threads.held
    return claimed
