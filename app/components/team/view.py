"""The Team page as one person sees it."""

from __future__ import annotations

from blindspot.app import url
from blindspot.app.components.marks import empty
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.team.batches import batch_panel
from blindspot.app.components.team.people import people_panel
from blindspot.app.components.team.progress import progress_panel
from blindspot.app.markup import join, link, show, tag
from blindspot.backend.core.study import Study
from blindspot.db.people import Person


def render(open_study: Study, person: Person | None) -> None:
    """Show the page to a lead; tell other people why they cannot use it."""
    if person is None:
        why = "On this page leads manage people and batches. Sign in on "
        show(empty("Sign in to see this page", join(why, link("Judge", url.JUDGE), " first.")))
        return
    if not person.may("manage people"):
        show(empty("For leads only", "On this page leads manage people and batches, and see their progress."))
        return
    show(style_sheet("team/team.css"), tag("h1", "Team"))
    people_panel(open_study, person)
    progress_panel(open_study)
    batch_panel(open_study)
