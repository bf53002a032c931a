"""Check the argument values of jobs that clients start: they must not name files on the server, URLs, experiment
trackers or other servers.

`job_requests` checks the names of arguments. This module checks their values, including nested values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from blindspot.backend.core.model_files import PACKAGED
from blindspot.backend.core.study import Study
from blindspot.db.errors import BadInput, Forbidden

TEXTS = frozenset({"slice", "split", "splits", "questions", "relations", "question_prompt", "passage_prompt"})
"""Arguments that are only compared with the study's own questions, or put before a text. They may therefore contain a
slash.
"""
MODELS = frozenset({"start", "distil", "reader", "model"})
"""Arguments that name a model. In a command they may also be a folder or a name on the Hub, from where the model would
be downloaded.
"""
TRACKER = "report_to"
_USE = "use the command line"


def check_values(study: Study, kind: str, arguments: Mapping[str, Any]) -> None:
    """Raise BadInput for a value with a path outside the study, and Forbidden for a value that would send data to
    another server.
    """
    known: set[str] | None = None
    for key, value in _texts(arguments):
        where = f"{key!r} of {kind!r}"
        if key == TRACKER and value != "none":
            raise Forbidden(f"{where} cannot name a tracker here; {_USE}")
        if key not in TEXTS and (any(sign in value for sign in "/\\\0") or value.startswith(("~", "."))):
            raise BadInput(f"{where} is {value[:80]!r}: a path or an address cannot be given here; {_USE}")
        if key in MODELS:
            known = _models(study) if known is None else known
            if value not in known:
                raise BadInput(f"{where} is {value[:80]!r}, which is no model of this study; {_USE} for another one")
    if kind == "retrieve":
        _refuse_other_servers(study, arguments)


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text in (nested) arguments with the name of its argument or setting."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _texts(each, str(name))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each, key)


def _models(study: Study) -> set[str]:
    folders = [study.folder / kind for kind in ("models", "judges", "scores")]
    inside = {path.name for folder in folders if folder.is_dir() for path in folder.iterdir()}
    return {*study.settings.encoders, *PACKAGED, *inside}


def _refuse_other_servers(study: Study, arguments: Mapping[str, Any]) -> None:
    """Raise Forbidden for a retriever that sends requests to another server, also if it is only a part of a combined
    retriever.
    """
    from blindspot.backend.retrieval.retriever import RESERVED, RETRIEVERS, options_for

    chosen = RETRIEVERS.get(str(arguments["kind"]))
    own = {"rule", "without_own_passage", *RESERVED}
    name = chosen.name_of(options_for(chosen, {key: each for key, each in arguments.items() if key not in own}))
    if chosen.asks_servers(study, name):
        raise Forbidden(f"{name!r} sends the questions to another server, so it cannot be started here; {_USE}")
