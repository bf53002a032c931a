"""The Team page for one person."""

from __future__ import annotations

from app import url
from app.components.marks import empty
from app.components.stylesheets import style_sheet
from app.components.team.batches import batch_panel
from app.components.team.people import people_panel
from app.components.team.progress import progress_panel
from app.markup import join, link, show, tag
from backend.core.study import Study
from db.people import Person


def render(opened: Study, person: Person | None) -> None:
    """Show the page to a lead; say to others why it is not for them."""
    if person is None:
        why = "Leads look after people and batches here. Sign in on "
        show(empty("Sign in to see this page", join(why, link("Judge", url.JUDGE), " first.")))
        return
    if not person.may("manage people"):
        show(empty("For leads only", "On this page leads look after people, batches and their progress."))
        return
    show(style_sheet("team/team.css"), tag("h1", "Team"))
    people_panel(opened, person)
    progress_panel(opened)
    batch_panel(opened)
