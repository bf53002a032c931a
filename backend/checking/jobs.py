"""What the app does with a training file: keep an uploaded one, make the check, draw pairs, write the file back.

An uploaded file lies in `uploads/` of the study, and what is written in `check/cleaned/`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from blindspot.backend.checking.building import FOLDER, fill_study, source_sha256
from blindspot.backend.checking.check import Check, open_check
from blindspot.backend.checking.reading import open_training_file
from blindspot.backend.checking.sample import DRAWS
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import read_json, write_json
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.db.errors import BlindspotError, Missing, Refused

UPLOADS, CLEANED, WRITTEN = "uploads", "cleaned", "cleaned.json"
UPLOAD_TYPES = ("csv", "tsv", "json", "jsonl", "parquet", "arrow")
LONGEST_NAME = 80
COPIED = 1 << 20  # bytes at a time


@dataclass(frozen=True)
class CleanedFile:
    """A file that was written back.

    Attributes:
        file, changes, card: Names in `check/cleaned/`. rows: Of the file. relabelled, dropped: Negatives.
        relabel: Whether judged false negatives became positives. rule: As in relative_margin=0.08; None for none.
        judged: Labels that it rests on.
    """

    file: str
    changes: str
    card: str
    rows: int
    relabelled: int
    dropped: int
    relabel: bool
    rule: str | None
    judged: int


def upload_name(name: str) -> str:
    """Return a safe name for an uploaded file: its last part, in letters, digits, '.', '_' and '-'.

    Raises Refused for a name that does not end as a table's does.
    """
    last = re.split(r"[/\\]", name)[-1]
    stem, _, ending = last.rpartition(".")
    if not stem or ending.lower() not in UPLOAD_TYPES:
        raise Refused(f"{last[:LONGEST_NAME]!r} cannot be read; give a file that ends in {', '.join(UPLOAD_TYPES)}")
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-")[:LONGEST_NAME] or "file"
    return f"{safe}.{ending.lower()}"


def keep_upload(study: Study, name: str, content: IO[bytes]) -> str:
    """Write an uploaded file into `uploads/` of the study, and return its name there. A file of that name is replaced.

    Raises:
        Refused: a name that no table has; the file cannot be written. BadInput: it holds no training data of a known
        form; then it is not kept.
    """
    safe = upload_name(name)
    folder = study.folder / UPLOADS
    partial = folder / f".{safe}.partial"
    try:
        folder.mkdir(exist_ok=True)
        with open(partial, "wb") as out:
            shutil.copyfileobj(content, out, COPIED)
        partial.replace(folder / safe)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise Refused(f"{folder / safe}: cannot be written ({error.strerror or error})") from error
    try:
        open_training_file(folder / safe)
    except BlindspotError:
        (folder / safe).unlink()
        raise
    return safe


def _uploaded(study: Study, path: str) -> Path:
    """Return where an uploaded file is. Raises Missing; no name leads out of the folder."""
    found = study.folder / UPLOADS / Path(path).name
    if not found.is_file():
        raise Missing(f"{found.name!r} is not among the uploaded files of this study; upload it again")
    return found


@job("import training file")
def import_training_file(study: Study, path: str, progress: Progress | None = None) -> dict[str, Any]:
    """Make the check of an uploaded file in an empty study, and draw pairs to judge.

    Args:
        path: Name of the file in `uploads/`.

    Raises:
        BadInput: no training data, or a wrong row. Refused: the study holds passages or questions already.
    """
    place = _uploaded(study, path)
    fill_study(study, open_training_file(place), source_sha256(place), progress)
    made = open_check(study)
    if made.facts.negatives:
        made.draw()
    return {"rows": made.facts.rows, "negatives": made.facts.negatives}


@job("make check sample", light=True)
def draw_pairs(study: Study, pairs: int = DRAWS, progress: Progress | None = None) -> dict[str, Any]:
    """Draw pairs to judge, or continue the sample up to this number."""
    return {"pairs": len(open_check(study).draw(pairs).draws)}


@job("write cleaned file")
def write_cleaned(
    study: Study, relabel: bool = True, rule: str | None = None, progress: Progress | None = None
) -> CleanedFile:
    """Write the checked file without its false negatives into `check/cleaned/`, with the changes and the card.

    Raises:
        Refused: the file changed since it was checked. BadInput: the file is gone, or the labels do not allow the rule.
    """
    made = open_check(study)
    source = made.file.path
    if source_sha256(source) != made.checked.manifest["sha256"]:
        raise Refused(f"{source} changed since it was checked; check it again in a study of its own")
    if progress is not None:
        progress(0, None, "writing rows")
    folder = study.folder / FOLDER / CLEANED
    out = folder / f"clean-{source.name}"
    if out.is_dir():
        shutil.rmtree(out)
    folder.mkdir(exist_ok=True)
    (folder / WRITTEN).unlink(missing_ok=True)
    changes = made.changes(relabel, rule)
    rows, (_, listed, about) = made.write(out, relabel, rule)
    written = CleanedFile(
        out.name,
        listed.name,
        about.name,
        rows,
        changes.count("relabelled"),
        changes.count("dropped"),
        relabel,
        rule,
        _judged(made),
    )
    write_json(folder / WRITTEN, asdict(written))
    return written


def _judged(made: Check) -> int:
    rate = made.rate()
    return 0 if rate is None else rate.judged


def cleaned_file(study: Study) -> CleanedFile | None:
    """Return what was written last; None if nothing was."""
    path = study.folder / FOLDER / CLEANED / WRITTEN
    return CleanedFile(**read_json(path)) if path.is_file() else None


def cleaned_paths(study: Study, written: CleanedFile) -> Iterator[Path]:
    """Yield the paths of the file, the changes and the card."""
    folder = study.folder / FOLDER / CLEANED
    yield from (folder / name for name in (written.file, written.changes, written.card))
