"""Jobs that the app starts for an uploaded training file: make the check, draw pairs, write the cleaned file.

The study's folder `uploads/` holds the uploaded file, and `check/cleaned/` the cleaned file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from blindspot.backend.checking.building import fill_study, source_sha256
from blindspot.backend.checking.check import open_check
from blindspot.backend.checking.reading import open_training_file
from blindspot.backend.checking.sample import DRAWS
from blindspot.backend.core.jobs import job
from blindspot.backend.core.made_from import CHECK
from blindspot.backend.core.manifest import read_json, write_json
from blindspot.backend.core.study import Study
from blindspot.backend.data.importing.uploads import uploaded_path
from blindspot.backend.progress import Progress
from blindspot.db.errors import Refused

CLEANED, WRITTEN = "cleaned", "cleaned.json"
UPLOAD_TYPES = ("csv", "tsv", "json", "jsonl", "parquet", "arrow")


@dataclass(frozen=True)
class CleanedFile:
    """A training file that was written without its false negatives.

    Attributes:
        file, changes, card: Names in `check/cleaned/`. rows: Of the file. relabelled, dropped: Negatives.
        relabel: Whether judged false negatives became positives. rule: As in relative_margin=0.08; None for none.
        judged: Pairs with a label, all of them.
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


@job("import training file")
def import_training_file(study: Study, path: str, progress: Progress | None = None) -> dict[str, Any]:
    """Make the check of an uploaded file in an empty study, and draw pairs to judge.

    Args:
        path: Name of the file in `uploads/`.

    Raises:
        BadInput: no training data, or a wrong row. Refused: the study holds passages or questions already.
    """
    place = uploaded_path(study, path)
    fill_study(study, open_training_file(place), progress)
    made = open_check(study)
    if made.facts.negatives:
        made.draw()
    return {"rows": made.facts.rows, "negatives": made.facts.negatives}


@job("make check sample", light=True)
def draw_pairs(study: Study, pairs: int = DRAWS, progress: Progress | None = None) -> dict[str, Any]:
    """Draw pairs to judge, or continue the sample up to this number."""
    return {"pairs": len(open_check(study).draw(pairs).draws)}


@job("judge check sample")
def judge_drawn(study: Study, judge: str, progress: Progress | None = None) -> dict[str, Any]:
    """Let a judge of the study judge the drawn pairs.

    Raises NeedsConsent if the judge would send texts to a language model's server without a person's consent.
    """
    made = open_check(study)
    made.judge_with(judge, progress)
    return {"judge": judge, "pairs": len(made.labels)}


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
    if source_sha256(source) != made.checked_study.manifest["sha256"]:
        raise Refused(f"{source} changed since it was checked; check it again in a study of its own")
    if progress is not None:
        progress(0, None, "writing rows")
    folder = study.folder / CHECK / CLEANED
    out = folder / f"clean-{source.name}"
    if out.is_dir():
        shutil.rmtree(out)
    folder.mkdir(exist_ok=True)
    (folder / WRITTEN).unlink(missing_ok=True)
    changes = made.changes(relabel, rule)
    rows, (_, listed, about) = made.write_changes(out, changes, rule)
    written = CleanedFile(
        out.name,
        listed.name,
        about.name,
        rows,
        changes.count("relabelled"),
        changes.count("dropped"),
        relabel,
        rule,
        len(made.labels),
    )
    write_json(folder / WRITTEN, asdict(written))
    return written


def cleaned_file(study: Study) -> CleanedFile | None:
    """Return the last cleaned file that was written, or None."""
    path = study.folder / CHECK / CLEANED / WRITTEN
    return CleanedFile(**read_json(path)) if path.is_file() else None


def cleaned_paths(study: Study, cleaned_file: CleanedFile) -> Iterator[Path]:
    """Yield the paths of the cleaned file, the list of changes and the card."""
    folder = study.folder / CHECK / CLEANED
    yield from (folder / name for name in (cleaned_file.file, cleaned_file.changes, cleaned_file.card))
