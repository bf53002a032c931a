"""Check a person's rights in a study. Functions that change a study call this check themselves, so that no page or
route can forget it. The table of rights is in `blindspot.db.rights`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blindspot.db.people import People

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study


def require(study: Study, actor: str | None, action: str) -> None:
    """Raise Refused if a person's current role does not allow an action of `blindspot.db.rights.ACTIONS`.

    `actor` is the person's name. None means the owner of the study's files: the command line, or the local app before a
    person has given their name.
    """
    if actor is not None:
        People(study.labels_path).require(actor, action)
