"""Return parts of a study as files to download: runs, training sets, models, labels, and the report on runs."""

from __future__ import annotations

import io
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from blindspot.backend.core.require_right import require
from blindspot.backend.core.study import Study
from blindspot.backend.training_sets.export_options import ExportOptions
from blindspot.db.errors import Refused

RUN_FORMATS = ("trec", "dpr", "pyserini", "msmarco")
LABEL_FORMATS = ("jsonl", "csv", "qrels")
ZIP = "application/zip"


@dataclass(frozen=True, slots=True)
class Download:
    """A file to download."""

    name: str
    mime: str
    content: bytes


def formats(kind: str) -> tuple[str, ...]:
    """Return the formats in which parts of a kind can be downloaded. Raises Refused for an unknown kind."""
    if kind == "run":
        return RUN_FORMATS
    if kind == "training-set":
        from blindspot.backend.training_sets.exports import EXPORTS

        return tuple(EXPORTS.names())
    known = {"model": ("zip",), "labels": LABEL_FORMATS, "report": ("html",)}
    if kind not in known:
        raise Refused(f"unknown kind of download {kind!r}; known: run, training-set, {', '.join(known)}")
    return known[kind]


def download(
    study: Study, kind: str, name: str, format: str, actor: str | None = None, options: ExportOptions | None = None
) -> Download:
    """Return a part of a study as a file.

    Args:
        kind: "run", "training-set", "model", "labels" or "report" (on all runs, for people without Python).
        name: The part; for labels and reports the name of the file, without its ending.
        options: Of a training set's export.

    Raises:
        Refused: The person may not export, or the format is unknown.
        Missing: The part is absent.
    """
    require(study, actor, "export labels" if kind == "labels" else "export")
    if format not in formats(kind):
        raise Refused(f"the format must be one of {', '.join(formats(kind))}, not {format!r}")
    with tempfile.TemporaryDirectory() as folder:
        if kind == "run":
            return _download_run(study, name, format, Path(folder))
        if kind == "training-set":
            from blindspot.backend.training_sets.exports import export

            return _zip_folder(export(study, name, format, Path(folder) / f"{name}-{format}", options).path)
        if kind == "labels":
            from blindspot.backend.judging.labels_io import export_labels

            written = export_labels(study, format, Path(folder) / f"{name}.{format}")
            return Download(written.path.name, "text/plain", written.path.read_bytes())
    if kind == "model":
        from blindspot.backend.upkeep.parts import find_part

        return _zip_folder(study.path("models", find_part(study, "model", name)))
    from blindspot.backend.reports.html_report import html_report

    return Download(f"{name}.html", "text/html", html_report(study).encode())


def _download_run(study: Study, name: str, format: str, folder: Path) -> Download:
    from blindspot.backend.data.exporting import export_run
    from blindspot.backend.data.formats import find_writer

    written = export_run(study, name, format, folder / f"{name}{find_writer('runs', format).suffix}")
    return Download(written.path.name, "text/plain", written.path.read_bytes())


def _zip_folder(folder: Path) -> Download:
    """Return a folder as one zip archive. Only text files are compressed, because compression hardly reduces the size
    of weights.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            packing = zipfile.ZIP_STORED if path.suffix in (".safetensors", ".npy", ".npz") else zipfile.ZIP_DEFLATED
            archive.write(path, Path(folder.name) / path.relative_to(folder), packing)
    return Download(f"{folder.name}.zip", ZIP, buffer.getvalue())
