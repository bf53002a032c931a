"""`blindspot people`: the people who may work on a study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

import typer

from blindspot.app.commands.common import StudyOption, group, open_study
from blindspot.db.rights import Role

if TYPE_CHECKING:
    from blindspot.db.people import People

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the person.")]
RoleOption = Annotated[Role, typer.Option(metavar="annotator|adjudicator|lead", help="Role of the person.")]

people_app = group("Add, invite and pause the people who work on the study.")


@people_app.command("list")
def people_list(study: StudyOption = None) -> None:
    """List the people with their roles."""
    from blindspot.app.terminal_tables import print_rows

    people = _people(study).all()
    if not people:
        print("No people yet. Add one with 'blindspot people add NAME' or 'blindspot people invite NAME'.")
        return
    rows = [
        [
            person.name,
            person.kind,
            person.role,
            "paused" if person.paused else "",
            "valid" if person.invited else "",
            person.email or "",
        ]
        for person in people
    ]
    print_rows(["name", "kind", "role", "state", "link", "address"], rows)


@people_app.command("add")
def people_add(
    name: Name,
    role: RoleOption = "annotator",
    email: Annotated[str | None, typer.Option(help="E-mail address that the person signs in with (OIDC).")] = None,
    study: StudyOption = None,
) -> None:
    """Add a person without a personal link."""
    person = _people(study).add(name, role, email)
    print(f"Added {person.name}, {_role(person.role)}.")


@people_app.command("invite")
def people_invite(
    name: Name,
    role: RoleOption = "annotator",
    address: Annotated[
        str, typer.Option(metavar="URL", help="Address at which people reach the app.")
    ] = "http://localhost:8501",
    study: StudyOption = None,
) -> None:
    """Create a personal link, which replaces the person's earlier link. A person who is already listed keeps their
    role.
    """
    where = urlsplit(address)
    if where.scheme not in ("http", "https") or not where.netloc or where.query or where.fragment:
        raise typer.BadParameter("--address needs the address of the app, as in http://host:8501")
    people = _people(study)
    secret = people.invite(name, role)
    print(
        f"{name} signs in, as {_role(people.get(name).role)}, with this "
        f"link:\n\n{address.rstrip('/')}/?key={secret}\n\nThe link is shown only once; the study stores only its "
        f"hash. Whoever has the link acts as {name}: send it to nobody else.\nA new 'blindspot people invite' replaces the link; 'blindspot people revoke' makes it invalid."
    )


@people_app.command("revoke")
def people_revoke(name: Name, study: StudyOption = None) -> None:
    """Revoke a person's link: they get no more questions until a new link; their labels stay."""
    _people(study).revoke(name)
    print(f"The link of {name} is revoked; {name} gets no more questions.")


@people_app.command("role")
def people_role(
    name: Name,
    role: Annotated[Role, typer.Argument(metavar="ROLE", help="New role: annotator, adjudicator or lead.")],
    study: StudyOption = None,
) -> None:
    """Change a person's role."""
    _people(study).set_role(name, role)
    print(f"{name} is now {_role(role)}.")


@people_app.command("kind")
def people_kind(
    name: Name,
    kind: Annotated[
        Literal["person", "machine"], typer.Argument(metavar="person|machine", help="Who gave the labels.")
    ],
    study: StudyOption = None,
) -> None:
    """Say whether a person or a machine gave an annotator's labels. Only people's labels count for consensus and
    agreement.
    """
    _people(study).set_kind(name, kind)
    print(f"{name} is now a {kind}.")


@people_app.command("pause")
def people_pause(name: Name, study: StudyOption = None) -> None:
    """Pause a person: they get no more questions; their events for questions already leased are still accepted."""
    _people(study).pause(name)
    print(f"{name} is paused.")


@people_app.command("resume")
def people_resume(name: Name, study: StudyOption = None) -> None:
    """Resume a paused person."""
    _people(study).pause(name, False)
    print(f"{name} gets questions again.")


def _role(role: str) -> str:
    return f"{'an' if role[0] == 'a' else 'a'} {role}"


def _people(folder: str | None) -> People:
    from blindspot.db.people import People

    return People(open_study(folder).labels_path)
