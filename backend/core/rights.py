"""The rights of a person in a study, asked where the work is done. The table is in `blindspot.db.rights`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blindspot.db.people import People

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study


def require(study: Study, actor: str | None, action: str) -> None:
    """Raise Refused where a person's role, as the store has it now, does not allow an action of `blindspot.db.rights.ACTIONS`.

    `actor` is the person's name. None is whoever keeps the study's files: the command line, and the local app until a
    person says who they are.
    """
    if actor is not None:
        People(study.labels_path).require(actor, action)
