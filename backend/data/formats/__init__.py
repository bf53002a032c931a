"""Outside formats. Each is one module of this package that offers a list named FORMATS; nothing else needs to know of it.

An installed package adds formats through the entry point group `blindspot.formats`: each entry names a `Format`, or a list of them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from backend.core.registry import Registry, must_be
from backend.data.formats.archive import is_tar
from backend.data.formats.base import Format, Head
from backend.data.formats.streams import head
from db.errors import BadInput, Refused

_LAST = "plain"  # any text might be it
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
    name=lambda each: f"{each.kind}/{each.name}",
    order=lambda each: (each.name == _LAST, each.name),
    check=must_be(Format),
)


@cache
def _register_own() -> None:
    for module in pkgutil.iter_modules(__path__):
        for each in getattr(importlib.import_module(f"{__name__}.{module.name}"), "FORMATS", []):
            REGISTRY.register(each)


def formats() -> tuple[Format, ...]:
    """Return every format, by name, those of installed packages too."""
    _register_own()
    return REGISTRY.all()


def find_format(path: str | Path, kind: str, name: str | None = None) -> Format:
    """The format of a file that is to be read as `kind`: the named one, else the one its contents look like.

    Raises:
        BadInput: no such file, or it is empty, unreadable, of another kind, or of no format or of several.
    """
    path = Path(path)
    of_kind = [each for each in formats() if each.kind == kind and each.read is not None]
    names = ", ".join(each.name for each in of_kind)
    if name is not None:
        named = next((each for each in of_kind if each.name == name), None)
        if named is None:
            raise BadInput(f"there is no format {name!r} for {kind}; there are: {names}", path)
        return named
    start = _head(path)
    looks = [each for each in formats() if each.read is not None and each.recognise(start)]
    fitting = [each for each in looks if each.kind == kind and (each.name != _LAST or len(looks) == 1)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise BadInput(f"could be {' or '.join(each.name for each in fitting)}; say which with --format", path)
    others = [each for each in looks if each.name != _LAST]
    if others:
        raise BadInput(f"looks like {others[0].kind} ({others[0].what}), not {kind}; "
                       f"import it with 'blindspot import {_COMMAND[others[0].kind]}'", path)  # fmt: skip
    if kind == "passages" and "\t" in start.first_line:
        raise BadInput("the header does not name the columns id, title and text", path, 1)
    if kind == "frequencies" and "\t" in start.first_line:
        raise BadInput("the header must name two columns: entity and count", path, 1)
    raise BadInput(f"does not look like {kind} in any known format ({names}); say which with --format", path)


def find_writer(kind: str, name: str) -> Format:
    """The format that `kind` is to be written in. Raises Refused for one that is not known."""
    written = {each.name: each for each in formats() if each.kind == kind and each.write is not None}
    if name not in written:
        raise Refused(f"--format must be one of {', '.join(written)}, not {name!r}")
    return written[name]


def settings_of(chosen: Format, given: Iterable[str]) -> dict[str, Any]:
    """The settings of a format, those that were asked for as `NAME=VALUE` in place of the defaults.

    Raises:
        Refused: a name that the format does not know, or a value of the wrong type.
    """
    values = dict(chosen.settings)
    for each in given:
        name, sign, value = each.partition("=")
        if not sign or name not in values:
            known = ", ".join(f"{key} ({default})" for key, default in values.items())
            raise Refused(
                f"--set {each}: the format {chosen.name} knows "
                + (f"{known}; say --set NAME=VALUE" if known else "no settings")
            )
        if isinstance(chosen.settings[name], int):
            if not (value.isascii() and value.isdigit() and len(value) < 16):
                raise Refused(f"--set {each}: {name} must be a whole number")
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
