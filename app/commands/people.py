"""`blindspot people`: who may work on a study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from app.commands.common import StudyOption, group
from db.rights import Role

if TYPE_CHECKING:
    from db.people import People

Name = Annotated[str, typer.Argument(metavar="NAME", help="The person's name.")]
RoleOption = Annotated[Role, typer.Option(metavar="annotator|adjudicator|lead", help="What the person may do.")]

people_app = group("Who works on the study: add, invite, pause.")


@people_app.command("list")
def people_list(study: StudyOption = None) -> None:
    """List the people with their roles."""
    from rich.markup import escape
    from rich.table import Table

    from app.console import Terminal

    people = _people(study).all()
    if not people:
        print("Nobody yet: 'blindspot people add NAME' or 'blindspot people invite NAME'.")
        return
    table = Table("name", "role", "state", "link", "address")
    for person in people:
        table.add_row(
            escape(person.name),
            person.role,
            "paused" if person.paused else "",
            "valid" if person.invited else "",
            escape(person.email or ""),
        )
    Terminal().print(table)


@people_app.command("add")
def people_add(
    name: Name,
    role: RoleOption = "annotator",
    email: Annotated[str | None, typer.Option(help="The address that they sign in with (OIDC).")] = None,
    study: StudyOption = None,
) -> None:
    """Add a person, without a link."""
    person = _people(study).add(name, role, email)
    print(f"Added {person.name}, {_role(person.role)}.")


@people_app.command("invite")
def people_invite(
    name: Name,
    role: RoleOption = "annotator",
    address: Annotated[str, typer.Option(metavar="URL", help="Where the app is reached.")] = "http://localhost:8501",
    study: StudyOption = None,
) -> None:
    """Make a person's own link, which replaces an earlier one. Somebody who is known keeps their role."""
    where = urlsplit(address)
    if where.scheme not in ("http", "https") or not where.netloc or where.query or where.fragment:
        raise typer.BadParameter("--address is where the app is reached, as in http://host:8501")
    people = _people(study)
    secret = people.invite(name, role)
    print(
        f"{name} signs in, as {_role(people.get(name).role)}, with this link:\n\n"
        f"{address.rstrip('/')}/?invite={secret}\n\n"
        "It is shown this once; only a hash of it is kept. Who has it acts in this name: send it to nobody else.\n"
        f"A new 'blindspot people invite' replaces it; 'blindspot people revoke' ends it."
    )


@people_app.command("revoke")
def people_revoke(name: Name, study: StudyOption = None) -> None:
    """Make a person's link worthless; their labels stay."""
    _people(study).revoke(name)
    print(f"The link of {name} is worth nothing now.")


@people_app.command("role")
def people_role(
    name: Name,
    role: Annotated[Role, typer.Argument(metavar="ROLE", help="The new role: annotator, adjudicator or lead.")],
    study: StudyOption = None,
) -> None:
    """Give a person another role."""
    _people(study).set_role(name, role)
    print(f"{name} is {_role(role)} now.")


@people_app.command("pause")
def people_pause(name: Name, study: StudyOption = None) -> None:
    """Hand a person no more questions; what they were given is still taken."""
    _people(study).pause(name)
    print(f"{name} is paused.")


@people_app.command("resume")
def people_resume(name: Name, study: StudyOption = None) -> None:
    """Hand a paused person questions again."""
    _people(study).pause(name, False)
    print(f"{name} gets questions again.")


def _role(role: str) -> str:
    return f"{'an' if role[0] == 'a' else 'a'} {role}"


def _people(folder: str | None) -> People:
    from backend.core.study import Study
    from db.people import People

    return People(Study.open(folder).labels_path)
