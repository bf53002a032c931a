"""`blindspot delete`: remove runs, batches, training sets, models and maps."""

from __future__ import annotations

from typing import Annotated

import typer

from blindspot.app.commands.common import StudyOption, open_study

Kind = Annotated[str, typer.Argument(metavar="KIND", help="run, batch, training-set, model or map.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the part.")]
Confirmed = Annotated[bool, typer.Option("--yes", help="Confirm: nothing brings a part back.")]


def delete(kind: Kind, name: Name, yes: Confirmed = False, study: StudyOption = None) -> None:
    """Delete a run, batch, training set, model or map. Refused if something needs it."""
    from blindspot.backend.upkeep import parts

    also = parts.delete(open_study(study), kind, name, yes)
    more = f", with {' and '.join(f'{each.kind} {each.name}' for each in also)}" if also else ""
    print(f"Deleted {parts.kind_words(kind)} {name}{more}.")
