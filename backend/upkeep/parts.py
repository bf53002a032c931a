"""Rename, describe and delete the parts of a study. `blindspot.backend.upkeep.dependents` finds what
depends on them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from blindspot.backend.core.manifest import read_object, write_json
from blindspot.backend.core.require_right import require
from blindspot.backend.core.settings import check_name, remove_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.upkeep.dependents import FOLDERS, RECORDS, Dependent, dependents
from blindspot.db.descriptions import Description, Descriptions
from blindspot.db.errors import Missing, Refused
from blindspot.db.names import check_display_name
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


def description(study: Study, kind: str, name: str) -> Description:
    """Return the description of a part. Raises Missing if the part does not exist."""
    return Descriptions(study.labels_path).description_of(kind, find_part(study, kind, name))


def describe(study: Study, kind: str, name: str, text: str, keywords: Sequence[str], actor: str | None = None) -> None:
    """Replace the description and the keywords of a part. Raises Missing if it does not exist, BadInput for invalid
    text, and Refused if the person lacks the right.
    """
    Descriptions(study.labels_path).write(kind, find_part(study, kind, name), text, keywords, actor)


def rename(
    study: Study, kind: str, old_name: str, new_name: str, is_confirmed: bool = False, actor: str | None = None
) -> None:
    """Rename a part. Parts made from it keep the old name in their records.

    Args:
        is_confirmed: The person knows the parts that name this one.

    Raises:
        Refused: The new name is taken or not allowed, something needs the part under its name, or the renaming is not
            `is_confirmed` although other parts name the part.
    """
    require(study, actor, ACTION)
    find_part(study, kind, old_name)
    if kind == "batch":
        check_display_name(new_name, "batch")
        Queue(study.labels_path).rename(old_name, new_name, actor)
        return
    check_name(new_name, kind_words(kind))
    _refuse_with_dependents(study, kind, old_name, "renamed", is_confirmed, exempt_kinds=("needs", "belongs"))
    source, target = (study.path(FOLDERS[kind], name) for name in (old_name, new_name))
    with ExitStack() as locks:
        for name in (old_name, new_name):
            locks.enter_context(
                study.lock_part(f"{FOLDERS[kind]}/{name}", lambda: _refuse_taken(target, kind, new_name))
            )
        _write_name(source, old_name, new_name)
        os.replace(source, target)
    Descriptions(study.labels_path).rename(kind, old_name, new_name, actor)


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
    _refuse_with_dependents(study, kind, name, "deleted", is_confirmed, exempt_kinds=("needs",))
    belongings = [each for each in dependents(study, kind, name) if each.relation == "belongs"]
    for each in belongings:
        if each.kind == "encoder":
            remove_encoder(study.settings_path, name)
        else:
            _remove(study, each.folder, name)
    _remove(study, FOLDERS[kind], name)
    Descriptions(study.labels_path).remove(kind, name, actor)
    return belongings


def _refuse_with_dependents(
    study: Study, kind: str, name: str, action: str, is_confirmed: bool, exempt_kinds: tuple[str, ...]
) -> None:
    found = dependents(study, kind, name)
    if blocking := [each for each in found if each.relation in exempt_kinds]:
        advice = "describe it instead" if action == "renamed" else "delete those first"
        raise Refused(f"{kind_words(kind)} {name!r} cannot be {action}: {_list_dependents(blocking)}; {advice}")
    if found and not is_confirmed:
        raise Refused(
            f"{kind_words(kind)} {name!r} is named by others: {_list_dependents(found)}; confirm if it should be {action}"
        )


def _list_dependents(dependents: Sequence[Dependent]) -> str:
    shown = "; ".join(each.sentence_part for each in dependents[:6])
    return shown + (f"; and {len(dependents) - 6} more" if len(dependents) > 6 else "")


def _refuse_taken(target: Path, kind: str, new_name: str) -> None:
    if target.exists():
        raise Refused(f"there is a {kind_words(kind)} {new_name!r} already; choose another name")


def _write_name(folder: Path, old_name: str, new_name: str) -> None:
    """Write the new name into the part's own record."""
    for file in RECORDS:
        path = folder / file
        if not path.is_file():
            continue
        content = read_object(path)
        if content.get("name") == old_name:
            content["name"] = new_name
        request = content.get("request")
        if isinstance(request, dict) and request.get("name") == old_name:
            request["name"] = new_name
        write_json(path, content)


def _remove(study: Study, parent: str, name: str) -> None:
    """Delete the folder of a part. It is renamed first, so that readers never see a partly deleted folder."""
    folder = study.path(parent, name)
    with study.lock_part(f"{parent}/{name}"):
        removed = folder.with_name(f".{name}.old")
        shutil.rmtree(removed, ignore_errors=True)
        os.replace(folder, removed)
        shutil.rmtree(removed, ignore_errors=True)
