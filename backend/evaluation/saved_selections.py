"""Store selections of questions and passages that a person made on a map. `selections.json` holds each selection's name
and the selected ids.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from blindspot.backend.core.manifest import write_json
from blindspot.backend.core.require_right import require
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.saved_slices import read_named
from blindspot.db.errors import BadInput, Missing, Refused

FILE = "selections.json"


@dataclass(frozen=True, slots=True)
class SavedSelection:
    """A saved selection: the ids of its questions, its points on the map (ids prefixed with "q:" or "p:"), and the name
    of the map.
    """

    name: str
    questions: tuple[str, ...]
    points: tuple[str, ...]
    map: str
    made: str


def saved_selections(study: Study) -> dict[str, SavedSelection]:
    """Return the saved selections by name, oldest first. Raises BadInput for a damaged file."""
    return read_named(
        study,
        FILE,
        "selections",
        lambda each: SavedSelection(**{**each, "questions": tuple(each["questions"]), "points": tuple(each["points"])}),
    )


def saved_selection(study: Study, name: str) -> SavedSelection:
    """Return a saved selection. Raises Missing for an unknown name."""
    known = saved_selections(study)
    if name not in known:
        raise Missing(f"no saved selection {name!r}; saved: {', '.join(known) or 'none; save one on the Map page'}")
    return known[name]


def save_selection(
    study: Study, name: str, questions: Sequence[str], points: Sequence[str], map: str, by: str | None = None
) -> SavedSelection:
    """Save a selection. `by` is the acting person; see `blindspot.backend.core.require_right.require`.

    Raises:
        BadInput: an invalid name.
        Refused: the name is taken, the selection has no questions, or `by` may not save selections.
    """
    require(study, by, "save slices")
    name = " ".join(name.split())
    if not name or len(name) > 100 or not name.isprintable() or '"' in name:
        raise BadInput("a selection needs a name of 1 to 100 characters, without quotation marks")
    if not questions:
        raise Refused(
            "this selection has no questions; select questions, or passages that are a positive of a question"
        )
    result = SavedSelection(
        name, tuple(questions), tuple(points), map, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    )
    with study.lock_part("selections"):
        known = saved_selections(study)
        if name in known:
            raise Refused(f"a selection named {name!r} already exists; choose another name")
        write_json(study.folder / FILE, {"selections": [asdict(each) for each in (*known.values(), result)]})
    return result
