"""Export a training set in the format of a trainer. Each format is a module of this package that registers itself in
`EXPORTS`.

An export is a folder with the format's files, `manifest.json` (rows and SHA-256 of each file, and the options) and
`README.md` (the card). The folder appears only when it is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from blindspot.backend.core.manifest import atomic_folder, file_sha256, write_manifest, write_text
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.backend.training_sets.exports.base import EXPORTS, ExportOptions, ExportRows
from blindspot.backend.training_sets.exports.card import card
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.errors import Refused


@dataclass(frozen=True, slots=True)
class TrainingSetExport:
    """The written folder, the number of rows of each file, and one line for everything that the format cannot
    represent.
    """

    path: Path
    rows: dict[str, int]
    notes: tuple[str, ...] = ()


def export(
    study: Study,
    name: str,
    format: str,
    path: str | Path | None = None,
    options: ExportOptions | None = None,
    progress: Progress | None = None,
) -> TrainingSetExport:
    """Write a training set in the format of a trainer.

    Args:
        format: a name in `EXPORTS`.
        path: a folder that does not exist yet; default the set's name and the format's, in the current folder.

    Raises:
        Missing: no such set. Refused: an unknown format, an invalid template, or the folder exists.
    """
    training_set = TrainingSet.open(study, name)
    if format not in EXPORTS:
        raise Refused(f"--format must be one of {', '.join(EXPORTS.names())}, not {format!r}")
    form = EXPORTS.get(format)
    options = options or ExportOptions()
    if options.negatives is None:
        options = replace(options, negatives=form.negatives)
    options.check()
    target = (
        Path(path) if path is not None else Path(f"{name}-{format}")
    )  # name and format are checked: no path leaves here
    if target.exists() or target.is_symlink():
        raise Refused(f"{target} exists; name another folder")
    if not target.parent.is_dir():
        raise Refused(f"{target.parent} is not a folder; name one that exists")
    rows = ExportRows(study, training_set, options, progress)
    with atomic_folder(target.absolute()) as building:
        counts, notes = form.write(building, rows)
        sha256 = {file: file_sha256(building / file) for file in counts}
        write_text(building / "README.md", card(study, training_set, form, counts, notes))
        write_manifest(
            building,
            {
                "kind": "training set export",
                "form": form.name,
                "training_set": name,
                "fingerprint": training_set.manifest["fingerprint"],
                "last_event": training_set.manifest["inputs"]["labels"]["last_event"],
                "settings": options.as_dict(),
                "rows": counts,
                "sha256": sha256,
                "notes": list(notes),
            },
        )
    return TrainingSetExport(target, counts, notes)
