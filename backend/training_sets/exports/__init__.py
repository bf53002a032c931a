"""Training sets in the forms that trainers read. Each is one module here that offers a list named FORMS; nothing else needs to know it.

An export is a folder: the form's files, `manifest.json` (rows and SHA-256 of each, and the settings) and `README.md`, the card. It
takes its place when it is whole.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from backend.core.manifest import file_sha256, whole_folder, write_manifest, write_text
from backend.progress import Progress
from backend.training_sets.exports.base import TEMPLATE, ExportFormat, ExportOptions, ExportRows
from backend.training_sets.exports.card import card
from backend.training_sets.training_set import TrainingSet
from db.errors import Refused

if TYPE_CHECKING:
    from backend.core.study import Study


@dataclass(frozen=True, slots=True)
class TrainingSetExport:
    """The folder that was written, the rows of each file, and one line for everything that the form has no place for."""

    path: Path
    rows: dict[str, int]
    notes: tuple[str, ...] = ()


@cache
def export_formats() -> dict[str, ExportFormat]:
    """Every form, by name."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        found += getattr(importlib.import_module(f"{__name__}.{module.name}"), "FORMS", [])
    return {form.name: form for form in sorted(found, key=lambda form: form.name)}


def export(
    study: Study,
    name: str,
    format: str,
    path: str | Path | None = None,
    negatives: int | None = None,
    draw: str = "top",
    seed: int = 0,
    template: str = TEMPLATE,
    progress: Progress | None = None,
) -> TrainingSetExport:
    """Write a training set.

    Args:
        format: a name in `forms()`.
        path: a folder that is not there yet; default the set's name and the form's, in the current folder.
        negatives, draw, seed, template: see `ExportOptions`.

    Raises:
        Missing: no such set. Refused: an unknown form, settings that make no sense, or the folder exists.
    """
    training_set = TrainingSet.open(study, name)
    if format not in export_formats():
        raise Refused(f"--format must be one of {', '.join(export_formats())}, not {format!r}")
    form = export_formats()[format]
    options = ExportOptions(form.negatives if negatives is None else negatives, draw, seed, template)
    options.check()
    target = Path(path) if path is not None else Path(f"{name}-{format}")  # both are checked: they lead nowhere else
    if target.exists() or target.is_symlink():
        raise Refused(f"{target} exists; name another folder")
    if not target.parent.is_dir():
        raise Refused(f"{target.parent} is no folder; name one that is there")
    rows = ExportRows(study, training_set, options, progress)
    with whole_folder(target.absolute()) as building:
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
