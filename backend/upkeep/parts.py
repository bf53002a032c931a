"""Delete the parts of a study. `blindspot.backend.upkeep.dependents` finds what depends on them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from blindspot.backend.core.require_right import require
from blindspot.backend.core.settings import remove_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.upkeep.dependents import FOLDERS, RECORDS, Dependent, dependents
from blindspot.db.errors import Missing, Refused
from blindspot.db.queue import Queue

KINDS = (*FOLDERS, "batch")
"""The kinds of part, as the command line and the app name them."""
ACTION = "manage parts"


def part_names(study: Study, kind: str) -> list[str]:
    """Return the names of the finished parts of a kind, oldest first. Raises Refused for an unknown kind."""
    if kind == "batch":
        return [batch.name for batch in Queue(study.labels_path).batches()]
    if kind == "model":
        found = {record.parent for file in RECORDS[1:] for record in study.folder.glob(f"models/*/{file}")}
        return sorted(folder.name for folder in found if not folder.name.startswith("."))
    if kind not in FOLDERS:
        raise Refused(f"unknown kind of part {kind!r}; known: {', '.join(KINDS)}")
    return list(study.parts(FOLDERS[kind]))


def find_part(study: Study, kind: str, name: str) -> str:
    """Return the name of an existing part. Raises Missing if it does not exist."""
    known = part_names(study, kind)
    if name not in known:
        raise Missing(
            f"no {kind_words(kind)} {name!r}; {kind_words(kind, 2)} of this study: {', '.join(known) or 'none yet'}"
        )
    return name


def kind_words(kind: str, count: int = 1) -> str:
    """Return the noun for a kind of part, such as "training set", or "batches" for several."""
    word = kind.replace("-", " ")
    return word if count == 1 else f"{word}es" if word.endswith("h") else f"{word}s"


def delete(study: Study, kind: str, name: str, is_confirmed: bool = False, actor: str | None = None) -> list[Dependent]:
    """Delete a part and everything that belongs only to it. Return what was deleted besides the part.

    Args:
        is_confirmed: The person knows what depends on the part, and that nothing brings it back.

    Raises:
        Refused: Something needs the part, or the deletion is not `is_confirmed`.
    """
    require(study, actor, ACTION)
    find_part(study, kind, name)
    if not is_confirmed and not dependents(study, kind, name):
        raise Refused(
            f"nothing brings {kind_words(kind)} {name!r} back once it is deleted; confirm if it should be deleted"
        )
    if kind == "batch":
        Queue(study.labels_path).delete(name, actor)
        return []
    found = dependents(study, kind, name)
    if needing := [each for each in found if each.relation == "needs"]:
        raise Refused(f"{kind_words(kind)} {name!r} cannot be deleted: {_list_dependents(needing)}; delete those first")
    if found and not is_confirmed:
        raise Refused(
            f"{kind_words(kind)} {name!r} is named by others: {_list_dependents(found)}; confirm if it should be deleted"
        )
    belongings = [each for each in found if each.relation == "belongs"]
    for each in belongings:
        if each.kind == "encoder":
            remove_encoder(study.settings_path, name)
        else:
            _remove(study, each.folder, name)
    _remove(study, FOLDERS[kind], name)
    return belongings


def _list_dependents(dependents: Sequence[Dependent]) -> str:
    shown = "; ".join(each.sentence_part for each in dependents[:6])
    return shown + (f"; and {len(dependents) - 6} more" if len(dependents) > 6 else "")


def _remove(study: Study, parent: str, name: str) -> None:
    """Delete the folder of a part. It is renamed first, so that readers never see a partly deleted folder."""
    folder = study.path(parent, name)
    with study.lock_part(f"{parent}/{name}"):
        removed = folder.with_name(f".{name}.old")
        shutil.rmtree(removed, ignore_errors=True)
        os.replace(folder, removed)
        shutil.rmtree(removed, ignore_errors=True)
