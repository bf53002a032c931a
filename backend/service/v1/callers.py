"""The FastAPI dependency of version 1 that determines the caller of a request."""

from __future__ import annotations

import hmac
from typing import Annotated

from fastapi import Depends, HTTPException, Request

from blindspot.backend.core.study import Study
from blindspot.backend.service.caller import CLIENT, LOCAL, Caller, person_of_name, person_of_secret
from blindspot.backend.service.guard import TokenGuesses

PERSON = "blindspot-person"
NEEDS_TOKEN = (
    "this needs a token: send 'Authorization: Bearer TOKEN' with the token of the service, or with a person's: the word "
    "after invite= in their personal link"
)


class CallerOf:
    """Determines the caller of a request, and slows down client addresses that guess tokens.

    Args:
        token: the token of the service; None where only this machine reaches the service. Then a person may also be
            named in the header Blindspot-Person, as in the local app, and a request without a name may do what the
            local app allows before somebody says who they are.
    """

    def __init__(self, study: Study, token: str | None, is_local: bool):
        self._study, self._token, self._is_local = study, token, is_local and token is None
        self._guesses = TokenGuesses()

    def __call__(self, request: Request) -> Caller:
        scheme, _, sent = request.headers.get("authorization", "").partition(" ")
        secret = sent.strip()
        if scheme.lower() == "bearer" and secret:
            if self._token is not None and hmac.compare_digest(secret.encode(), self._token.encode()):
                return CLIENT
            if (person := person_of_secret(self._study, secret)) is not None:
                return person
        elif not scheme and self._is_local:
            name = request.headers.get(PERSON)
            return LOCAL if name is None else person_of_name(self._study, name)
        raise HTTPException(*self._guesses.refusal(request.client.host if request.client else "", NEEDS_TOKEN))


def _caller_of_request(request: Request) -> Caller:
    """Return the caller of a request, using the `CallerOf` that `make_api` put into the application's state."""
    found: Caller = request.app.state.caller_of(request)
    return found


Asking = Annotated[Caller, Depends(_caller_of_request)]
"""The caller, as a parameter of a route."""
