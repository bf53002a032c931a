"""Store named slices in `slices.json` in the study's folder."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from blindspot.analysis.expressions import NotAnExpression, parse
from blindspot.backend.core.manifest import read_json, write_json
from blindspot.backend.core.require_right import require
from blindspot.backend.core.study import Study
from blindspot.db.errors import BadInput, Missing, Refused

FILE = "slices.json"


@dataclass(frozen=True, slots=True)
class SavedSlice:
    name: str
    expression: str
    made: str


def saved_slices(study: Study) -> dict[str, SavedSlice]:
    """Return the saved slices by name, oldest first. Raises BadInput for a damaged file."""
    path = study.folder / FILE
    if not path.is_file():
        return {}
    try:
        return {each["name"]: _slice_of(each) for each in read_json(path)["slices"]}
    except (KeyError, TypeError, IndexError) as error:
        raise BadInput(
            "is not a list of slices; repair the file, or delete it to start with an empty list", path
        ) from error


def _slice_of(record: dict[str, Any]) -> SavedSlice:
    if not all(isinstance(value, str) for value in record.values()):
        raise TypeError
    return SavedSlice(**record)


def save(study: Study, name: str, expression: str, replace: bool = False, by: str | None = None) -> SavedSlice:
    """Save a slice, with its expression simplified. `by` is the acting person; see
    `blindspot.backend.core.require_right.require`.

    Raises:
        BadInput: an invalid expression or name. Refused: the name is taken, or `by` may not save slices.
    """
    require(study, by, "save slices")
    name = " ".join(name.split())
    if not name or len(name) > 100 or not name.isprintable():
        raise BadInput("a slice needs a name of 1 to 100 characters")
    try:
        plain = str(parse(expression))
    except NotAnExpression as error:
        raise BadInput(f"the slice cannot be read: {error}") from None
    result = SavedSlice(name, plain, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    with study.lock_part("slices"):
        known = saved_slices(study)
        if name in known and not replace:
            raise Refused(f"a slice named {name!r} already exists; choose another name, or delete the old slice first")
        _write(study, {**known, name: result})
    return result


def delete(study: Study, name: str, by: str | None = None) -> None:
    """Delete a saved slice. Raises Missing for an unknown name, and Refused if `by` may not delete slices."""
    require(study, by, "save slices")
    with study.lock_part("slices"):
        known = saved_slices(study)
        if name not in known:
            raise Missing(f"no slice named {name!r}")
        _write(study, {key: each for key, each in known.items() if key != name})


def _write(study: Study, slices: dict[str, SavedSlice]) -> None:
    write_json(study.folder / FILE, {"slices": [asdict(slice_) for slice_ in slices.values()]})
