"""`blindspot consent`: which servers may receive texts from this machine. The file belongs to the person at this
machine and is not in the study.
"""

from __future__ import annotations

from typing import Annotated

import typer

from blindspot.app.commands.common import StudyOption, group, open_study

consent_app = group(
    "Allow texts of a study to go to a server, or take that back. The consent is stored outside the study."
)
Address = Annotated[
    str,
    typer.Argument(metavar="URL", help="Address of the server; scheme, host and port count, as in https://host:443."),
]


@consent_app.command("give")
def give(
    url: Address,
    key_variable: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Environment variable with the key for this server alone (default: requests carry no key).",
        ),
    ] = "",
    study: StudyOption = None,
) -> None:
    """Allow texts of this study to go to a server: a language model, a search engine, Milvus, a tracker."""
    from blindspot.backend.core import consent

    given = consent.give_consent(open_study(study), url, key_variable)
    key = f", with the key in ${given.key_variable}" if given.key_variable else ", without a key"
    print(f"Texts of {given.study} may go to {given.server}{key}.")
    print(f"Take it back: blindspot consent withdraw {given.server}")


@consent_app.command("withdraw")
def withdraw(url: Address, study: StudyOption = None) -> None:
    """Withdraw a consent."""
    from blindspot.backend.core import consent

    server = consent.server_of(url)
    was = consent.withdraw_consent(open_study(study), url)
    print(f"Nothing goes to {server} any more." if was else f"Nothing was allowed to go to {server}.")


@consent_app.command("list")
def show(study: StudyOption = None) -> None:
    """List the servers that this study names, and the servers that may receive texts."""
    from blindspot.backend.core.consent import consents
    from blindspot.backend.upkeep.servers import servers_used

    opened = open_study(study)
    allowed = {each.server: each for each in consents(opened)}
    named = servers_used(opened)
    for server in dict.fromkeys([*named, *allowed]):
        consent = allowed.get(server)
        key = f"${consent.key_variable}" if consent and consent.key_variable else "no key"
        state = f"allowed, {key}, since {consent.given[:10]}" if consent else "not allowed"
        print(f"{server}: {state}; {', '.join(named.get(server, ['named by no part of the study']))}")
    if not named and not allowed:
        print("This study names no server, so nothing of it can leave this machine.")
