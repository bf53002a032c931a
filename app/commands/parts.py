"""`blindspot rename`, `describe` and `delete`: manage runs, batches, training sets, models and maps."""

from __future__ import annotations

from typing import Annotated

import typer

from blindspot.app.commands.common import StudyOption, open_study

Kind = Annotated[str, typer.Argument(metavar="KIND", help="run, batch, training-set, model or map.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the part.")]
Confirmed = Annotated[
    bool, typer.Option("--yes", help="Confirm. Needed to delete a part, and to rename a part that other parts name.")
]


def rename(
    kind: Kind,
    name: Name,
    new: Annotated[str, typer.Argument(metavar="NEW", help="New name.")],
    yes: Confirmed = False,
    study: StudyOption = None,
) -> None:
    """Rename a run, batch, training set, model or map. Parts made from it keep the old name in their records."""
    from blindspot.backend.upkeep import parts

    parts.rename(open_study(study), kind, name, new, yes)
    print(f"{parts.kind_words(kind).capitalize()} {name} is now {new}.")


def describe(
    kind: Kind,
    name: Name,
    text: Annotated[str | None, typer.Option("--text", help="Description; an empty text removes it.")] = None,
    keyword: Annotated[list[str] | None, typer.Option("--keyword", help="Keyword to add (repeatable).")] = None,
    without: Annotated[list[str] | None, typer.Option("--without", help="Keyword to remove (repeatable).")] = None,
    study: StudyOption = None,
) -> None:
    """Describe a run, batch, training set, model or map, and give it keywords; without options, show its description
    and dependents.
    """
    from blindspot.backend.upkeep import parts
    from blindspot.backend.upkeep.dependents import dependents

    opened = open_study(study)
    known = parts.description(opened, kind, name)
    if text is not None or keyword or without:
        keywords = {*known.keywords, *(keyword or ())} - {*(without or ())}
        parts.describe(opened, kind, name, known.text if text is None else text, sorted(keywords))
        known = parts.description(opened, kind, name)
    print(known.text or "No description.")
    print(f"Keywords: {', '.join(known.keywords) or 'none'}")
    found = dependents(opened, kind, name)
    for each in found:
        print(f"- {each.sentence_part}")
    if not found:
        print("Nothing depends on it.")


def delete(kind: Kind, name: Name, yes: Confirmed = False, study: StudyOption = None) -> None:
    """Delete a run, batch, training set, model or map. Refused if something needs it."""
    from blindspot.backend.upkeep import parts

    also = parts.delete(open_study(study), kind, name, yes)
    more = f", with {' and '.join(f'{each.kind} {each.name}' for each in also)}" if also else ""
    print(f"Deleted {parts.kind_words(kind)} {name}{more}.")
