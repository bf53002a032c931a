"""External file formats. A format is a module of this package with a list named FORMATS; nothing else needs to change.

An installed package adds formats through the entry point group `blindspot.formats`. Each entry names a `Format` or a
list of them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from blindspot.backend.core.registry import Registry, must_be
from blindspot.backend.data.formats.archive import is_tar
from blindspot.backend.data.formats.base import Format, Head
from blindspot.backend.data.formats.streams import head
from blindspot.db.errors import BadInput, Refused

_LAST = "plain"  # any text could be plain questions, so this format is tried last
_COMMAND = {
    "passages": "passages",
    "questions": "questions",
    "frequencies": "frequencies",
    "runs": "run",
    "qrels": "qrels",
}


REGISTRY: Registry[Format] = Registry(
    "format",
    group="blindspot.formats",
    name=lambda format: f"{format.kind}/{format.name}",
    order=lambda format: (format.name == _LAST, format.name),
    check=must_be(Format),
)


@cache
def _register_own() -> None:
    for module in pkgutil.iter_modules(__path__):
        for format in getattr(importlib.import_module(f"{__name__}.{module.name}"), "FORMATS", []):
            REGISTRY.register(format)


def formats() -> tuple[Format, ...]:
    """Return all formats by name, including those of installed packages."""
    _register_own()
    return REGISTRY.all()


def find_format(path: str | Path, kind: str, name: str | None = None) -> Format:
    """Find the format to read a file as `kind`: the one called `name`, else the one that the contents look like.

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
    start = _head(path)
    recognised = [format for format in formats() if format.read is not None and format.recognise(start)]
    fitting = [
        format for format in recognised if format.kind == kind and (format.name != _LAST or len(recognised) == 1)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise BadInput(f"could be {' or '.join(format.name for format in fitting)}; say which with --format", path)
    others = [format for format in recognised if format.name != _LAST]
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
    raise BadInput(f"does not look like {kind} in any known format ({names}); say which with --format", path)


def find_writer(kind: str, name: str) -> Format:
    """Find the format `name` to write `kind` in. Raises Refused for an unknown format."""
    writers = {format.name: format for format in formats() if format.kind == kind and format.write is not None}
    if name not in writers:
        raise Refused(f"--format must be one of {', '.join(writers)}, not {name!r}")
    return writers[name]


def settings_of(chosen: Format, assignments: Iterable[str]) -> dict[str, Any]:
    """Return the settings of a format: its defaults, changed by assignments `NAME=VALUE`.

    Raises:
        Refused: an unknown name, or a value of the wrong type.
    """
    values = dict(chosen.settings)
    for assignment in assignments:
        name, sign, value = assignment.partition("=")
        if not sign or name not in values:
            known = ", ".join(f"{key} ({default})" for key, default in values.items())
            raise Refused(
                f"--set {assignment}: the format {chosen.name} has "
                + (f"the settings {known}; use --set NAME=VALUE" if known else "no settings")
            )
        if isinstance(chosen.settings[name], int):
            if not (value.isascii() and value.isdigit() and len(value) < 16):
                raise Refused(f"--set {assignment}: {name} must be a whole number")
            values[name] = int(value)
        else:
            values[name] = value
    return values


def _head(path: Path) -> Head:
    if path.is_dir():
        return Head(path, folder=True, tar=False, text="")
    start = head(path)
    if not start:
        raise BadInput("the file is empty", path)
    text = start.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    return Head(path, folder=False, tar=is_tar(start), text=text)
