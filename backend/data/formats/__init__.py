"""External file formats. To add a format, add a module to this package with a list named FORMATS.

An installed package adds formats through the entry point group `blindspot.formats`. Each entry names a `Format` or a
list of them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from blindspot.backend.core.registry import Registry, instance_check
from blindspot.backend.data.formats.archive import is_tar
from blindspot.backend.data.formats.base import Format, Head
from blindspot.backend.data.formats.streams import first_bytes
from blindspot.db.errors import BadInput, Refused

_LAST = ("plain",)  # any text could be plain questions: it is tried last
_COMMAND = {
    "passages": "passages",
    "questions": "questions",
    "frequencies": "frequencies",
    "runs": "run",
    "qrels": "qrels",
}
_COLUMN = {"passages": "text", "questions": "question", "qrels": "passage"}  # that a table needs, and --set names


REGISTRY: Registry[Format] = Registry(
    "format",
    group="blindspot.formats",
    name=lambda format: f"{format.kind}/{format.name}",
    order=lambda format: (format.name in _LAST, format.name),
    check=instance_check(Format),
)


@cache
def _register_built_in() -> None:
    for module in pkgutil.iter_modules(__path__):
        for format in getattr(importlib.import_module(f"{__name__}.{module.name}"), "FORMATS", []):
            REGISTRY.register(format)


def formats() -> tuple[Format, ...]:
    """Return all formats by name, including those of installed packages."""
    _register_built_in()
    return REGISTRY.all()


def find_format(path: str | Path, kind: str, name: str | None = None) -> Format:
    """Find the format for reading a file as `kind`: the format called `name`, or else the one recognised from the
    contents.

    Raises:
        BadInput: no such file; or it is empty, unreadable, of another kind, of no known format, or of several formats.
    """
    path = Path(path)
    of_kind = [format for format in formats() if format.kind == kind and format.read is not None]
    names = ", ".join(format.name for format in of_kind)
    if name is not None:
        named = next((format for format in of_kind if format.name == name), None)
        if named is None:
            raise BadInput(f"there is no format {name!r} for {kind}; there are: {names}", path)
        return named
    start = _file_head(path)
    known = _matching_formats(start)
    fitting = [format for format in known if format.kind == kind and (format.name not in _LAST or len(known) == 1)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise BadInput(f"could be {' or '.join(format.name for format in fitting)}; say which with --format", path)
    others = [format for format in known if format.name != "plain"]
    if others:
        raise BadInput(
            f"looks like {others[0].kind} ({others[0].what}), not {kind}; "
            f"import it with 'blindspot import {_COMMAND[others[0].kind]}'",
            path,
        )
    if kind == "passages" and "\t" in start.first_line:
        raise BadInput("the header does not name the columns id, title and text", path, 1)
    if kind == "frequencies" and "\t" in start.first_line:
        raise BadInput("the header must name two columns: entity and count", path, 1)
    from blindspot.backend.data.table_files import column_names

    columns = start.table or tuple(start.record)
    if columns and kind in _COLUMN:
        raise BadInput(
            f"has the columns {column_names(columns)}; say which are read: --format table --set {_COLUMN[kind]}=COLUMN",
            path,
        )
    if start.folder:
        raise BadInput(
            f"this folder holds {_folder_contents(start)}; of folders, {kind} are read from these: {_folder_formats(of_kind)}",
            path,
        )
    raise BadInput(f"does not look like {kind} in any known format ({names}); say which with --format", path)


def recognise_formats(path: Path) -> list[Format]:
    """Return the formats recognised from a file's contents, of every kind. Formats that match any text are returned
    only if no other format matches.

    Raises BadInput if the file is missing, empty or unreadable.
    """
    known = _matching_formats(_file_head(path))
    return [format for format in known if format.name not in _LAST] or known


def _matching_formats(start: Head) -> list[Format]:
    return [format for format in formats() if format.read is not None and format.recognise(start)]


def find_writer(kind: str, name: str) -> Format:
    """Find the format `name` to write `kind` in. Raises Refused for an unknown format."""
    writers = {format.name: format for format in formats() if format.kind == kind and format.write is not None}
    if name not in writers:
        raise Refused(f"--format must be one of {', '.join(writers)}, not {name!r}")
    return writers[name]


def settings_of(format: Format, assignments: Iterable[str]) -> dict[str, Any]:
    """Return the settings of a format: its defaults, changed by assignments `NAME=VALUE`.

    Raises:
        Refused: an unknown name, or a value of the wrong type.
    """
    values = dict(format.settings)
    for assignment in assignments:
        name, sign, value = assignment.partition("=")
        if not sign or name not in values:
            known = ", ".join(f"{key} ({default})" for key, default in values.items())
            raise Refused(
                f"--set {assignment}: the format {format.name} has "
                + (f"the settings {known}; use --set NAME=VALUE" if known else "no settings")
            )
        values[name] = value
    return values


def _file_head(path: Path) -> Head:
    from blindspot.backend.data.table_files import binary_kind, columns_of, is_table_folder  # it imports this package

    if path.is_dir():
        is_beir = any(path.glob("corpus.jsonl*")) or any(path.glob("queries.jsonl*")) or (path / "corpus").is_dir()
        table = tuple(columns_of(path)) if not is_beir and is_table_folder(path) else None
        return Head(path, folder=True, tar=False, text="", table=table)
    if binary_kind(path):
        return Head(path, folder=False, tar=False, text="", table=tuple(columns_of(path)))
    start = first_bytes(path)
    if not start:
        raise BadInput("the file is empty", path)
    text = start.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    table = None
    if {"csv", "tsv"} & set(path.name.lower().split(".")[1:]) and text.lstrip()[:1] not in ("{", "["):
        with suppress(BadInput):  # another format may read it
            table = tuple(columns_of(path))
    return Head(path, folder=False, tar=is_tar(start), text=text, table=table)


def _folder_contents(start: Head) -> str:
    """Describe a folder for a message: its kinds of files and their numbers."""
    endings = Counter(Path(name).suffix.lower() or "other" for name in start.inside)
    return ", ".join(f"{count:,} {ending} files" for ending, count in endings.most_common(4)) or "no files"


def _folder_formats(formats: Iterable[Format]) -> str:
    return ", ".join(f"{format.name} ({format.what})" for format in formats if format.files is not None)
